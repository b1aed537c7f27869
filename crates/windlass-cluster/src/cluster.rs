//! One cluster: start, client, end.

use std::fmt;

use windlass::cache::CacheOptions;
use windlass::clock::Clock;
use windlass::events::EventsApi;
use windlass::manager::{Handle, Running};
use windlass::{Client, Manager};
use windlass_apiserver::ApiServer;

use crate::controllers::{self, Settings, Shared};
use crate::node;

/// The root certificate of clusters that are not reached over TLS: nobody has its key.
const ROOT_CA: &str = include_str!("cluster/root-ca.pem");

/// How a cluster is made.
#[derive(Clone)]
pub struct Options {
    /// How many simulated nodes there are; without any there is no scheduler either.
    pub nodes: usize,
    /// Names of controllers that do not run.
    pub without: Vec<String>,
    /// Settings of single controllers.
    pub settings: Settings,
    /// The client of the controllers; `None` is one of the server with all rights.
    pub client: Option<kube::Client>,
    /// Whether the controllers write Events.
    pub events: bool,
}

/// A running cluster; dropping it ends it.
///
/// On a paused tokio runtime its time is virtual: hours pass in milliseconds.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use k8s_openapi::api::core::v1::Node;
/// use kube::api::{Api, ListParams};
///
/// let cluster = windlass_cluster::Cluster::start().await;
/// let nodes: Api<Node> = Api::all(cluster.client());
/// assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1);
/// cluster.stop().await;
/// # });
/// ```
pub struct Cluster {
    server: ApiServer,
    manager: Option<Running>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 1,
            without: Vec::new(),
            settings: Settings::default(),
            client: None,
            events: true,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("nodes", &self.nodes)
            .field("without", &self.without)
            .field("settings", &self.settings)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

// === impl Cluster ===

impl Cluster {
    /// A cluster in memory with one node and all controllers.
    pub async fn start() -> Self {
        Self::with_options(ApiServer::start(), Options::default()).await
    }

    /// A cluster in memory with all controllers and a number of nodes.
    pub async fn with_nodes(nodes: usize) -> Self {
        Self::with_options(ApiServer::start(), Options { nodes, ..Options::default() }).await
    }

    /// Controllers and nodes on an API server; returns once all of them work.
    ///
    /// If the server has a seed and a start time and tokio's time is paused, two clusters that are
    /// used alike do the same, request by request and byte for byte:
    ///
    /// ```
    /// use windlass_apiserver::{ApiServer, Options};
    /// use windlass_cluster::Cluster;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let server = || {
    ///     let start_time = "2026-01-01T00:00:00Z".parse().ok();
    ///     ApiServer::with_options(Options { seed: Some(7), start_time, ..Options::default() })
    ///         .expect("a server in memory has nothing to open")
    /// };
    /// let start = async || Cluster::with_options(server(), Default::default()).await;
    /// let one = start().await.server().revision();
    /// let other = start().await.server().revision();
    /// assert_eq!(one, other);
    /// # }
    /// ```
    pub async fn with_options(server: ApiServer, options: Options) -> Self {
        let client = options.client.clone().unwrap_or_else(|| server.client());
        let clock = Clock::fixed(server.clock().now());
        let mut builder = manager(&server, client, clock.clone(), options.events);
        if options.nodes > 0 {
            let admin = Client::new(server.client());
            let registered = node::register(&admin, &clock, options.nodes).await;
            registered.expect("a fresh node is a valid object");
            builder = node::add(builder);
        }
        let runs = |name: &str| !options.without.iter().any(|n| n == name);
        let builder = add(builder, &server, options.settings, runs);
        let manager = builder.spawn().expect("the embedded controllers have names of their own");
        manager.ready().await;
        server.set_controllers_run(true);
        Self { server, manager: Some(manager) }
    }

    /// A client with all rights.
    pub fn client(&self) -> kube::Client {
        self.server.client()
    }

    /// The API server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The manager that runs the controllers: their queues, metrics and diagnostics.
    pub fn manager(&self) -> &Handle {
        self.manager.as_ref().expect("only stop takes the manager away")
    }

    /// The names of all controllers, for [`Options::without`].
    pub fn controllers() -> Vec<&'static str> {
        controllers::all().into_iter().map(|(name, _)| name).collect()
    }

    /// Returns a manager with some of the controllers, which runs them like any operator: on a client
    /// and with a clock of its own, for tests of the controllers themselves.
    pub fn controllers_on(server: &ApiServer, client: kube::Client, names: &[&str]) -> Manager {
        let builder = manager(server, client, Clock::fixed(server.clock().now()), false);
        add(builder, server, Settings::default(), |name| names.contains(&name))
    }

    /// Ends the controllers and waits until they have.
    pub async fn stop(mut self) {
        self.server.set_controllers_run(false);
        if let Some(manager) = self.manager.take()
            && let Err(error) = manager.stop().await
        {
            tracing::warn!(error = format!("{error:?}"), "the controllers did not end well");
        }
    }
}

/// A manager for controllers of Kubernetes.
fn manager(server: &ApiServer, client: kube::Client, clock: Clock, events: bool) -> Manager {
    // The server of this process stores JSON, so protobuf would be a detour.
    let cache = CacheOptions::default().protobuf(false);
    let manager = Manager::new(client)
        .name("kube-controller-manager")
        // Timestamps of controllers and server come from one clock, virtual time included.
        .clock(clock)
        .cache(cache)
        // The annotations of an operator's users mean nothing to the controllers of Kubernetes.
        .annotation_prefix("cluster.windlass.dev")
        // Sources, counts and times as the controllers of Kubernetes write them.
        .events_api(events.then_some(EventsApi::CoreV1));
    match server.seed() {
        Some(seed) => manager.seed(seed),
        None => manager,
    }
}

/// Adds the controllers with some names.
fn add(
    manager: Manager,
    server: &ApiServer,
    mut settings: Settings,
    runs: impl Fn(&str) -> bool,
) -> Manager {
    if settings.root_ca.is_empty() {
        settings.root_ca = ROOT_CA.into();
    }
    let shared = Shared { server: server.clone(), settings: settings.into() };
    let all = controllers::all().into_iter().filter(|(name, _)| runs(name));
    all.fold(manager, |manager, (_, add)| add(manager, &shared))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(manager) = &self.manager {
            manager.shutdown();
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("revision", &self.server.revision()).finish_non_exhaustive()
    }
}
