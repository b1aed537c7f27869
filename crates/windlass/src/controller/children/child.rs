//! One wanted child: what is sent for it, and whether anything has to be sent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::{Value, json};

use super::mark::Mark;
use super::memory::{Applied, Memory, hash_of};
use super::rule::with_rule;
use crate::apply::hash_of_part;
use crate::cache::{Entry, Key};
use crate::client::{Client, Patch};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::owner;
use crate::readiness::Readiness;

/// An object of which only the metadata is read.
pub(super) type Metadata = PartialObjectMeta<DynamicObject>;

/// A child that is wanted.
pub(super) struct Child {
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) wave: usize,
    /// The object as the author wrote it.
    pub(super) json: Vec<u8>,
    /// What it is called and the hash of the value, if it runs once for each value.
    pub(super) once: Option<(String, String)>,
}

/// What applying a child needs.
pub(super) struct Applier<'a> {
    pub(super) client: &'a Client,
    pub(super) memory: &'a Memory,
    pub(super) mark: &'a Mark,
    pub(super) owner: &'a ObjectMeta,
    pub(super) owner_kind: &'a Kind,
    pub(super) clock: &'a Clock,
}

// === impl Applier ===

impl Applier<'_> {
    /// Applies a child, unless the cache shows that nothing would change.
    pub(super) async fn apply(&self, child: &Child) -> Result<Readiness> {
        let (kind, key) = (&child.kind, &child.key);
        let cached = self.client.cached().whole_entry(kind, key);
        let last = self.memory.applied(kind, key);
        // An author's map without an order gives other bytes for the same object.
        let wanted = hash_of(&child.json) ^ hash_of(self.mark.uid().as_bytes());
        if let (Ok(Some(entry)), Some(last)) = (&cached, &last)
            && last.wanted == wanted
            && same_state(entry, last)
            && !is_timed(&last.readiness)
        {
            return Ok(last.readiness.clone());
        }
        let body = self.body(child)?;
        let sent = hash_of(body.to_string().as_bytes());
        if let Ok(Some(entry)) = &cached {
            let current: Value = serde_json::from_slice(&entry.json())
                .map_err(|source| Error::Decode { what: format!("{kind} {key}"), source })?;
            let stored = hash_of_part(&current, &body);
            let readiness = Readiness::of_json(&current, self.clock.now());
            // An object that is being deleted is created again once it is gone.
            let unchanged = last
                .is_some_and(|last| last.sent == sent && stored.is_some() && stored == last.stored);
            if unchanged || entry.deleting() {
                let (uid, version) = (entry.uid().into(), entry.version());
                let seen = Applied { wanted, sent, stored, uid, version, readiness };
                let readiness = seen.readiness.clone();
                if unchanged {
                    self.memory.remember(kind, key, seen);
                }
                return Ok(readiness);
            }
        }
        let Some(_held) = self.memory.enter(kind, key) else {
            return Err(refused(kind, key, "another object applies it right now"));
        };
        self.check(child, cached.ok()).await?;
        self.send(child, body, wanted, sent).await
    }

    /// Refuses a child that belongs to somebody else.
    async fn check(
        &self,
        child: &Child,
        cached: Option<Option<std::sync::Arc<Entry>>>,
    ) -> Result<()> {
        let (kind, key) = (&child.kind, &child.key);
        let current: Option<ObjectMeta> = match cached {
            Some(None) => None,
            Some(Some(entry)) => {
                let found: Metadata = entry.decode()?;
                Some(found.metadata)
            }
            None => {
                let api = self.client.api_of::<Metadata>(kind);
                let found = api.get(key).await.map_err(|error| with_rule(error, kind, "get"))?;
                found.map(|found| found.metadata.clone())
            }
        };
        match current.and_then(|current| self.mark.other_owner(&current)) {
            None => Ok(()),
            Some(other) => Err(refused(kind, key, &other)),
        }
    }

    async fn send(&self, child: &Child, body: Value, wanted: u64, sent: u64) -> Result<Readiness> {
        let (kind, key) = (&child.kind, &child.key);
        self.memory.forget(kind, key);
        let patch = Patch::Apply { object: body.clone(), force: true };
        let answer = self.client.api_of::<DynamicObject>(kind).patch(key, &patch).await;
        let answer = answer.map_err(|error| with_rule(error, kind, "patch"))?;
        let metadata = &answer.metadata;
        let uid = metadata.uid.clone().unwrap_or_default().into();
        let version = metadata.resource_version.as_deref().and_then(|v| v.parse().ok());
        let current = serde_json::to_value(answer)
            .map_err(|source| Error::Decode { what: format!("{kind} {key}"), source })?;
        let readiness = Readiness::of_json(&current, self.clock.now());
        let stored = hash_of_part(&current, &body);
        let version = version.unwrap_or(0);
        let applied = Applied { wanted, sent, stored, uid, version, readiness: readiness.clone() };
        // A value that the server stores elsewhere, such as `stringData`, cannot be compared.
        if stored.is_some() {
            self.memory.remember(kind, key, applied);
        }
        Ok(readiness)
    }

    /// Returns the object to send: with its type, its owner and its mark.
    fn body(&self, child: &Child) -> Result<Value> {
        let (kind, key) = (&child.kind, &child.key);
        let decode = |source| Error::Decode { what: format!("{kind} {key}"), source };
        let mut body: Value = serde_json::from_slice(&child.json).map_err(decode)?;
        body["apiVersion"] = json!(kind.api_version());
        body["kind"] = json!(kind.kind());
        let mut metadata: ObjectMeta =
            serde_json::from_value(body["metadata"].take()).map_err(decode)?;
        metadata.namespace = key.namespace().map(str::to_string);
        (metadata.managed_fields, metadata.resource_version) = (None, None);
        (metadata.generation, metadata.uid, metadata.creation_timestamp) = (None, None, None);
        if owner::may_own(self.owner, &metadata) {
            owner::set_controller_with(self.owner, self.owner_kind, &mut metadata)?;
        }
        self.mark.set(&mut metadata);
        body["metadata"] = serde_json::to_value(metadata).map_err(decode)?;
        Ok(body)
    }
}

/// Returns `true` if a cached object is in the state in which it was compared last.
fn same_state(entry: &Entry, last: &Applied) -> bool {
    last.stored.is_some() && entry.version() == last.version && *entry.uid() == *last.uid
}

/// Returns `true` if time alone changes the readiness.
pub(super) fn is_timed(readiness: &Readiness) -> bool {
    readiness.reason() == "PodNotScheduled"
}

/// The error of a child that is left alone.
fn refused(kind: &Kind, key: &Key, why: &str) -> Error {
    Error::Invalid(format!("{} {key} is not touched: {why}", kind.kind()))
}
