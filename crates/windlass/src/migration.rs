//! Storage migration: after an upgrade, stored objects are rewritten in the new storage version.
//!
//! The API server stores an object in the storage version of its definition when it is written, and
//! never touches it otherwise; `status.storedVersions` lists every version that may be stored. The
//! leader writes all objects once more, without changing them, and then removes all other versions
//! from the list, so that the next release can drop them. It also removes entries of `managedFields`
//! whose version is no longer served: they make server-side apply fail.
//!
//! For each definition:
//! 1. wait until the rollout of the operator is complete, so that every replica can convert, and until
//!    the conversion webhook answers;
//! 2. read the current resource version, and record it in an annotation of the definition;
//! 3. write every object that is older, page by page, at a limited rate;
//! 4. trim `storedVersions`, if all objects were written, the definition has not changed, and still no
//!    other replica runs;
//! 5. record in the annotation that this generation of the definition is done.
//!
//! **Invariant:** `storedVersions` is trimmed only after every object that existed at step 2 was
//! written or deleted.
//! **Invariant:** a crash at any request repeats requests, but never a write that has happened: an
//! object that was written is newer than the recorded resource version.

mod definition;
mod objects;
mod progress;
mod rollout;

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::cache::Key;
use crate::error::{Error, Result};
use crate::events::EventType;
use crate::kind::Kind;
use crate::manager::RunContext;
use definition::{Definition, Note};
pub(crate) use progress::Progress;
pub(crate) use rollout::Place;

/// How long API servers may take to see a changed definition.
const PROPAGATION: Duration = Duration::from_secs(30);
/// How often the rollout of the operator is looked at.
const ROLLOUT_EVERY: Duration = Duration::from_secs(10);
/// How often definitions are looked at once all are migrated.
const IDLE_EVERY: Duration = Duration::from_secs(600);
/// The first and the longest wait after a failure.
const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// What is migrated.
pub(crate) struct Migration {
    /// The names of the definitions.
    pub(crate) definitions: Vec<String>,
    pub(crate) place: Place,
    pub(crate) progress: Progress,
}

/// How far a definition is.
enum State {
    Done,
    /// Not started, because of this.
    Waiting(String),
}

// === impl Migration ===

impl Migration {
    /// Migrates all definitions, now and whenever one of them changes.
    ///
    /// May be dropped at any time.
    pub(crate) async fn run(self, cx: RunContext) -> Result<()> {
        tokio::select! {
            biased;
            () = cx.stopping() => Ok(()),
            () = self.work(&cx) => Ok(()),
        }
    }

    async fn work(&self, cx: &RunContext) {
        let mut retry = RETRY.0;
        loop {
            let (mut next, mut failed) = (IDLE_EVERY, false);
            for name in &self.definitions {
                match self.migrate(cx, name).await {
                    Ok(State::Done) => self.progress.pending(name, false),
                    Ok(State::Waiting(why)) => {
                        tracing::info!(definition = name, why, "storage migration waits");
                        self.progress.pending(name, true);
                        next = next.min(ROLLOUT_EVERY);
                    }
                    Err(error) => {
                        self.progress.pending(name, true);
                        self.failed(cx, name, &error);
                        (next, failed) = (next.min(retry), true);
                    }
                }
            }
            retry = if failed { (retry * 2).min(RETRY.1) } else { RETRY.0 };
            tokio::time::sleep(next).await;
        }
    }

    fn failed(&self, cx: &RunContext, name: &str, error: &Error) {
        let why = error.chain();
        tracing::warn!(definition = name, error = why, "storage migration failed, it is retried");
        // Without the lease, the event could not be written either.
        if matches!(error, Error::Fenced { .. }) {
            return;
        }
        let note = format!("{why}; it is retried");
        publish(cx, name, EventType::Warning, "StorageMigrationFailed", note);
    }

    async fn migrate(&self, cx: &RunContext, name: &str) -> Result<State> {
        let client = &cx.client;
        let Some(definition) = Definition::read(client, name).await? else {
            return Ok(State::Done);
        };
        if definition.is_migrated() {
            return Ok(State::Done);
        }
        if let Some(why) = rollout::unfinished(client, &self.place, &cx.replica).await? {
            return Ok(State::Waiting(why));
        }
        let Some(kind) = definition.stored_kind() else {
            let storage = &definition.storage;
            return Err(Error::Invalid(format!(
                "objects of {name} cannot be rewritten, because the storage version {storage} is not \
                 served"
            )));
        };
        if let Some(why) = objects::unconverted(client, &definition).await? {
            return Ok(State::Waiting(why));
        }
        let since = match definition.since() {
            Some(since) => since,
            None => self.begin(cx, &definition, &kind).await?,
        };
        objects::rewrite(cx, &definition, &kind, since, &self.progress).await?;
        self.trim(cx, &definition, since).await
    }

    /// Records from which resource version on objects are written in the storage version.
    async fn begin(&self, cx: &RunContext, definition: &Definition, kind: &Kind) -> Result<u64> {
        self.progress.pending(&definition.name, true);
        tokio::time::sleep(PROPAGATION).await;
        let since = objects::revision(&cx.client, kind).await?;
        let note = Note { generation: definition.generation, since, done: false };
        definition.write(&cx.client, &note).await?;
        let versions = definition.stored.join(", ");
        let text = format!("rewriting objects stored in {versions} as {}", definition.storage);
        publish(cx, &definition.name, EventType::Normal, "StorageMigrationStarted", text);
        Ok(since)
    }

    async fn trim(&self, cx: &RunContext, before: &Definition, since: u64) -> Result<State> {
        let client = &cx.client;
        let name = &before.name;
        let changed = || Error::Other(format!("{name} was changed while it was migrated").into());
        let now = Definition::read(client, name).await?.ok_or_else(changed)?;
        if now.generation != before.generation {
            return Err(changed());
        }
        if let Some(why) = rollout::unfinished(client, &self.place, &cx.replica).await? {
            return Ok(State::Waiting(why));
        }
        now.trim(client).await?;
        let note = Note { generation: now.generation, since, done: true };
        now.write(client, &note).await?;
        let text = format!("all objects are stored as {}", now.storage);
        publish(cx, name, EventType::Normal, "StorageMigrated", text);
        tracing::info!(definition = %name, version = now.storage, "storage migrated");
        Ok(State::Done)
    }
}

fn publish(cx: &RunContext, name: &str, event_type: EventType, reason: &str, note: String) {
    let about = Key::cluster(name).object_reference(&Kind::of::<CustomResourceDefinition>());
    cx.recorder.publish(event_type, about, reason, "MigrateStorage", note);
}
