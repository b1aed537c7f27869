//! Who changed which object, from the requests and the history of the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::LogEntry;
use windlass_apiserver::store::{Event, EventKind, ResourceKey};

use super::session::USER;
use super::view::Tag;
use crate::cluster::CONTROLLERS;
use crate::text::plain;

/// Changes whose request has not ended yet; older ones beyond this number are forgotten.
const PENDING_MAX: usize = 1_000;

/// Resources that change all the time and mean nothing to the author of an operator.
const NOISE: [&str; 6] = [
    "endpoints",
    "endpointslices",
    "controllerrevisions",
    "leases",
    "configmaps",
    "serviceaccounts",
];

/// What happened to the objects of a server.
pub struct History {
    server: ApiServer,
    /// The newest revision that was read.
    seen: u64,
    pending: BTreeMap<u64, (ResourceKey, Arc<Event>)>,
    operator: Option<String>,
}

/// Who sent a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Actor {
    Operator,
    Controllers,
    Command,
    Person,
}

// === impl History ===

impl History {
    /// Follows a server from now on.
    pub fn new(server: ApiServer) -> Self {
        Self { seen: server.revision(), server, pending: BTreeMap::new(), operator: None }
    }

    /// Sets the user of the operator.
    pub fn operator(&mut self, user: &str) {
        self.operator = Some(user.to_owned());
    }

    /// Returns what a request changed, as lines.
    pub fn read(&mut self, entry: &LogEntry) -> Vec<(Tag, String)> {
        let Some(written) = entry.written else { return Vec::new() };
        self.catch_up();
        let mut changes = Vec::new();
        if entry.request.verb == "deletecollection" {
            let of_request = |resource: &ResourceKey| *resource.plural == entry.request.resource;
            let earlier = self.pending.range(..written);
            let earlier: Vec<u64> =
                earlier.filter(|(_, (key, _))| of_request(key)).map(|(at, _)| *at).collect();
            changes.extend(earlier.iter().filter_map(|at| self.pending.remove(at)));
        }
        changes.extend(self.pending.remove(&written));
        let actor = self.actor(&entry.user);
        let lines = changes.iter().filter_map(|(resource, event)| {
            line(actor, resource, event, &entry.request.subresource)
        });
        lines.collect()
    }

    fn catch_up(&mut self) {
        match self.server.changes_since(self.seen) {
            Ok(changes) => {
                for (resource, event) in changes {
                    self.seen = self.seen.max(event.revision);
                    self.pending.insert(event.revision, (resource, event));
                }
            }
            // The view was too slow; what it missed is lost.
            Err(_) => self.seen = self.server.revision(),
        }
        while self.pending.len() > PENDING_MAX {
            self.pending.pop_first();
        }
    }

    fn actor(&self, user: &str) -> Actor {
        match user {
            CONTROLLERS => Actor::Controllers,
            USER => Actor::Command,
            user if self.operator.as_deref() == Some(user) => Actor::Operator,
            _ => Actor::Person,
        }
    }
}

/// A change as a line; `None` if it is not worth one.
fn line(
    actor: Actor,
    resource: &ResourceKey,
    event: &Event,
    subresource: &str,
) -> Option<(Tag, String)> {
    if &*resource.plural == "events" {
        return event_line(actor, event);
    }
    let tag = match actor {
        // The session shows what it applies.
        Actor::Command => return None,
        Actor::Operator => Tag::Operator,
        Actor::Person => Tag::You,
        // What the controllers of Kubernetes write in between is not shown.
        Actor::Controllers if event.kind == EventKind::Modified => return None,
        Actor::Controllers => Tag::Cluster,
    };
    if actor != Actor::Person && NOISE.contains(&&*resource.plural) && actor != Actor::Operator {
        return None;
    }
    let what = match (event.kind, subresource) {
        (EventKind::Added, _) => "created",
        (EventKind::Deleted, _) => "deleted",
        (EventKind::Modified, "status") => "changed its status",
        (EventKind::Modified, _) if deletion_began(event) => "is being deleted",
        (EventKind::Modified, _) => "changed",
    };
    let key = &event.entry.key;
    let name = match &*resource.group {
        "" => format!("{}/{}", resource.plural, key.name),
        group => format!("{}.{group}/{}", resource.plural, key.name),
    };
    let place = match &*key.namespace {
        "" => String::new(),
        namespace => format!(" in {namespace}"),
    };
    Some((tag, plain(&format!("{name}{place} {what}"))))
}

