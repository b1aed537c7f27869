//! The manager: starts everything in order, keeps it running, stops it in order.
//!
//! | phase | starts | stops |
//! |---|---|---|
//! | 1 | HTTP servers (probes, metrics) | 5th |
//! | 2 | watches of all controllers | 3rd |
//! | 3 | controllers of every replica, each when its own watches are synced | 1st |
//! | 3 | runnables of every replica, when all these watches are | 1st |
//! | 4 | leader election, then what is bound to it | 2nd; the lease is renewed until then |
//! | 5 | | the lease is given back 4th, events are flushed last |
//!
//! All stopping happens within one grace period; where that is used up, giving the lease back and
//! the last events have two seconds each. Watches run before this process leads, so a new
//! leader starts warm. Losing the lease stops the leader's work at once, without grace, also while
//! that work drains.
//!
//! A watch of a kind that is missing or forbidden holds up nothing but its own controller, and a
//! server that does not answer holds up runnables for two minutes: one of them may be what the
//! server waits for.
//!
//! Beside all that it looks at the wall clock every ten seconds, and tells where that jumped.
//!
//! **Invariant:** the lease is given back only after everything it guards has ended.

mod assembly;
mod builder;
mod clocks;
mod diagnostics;
mod group;
mod handle;
mod runnable;
mod shutdown;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::Client;
use crate::clock::{Jump, Jumps};
use crate::controller::{Component, ControllerHandle, Ground};
use crate::error::{Error, Result};
use crate::events::{Publisher, Recorder};
use crate::lease::{Lease, LeaseStatus};
use crate::metrics::Metrics;
use crate::serve::{Checks, Server};

pub use builder::Builder;
pub use handle::{Added, Handle};
pub use runnable::RunContext;

use group::{Gate, Group, Job};
use runnable::Runnable;

/// How long runnables wait for caches that may still come.
const CACHES_MAX: Duration = Duration::from_secs(2 * 60);

/// Runs controllers and everything around them.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::lease::LeaseOptions;
/// use windlass::{Context, Controller, Manager, Next, Result};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let controller = Controller::<ConfigMap>::builder("maps")
///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
/// let handle = Manager::builder(client)
///     .name("my-operator")
///     .namespaces(["default"])
///     .add(controller)
///     .lease(LeaseOptions::new("my-operator"))
///     .probes("127.0.0.1:0") // conventionally :8081
///     .metrics("127.0.0.1:0") // conventionally :8080, or :8443 with TLS
///     .metrics_secure()
///     .ready_check("disk", || Ok(()))
///     .runnable("importer", |cx| async move {
///         cx.stopping().await;
///         Ok(())
///     })
///     .grace(Duration::from_secs(20))
///     .spawn()?;
/// handle.ready().await;
/// assert_eq!(handle.diagnostics()["controllers"][0]["name"], "maps");
/// handle.stop().await
/// # }
/// ```
pub struct Manager {
    stage: Stage,
    runnables: Vec<(bool, Runnable)>,
    servers: Vec<Server>,
    lease: Option<Lease>,
    publishers: Vec<Publisher>,
    grace: Duration,
    /// Whatever ends the manager, those who wait for it hear of it.
    _end: DropGuard,
}

/// Where controllers are put.
struct Stage {
    state: Arc<State>,
    clusters: Vec<Cluster>,
}

/// One cluster the manager works with; the first is its home.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    name: String,
    ground: Ground,
}

/// A controller that is to be started.
pub(crate) struct Arrival {
    /// The place of its cluster.
    cluster: usize,
    component: Box<dyn Component>,
    /// Who is told what became of it.
    told: Option<oneshot::Sender<Result<ControllerHandle>>>,
}

/// What the manager and its handles share.
pub(crate) struct State {
    controllers: Mutex<Vec<(String, ControllerHandle)>>,
    /// Controllers that are to be started; locked before those that run.
    waiting: Mutex<Vec<Arrival>>,
    wake: tokio::sync::Notify,
    /// All watches synced and all workers of this replica started.
    ready: watch::Sender<bool>,
    /// The name of the lease and what is known of it.
    lease: Mutex<Option<(String, watch::Receiver<LeaseStatus>)>>,
    checks: Checks,
    metrics: Metrics,
    clients: Vec<(String, Client)>,
    recorder: Recorder,
    bound: Mutex<Vec<(&'static str, Bound)>>,
    /// How often the wall clock jumped, and the last time it did.
    jumps: Mutex<(u64, Option<Jump>)>,
    /// The manager stops, has ended, or will never run.
    stopping: CancellationToken,
}

type Bound = Arc<parking_lot::RwLock<Option<std::net::SocketAddr>>>;

/// Why a manager stops.
enum End {
    /// Somebody asked for it.
    Asked,
    /// Something that has to run failed.
    Failed(Error),
    /// The lease is lost.
    Lost,
}

// === impl State ===

impl State {
    /// The caches that do not follow the server, and why.
    fn behind(&self) -> Vec<String> {
        let states = self.clients.iter().flat_map(|(_, client)| client.cached().states());
        states
            .filter(|(_, state)| !state.synced())
            .map(|(kind, state)| format!("{kind}: {state}"))
            .collect()
    }

