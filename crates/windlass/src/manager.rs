//! The manager: starts everything in order, keeps it running, stops it in order.
//!
//! | phase | starts | at shutdown |
//! |---|---|---|
//! | 1 | HTTP servers (probes, metrics, webhooks) | stop 4th |
//! | 2 | watches of all controllers | stop 2nd |
//! | 3 | controllers of every replica, each once its own watches have synced | drain 1st |
//! | 3 | runnables of every replica, once all these watches have synced | drain 1st |
//! | 4 | leader election, then the work of the leader | drains 1st, while the lease is renewed |
//! | 5 | | the lease is released 3rd, events are flushed last |
//!
//! A shutdown asks all controllers and runnables to stop at the same time, so that no reconcile
//! begins after it. Everything stops within one grace period; if it is used up, releasing the
//! lease and sending the last events may take two more seconds each. Watches run before this
//! process leads, so a new leader starts with warm caches. If the lease is lost, the work of the
//! leader is dropped immediately and without grace, even while it drains.
//!
//! A watch of a kind that is missing or forbidden delays only its own controller. A server that
//! does not respond delays runnables by at most two minutes, because the server may be waiting for
//! one of them.
//!
//! The manager also compares the wall clock with the monotonic clock every ten seconds, and reports
//! jumps.
//!
//! **Invariant:** the lease is released only after everything it guards has ended.

mod assembly;
mod build;
mod builder;
mod checks;
mod clocks;
mod diagnostics;
mod group;
mod handle;
mod readiness;
mod replica;
mod runnable;
mod running;
mod runtime;
#[cfg(feature = "serve")]
mod serving;
#[cfg(not(feature = "serve"))]
#[path = "manager/no_serving.rs"]
mod serving;
#[cfg(feature = "operator")]
mod settings;
#[cfg(feature = "operator")]
mod settings_file;
mod shutdown;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::Client;
use crate::clock::{Jump, Jumps};
use crate::controller::{Component, ControllerEnv, ControllerHandle};
use crate::error::{Error, Result};
use crate::events::{Publisher, Recorder};
use crate::lease::{Elector, LeaseStatus};
use crate::metrics::Metrics;
use crate::ordered_watch;
#[cfg(feature = "serve")]
use crate::serve::Server;

pub use builder::Manager;
pub(crate) use checks::Checks;
pub use handle::Handle;
pub(crate) use replica::Replica;
pub use runnable::RunContext;
pub use running::Running;

use group::{Gate, Group, Job};
use runnable::Runnable;
use runtime::{Runtime, StopReason, elect};
#[cfg(not(feature = "serve"))]
use serving::Server;

/// A manager that is complete and can run.
pub(crate) struct Assembled {
    runtime: Runtime,
    runnables: Vec<(bool, Runnable)>,
    servers: Vec<Server>,
    elector: Option<Elector>,
    publishers: Vec<Publisher>,
    grace: Duration,
    /// Wakes everybody who waits for the manager, however it ends.
    _end: DropGuard,
}

/// A cluster that the manager works with; the first one is the home cluster.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    name: String,
    env: ControllerEnv,
}

/// A controller that has not been started yet.
pub(crate) struct PendingController {
    /// The index of its cluster.
    cluster: usize,
    component: Box<dyn Component>,
    /// Receives the handle of the started controller.
    reply: Option<oneshot::Sender<Result<ControllerHandle>>>,
}

/// The state that a manager and its handles share.
pub(crate) struct State {
    controllers: Mutex<Vec<(String, ControllerHandle)>>,
    /// Controllers that have not been started yet; locked before `controllers`.
    pending: Mutex<Vec<PendingController>>,
    wake: tokio::sync::Notify,
    /// All watches have synced, and the manager does not stop.
    ready: ordered_watch::Sender<bool>,
    /// All watches have synced once.
    synced: AtomicBool,
    /// The lease, `namespace/name`, and its status.
    lease: Option<(String, ordered_watch::Receiver<LeaseStatus>)>,
    checks: Checks,
    metrics: Metrics,
    clients: Vec<(String, Client)>,
    recorder: Recorder,
    /// The name of this replica.
    replica: Arc<str>,
    /// The addresses the HTTP servers listen on.
    probe_address: Option<Arc<RwLock<Option<SocketAddr>>>>,
    metrics_address: Option<Arc<RwLock<Option<SocketAddr>>>>,
    webhook_address: Option<Arc<RwLock<Option<SocketAddr>>>>,
    /// How often the wall clock jumped, and the last jump.
    jumps: Mutex<(u64, Option<Jump>)>,
    /// The settings that come from a file.
    #[cfg(feature = "operator")]
    settings: Option<settings_file::SettingsFile>,
    /// The manager stops, has ended, or will never run.
    stopping: CancellationToken,
}

