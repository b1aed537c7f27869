//! `windlass cluster`: the embedded cluster as a server.

use std::fs;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::auth::{MASTERS, Signer, User};
use windlass_apiserver::pki;
use windlass_apiserver::store::Journal;
use windlass_apiserver::{ApiServer, Options, serve};
use windlass_cluster::controllers::Settings;
use windlass_cluster::{Cluster, Options as ClusterOptions};

use crate::failure::Failure;
use crate::keys::Keys;
use crate::private_file::{check_writable, write_private};
use crate::signals::Signals;

/// The most nodes that are simulated.
const NODES_MAX: usize = 5_000;

/// The user of the kubeconfig.
const ADMIN: &str = "kubernetes-admin";

/// The user of the embedded controllers and nodes.
pub const CONTROLLERS: &str = "system:kube-controller-manager";

/// How to run the cluster.
#[derive(Args)]
pub struct ClusterArgs {
    /// Write the kubeconfig here once the API answers.
    #[arg(long, value_name = "FILE", default_value = "windlass.kubeconfig")]
    kubeconfig: PathBuf,

    /// Listen here; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    bind: SocketAddr,

    /// Keep the state in this directory; without it everything is in memory.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Simulate this many nodes; without any, pods are not scheduled.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    nodes: usize,

    /// Serve the API alone: no controllers, no nodes.
    #[arg(long)]
    no_controllers: bool,

    /// Write one line of JSON per request to this file.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,

    /// Send webhook calls for a service to this address; may be given more than once.
    #[arg(long, value_name = "NAMESPACE/SERVICE=ADDRESS")]
    route: Vec<Route>,
}

/// The address behind a service of the cluster.
#[derive(Clone)]
struct Route {
    namespace: String,
    service: String,
    address: SocketAddr,
}

impl std::str::FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) = text.split_once('=').ok_or("expected NAMESPACE/SERVICE=ADDRESS")?;
        let (namespace, service) =
            name.split_once('/').ok_or("expected NAMESPACE/SERVICE before the equals sign")?;
        let address = address.parse().map_err(|_| format!("{address:?} is not IP:PORT"))?;
        Ok(Self { namespace: namespace.to_owned(), service: service.to_owned(), address })
    }
}

// === impl ClusterArgs ===

impl ClusterArgs {
    /// Everything at its default, with the kubeconfig in this file.
    pub fn with_kubeconfig(kubeconfig: PathBuf) -> Self {
        Self {
            kubeconfig,
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: None,
            nodes: 1,
            no_controllers: false,
            audit_log: None,
            route: Vec::new(),
        }
    }

    /// Everything at its default, with the state in a directory if there is one.
    pub fn embedded(data_dir: Option<PathBuf>, nodes: usize) -> Self {
        Self { data_dir, nodes, ..Self::with_kubeconfig(PathBuf::new()) }
    }
}

/// Runs the cluster until a signal ends it.
pub fn run(args: ClusterArgs) -> Result<(), Failure> {
    let start = Instant::now();
    block_on(serve_until_signal(&args, start))
}

/// Runs a command to its end on threads of its own.
pub fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("no threads to run on: {error}")))?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    outcome
}

async fn serve_until_signal(args: &ClusterArgs, start: Instant) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    check_writable(&args.kubeconfig)?;
    let running = Running::start(args).await?;
    write_private(&args.kubeconfig, &running.kubeconfig)?;
    announce(&running.url, args, start);
    signals.wait().await;
    tracing::info!("stopping");
    running.stop().await
}

/// The cluster and its HTTPS server.
pub struct Running {
    /// The API server.
    pub server: ApiServer,
    /// Where it is reached.
    pub url: String,
    /// The text of the kubeconfig.
    pub kubeconfig: String,
    /// The certificate of its authority.
    pub ca: String,
    cluster: Option<Cluster>,
    end: CancellationToken,
    task: JoinHandle<()>,
}

// === impl Running ===

impl Running {
    /// Starts everything; returns once the API answers and the controllers work.
    pub async fn start(args: &ClusterArgs) -> Result<Self, Failure> {
        Self::start_without(args, &[]).await
    }

