//! Writes objects once more.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta};
use serde_json::{Value, json};

use super::definition::Definition;
use super::progress::{Progress, Result as Outcome};
use crate::cache::Key;
use crate::client::{Client, Patch};
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::manager::RunContext;

/// The time between two writes: 50 objects per second.
const PAUSE: Duration = Duration::from_millis(20);
/// How many writes may fail before a pass ends.
const FAILURES_MAX: usize = 20;
/// How often the managed fields of an object that others write are tried.
const TRIES_MAX: usize = 5;
/// How often a list may expire during one pass.
const EXPIRIES_MAX: usize = 10;

type Meta = PartialObjectMeta<DynamicObject>;

/// The current resource version of a kind.
pub(super) async fn revision(client: &Client, kind: &Kind) -> Result<u64> {
    let (_, page) = client.api_of::<Meta>(kind).page_after(None).await?;
    page.resource_version.parse().map_err(|_| {
        let text = "the server has no resource versions that can be compared";
        Error::Invalid(text.into())
    })
}

/// Returns why the conversion webhook does not answer, or `None` if it does, or if there is nothing to
/// convert.
///
/// An object is read in every served version, so that the API server has to convert it. Without its
/// webhook an API server could not rewrite objects of old versions, and would drop the managed fields
/// of those that it can write.
pub(super) async fn unconverted(
    client: &Client,
    definition: &Definition,
) -> Result<Option<String>> {
    for kind in definition.converted_kinds() {
        match client.api_of::<Meta>(&kind).list().limit(1).items().await {
            Ok(_) => {}
            Err(error) if error.status().is_some_and(|status| status.code >= 500) => {
                let version = kind.version();
                let why = error.chain();
                return Ok(Some(format!("objects cannot be read as {version}: {why}")));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Writes all objects that are not newer than `since`, and cleans the managed fields of all.
pub(super) async fn rewrite(
    cx: &RunContext,
    definition: &Definition,
    kind: &Kind,
    since: u64,
    progress: &Progress,
) -> Result<()> {
    let mut failures = Failures::default();
    let (mut next, mut expiries): (Option<String>, usize) = (None, 0);
    loop {
        let page = cx.client.api_of::<Meta>(kind).page_after(next.as_deref()).await;
        let (objects, page) = match page {
            // What was written already is newer, so beginning again repeats no write.
            Err(error) if is_expired(&error) && next.is_some() && expiries < EXPIRIES_MAX => {
                (next, expiries) = (None, expiries + 1);
                continue;
            }
            page => page?,
        };
        if let Some(why) = unconverted(&cx.client, definition).await? {
            return Err(Error::Other(why.into()));
        }
        for object in &objects {
            let outcome = one(&cx.client, definition, kind, &object.metadata, since).await;
            match outcome {
                Ok(None) => continue,
                Ok(Some(outcome)) => progress.count(&definition.name, outcome),
                Err(error @ Error::Fenced { .. }) => return Err(error),
                Err(error) => {
                    progress.count(&definition.name, Outcome::Failed);
                    failures.add(&object.metadata, &error);
                    if failures.count >= FAILURES_MAX {
                        return failures.end();
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        next = page.next.filter(|token| !token.is_empty());
        if next.is_none() {
            return failures.end();
        }
    }
}

fn is_expired(error: &Error) -> bool {
    error.status().is_some_and(|status| status.code == 410)
}

/// Writes one object if that is necessary. Returns `None` if it is not.
async fn one(
    client: &Client,
    definition: &Definition,
    kind: &Kind,
    meta: &ObjectMeta,
    since: u64,
) -> Result<Option<Outcome>> {
    let key = Key::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    let objects = client.api_of::<DynamicObject>(kind);
    let mut meta = meta.clone();
    for _ in 0..TRIES_MAX {
        let version = meta.resource_version.clone().unwrap_or_default();
        let is_old = version.parse().map_or(true, |version: u64| version <= since);
        let patch = match cleaned(definition, meta.managed_fields.as_deref().unwrap_or_default()) {
            Some(managed) => Patch::Json(json!([
                {"op": "replace", "path": "/metadata/managedFields", "value": managed},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            ])),
            None if is_old && definition.has_old_objects() => Patch::Merge(json!({
                "apiVersion": kind.api_version(), "kind": kind.kind(),
                "metadata": {"resourceVersion": version},
            })),
            None => return Ok(None),
        };
        match objects.patch(&key, &patch).await {
            Ok(_) => return Ok(Some(Outcome::Rewritten)),
            Err(error) if error.is_not_found() => return Ok(Some(Outcome::Gone)),
            // Somebody has written it in the meantime. Its managed fields may still be old.
            Err(error) if error.is_conflict() => {
                match client.api_of::<Meta>(kind).get(&key).await? {
                    Some(now) => meta = now.metadata.clone(),
                    None => return Ok(Some(Outcome::Gone)),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::Other(format!("it was changed {TRIES_MAX} times in a row").into()))
}

/// The managed fields without entries of versions that are not served; `None` if there are none.
///
/// An object without any entry would get one that owns everything at the next apply, so a last one
/// stays that owns nothing but the name.
fn cleaned(definition: &Definition, entries: &[ManagedFieldsEntry]) -> Option<Vec<Value>> {
    let is_gone = |entry: &&ManagedFieldsEntry| {
        entry.api_version.as_deref().is_some_and(|version| definition.is_gone(version))
    };
    let gone = entries.iter().find(is_gone)?;
    let kept: Vec<Value> = entries
        .iter()
        .filter(|entry| !is_gone(entry))
        .filter_map(|entry| serde_json::to_value(entry).ok())
        .collect();
    if !kept.is_empty() {
        return Some(kept);
    }
    Some(vec![json!({
        "manager": gone.manager, "operation": gone.operation, "time": gone.time,
        "apiVersion": definition.storage_api_version(),
        "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:name": {}}},
    })])
}

/// What went wrong in one pass.
#[derive(Default)]
struct Failures {
    count: usize,
    first: String,
}

// === impl Failures ===

impl Failures {
    fn add(&mut self, meta: &ObjectMeta, error: &Error) {
        if self.count == 0 {
            let name = meta.name.as_deref().unwrap_or_default();
            let key = Key::new(meta.namespace.as_deref(), name);
            self.first = format!("{key}: {}", error.chain());
        }
        self.count += 1;
    }

    fn end(self) -> Result<()> {
        match self.count {
            0 => Ok(()),
            1 => Err(Error::Other(format!("an object was not rewritten: {}", self.first).into())),
            count => {
                let text = format!("{count} objects were not rewritten, the first: {}", self.first);
                Err(Error::Other(text.into()))
            }
        }
    }
}