    /// Ready means: every declared watch follows the server; the author's own checks go first.
    fn default_checks(self: &Arc<Self>) {
        let state = Arc::downgrade(self);
        self.checks.usual_ready("caches", move || {
            let Some(state) = state.upgrade() else { return Ok(()) };
            let behind = state.behind();
            if behind.is_empty() { Ok(()) } else { Err(behind.join("; ")) }
        });
        self.checks.usual_ready("ping", || Ok(()));
        self.checks.usual_health("ping", || Ok(()));
    }
}

// === impl Manager ===

impl Manager {
    /// Starts a manager of the cluster behind `client`.
    pub fn builder(client: kube::Client) -> Builder {
        Builder::new(client)
    }

    /// A handle to look at and to steer the manager while it runs.
    ///
    /// ```
    /// use windlass::Manager;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let manager = Manager::builder(server.client()).build()?;
    /// let handle = manager.handle();
    /// // `run` does not come back before the end, so whoever is to end it needs a handle.
    /// let stop = async {
    ///     assert!(handle.ready().await);
    ///     handle.shutdown();
    /// };
    /// let (ended, ()) = tokio::join!(manager.run(std::future::pending()), stop);
    /// ended
    /// # }
    /// ```
    pub fn handle(&self) -> Handle {
        Handle::new(self.stage.state.clone(), None)
    }

    /// Runs until `shutdown` completes, then stops in order.
    ///
    /// # Errors
    ///
    /// Fails if a server cannot listen, a runnable fails, or the lease is lost: then the process
    /// has to end, because what it knew as leader is void.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops everything at once: nothing drains and the lease runs out.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let abort = CancellationToken::new();
        let http_stop = CancellationToken::new();
        let mut http = Group::new("HTTP servers", http_stop, abort.clone());
        for server in std::mem::take(&mut self.servers) {
            let name = server.name();
            let serve = server.listen().await?;
            http.spawn(Job::new(name, move |stop, _abort| serve(stop)));
        }
        let publishers: Vec<_> = std::mem::take(&mut self.publishers)
            .into_iter()
            .map(|p| tokio::spawn(p.run()))
            .collect();
        let (result, deadline) = self.work(shutdown, &abort).await;
        tracing::info!("Stopping and waiting for HTTP servers");
        http.stop(deadline).await;
        let flushes = self.stage.clusters.iter().map(|cluster| cluster.ground.recorder.flush());
        let flushes = futures::future::join_all(flushes);
        let _ = tokio::time::timeout_at(shutdown::last_words(deadline), flushes).await;
        publishers.iter().for_each(tokio::task::JoinHandle::abort);
        tracing::info!("Wait completed, proceeding to shutdown the manager");
        result
    }

    /// Everything between the start of the HTTP servers and their stop.
    async fn work(
        &mut self,
        shutdown: impl Future<Output = ()> + Send,
        abort: &CancellationToken,
    ) -> (Result<()>, Instant) {
        let stop = CancellationToken::new();
        let mut others = Group::new("non leader election runnables", stop, abort.clone());
        let leader_abort = abort.child_token();
        let stop = CancellationToken::new();
        let mut leaders = Group::new("leader election runnables", stop, leader_abort.clone());
        let mut lease = self.lease.take();
        let status = lease.as_ref().map(Lease::status);
        let recorder = self.stage.state.recorder.clone();
        let mut election = Box::pin(elect(lease.as_mut(), leaders.gate(), &recorder));
        let caches = Gate::default();
        let end = match self.start(&mut others, &mut leaders, &caches) {
            Err(error) => End::Failed(error),
            Ok(()) => {
                others.open();
                if status.is_none() {
                    leaders.open();
                }
                let mut beside = JoinSet::new();
                beside.spawn(settle(self.stage.state.clone(), caches));
                let clock = &self.stage.clusters[0].ground.clock;
                beside.spawn(clocks::watch(self.stage.state.clone(), Jumps::new(clock)));
                self.stage.wait(shutdown, &mut others, &mut leaders, election.as_mut()).await
            }
        };
        self.stage.state.ready.send_replace(false);
        self.stage.state.stopping.cancel();
        let grace = if matches!(end, End::Lost) { Duration::ZERO } else { self.grace };
        let deadline = crate::clock::after(grace);
        if matches!(end, End::Lost) {
            // Another process may lead already: nothing new begins, nothing old goes on.
            leaders.stopping().cancel();
            leader_abort.cancel();
        }
        // A process that does not lead must not begin to do so now.
        let held = status.is_some_and(|status| status.borrow().held);
        let renew = held.then_some(election.as_mut());
        let ended =
            shutdown::drain(&mut others, &mut leaders, deadline, &leader_abort, renew).await;
        drop(election);
        tracing::info!("Stopping and waiting for caches");
        for (_, controller) in self.stage.state.controllers.lock().drain(..) {
            controller.end_watches();
        }
        self.stage.clusters.iter().for_each(|cluster| cluster.ground.client.cached().clear());
        if let Some(lease) = &mut lease {
            if lease.led() {
                lease.tell(&recorder, "stopped leading");
            }
            shutdown::give_back(lease, ended, deadline).await;
        }
        let result = match end {
            End::Asked => Ok(()),
            End::Failed(error) => Err(error),
            End::Lost => Err(Error::Other("leader election lost".into())),
        };
        (result, deadline)
    }