// === impl Assembled ===

impl Assembled {
    /// Runs until `shutdown` completes, then stops in order.
    pub(super) async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let abort = CancellationToken::new();
        let http_stop = CancellationToken::new();
        let mut http = Group::new("HTTP servers", http_stop, abort.clone());
        for server in std::mem::take(&mut self.servers) {
            let name = server.name();
            let serve = server.listen().await?;
            http.spawn(Job::new(name, move |stop, _abort| serve(stop)));
        }
        // Dropped with this future, so that nothing of the manager survives it.
        let mut publishers = JoinSet::new();
        for publisher in std::mem::take(&mut self.publishers) {
            publishers.spawn(publisher.run());
        }
        let (result, deadline) = self.work(shutdown, &abort).await;
        http.stop(deadline).await;
        let flushes = self.runtime.clusters.iter().map(|cluster| cluster.env.recorder.flush());
        let flushes = futures::future::join_all(flushes);
        let deadline = shutdown::final_request_deadline(deadline);
        let _ = tokio::time::timeout_at(deadline, flushes).await;
        drop(publishers);
        tracing::info!("Wait completed, proceeding to shutdown the manager");
        result
    }

    /// Everything between the start and the stop of the HTTP servers.
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
        let mut elector = self.elector.take();
        let status = elector.as_ref().map(Elector::status);
        let state = self.runtime.state.clone();
        let mut election = Box::pin(elect(elector.as_mut(), leaders.gate(), &state.recorder));
        let caches = Gate::default();
        let reason = match self.start(&mut others, &mut leaders, &caches) {
            Err(error) => StopReason::Failed(error),
            Ok(()) => {
                others.open();
                if status.is_none() {
                    leaders.open();
                }
                let mut background = JoinSet::new();
                background.spawn(readiness::follow(state.clone(), caches));
                let jumps = Jumps::new(&self.runtime.clusters[0].env.clock);
                background.spawn(clocks::watch(state.clone(), jumps));
                #[cfg(feature = "operator")]
                background.spawn(settings_file::follow(state.clone()));
                self.runtime.wait(shutdown, &mut others, &mut leaders, election.as_mut()).await
            }
        };
        state.ready.send_replace(false);
        state.stopping.cancel();
        let lost = matches!(reason, StopReason::LeaseLost);
        let deadline = crate::clock::after(if lost { Duration::ZERO } else { self.grace });
        if lost {
            // Another process may lead by now, so the work of the leader must not go on.
            leaders.stopping().cancel();
            leader_abort.cancel();
        }
        // A process that does not lead must not become the leader while it stops.
        let held = status.is_some_and(|status| status.borrow().held);
        let renew = held.then_some(election.as_mut());
        let ended =
            shutdown::drain(&mut others, &mut leaders, deadline, &leader_abort, renew).await;
        drop(election);
        self.stop_caches();
        if let Some(elector) = &mut elector {
            if elector.has_led() {
                elector.publish_event(&state.recorder, "stopped leading");
            }
            shutdown::release(elector, ended, deadline).await;
        }
        (self.result(reason), deadline)
    }

    fn stop_caches(&self) {
        tracing::info!("Stopping and waiting for caches");
        for (_, controller) in self.runtime.state.controllers.lock().drain(..) {
            controller.end_watches();
        }
        self.runtime.clusters.iter().for_each(|cluster| cluster.env.client.cached().clear());
    }

    fn result(&self, reason: StopReason) -> Result<()> {
        match reason {
            StopReason::Requested => Ok(()),
            StopReason::Failed(error) => Err(error),
            StopReason::LeaseLost => {
                let lease = self.runtime.state.lease.as_ref();
                Err(Error::LeaseLost {
                    lease: lease.map(|(name, _)| name.clone()).unwrap_or_default(),
                })
            }
        }
    }

    /// Adds all controllers and runnables to their groups, where they wait for the gates.
    fn start(&mut self, others: &mut Group, leaders: &mut Group, caches: &Gate) -> Result<()> {
        // Locked all the time, so that nobody can add a controller of the same name meanwhile.
        let mut pending = self.runtime.state.pending.lock();
        for controller in pending.drain(..) {
            self.runtime.start(controller, others, leaders)?;
        }
        drop(pending);
        for (leader, runnable) in std::mem::take(&mut self.runnables) {
            let group = if leader { &mut *leaders } else { &mut *others };
            let context = self.runtime.context(group.stopping(), leader);
            group.add(Job::runnable(runnable, context, caches.clone()));
        }
        Ok(())
    }
}