fn deletion_began(event: &Event) -> bool {
    let deleted = |body: &[u8]| {
        let object: Value = serde_json::from_slice(body).unwrap_or_default();
        !object["metadata"]["deletionTimestamp"].is_null()
    };
    let before = event.previous.as_ref().is_some_and(|entry| deleted(&entry.body));
    !before && deleted(&event.entry.body)
}

/// An Event that is written for people: all of the operator, and the warnings of others.
fn event_line(actor: Actor, event: &Event) -> Option<(Tag, String)> {
    if event.kind == EventKind::Deleted {
        return None;
    }
    let object: Value = serde_json::from_slice(&event.entry.body).ok()?;
    let first = |fields: [&str; 2]| {
        let found = fields.into_iter().find_map(|field| object[field].as_str());
        found.unwrap_or_default().to_owned()
    };
    let kind = object["type"].as_str().unwrap_or("Normal");
    if actor != Actor::Operator && kind != "Warning" {
        return None;
    }
    let regarding = ["regarding", "involvedObject"].into_iter().map(|field| &object[field]);
    let regarding = regarding.into_iter().find(|value| value.is_object()).unwrap_or(&Value::Null);
    let text = |field: &str| regarding[field].as_str().unwrap_or_default();
    let (reason, note) =
        (object["reason"].as_str().unwrap_or_default(), first(["note", "message"]));
    let (about, name) = (text("kind").to_lowercase(), text("name"));
    Some((Tag::Event, plain(&format!("{kind} {reason} {about}/{name}: {note}"))))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{DeleteParams, ListParams, PostParams};
    use serde_json::json;
    use std::sync::Mutex;
    use windlass_apiserver::User;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_are_attributed_to_those_who_made_them() {
        let server = ApiServer::start();
        let entries: Arc<Mutex<Vec<LogEntry>>> = Arc::default();
        let sink = entries.clone();
        server
            .request_log()
            .set_sink(Box::new(move |entry| sink.lock().unwrap().push(entry.clone())));
        let mut history = History::new(server.clone());
        let account = User::admin("system:serviceaccount:shop:manager");
        history.operator(&account.name);

        let create = async |user: User, name: &str| {
            let api: Api<ConfigMap> = Api::namespaced(server.client_as(user), "default");
            let map = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            api.create(&PostParams::default(), &map).await.unwrap();
            api
        };
        create(account, "a").await;
        create(User::admin(CONTROLLERS), "noise").await;
        create(User::admin(USER), "applied").await;
        let mine = create(User::admin("kubernetes-admin"), "b").await;
        mine.delete("a", &DeleteParams::default()).await.unwrap();
        let all = ListParams::default();
        mine.delete_collection(&DeleteParams::default(), &all).await.unwrap();

        let entries = std::mem::take(&mut *entries.lock().unwrap());
        let lines: Vec<(Tag, String)> =
            entries.iter().flat_map(|entry| history.read(entry)).collect();
        let line = |tag, text: &str| (tag, text.to_owned());
        let expected = [
            line(Tag::Operator, "configmaps/a in default created"),
            line(Tag::You, "configmaps/b in default created"),
            line(Tag::You, "configmaps/a in default deleted"),
            line(Tag::You, "configmaps/applied in default deleted"),
            line(Tag::You, "configmaps/b in default deleted"),
            line(Tag::You, "configmaps/noise in default deleted"),
        ];
        assert_eq!(lines, expected);
    }
}