    /// Puts everything that was added behind its gate.
    fn start(&mut self, others: &mut Group, leaders: &mut Group, caches: &Gate) -> Result<()> {
        // The names stay taken while they go from one list to the other.
        let mut waiting = self.stage.state.waiting.lock();
        for arrival in waiting.drain(..) {
            self.stage.place(arrival, others, leaders)?;
        }
        drop(waiting);
        for (leader, runnable) in std::mem::take(&mut self.runnables) {
            let group = if leader { &mut *leaders } else { &mut *others };
            let stopping = group.stopping();
            let context = self.stage.context(stopping, leader);
            group.add(Job::runnable(runnable, context, caches.clone()));
        }
        Ok(())
    }
}

// === impl Stage ===

impl Stage {
    /// Runs until there is a reason to stop.
    async fn wait(
        &self,
        shutdown: impl Future<Output = ()> + Send,
        others: &mut Group,
        leaders: &mut Group,
        mut election: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> End {
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return End::Asked,
                () = self.state.stopping.cancelled() => return End::Asked,
                () = election.as_mut() => return End::Lost,
                error = others.failed() => return End::Failed(error),
                error = leaders.failed() => return End::Failed(error),
                () = self.state.wake.notified() => {
                    for mut arrival in self.state.waiting.lock().drain(..) {
                        let told = arrival.told.take();
                        let placed = self.place(arrival, others, leaders);
                        if let Err(error) = &placed {
                            tracing::error!(error = error.chain(), "controller not added");
                        }
                        // Who added it may not care.
                        let _ = told.map(|told| told.send(placed));
                    }
                }
            }
        }
    }

    /// Opens the watches of a controller and puts its workers where they belong.
    fn place(
        &self,
        Arrival { cluster, component, told }: Arrival,
        others: &mut Group,
        leaders: &mut Group,
    ) -> Result<ControllerHandle> {
        let Some(home) = self.clusters.get(cluster) else {
            return Err(Error::Invalid(format!(
                "controller {}: no such cluster",
                component.name()
            )));
        };
        tracing::info!(
            controller = component.name(),
            controllerGroup = component.kind().group(),
            controllerKind = component.kind().kind(),
            cluster = home.name,
            "Starting Controller"
        );
        let (caches, kinds) = (home.ground.client.cached(), component.kinds());
        let prepared = component.prepare(&home.ground);
        caches.arrived(&kinds);
        let prepared = prepared?;
        let handle = prepared.handle.clone();
        self.state.controllers.lock().push((home.name.clone(), handle.clone()));
        let group = if prepared.leader { leaders } else { others };
        group.add(Job::controller(prepared));
        // Who added it before the manager ran.
        let _ = told.map(|told| told.send(Ok(handle.clone())));
        Ok(handle)
    }

    fn context(&self, stopping: CancellationToken, leader: bool) -> RunContext {
        let ground = &self.clusters[0].ground;
        RunContext {
            // What runs on every replica does so with or without the lease.
            client: if leader { ground.client.clone() } else { ground.client.unfenced() },
            recorder: self.state.recorder.clone(),
            clock: ground.clock.clone(),
            stopping,
        }
    }
}

/// Becomes leader, opens the gate, and returns when leadership is lost; never without a lease.
async fn elect(lease: Option<&mut Lease>, gate: Gate, recorder: &Recorder) {
    let Some(lease) = lease else { return std::future::pending().await };
    lease.acquire().await;
    lease.tell(recorder, "became leader");
    gate.open();
    lease.hold().await;
}

/// Opens the gate of the caches, and says "ready" once every watch has delivered its first list.
async fn settle(state: Arc<State>, caches: Gate) {
    let controllers: Vec<_> = state.controllers.lock().iter().map(|(_, c)| c.clone()).collect();
    let settled = futures::future::join_all(controllers.iter().map(ControllerHandle::settled));
    let missing = match tokio::time::timeout(CACHES_MAX, settled).await {
        Ok(blocked) => blocked.concat(),
        Err(_) => state.behind(),
    };
    if !missing.is_empty() {
        let caches = missing.join("; ");
        tracing::warn!(caches, "not synced: their controllers wait, everything else starts");
    }
    caches.open();
    for controller in controllers {
        controller.synced().await;
    }
    state.ready.send_replace(true);
}
