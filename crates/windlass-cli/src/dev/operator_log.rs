//! The log of the operator: reconciles with their causes, and everything else that it logs.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::view::Tag;
use crate::text::plain;

/// Keys whose causes are remembered; beyond this number, all are forgotten.
const KEYS_MAX: usize = 10_000;

/// Causes of one reconcile that are named; the rest is counted.
const CAUSES_MAX: usize = 3;

/// The loggers whose trace is about reconciles.
const TRACED: &str = "windlass::controller::";

/// Fields that are shown elsewhere or not at all.
const HIDDEN: [&str; 5] = ["level", "ts", "logger", "msg", "reconcileID"];

/// A controller and one of its objects.
type Subject = (String, String);

/// Why a key was queued.
#[derive(Clone, Debug, Default)]
struct Causes {
    named: Vec<String>,
    more: usize,
}

/// Reads the lines of one process.
#[derive(Default)]
pub struct OperatorLog {
    queued: BTreeMap<Subject, Causes>,
    /// The causes of the reconciles that run.
    running: BTreeMap<Subject, Causes>,
}

// === impl OperatorLog ===

impl OperatorLog {
    /// Reads a line; returns what to show of it.
    pub fn read(&mut self, line: &str) -> Option<(Tag, String)> {
        let Ok(Value::Object(fields)) = serde_json::from_str(line) else {
            // A panic, or whatever else the program prints.
            return (!line.is_empty()).then(|| (Tag::Log, plain(line)));
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let (level, message) = (text("level"), text("msg"));
        if text("logger").starts_with(TRACED)
            && let Some(read) = self.read_reconcile(message, &fields)
        {
            return read;
        }
        let tag = match level {
            "trace" => return None,
            "error" => Tag::Error,
            "warn" => Tag::Warning,
            _ => Tag::Log,
        };
        Some((tag, plain(&format!("{message}{}", rest(&fields)))))
    }

    /// Reads a line about a reconcile; `None` if it is about something else.
    fn read_reconcile(
        &mut self,
        message: &str,
        fields: &Map<String, Value>,
    ) -> Option<Option<(Tag, String)>> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let key = match text("namespace") {
            "" => text("name").to_owned(),
            namespace => format!("{namespace}/{}", text("name")),
        };
        let subject = (text("controller").to_owned(), key);
        if self.queued.len().max(self.running.len()) > KEYS_MAX {
            (self.queued, self.running) = Default::default();
        }
        match message {
            "Queued" => {
                let is_own = text("object") == subject.1;
                let causes = self.queued.entry(subject).or_default();
                causes
                    .add(format!("{} {} {}", text("kind"), text("object"), text("change")), is_own);
                return Some(None);
            }
            "Reconciling" => {
                let causes = self.queued.remove(&subject).unwrap_or_default();
                self.running.insert(subject, causes);
                return Some(None);
            }
            _ => {}
        }
        let outcome = match message {
            "Reconcile successful" => match (text("after"), text("retry")) {
                ("", "") => format!("ok in {}", text("took")),
                (after, retry) => format!("ok in {}, again after {after}{retry}", text("took")),
            },
            "Conflict, reconciling again" => "met a conflict, again at once".to_owned(),
            "Reconciler error" => {
                format!("failed, again after {}: {}", text("retry"), text("error"))
            }
            "Reconciler error, not retried" => format!("failed for good: {}", text("error")),
            _ => return None,
        };
        let causes = self.running.remove(&subject).unwrap_or_default();
        let (controller, key) = subject;
        let tag = if message.starts_with("Reconciler") { Tag::Error } else { Tag::Reconcile };
        Some(Some((tag, plain(&format!("{controller} {key} {outcome}{}", causes.shown())))))
    }
}

// === impl Causes ===

impl Causes {
    /// Adds a cause. A change of the reconciled object itself comes first and is always named.
    fn add(&mut self, cause: String, is_own: bool) {
        if self.named.contains(&cause) {
            return;
        }
        match is_own {
            true => self.named.insert(0, cause),
            false => self.named.push(cause),
        }
        if self.named.len() > CAUSES_MAX {
            self.named.pop();
            self.more += 1;
        }
    }

    fn shown(&self) -> String {
        match (&self.named[..], self.more) {
            ([], _) => String::new(),
            (named, 0) => format!(", because {}", named.join(", ")),
            (named, more) => format!(", because {} and {more} more", named.join(", ")),
        }
    }
}

/// The fields of a line that are not shown elsewhere.
fn rest(fields: &Map<String, Value>) -> String {
    let shown = fields.iter().filter(|(name, value)| {
        let empty = value.as_str().is_some_and(str::is_empty);
        !HIDDEN.contains(&name.as_str()) && !value.is_object() && !empty
    });
    let texts = shown.map(|(name, value)| match value {
        Value::String(text) => format!(" {name}={text:?}"),
        other => format!(" {name}={other}"),
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn traced(message: &str, more: Value) -> String {
        let mut line = json!({
            "level": "trace", "logger": "windlass::controller::worker", "msg": message,
            "controller": "memcached", "namespace": "default", "name": "sample",
        });
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
        line.to_string()
    }

    #[test]
    fn a_reconcile_is_one_line_with_its_causes() {
        let mut log = OperatorLog::default();
        for (kind, object) in
            [("Pod", "default/a"), ("Pod", "default/a"), ("Deployment", "default/b")]
        {
            let cause = json!({"kind": kind, "object": object, "change": "changed"});
            assert_eq!(log.read(&traced("Queued", cause)), None);
        }
        assert_eq!(log.read(&traced("Reconciling", json!({}))), None);
        let (tag, text) =
            log.read(&traced("Reconcile successful", json!({"took": "3ms"}))).unwrap();
        assert_eq!(tag, Tag::Reconcile);
        let causes = "because Pod default/a changed, Deployment default/b changed";
        assert_eq!(text, format!("memcached default/sample ok in 3ms, {causes}"));

        let error = json!({"level": "error", "error": "no quota", "retry": "5ms"});
        let (tag, text) = log.read(&traced("Reconciler error", error)).unwrap();
        assert_eq!(tag, Tag::Error);
        assert_eq!(text, "memcached default/sample failed, again after 5ms: no quota");
    }

    #[test]
    fn the_change_of_the_object_itself_is_always_named() {
        let mut log = OperatorLog::default();
        let about = |kind: &str, object: &str| {
            json!({"controller": "memcached", "namespace": "default", "name": "sample",
                   "kind": kind, "object": object, "change": "exists"})
        };
        for n in 0..5 {
            log.read(&traced("Queued", about("Pod", &format!("default/pod-{n}"))));
        }
        log.read(&traced("Queued", about("Memcached", "default/sample")));
        log.read(&traced("Reconciling", about("", "")));
        let (_, text) = log.read(&traced("Reconcile successful", about("", ""))).unwrap();
        assert!(text.contains("because Memcached default/sample exists, Pod"), "{text}");
        assert!(text.ends_with("and 3 more"), "{text}");
    }

    #[test]
    fn other_lines_keep_their_fields() {
        let mut log = OperatorLog::default();
        let line = json!({
            "level": "info", "ts": "now", "logger": "windlass::serve", "msg": "starting server",
            "name": "health probe", "secure": false, "Memcached": {"name": "x"},
        });
        let (tag, text) = log.read(&line.to_string()).unwrap();
        assert_eq!(
            (tag, text.as_str()),
            (Tag::Log, "starting server name=\"health probe\" secure=false")
        );
        assert_eq!(log.read("thread 'main' panicked").unwrap().1, "thread 'main' panicked");
        assert_eq!(log.read(""), None);
    }
}
