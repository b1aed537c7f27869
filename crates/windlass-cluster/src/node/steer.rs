//! The annotations that decide what pods and nodes do.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use windlass::owner;

/// When a pod that is not started again ends by default.
const COMPLETE_AFTER: Duration = Duration::from_secs(1);

/// What the annotations of a pod ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steer {
    pub pending: bool,
    pub image_missing: bool,
    pub crash: bool,
    pub ready: bool,
    pub ready_after: Duration,
    pub complete_after: Option<Duration>,
    pub exit_code: i32,
    pub terminate_after: Duration,
}

// === impl Steer ===

impl Steer {
    pub fn of(pod: &Pod) -> Self {
        let none = BTreeMap::new();
        let all = pod.metadata.annotations.as_ref().unwrap_or(&none);
        let text = |name: &str| all.get(&format!("windlass.dev/{name}")).map(String::as_str);
        let time = |name: &str| text(name).and_then(duration);
        let crash = text("crash") == Some("true");
        let of_job = owner::controller_of(pod).is_some_and(|owner| owner.kind == "Job");
        let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        let ends = match policy {
            _ if crash || of_job => Some(Duration::ZERO),
            Some("Never" | "OnFailure") => Some(COMPLETE_AFTER),
            _ => None,
        };
        let code = text("exit-code").and_then(|code| code.parse().ok());
        Self {
            pending: text("pending") == Some("true"),
            image_missing: text("image") == Some("missing") || needs_impossible_image(pod),
            crash,
            ready: text("ready") != Some("false"),
            ready_after: time("ready-after").unwrap_or_default(),
            complete_after: match text("complete-after") {
                Some("never") => None,
                Some(text) => duration(text).or(ends),
                None => ends,
            },
            exit_code: code.unwrap_or(i32::from(crash)),
            terminate_after: time("terminate-after").unwrap_or_default(),
        }
    }
}

/// Returns `true` if an image is to be pulled from a host below the domain `invalid`, which is reserved
/// for names that do not exist.
fn needs_impossible_image(pod: &Pod) -> bool {
    let containers = pod
        .spec
        .iter()
        .flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let mut images = containers.filter_map(|container| container.image.as_deref());
    images.any(|image| {
        let host = image.split_once('/').map_or("", |(host, _)| host);
        host.split(':').next().is_some_and(|name| name.ends_with(".invalid"))
    })
}

/// What a node says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Ready,
    NotReady,
    Offline,
}

/// The health that the annotations of a node ask for; `None` for nodes that are not simulated.
pub fn health(node: &Node) -> Option<Health> {
    let all = node.metadata.annotations.as_ref()?;
    let says = |name: &str, value: &str| all.get(name).is_some_and(|v| v == value);
    if !all.contains_key(super::SIMULATED) {
        None
    } else if says("windlass.dev/offline", "true") {
        Some(Health::Offline)
    } else if says("windlass.dev/ready", "false") {
        Some(Health::NotReady)
    } else {
        Some(Health::Ready)
    }
}

/// Reads `250ms`, `5s`, `2m`, `1h` or `5`.
fn duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let millis = match &text[split..] {
        "ms" => 1,
        "s" | "" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(millis)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_or_count_seconds() {
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("5"), Some(Duration::from_secs(5)));
        assert_eq!(duration("2h"), Some(Duration::from_secs(7200)));
        assert_eq!(duration("soon"), None);
        assert_eq!(duration("5 s"), None);
        assert_eq!(duration("99999999999999999999s"), None);
    }
}
