//! Turns the settings of a manager into a manager, and runs it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::assembly::{assign, check_names, counted};
use super::replica::Replica;
use super::runtime::Runtime;
use super::{Assembled, Cluster, Handle, Manager, Running, Server, State, diagnostics};
use crate::cache::{Cache, Choice, Namespaces};
use crate::client::{Client, HOST};
use crate::controller::ControllerEnv;
use crate::error::{Error, Result};
use crate::events::{Publisher, Recorder};
use crate::fence::Fence;
use crate::lease::Elector;
use crate::ordered_watch;
use crate::selector;
use crate::signal::Signals;

impl Manager {
    /// Checks the settings, and creates everything that runs.
    fn assemble(mut self) -> Result<Assembled> {
        crate::panic::install_hook();
        check_names(&self.others)?;
        self.check_selectors()?;
        let stopping = CancellationToken::new();
        #[cfg(feature = "operator")]
        let settings = self.settings()?;
        let replica = Replica::new(self.seed, self.replica.take());
        let (clusters, publishers) = self.clusters(&replica, &stopping)?;
        let components = std::mem::take(&mut self.components);
        let pending = assign(&clusters, components)?;
        for controller in &pending {
            let caches = clusters[controller.cluster].env.client.cached();
            caches.announce(&controller.component.kinds());
        }
        let Some(home) = clusters.first().map(|cluster| cluster.env.clone()) else {
            return Err(Error::Invalid("a manager needs a cluster".into()));
        };
        let elector = match self.lease.take() {
            None => None,
            Some(options) => {
                let (clock, identity) = (self.clock.clone(), replica.identity());
                Some(Elector::new(&home.client, clock, options, identity)?)
            }
        };
        let probes = self.probe_server();
        let mut metrics = self.metrics_server(&home.client);
        let webhooks = self.webhook_servers(&home.client)?;
        let serves_diagnostics = self.serves_diagnostics();
        let state = Arc::new(State {
            controllers: Mutex::default(),
            pending: Mutex::new(pending),
            wake: tokio::sync::Notify::new(),
            ready: ordered_watch::Sender::new(false),
            synced: AtomicBool::new(false),
            lease: elector.as_ref().map(|elector| (elector.label(), elector.status())),
            checks: self.checks,
            metrics: self.registry,
            clients: clusters.iter().map(|c| (c.name.clone(), c.env.client.clone())).collect(),
            recorder: home.recorder,
            replica: replica.name().into(),
            probe_address: probes.as_ref().map(Server::bound),
            metrics_address: metrics.as_ref().map(Server::bound),
            webhook_address: webhooks.as_ref().map(Server::bound),
            jumps: Mutex::default(),
            #[cfg(feature = "operator")]
            settings,
            stopping,
        });
        state.add_builtin_checks();
        if let Some(server) = metrics.as_mut().filter(|_| serves_diagnostics) {
            let shown = state.clone();
            server.serve_diagnostics(Box::new(move || diagnostics::report(&shown)));
        }
        Ok(Assembled {
            _end: state.stopping.clone().drop_guard(),
            runtime: Runtime { state, clusters },
            runnables: self.runnables,
            servers: probes.into_iter().chain(metrics).chain(webhooks).collect(),
            elector,
            publishers,
            grace: self.grace,
        })
    }

    /// Fails if a selector of the namespaces or of a scope is not valid.
    fn check_selectors(&self) -> Result<()> {
        let invalid = |what: &str, error| Error::Invalid(format!("{what}: {error}"));
        if let Namespaces::Chosen(Choice::Labels(labels)) = &self.namespaces {
            selector::label_text(labels).map_err(|error| invalid("namespace_selector", error))?;
        }
        for (kind, scope) in &self.scopes {
            scope.check().map_err(|error| invalid(&format!("the scope of {kind}"), error))?;
        }
        Ok(())
    }

