//! Why a key is reconciled.
//!
//! Causes travel in two parts. The queue merges one flag per sort of cause with the key, which costs
//! nothing. What a flag does not say, such as the object that changed, waits in the
//! [`CauseTable`](super::cause_table::CauseTable) of the controller until a worker takes the key.
//! Changed fields are found only when somebody asks for them.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::apply::merge_diff;
use crate::cache::{Change, Entry, Key};
use crate::kind::Kind;

/// Most objects and errors that are named as causes of one reconcile.
const NAMED_MAX: usize = 8;
/// Most fields that are named of one change.
const FIELDS_MAX: usize = 8;
/// The depth at which the path of a field ends.
const DEPTH_MAX: usize = 3;
/// Most characters of an error that is named.
const ERROR_MAX: usize = 1000;

/// One sort of cause each, as the queue merges them.
pub(super) mod flag {
    pub(crate) const STARTED: u8 = 1;
    pub(crate) const OBJECTS: u8 = 1 << 1;
    pub(crate) const DUE: u8 = 1 << 2;
    pub(crate) const RETRY: u8 = 1 << 3;
    pub(crate) const RESYNC: u8 = 1 << 4;
    pub(crate) const REQUESTED: u8 = 1 << 5;
}

/// Why a key is reconciled. Returned by [`Context::causes`](super::Context::causes).
///
/// A cause explains a reconcile to people and tests. It must not decide what a reconcile does:
/// causes are lost when the process ends, and the state they led to is not.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass::client::Patch;
/// use windlass::controller::Cause;
/// use windlass::{Context, Controller, Key, Manager, Next};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("a".into());
/// # map.metadata.namespace = Some("default".into());
/// # map.data = Some([("color".into(), "red".into())].into());
/// # windlass::Client::new(server.client()).api().create(&map).await?;
/// let (sender, mut seen) = tokio::sync::mpsc::channel(8);
/// let controller = Controller::<ConfigMap>::builder("maps").build(move |cx: Context<ConfigMap>| {
///     let sender = sender.clone();
///     async move {
///         let _ = sender.send(cx.causes()).await;
///         Ok(Next::Done)
///     }
/// });
/// let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
/// let handle = manager.spawn()?;
/// assert_eq!(seen.recv().await, Some(vec![Cause::Started]));
///
/// let paint = Patch::Merge(json!({"data": {"color": "blue"}}));
/// handle.client().api::<ConfigMap>().patch(&Key::namespaced("default", "a"), &paint).await?;
/// let causes = seen.recv().await.expect("runs again");
/// assert_eq!(causes[0].to_string(), "ConfigMap default/a changed by windlass: data.color");
/// # handle.stop().await
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The controller started, or an [optional](super::Watch::optional) kind appeared.
    Started,
    /// An object was created.
    Created {
        /// The kind of the object.
        kind: Kind,
        /// The key of the object.
        key: Key,
    },
    /// An object was changed, maybe several times.
    Changed {
        /// The kind of the object.
        kind: Kind,
        /// The key of the object.
        key: Key,
        /// The paths of up to eight changed fields, such as `spec.replicas`, without their values.
        /// It is empty if too many objects wait to be reconciled to keep their former states.
        fields: Vec<String>,
        /// The field manager that changed the object last, such as `kubectl-edit`. It is `None` if
        /// two of them changed it within the same second, because the API records no more.
        manager: Option<String>,
    },
    /// An object was deleted.
    Deleted {
        /// The kind of the object.
        kind: Kind,
        /// The key of the object.
        key: Key,
    },
    /// More objects changed than are named.
    Others,
    /// The time has come that an earlier reconcile asked for.
    Due,
    /// The reconcile before failed.
    Retry {
        /// The error, with its sources.
        error: String,
    },
    /// Nothing changed: every object is reconciled again from time to time.
    Resync,
    /// Somebody asked for it: a channel, a source of keys, a handle of the controller, or the
    /// annotation `windlass.dev/reconcile` of the object.
    Requested,
}

/// All causes of one reconcile.
#[derive(Debug, Clone, Default)]
pub(super) struct Causes {
    pub(super) flags: u8,
    pub(super) named: Named,
}

/// The objects and the error that led to a reconcile. The first needs no allocation.
#[derive(Debug, Clone, Default)]
pub(super) struct Named {
    first: Option<NamedCause>,
    rest: Vec<NamedCause>,
    /// There were more than are named.
    others: bool,
}

#[derive(Debug, Clone)]
enum NamedCause {
    Object(ObjectChange),
    Retry(Arc<str>),
}

/// A change of an object, with its states as long as there is room for them.
#[derive(Debug, Clone)]
struct ObjectChange {
    kind: Kind,
    key: Key,
    created: bool,
    deleted: bool,
    manager: Option<Arc<str>>,
    states: Option<(Arc<Entry>, Arc<Entry>)>,
}

// === impl Causes ===

