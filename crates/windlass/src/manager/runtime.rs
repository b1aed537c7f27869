//! The running manager: starts controllers and waits for a reason to stop.

use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::group::{Gate, Group, Job};
use super::{Cluster, PendingController, RunContext, State};
use crate::controller::ControllerHandle;
use crate::error::{Error, Result};
use crate::events::Recorder;
use crate::lease::Elector;

/// Where controllers are started.
pub(super) struct Runtime {
    pub(super) state: Arc<State>,
    pub(super) clusters: Vec<Cluster>,
}

/// Why a manager stops.
pub(super) enum StopReason {
    /// Somebody asked for it.
    Requested,
    /// Something that has to run failed.
    Failed(Error),
    /// The lease was lost.
    LeaseLost,
}

// === impl Runtime ===

impl Runtime {
    /// Runs until there is a reason to stop.
    pub(super) async fn wait(
        &self,
        shutdown: impl Future<Output = ()> + Send,
        others: &mut Group,
        leaders: &mut Group,
        mut election: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> StopReason {
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return StopReason::Requested,
                () = self.state.stopping.cancelled() => return StopReason::Requested,
                () = election.as_mut() => return StopReason::LeaseLost,
                error = others.failed() => return StopReason::Failed(error),
                error = leaders.failed() => return StopReason::Failed(error),
                () = self.state.wake.notified() => {
                    for mut pending in self.state.pending.lock().drain(..) {
                        let reply = pending.reply.take();
                        let started = self.start(pending, others, leaders);
                        if let Err(error) = &started {
                            tracing::error!(error = error.chain(), "controller not added");
                        }
                        // The caller may have dropped the receiver.
                        let _ = reply.map(|reply| reply.send(started));
                    }
                }
            }
        }
    }

    /// Opens the watches of a controller and adds its workers to their group.
    pub(super) fn start(
        &self,
        PendingController { cluster, component, reply }: PendingController,
        others: &mut Group,
        leaders: &mut Group,
    ) -> Result<ControllerHandle> {
        let Some(cluster) = self.clusters.get(cluster) else {
            return Err(Error::Invalid(format!(
                "controller {}: no such cluster",
                component.name()
            )));
        };
        tracing::info!(
            controller = component.name(),
            controllerGroup = component.kind().group(),
            controllerKind = component.kind().kind(),
            cluster = cluster.name,
            "Starting Controller"
        );
        let (caches, kinds) = (cluster.env.client.cached(), component.kinds());
        let prepared = component.prepare(&cluster.env);
        caches.arrived(&kinds);
        let prepared = prepared?;
        let handle = prepared.handle.clone();
        #[cfg(feature = "operator")]
        if let Some(settings) = &self.state.settings {
            settings.apply_to(&handle);
        }
        self.state.controllers.lock().push((cluster.name.clone(), handle.clone()));
        let group = if prepared.leader { leaders } else { others };
        group.add(Job::controller(prepared));
        // Somebody may have added it with a handle before the manager ran.
        let _ = reply.map(|reply| reply.send(Ok(handle.clone())));
        Ok(handle)
    }

    /// The context of a runnable.
    pub(super) fn context(&self, stopping: CancellationToken, leader: bool) -> RunContext {
        let env = &self.clusters[0].env;
        RunContext {
            // Runnables of every replica write without the lease.
            client: if leader { env.client.clone() } else { env.client.unfenced() },
            recorder: self.state.recorder.clone(),
            clock: env.clock.clone(),
            replica: self.state.replica.clone(),
            stopping,
        }
    }
}

/// Becomes the leader, opens the gate, and returns when the lease is lost; never completes without
/// a lease.
pub(super) async fn elect(elector: Option<&mut Elector>, gate: Gate, recorder: &Recorder) {
    let Some(elector) = elector else { return std::future::pending().await };
    elector.acquire().await;
    elector.publish_event(recorder, "became leader");
    gate.open();
    elector.hold().await;
}
