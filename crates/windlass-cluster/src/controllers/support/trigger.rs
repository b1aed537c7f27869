//! When the change happened that led to new endpoints.
//!
//! **Invariant:** one entry per known service; a deleted service is forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::controllers::pod;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use parking_lot::Mutex;
use windlass::Key;

/// The annotation with the time.
pub const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The times seen at the last reconcile of each service.
#[derive(Debug, Default)]
pub struct Triggers(Mutex<BTreeMap<Key, Seen>>);

#[derive(Debug, Default)]
struct Seen {
    service: Option<Timestamp>,
    pods: BTreeMap<String, Timestamp>,
}

// === impl Triggers ===

impl Triggers {
    /// The earliest change since the last call, as annotation text.
    pub fn step(&self, key: &Key, service: &Service, found: &[Arc<Pod>]) -> Option<String> {
        let created = service.metadata.creation_timestamp.as_ref().map(|t| t.0);
        let pods: BTreeMap<String, Timestamp> = found
            .iter()
            .filter_map(|pod| {
                let time = pod::condition(pod, "Ready")?.last_transition_time.as_ref()?.0;
                Some((pod::name(pod).to_string(), time))
            })
            .collect();
        let mut known = self.0.lock();
        let Some(seen) = known.get_mut(key) else {
            known.insert(key.clone(), Seen { service: created, pods });
            return created.map(|time| time.to_string());
        };
        let news = pods.iter().filter(|(name, time)| seen.pods.get(*name).is_none_or(|t| t < time));
        let mut first = news.map(|(_, time)| *time).min();
        if created > seen.service {
            first = first.into_iter().chain(created).min();
        }
        *seen = Seen { service: created, pods };
        first.map(|time| time.to_string())
    }

    /// Forgets a service.
    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}
