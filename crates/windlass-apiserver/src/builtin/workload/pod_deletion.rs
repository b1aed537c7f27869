//! The grace period of a pod that is deleted.

use jiff::Timestamp;
use serde_json::Value;

use crate::builtin::deletion::{Grace, later, mark};
use crate::clock::stamp;
use crate::object;

/// Marks a pod with its grace period, or shortens the one that is running.
pub fn begin_grace(pod: &mut Value, asked: Option<i64>, now: Timestamp) -> Grace {
    if object::is_deleting(pod) {
        return shorten(pod, asked, now);
    }
    let spec = &pod["spec"];
    let default = spec["terminationGracePeriodSeconds"].as_i64();
    let mut seconds = asked.or(default).unwrap_or(0);
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if spec["nodeName"].as_str().is_none_or(str::is_empty) || finished {
        seconds = 0;
    }
    if seconds < 0 {
        seconds = 1;
    }
    mark(pod, now, seconds);
    Grace::Seconds(seconds)
}

fn shorten(pod: &mut Value, asked: Option<i64>, now: Timestamp) -> Grace {
    let current = object::meta(pod).get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    let Some(current) = current.filter(|seconds| *seconds != 0) else { return Grace::None };
    let Some(asked) = asked.filter(|asked| *asked < current) else { return Grace::Pending };
    let at = object::meta_str(pod, "deletionTimestamp").parse::<Timestamp>();
    let earlier = later(at.unwrap_or(now), asked.saturating_sub(current));
    let metadata = object::meta_mut(pod);
    metadata.insert("deletionTimestamp".into(), stamp(earlier).into());
    metadata.insert("deletionGracePeriodSeconds".into(), asked.into());
    Grace::Seconds(asked)
}
