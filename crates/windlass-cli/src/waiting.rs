//! Waits until objects are ready or gone, and says why they are not.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use windlass::Readiness;

use crate::failure::Failure;
use crate::objects::{Objects, reference};
use crate::report::Line;
use crate::text::plain;

/// How often the cluster is asked.
const INTERVAL: Duration = Duration::from_millis(250);

/// Nothing is said about what takes less than this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes the lines that a command prints.
pub type Lines<'a> = &'a mut (dyn FnMut(Line<'_>) + Send);

/// A wait with a deadline, which says what it waits for whenever that changes.
pub struct Wait<'a> {
    lines: Lines<'a>,
    start: Instant,
    timeout: Duration,
    /// The last reason of each object.
    said: BTreeMap<String, String>,
}

/// Reads a duration such as `90s` or `5m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok();
    let parsed = parsed.and_then(|duration| Duration::try_from(duration).ok());
    parsed.ok_or_else(|| "expected a duration such as 90s or 5m".into())
}

// === impl Wait ===

impl<'a> Wait<'a> {
    /// Starts to wait, for as long as the timeout allows.
    pub fn new(timeout: Duration, lines: Lines<'a>) -> Self {
        Self { lines, start: Instant::now(), timeout, said: BTreeMap::new() }
    }

    /// Reports a line.
    pub fn say(&mut self, line: Line<'_>) {
        (self.lines)(line);
    }

    /// Waits until every object is ready.
    ///
    /// # Errors
    ///
    /// If one of them fails, or if they are not ready in time: the last reason is part of the error.
    pub async fn ready(&mut self, objects: &mut Objects, wanted: &[Value]) -> Result<(), Failure> {
        for object in wanted {
            loop {
                let found = objects.get(object).await?;
                let found = found.unwrap_or(Value::Null);
                let readiness = match found.is_null() {
                    true => None,
                    false => Some(Readiness::of(&found, jiff::Timestamp::now())),
                };
                let why = match &readiness {
                    Some(Readiness::Ready | Readiness::Unknown { .. }) => break,
                    Some(Readiness::Failed { message, .. }) => {
                        let detail = pod_detail(objects, &found).await?;
                        return Err(Failure::other(format!(
                            "{} failed: {}{detail}",
                            reference(object),
                            plain(message)
                        )));
                    }
                    Some(readiness) => {
                        let detail = pod_detail(objects, &found).await?;
                        format!("{}{detail}", plain(readiness.message()))
                    }
                    None => "it does not exist yet".to_owned(),
                };
                self.pause(&named(object), &why, "ready").await?;
            }
        }
        Ok(())
    }

    /// Waits until an object is gone, or another one has taken its name.
    pub async fn gone(&mut self, objects: &mut Objects, object: &Value) -> Result<(), Failure> {
        loop {
            let found = objects.get(object).await?;
            let uid = &object["metadata"]["uid"];
            let same = |found: &Value| uid.is_null() || found["metadata"]["uid"] == *uid;
            let Some(found) = found.filter(same) else { return Ok(()) };
            self.pause(&named(object), &why_still_there(&found), "gone").await?;
        }
    }

    /// Pauses before the next look, or fails after the deadline.
    async fn pause(&mut self, object: &str, why: &str, state: &str) -> Result<(), Failure> {
        if self.start.elapsed() >= self.timeout {
            return Err(Failure::other(format!(
                "{object} is not {state} after {} s: {why}",
                self.timeout.as_secs()
            )));
        }
        let known = self.said.get(object).is_some_and(|said| said == why);
        if !known && self.start.elapsed() >= PATIENCE.min(self.timeout / 2) {
            self.said.insert(object.to_owned(), why.to_owned());
            self.say(Line::Note(&format!("waiting for {object}: {why}")));
        }
        tokio::time::sleep(INTERVAL).await;
        Ok(())
    }
}

/// An object with its namespace.
pub fn named(object: &Value) -> String {
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{} in namespace {}", reference(object), plain(namespace)),
        None => reference(object),
    }
}

/// Why an object that was deleted still exists.
fn why_still_there(object: &Value) -> String {
    let metadata = &object["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        return "its deletion has not started".to_owned();
    }
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(plain).collect()
    };
    match &texts(&metadata["finalizers"])[..] {
        [] => {}
        [one] => return format!("finalizer {one} is still set"),
        several => return format!("finalizers {} are still set", several.join(", ")),
    }
    // A namespace reports what it still contains.
    let conditions = object["status"]["conditions"].as_array();
    let remaining =
        conditions.into_iter().flatten().find(|condition| condition["status"] == "True");
    match remaining.and_then(|condition| condition["message"].as_str()) {
        Some(message) => plain(message),
        None => "it is being deleted".to_owned(),
    }
}

/// What is wrong with the first pod of a deployment that is not ready.
async fn pod_detail(objects: &Objects, object: &Value) -> Result<String, Failure> {
    let labels = object["spec"]["selector"]["matchLabels"].as_object();
    let (Some(labels), Some(namespace)) = (labels, object["metadata"]["namespace"].as_str()) else {
        return Ok(String::new());
    };
    let pairs = labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let selector = pairs.collect::<Vec<_>>().join(",");
    let now = jiff::Timestamp::now();
    let pods = objects.pods(namespace, &selector).await?;
    let trouble = pods.iter().find_map(|pod| {
        let readiness = Readiness::of(pod, now);
        (!readiness.is_ready()).then(|| format!("; {}: {}", reference(pod), readiness.message()))
    });
    Ok(plain(&trouble.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_holds_a_deleted_object_is_named() {
        let object = |metadata: Value| json!({"kind": "X", "metadata": metadata});
        assert_eq!(why_still_there(&object(json!({}))), "its deletion has not started");
        let deleted = "2026-01-01T00:00:00Z";
        let one = object(json!({"deletionTimestamp": deleted, "finalizers": ["example.com/a"]}));
        assert_eq!(why_still_there(&one), "finalizer example.com/a is still set");
        let two = object(json!({"deletionTimestamp": deleted, "finalizers": ["a", "b"]}));
        assert_eq!(why_still_there(&two), "finalizers a, b are still set");
        assert_eq!(
            why_still_there(&object(json!({"deletionTimestamp": deleted}))),
            "it is being deleted"
        );
    }

    #[test]
    fn durations_are_read_as_kubectl_reads_them() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        for wrong in ["", "soon", "-5s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