impl Causes {
    /// Returns all causes; finds out which fields changed if `fields`.
    pub(super) fn list(&self, fields: bool) -> Vec<Cause> {
        let flags = [
            (flag::STARTED, Cause::Started),
            (flag::DUE, Cause::Due),
            (flag::RESYNC, Cause::Resync),
            (flag::REQUESTED, Cause::Requested),
        ];
        let set = |flag: u8| self.flags & flag != 0;
        let named = self.named.iter().filter_map(|cause| match cause {
            NamedCause::Object(change) => Some(change.cause(fields)),
            // A retry that another cause came before is none.
            NamedCause::Retry(error) => {
                set(flag::RETRY).then(|| Cause::Retry { error: error.to_string() })
            }
        });
        let mut all: Vec<Cause> = named.collect();
        if self.named.others || set(flag::OBJECTS) && self.named.objects() == 0 {
            all.push(Cause::Others);
        }
        all.extend(flags.into_iter().filter(|(flag, _)| set(*flag)).map(|(_, cause)| cause));
        all
    }

    /// Returns all causes as one text, without fields.
    pub(super) fn text(&self) -> String {
        let all: Vec<String> = self.list(false).iter().map(ToString::to_string).collect();
        all.join(", ")
    }
}

// === impl Named ===

impl Named {
    fn iter(&self) -> impl Iterator<Item = &NamedCause> {
        self.first.iter().chain(&self.rest)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut NamedCause> {
        self.first.iter_mut().chain(&mut self.rest)
    }

    fn objects(&self) -> usize {
        self.iter().filter(|cause| matches!(cause, NamedCause::Object(_))).count()
    }

    fn push(&mut self, cause: NamedCause) {
        if self.first.is_none() {
            self.first = Some(cause);
        } else if self.rest.len() + 1 < NAMED_MAX {
            self.rest.push(cause);
        } else {
            self.others = true;
        }
    }

    /// Adds a change. One of an object that is named already becomes part of that.
    pub(super) fn add(&mut self, kind: &Kind, change: &Change) {
        let known = self.iter_mut().find_map(|cause| match cause {
            NamedCause::Object(known) if known.is(kind, change.key()) => Some(known),
            _ => None,
        });
        if let Some(known) = known {
            return known.merge(change);
        }
        self.push(NamedCause::Object(ObjectChange::new(kind, change)));
    }

    /// Replaces the error of the last reconcile.
    pub(super) fn retry(&mut self, error: &str) {
        let error = error.char_indices().nth(ERROR_MAX).map_or(error, |(end, _)| &error[..end]);
        let error: Arc<str> = error.into();
        if let Some(known) = self.iter_mut().find(|cause| matches!(cause, NamedCause::Retry(_))) {
            *known = NamedCause::Retry(error);
            return;
        }
        self.push(NamedCause::Retry(error));
    }

    /// Returns the bytes of the states that are held.
    pub(super) fn bytes(&self) -> usize {
        let states = self.iter().filter_map(|cause| match cause {
            NamedCause::Object(change) => change.states.as_ref(),
            NamedCause::Retry(_) => None,
        });
        states.map(|(old, new)| old.size() + new.size()).sum()
    }

    /// Lets all states go: which objects changed is still known, and which fields is not.
    pub(super) fn drop_states(&mut self) {
        for cause in self.iter_mut() {
            if let NamedCause::Object(change) = cause {
                change.states = None;
            }
        }
    }
}

// === impl ObjectChange ===

impl ObjectChange {
    fn new(kind: &Kind, change: &Change) -> Self {
        Self {
            kind: kind.clone(),
            key: change.key().clone(),
            created: change.old.is_none(),
            deleted: change.is_delete(),
            manager: change.new.as_ref().and_then(|new| new.manager()),
            states: change.old.clone().zip(change.new.clone()),
        }
    }

    fn is(&self, kind: &Kind, key: &Key) -> bool {
        self.key == *key && self.kind == *kind
    }

    fn merge(&mut self, later: &Change) {
        self.deleted = later.is_delete();
        self.manager = later.new.as_ref().and_then(|new| new.manager());
        if let (Some((_, newest)), Some(new)) = (&mut self.states, &later.new) {
            *newest = new.clone();
        }
    }

    fn cause(&self, fields: bool) -> Cause {
        let (kind, key) = (self.kind.clone(), self.key.clone());
        match (self.deleted, self.created, &self.states) {
            (true, ..) => Cause::Deleted { kind, key },
            (false, true, _) => Cause::Created { kind, key },
            (false, false, states) => {
                let states = states.as_ref().filter(|_| fields);
                let fields = states.map(|(old, new)| changed_fields(old, new)).unwrap_or_default();
                let manager = self.manager.as_deref().map(str::to_string);
                Cause::Changed { kind, key, fields, manager }
            }
        }
    }
}

// === impl Cause ===

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("the controller started"),
            Self::Created { kind, key } => write!(f, "{} {key} created", kind.kind()),
            Self::Changed { kind, key, fields, manager } => {
                write!(f, "{} {key} changed", kind.kind())?;
                if let Some(manager) = manager {
                    write!(f, " by {manager}")?;
                }
                let separator = if fields.is_empty() { "" } else { ": " };
                write!(f, "{separator}{}", fields.join(", "))
            }
            Self::Deleted { kind, key } => write!(f, "{} {key} deleted", kind.kind()),
            Self::Others => f.write_str("other objects changed"),
            Self::Due => f.write_str("due"),
            Self::Retry { error } => write!(f, "retry after: {error}"),
            Self::Resync => f.write_str("resync"),
            Self::Requested => f.write_str("requested"),
        }
    }
}