    /// Creates the caches and the client of every cluster, the home cluster first.
    fn clusters(
        &mut self,
        replica: &Replica,
        stopping: &CancellationToken,
    ) -> Result<(Vec<Cluster>, Vec<Publisher>)> {
        let fence = Fence::new();
        let others = std::mem::take(&mut self.others);
        let all = [(String::new(), self.home.clone())].into_iter().chain(others);
        let create = |(name, kube): (String, kube::Client)| {
            let mut options = self.cache.clone();
            options.seed = options.seed.or(self.seed.map(|_| replica.seed()));
            let host = match name.as_str() {
                "" => self.host.as_deref().unwrap_or(HOST),
                cluster => cluster,
            };
            options.observe = Some(counted(self.registry.clone(), host));
            let (namespaces, scopes) = (self.namespaces.clone(), self.scopes.clone());
            let cache = Cache::limited(kube.clone(), options, namespaces, scopes);
            let weak = cache.downgrade();
            self.registry.watches(&name, move || {
                weak.upgrade().map(|cache| cache.reports()).unwrap_or_default()
            });
            let (fence, registry) = (fence.clone(), self.registry.clone());
            let client = Client::build(kube, host, cache, fence, registry).field_owner(&self.name);
            let instance = replica.instance(&self.name);
            let (recorder, publisher) =
                Recorder::new(&client, &self.name, &instance, self.clock.clone());
            let env = ControllerEnv {
                client,
                recorder: recorder.with_api(self.events_api),
                clock: self.clock.clone(),
                metrics: self.registry.clone(),
                stopping: stopping.clone(),
                seed: replica.seed(),
                switch_prefix: self.switch_prefix.clone(),
                cluster: name.clone(),
            };
            Ok((Cluster { name, env }, publisher))
        };
        all.map(create).collect::<Result<Vec<_>>>().map(|all| all.into_iter().unzip())
    }

    /// Runs until `shutdown` completes, then stops in order.
    ///
    /// # Errors
    ///
    /// Fails as [`spawn`](Self::spawn) does, if a server cannot listen or if a runnable fails. Fails
    /// with [`Error::LeaseLost`] if the lease is lost; then the process has to exit, because its
    /// state as a leader is invalid.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops everything immediately: nothing drains, and the lease expires.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.assemble()?.run(shutdown).await
    }

    /// Runs until SIGINT or SIGTERM. A second signal exits the process immediately, even if the
    /// manager stops for another reason.
    ///
    /// With the feature `log`, installs the subscriber of `windlass::log` if the process has no
    /// `tracing` subscriber.
    ///
    /// # Errors
    ///
    /// Fails as [`run`](Self::run) does.
    ///
    /// ```
    /// use windlass::Manager;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = server.client();
    /// # tokio::spawn(async {
    /// #     let me = std::process::id().to_string();
    /// #     std::process::Command::new("kill").args(["-TERM", &me]).status().expect("kill runs");
    /// # });
    /// // In a cluster, the client is `kube::Client::try_default().await?`.
    /// Manager::new(client).name("my-operator").run_until_signal().await
    /// # }
    /// ```
    pub async fn run_until_signal(self) -> Result<()> {
        #[cfg(feature = "log")]
        crate::log::ensure(&self.clock);
        let mut signals = Signals::new();
        let manager = self.assemble()?;
        let stopping = manager.runtime.state.stopping.clone();
        let result = tokio::select! {
            biased;
            result = manager.run(std::future::pending()) => result,
            never = signals.follow(stopping) => match never {},
        };
        signals.leave();
        result
    }

    /// Runs in a task of its own.
    ///
    /// The caches open when that task starts; until then, cached reads wait or fail. Wait for
    /// [`Handle::ready`](super::Handle::ready) first.
    ///
    /// # Errors
    ///
    /// Fails if two controllers of a cluster or two clusters have the same name, if a controller
    /// names an unknown cluster, if two webhooks have the same path, or if the durations of the lease
    /// leave no margin, or if a selector is not valid.
    pub fn spawn(self) -> Result<Running> {
        let manager = self.assemble()?;
        let state = manager.runtime.state.clone();
        let task = tokio::spawn(manager.run(std::future::pending()));
        Ok(Running::new(Handle::new(state, task.abort_handle()), task))
    }
}
