//! When the change happened that led to new endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::controllers::pod;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use parking_lot::Mutex;
use windlass::controller::Context;

/// The annotation with the time.
pub const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The times that were seen at the last reconcile of a service.
#[derive(Debug, Default)]
struct Trigger(Mutex<Option<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    pods: BTreeMap<String, Timestamp>,
}

/// The earliest change since the last call for this service, as annotation text.
pub fn step(cx: &Context<Service>, service: &Service, found: &[Arc<Pod>]) -> Option<String> {
    let created = service.metadata.creation_timestamp.as_ref().map(|t| t.0);
    let pods: BTreeMap<String, Timestamp> = found
        .iter()
        .filter_map(|pod| {
            let time = pod::condition(pod, "Ready")?.last_transition_time.as_ref()?.0;
            Some((pod::name(pod).to_string(), time))
        })
        .collect();
    let trigger = cx.memory::<Trigger>();
    let mut known = trigger.0.lock();
    let first = match &*known {
        None => created,
        Some(Seen { pods: seen }) => {
            let news = pods.iter().filter(|(name, time)| seen.get(*name).is_none_or(|t| t < time));
            news.map(|(_, time)| *time).min()
        }
    };
    *known = Some(Seen { pods });
    first.map(|time| time.to_string())
}

/// Forgets what was seen, since the service selects nothing any more.
pub fn forget(cx: &Context<Service>) {
    cx.memory::<Trigger>().0.lock().take();
}