/// Returns the paths of the fields that differ.
fn changed_fields(old: &Entry, new: &Entry) -> Vec<String> {
    let mut fields = Vec::new();
    let (Ok(old), Ok(new)) = (old.decode::<Value>(), new.decode::<Value>()) else { return fields };
    if let Some(patch) = merge_diff(&old, &new) {
        collect(&patch, String::new(), 1, &mut fields);
    }
    fields
}

fn collect(patch: &Value, path: String, depth: usize, fields: &mut Vec<String>) {
    // Every write changes these.
    let bookkeeping = ["metadata.resourceVersion", "metadata.generation", "metadata.managedFields"];
    if fields.len() >= FIELDS_MAX || bookkeeping.contains(&path.as_str()) {
        return;
    }
    match patch {
        Value::Object(inner) if depth <= DEPTH_MAX && !inner.is_empty() => {
            for (name, value) in inner {
                let dot = if path.is_empty() { "" } else { "." };
                collect(value, format!("{path}{dot}{name}"), depth + 1, fields);
            }
        }
        _ if path.is_empty() => {}
        _ => fields.push(path),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn map(name: &str, body: &Value) -> ConfigMap {
        let mut map = body.clone();
        map["metadata"]["name"] = json!(name);
        map["metadata"]["namespace"] = json!("default");
        serde_json::from_value(map).expect("a config map")
    }

    fn change(old: Option<&ConfigMap>, new: Option<&ConfigMap>) -> Change {
        Change::between(old, new).expect("a change")
    }

    fn texts(causes: &Causes) -> Vec<String> {
        causes.list(true).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn changes_of_one_object_are_one_cause_from_the_first_state_to_the_last() {
        let kind = Kind::of::<ConfigMap>();
        let states: Vec<ConfigMap> = [
            json!({"data": {"a": "1"}}),
            json!({"data": {"a": "2"}}),
            json!({"data": {"a": "1"}, "metadata": {"labels": {"x": "y"}, "resourceVersion": "7"}}),
        ]
        .iter()
        .map(|body| map("m", body))
        .collect();
        let mut causes = Causes { flags: flag::OBJECTS, named: Named::default() };
        causes.named.add(&kind, &change(Some(&states[0]), Some(&states[1])));
        assert_eq!(texts(&causes), ["ConfigMap default/m changed: data.a"]);
        causes.named.add(&kind, &change(Some(&states[1]), Some(&states[2])));
        assert_eq!(texts(&causes), ["ConfigMap default/m changed: metadata.labels.x"]);
        causes.named.drop_states();
        assert_eq!(
            (texts(&causes), causes.named.bytes()),
            (vec!["ConfigMap default/m changed".into()], 0)
        );
        causes.named.add(&kind, &change(Some(&states[2]), None));
        assert_eq!(texts(&causes), ["ConfigMap default/m deleted"]);
    }

    #[test]
    fn causes_are_bounded_and_say_that_there_were_more() {
        let kind = Kind::of::<ConfigMap>();
        let mut causes = Causes { flags: flag::OBJECTS | flag::DUE, named: Named::default() };
        for at in 0..100 {
            causes.named.add(&kind, &change(None, Some(&map(&format!("m{at}"), &json!({})))));
        }
        let texts = texts(&causes);
        assert_eq!(texts.len(), NAMED_MAX + 2, "{texts:?}");
        assert_eq!(texts[0], "ConfigMap default/m0 created");
        assert_eq!(texts[NAMED_MAX..], ["other objects changed", "due"]);
        let unknown = Causes { flags: flag::OBJECTS, named: Named::default() };
        assert_eq!(unknown.list(true), [Cause::Others], "their names were not kept");
    }

    #[test]
    fn many_changed_fields_are_cut_off() {
        let data: serde_json::Map<String, Value> =
            (0..1000).map(|at| (format!("k{at}"), json!("v"))).collect();
        let (old, new) = (map("m", &json!({"data": {}})), map("m", &json!({"data": data})));
        let mut causes = Causes { flags: flag::OBJECTS, named: Named::default() };
        causes.named.add(&Kind::of::<ConfigMap>(), &change(Some(&old), Some(&new)));
        let [Cause::Changed { fields, .. }] = &causes.list(true)[..] else { panic!("one change") };
        assert_eq!(fields.len(), FIELDS_MAX);
    }
}
