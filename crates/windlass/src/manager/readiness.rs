//! When a manager is ready.
//!
//! A manager becomes ready when every watch of its controllers has delivered its first list, and it
//! stays ready from then on. A watch that becomes stale later, as with every `410 Gone`, is shown
//! by `windlass_watch_stale_seconds` and by `/readyz?verbose`, but does not make the pod unready:
//! otherwise a short outage of the API server would take all replicas out of service at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::State;
use super::checks::Probe;
use super::group::Gate;
use crate::cache::SyncState;
use crate::controller::ControllerHandle;
use crate::error::Error;

/// How long runnables wait for caches that have not synced.
const CACHES_MAX: Duration = Duration::from_secs(2 * 60);

impl State {
    /// The caches that do not follow the server, and why.
    pub(super) fn behind(&self) -> Vec<String> {
        let behind = self.sync_states().filter(|(_, state)| !state.synced());
        behind.map(|(kind, state)| format!("{kind}: {state}")).collect()
    }

    /// The caches that have synced but are out of date, and for how long.
    fn stale(&self) -> Vec<String> {
        let stale = self.sync_states().filter_map(|(kind, state)| match state {
            SyncState::Stale { since, .. } => {
                Some(format!("{kind} is stale for {} s", since.elapsed().as_secs()))
            }
            state if state.synced() => None,
            _ => Some(format!("{kind} is not synced")),
        });
        stale.collect()
    }

    fn sync_states(&self) -> impl Iterator<Item = (crate::kind::Kind, SyncState)> {
        self.clients.iter().flat_map(|(_, client)| client.cached().states())
    }

    /// Adds the checks that every manager has, unless the author added some of the same names.
    pub(super) fn add_builtin_checks(self: &Arc<Self>) {
        let state = Arc::downgrade(self);
        self.checks.add_builtin(Probe::Ready, "caches", move || {
            let Some(state) = state.upgrade() else { return Ok(None) };
            if state.synced.load(Ordering::Acquire) {
                return Ok(Some(state.stale().join(", ")).filter(|remark| !remark.is_empty()));
            }
            let behind = state.behind();
            match behind.is_empty() {
                true => Err(Error::from("the controllers have not started yet")),
                false => Err(Error::from(behind.join("; "))),
            }
        });
        self.checks.add_builtin(Probe::Ready, "ping", || Ok(None));
        self.checks.add_builtin(Probe::Health, "ping", || Ok(None));
    }
}

/// Opens the gate of the runnables when the caches have synced or cannot sync, and marks the
/// manager as ready once every watch has delivered its first list.
pub(super) async fn follow(state: Arc<State>, caches: Gate) {
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
    state.synced.store(true, Ordering::Release);
    state.ready.send_replace(true);
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
    use windlass_apiserver::ApiServer;

    use super::*;
    use crate::cache::Work;
    use crate::client::Client;
    use crate::controller::{Controller, Next};
    use crate::manager::Manager;

    /// Returns what one probe reads if this many config maps are cached.
    async fn cost_of_a_probe(objects: usize) -> Work {
        let server = ApiServer::start();
        let maps = Client::new(server.client()).api::<ConfigMap>();
        for number in 0..objects {
            let mut map = ConfigMap::default();
            map.metadata.namespace = Some("default".into());
            map.metadata.name = Some(format!("map-{number}"));
            maps.create(&map).await.expect("created");
        }
        let controller = Controller::<ConfigMap>::builder("maps")
            .owns::<Secret>()
            .reads::<Service>()
            .build(|_| async { Ok(Next::Done) });
        let running = Manager::new(server.client()).add(controller).spawn().expect("starts");
        assert!(running.ready().await);
        tokio::time::sleep(Duration::from_secs(1)).await;
        Work::take();
        assert!(running.readyz().await.is_ok());
        let cost = Work::take();
        assert!(running.diagnostics()["clusters"][0]["watches"][0]["objects"].is_number());
        assert!(Work::take().stores > 0, "a read of the stores would be counted");
        running.stop().await.expect("stops");
        cost
    }

    #[tokio::test(start_paused = true)]
    async fn a_readiness_probe_reads_one_state_per_kind_and_no_object() {
        for objects in [1, 500] {
            let cost = cost_of_a_probe(objects).await;
            assert_eq!(cost, Work { states: 3, stores: 0 }, "{objects} objects");
        }
    }
}