    /// Starts everything but some controllers.
    pub async fn start_without(args: &ClusterArgs, without: &[&str]) -> Result<Self, Failure> {
        if args.nodes > NODES_MAX {
            return Err(Failure::usage(format!("--nodes takes a number up to {NODES_MAX}")));
        }
        let listener = bind(args.bind).await?;
        let address = listener
            .local_addr()
            .map_err(|error| Failure::other(format!("the listener has no address: {error}")))?;
        // The data directory is locked before anything is read from it or written to it.
        let journal = match &args.data_dir {
            Some(dir) => Some(Journal::open(dir).map_err(|error| Failure::of(&error))?),
            None => None,
        };
        let now = windlass_apiserver::clock::Clock::default().now();
        let keys = Keys::load(args.data_dir.as_deref(), now)?;
        let serving = keys
            .ca
            .serving(&hosts(address))
            .map_err(|error| Failure::other(format!("no serving certificate: {error}")))?;
        let tls = pki::server_config(&serving, Some(keys.ca.certificate()))
            .map_err(|error| Failure::other(format!("TLS cannot be set up: {error}")))?;
        let server = start_server(journal, &keys)?;
        for Route { namespace, service, address } in &args.route {
            server.route_service(namespace, service, *address);
        }
        if let Some(path) = &args.audit_log {
            audit_to(&server, path)?;
        }
        let url = format!("https://{}", reachable(address));
        let data_dir = args.data_dir.as_deref().map(|dir| dir.display().to_string());
        tracing::info!(%url, data_dir, revision = server.revision(), "the API server starts");
        let (ca, token) = (keys.ca.certificate(), &keys.token);
        let certificate = keys
            .ca
            .client(ADMIN, &[MASTERS])
            .map_err(|error| Failure::other(format!("no certificate for the admin: {error}")))?;
        let kubeconfig = pki::kubeconfig(&url, Some(ca), token, Some(&certificate));
        let end = CancellationToken::new();
        let stop = end.clone().cancelled_owned();
        let task = tokio::spawn(serve::serve(listener, Some(tls), server.clone(), stop));
        let mut cluster = None;
        if !args.no_controllers {
            let settings =
                Settings { root_ca: keys.ca.certificate().into(), ..Settings::default() };
            // Under a name of their own, so that the log of requests can be read.
            let client = Some(server.client_as(User::new(CONTROLLERS, &[MASTERS])));
            let nodes = args.nodes;
            let without = without.iter().map(|name| (*name).to_owned()).collect();
            let options =
                ClusterOptions { nodes, settings, client, without, ..ClusterOptions::default() };
            cluster = Some(Cluster::with_options(server.clone(), options).await);
            tracing::info!(nodes = args.nodes, "the controllers run");
        }
        let ca = keys.ca.certificate().to_owned();
        Ok(Self { server, url, kubeconfig, ca, cluster, end, task })
    }

    /// Ends the controllers, then the server, and brings the last writes to disk.
    pub async fn stop(self) -> Result<(), Failure> {
        if let Some(cluster) = self.cluster {
            cluster.stop().await;
        }
        self.server.shut_down();
        self.end.cancel();
        let _ = self.task.await;
        self.server
            .sync()
            .map_err(|error| Failure::of(&error).context("the last writes may not be on disk"))
    }
}

fn start_server(journal: Option<Journal>, keys: &Keys) -> Result<ApiServer, Failure> {
    let admin = User::new(ADMIN, &[MASTERS]);
    let signer = Signer::from_pem(&keys.signer, "https://kubernetes.default.svc.cluster.local")
        .map_err(|error| Failure::other(format!("the key for service accounts: {error}")))?;
    let options = Options {
        tokens: vec![(keys.token.clone(), admin)],
        journal,
        signer: Some(signer),
        ..Options::default()
    };
    ApiServer::with_options(options).map_err(|error| Failure::of(&error))
}

/// Listens on an address.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::other(format!(
            "{address} is in use; choose another address, or port 0 for a free one"
        )),
        _ => Failure::other(format!("cannot listen on {address}: {error}")),
    })
}

/// The host names and addresses of a serving certificate.
pub fn hosts(address: SocketAddr) -> Vec<String> {
    let mut hosts: Vec<String> =
        ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default.svc", "10.0.0.1"]
            .map(str::to_owned)
            .to_vec();
    let own = address.ip().to_string();
    if !hosts.contains(&own) && !address.ip().is_unspecified() {
        hosts.push(own);
    }
    hosts
}

/// The address to put into a kubeconfig: a listener on all addresses is reached over loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    address
}

fn audit_to(server: &ApiServer, path: &Path) -> Result<(), Failure> {
    let file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|error| Failure::other(format!("audit log {}: {error}", path.display())))?;
    let file = std::sync::Mutex::new(file);
    server.request_log().set_sink(Box::new(move |entry| {
        let info = &entry.request;
        let line = json!({
            "time": entry.time, "user": entry.user, "verb": info.verb, "path": info.path,
            "group": info.group, "version": info.version, "resource": info.resource,
            "subresource": info.subresource, "namespace": info.namespace, "name": info.name,
            "code": entry.code, "revision": entry.revision,
        });
        if let Ok(mut file) = file.lock() {
            // A full disk must not stop the cluster; the log ends there.
            let _ = writeln!(file, "{line}");
        }
    }));
    Ok(())
}

fn announce(url: &str, args: &ClusterArgs, start: Instant) {
    let shown = args.kubeconfig.display();
    let took = start.elapsed().as_millis();
    say!("ready {url} kubeconfig={shown} after={took}ms");
    if std::io::stdout().is_terminal() {
        say!();
        say!("  export KUBECONFIG={shown}");
        if args.no_controllers {
            say!("  kubectl get namespaces");
        } else {
            say!("  kubectl create deployment web --image=nginx --replicas=3");
            say!("  kubectl get pods");
        }
        say!();
        say!("Ctrl-C ends the cluster.");
    }
}
