//! One wanted child: what is sent for it, and whether anything has to be sent.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::{Value, json};

use super::mark::Mark;
use super::memory::{Applied, Memory, hash_of};
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

/// Whom an object belongs to that is not somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Free {
    Ours,
    Nobodys,
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
        self.take(child, cached.ok(), body, (wanted, sent)).await
    }

    /// Applies a child that runs once for each value, unless it exists: what runs stays as it is.
    pub(super) async fn apply_once(&self, child: &Child) -> Result<Readiness> {
        let (kind, key) = (&child.kind, &child.key);
        let decode = |source| Error::Decode { what: format!("{kind} {key}"), source };
        let current: Option<Value> = match self.client.cached().whole_entry(kind, key) {
            Ok(Some(entry)) => Some(serde_json::from_slice(&entry.json()).map_err(decode)?),
            Ok(None) => None,
            Err(_) => {
                let found = self.client.api_of::<DynamicObject>(kind).get(key).await?;
                found.map(|found| serde_json::to_value(&*found)).transpose().map_err(decode)?
            }
        };
        if let Some(current) = current {
            let metadata = serde_json::from_value(current["metadata"].clone()).map_err(decode)?;
            if self.is_free(child, &metadata)? == Free::Ours {
                return Ok(Readiness::of_json(&current, self.clock.now()));
            }
        }
        self.apply(child).await
    }

    /// Sends a child, unless it belongs to somebody else.
    async fn take(
        &self,
        child: &Child,
        cached: Option<Option<Arc<Entry>>>,
        body: Value,
        hashes: (u64, u64),
    ) -> Result<Readiness> {
        let current = match cached {
            Some(Some(entry)) => Some(entry.decode::<Metadata>()?.metadata),
            // The server lets an object have a single controller. Where the child has no owner
            // reference, the mark alone keeps owners apart, and the cache may lag behind.
            Some(None) if self.owns(&body) => None,
            _ => self.read(child).await?,
        };
        let done = self.send(child, current.as_ref(), &body, hashes).await;
        match (done, current) {
            (Err(error), None) if error.is_conflict() => match self.read(child).await? {
                // It was created at the same time.
                Some(found) => self.send(child, Some(&found), &body, hashes).await,
                None => Err(error),
            },
            (done, _) => done,
        }
    }

    async fn read(&self, child: &Child) -> Result<Option<ObjectMeta>> {
        let found = self.client.api_of::<Metadata>(&child.kind).get(&child.key).await?;
        Ok(found.map(|found| found.metadata.clone()))
    }

    /// Refuses a child that belongs to somebody else.
    fn is_free(&self, child: &Child, current: &ObjectMeta) -> Result<Free> {
        match self.mark.other_owner(current) {
            Some(other) => Err(refused(&child.kind, &child.key, &other)),
            None if self.mark.is_on(current) => Ok(Free::Ours),
            None => Ok(Free::Nobodys),
        }
    }

    /// Sends a child over the object that was read, or in the belief that there is none.
    async fn send(
        &self,
        child: &Child,
        current: Option<&ObjectMeta>,
        body: &Value,
        (wanted, sent): (u64, u64),
    ) -> Result<Readiness> {
        let (kind, key) = (&child.kind, &child.key);
        let mut object = body.clone();
        let force = match current {
            // The fields of an object that somebody else creates meanwhile are not taken over.
            None => false,
            Some(current) => {
                if self.is_free(child, current)? == Free::Nobodys {
                    // Somebody else may take it over meanwhile.
                    object["metadata"]["resourceVersion"] = json!(current.resource_version);
                }
                true
            }
        };
        self.memory.forget(kind, key);
        let patch = Patch::Apply { object, force };
        let answer = self.client.api_of::<DynamicObject>(kind).patch(key, &patch).await?;
        let metadata = &answer.metadata;
        let uid = metadata.uid.clone().unwrap_or_default().into();
        let version = metadata.resource_version.as_deref().and_then(|v| v.parse().ok());
        let current = serde_json::to_value(answer)
            .map_err(|source| Error::Decode { what: format!("{kind} {key}"), source })?;
        let readiness = Readiness::of_json(&current, self.clock.now());
        let stored = hash_of_part(&current, body);
        let version = version.unwrap_or(0);
        let applied = Applied { wanted, sent, stored, uid, version, readiness: readiness.clone() };
        // A value that the server stores elsewhere, such as `stringData`, cannot be compared.
        if stored.is_some() {
            self.memory.remember(kind, key, applied);
        }
        Ok(readiness)
    }

    /// Returns `true` if what is sent has a reference to the owner.
    fn owns(&self, body: &Value) -> bool {
        let references = body["metadata"]["ownerReferences"].as_array();
        references.into_iter().flatten().any(|reference| reference["uid"] == self.mark.uid())
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
