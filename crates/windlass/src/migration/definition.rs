//! The definition of a kind, as far as its storage is concerned.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cache::Key;
use crate::client::{Client, Patch};
use crate::error::Result;
use crate::kind::Kind;

/// The annotation that records how far a migration is.
pub(super) const ANNOTATION: &str = "windlass.dev/storage-migration";

/// What the annotation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The generation of the definition.
    pub(super) generation: i64,
    /// Objects with a larger resource version were written in the storage version.
    pub(super) since: u64,
    /// Whether all objects were.
    pub(super) done: bool,
}

pub(super) struct Definition {
    pub(super) name: String,
    pub(super) generation: i64,
    /// The version in which objects are stored.
    pub(super) storage: String,
    /// All versions in which objects may be stored.
    pub(super) stored: Vec<String>,
    pub(super) group: String,
    served: BTreeSet<String>,
    /// Whether a webhook converts between the versions.
    converts: bool,
    kind: Kind,
    resource_version: String,
    note: Option<Note>,
}

// === impl Definition ===

impl Definition {
    pub(super) async fn read(client: &Client, name: &str) -> Result<Option<Self>> {
        let found = client.api::<CustomResourceDefinition>().get(&Key::cluster(name)).await?;
        Ok(found.and_then(|found| Self::of(&found)))
    }

    /// Returns `None` for a definition without a storage version or without a status, which the
    /// server has not looked at yet.
    fn of(found: &CustomResourceDefinition) -> Option<Self> {
        let spec = &found.spec;
        let storage = spec.versions.iter().find(|version| version.storage)?.name.clone();
        let served = spec.versions.iter().filter(|version| version.served);
        let kind = Kind::new(&spec.group, &storage, &spec.names.kind, &spec.names.plural);
        let kind = if spec.scope == "Cluster" { kind.cluster_scoped() } else { kind };
        let annotations = found.metadata.annotations.as_ref();
        let note = annotations.and_then(|all| all.get(ANNOTATION));
        Some(Self {
            name: found.metadata.name.clone()?,
            generation: found.metadata.generation.unwrap_or_default(),
            stored: found.status.as_ref()?.stored_versions.clone().unwrap_or_default(),
            group: spec.group.clone(),
            served: served.map(|version| version.name.clone()).collect(),
            resource_version: found.metadata.resource_version.clone()?,
            note: note.and_then(|text| serde_json::from_str(text).ok()),
            converts: spec.conversion.as_ref().is_some_and(|how| how.strategy == "Webhook"),
            storage,
            kind,
        })
    }

    /// Returns `true` if this generation needs nothing more.
    pub(super) fn is_migrated(&self) -> bool {
        self.is_trimmed() && self.current().is_some_and(|note| note.done)
    }

    fn is_trimmed(&self) -> bool {
        self.stored == [self.storage.clone()]
    }

    /// The note of this generation.
    fn current(&self) -> Option<Note> {
        self.note.filter(|note| note.generation == self.generation)
    }

    /// Where a migration that has begun continues. One that is done and has to be done again, because
    /// somebody restored `storedVersions`, begins anew.
    pub(super) fn since(&self) -> Option<u64> {
        self.current().filter(|note| !note.done).map(|note| note.since)
    }

    /// Returns `true` if objects may be stored in another version.
    pub(super) fn has_old_objects(&self) -> bool {
        !self.is_trimmed()
    }

    /// The kind of the storage version, if that is served.
    pub(super) fn stored_kind(&self) -> Option<Kind> {
        self.served.contains(&self.storage).then(|| self.kind.clone())
    }

    /// The kinds of all served versions, if a webhook converts between them.
    pub(super) fn converted_kinds(&self) -> Vec<Kind> {
        let versions = self.served.iter().filter(|_| self.converts);
        let kind = |version: &String| {
            let kind = Kind::new(&self.group, version, self.kind.kind(), self.kind.plural());
            if self.kind.namespaced() { kind } else { kind.cluster_scoped() }
        };
        versions.map(kind).collect()
    }

    /// Returns `true` if an entry of `managedFields` is of a version that is not served.
    pub(super) fn is_gone(&self, api_version: &str) -> bool {
        api_version
            .split_once('/')
            .is_some_and(|(group, version)| group == self.group && !self.served.contains(version))
    }

    pub(super) fn storage_api_version(&self) -> String {
        self.kind.api_version()
    }

    /// Writes the annotation.
    pub(super) async fn write(&self, client: &Client, note: &Note) -> Result<()> {
        let text = serde_json::to_string(note)?;
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: text}}}));
        let definitions = client.api::<CustomResourceDefinition>();
        definitions.patch(&Key::cluster(&self.name), &patch).await.map(drop)
    }

    /// Removes all versions but the storage version from `status.storedVersions`, unless the
    /// definition was changed.
    pub(super) async fn trim(&self, client: &Client) -> Result<()> {
        if self.is_trimmed() {
            return Ok(());
        }
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": self.resource_version},
            "status": {"storedVersions": [self.storage]},
        }));
        let status = client.api::<CustomResourceDefinition>().subresource("status");
        status.patch(&Key::cluster(&self.name), &patch).await.map(drop)
    }
}
