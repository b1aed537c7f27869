//! Revisions of a pod template: ControllerRevisions, their names, their order, their end.
//!
//! **Invariant:** equal templates share one revision; a rollback raises the number of the old one.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};
use windlass::client::{Deletion, Patch};
use windlass::{Context, Error, Key, Object, Result, owner};

/// The label that carries the hash of a StatefulSet's revision.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// How many names are tried for one revision.
const COLLISIONS_MAX: i32 = 100;

const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The revisions that belong to the reconciled object, oldest first; orphans are taken.
pub async fn list<O: Object<DynamicType = ()>>(
    cx: &Context<O>,
    selector: &LabelSelector,
) -> Result<Vec<Arc<ControllerRevision>>> {
    let all = |_: &ControllerRevision| true;
    let mut revisions = cx.claim(selector.clone(), None, all).await?;
    sort(&mut revisions);
    Ok(revisions)
}

/// Oldest first; equal numbers by age, then by name.
pub fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by(|a, b| {
        let created = |r: &ControllerRevision| r.metadata.creation_timestamp.as_ref().map(|t| t.0);
        let rank = |r: &ControllerRevision| (r.revision, created(r));
        rank(a).cmp(&rank(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
}

/// The number after the newest.
pub fn next_number(revisions: &[Arc<ControllerRevision>]) -> i64 {
    revisions.last().map_or(1, |last| last.revision.saturating_add(1))
}

/// Returns what a revision stores: a patch that replaces the whole pod template.
pub fn data<O: Object<DynamicType = ()>>(cx: &Context<O>) -> Result<Value> {
    let object = cx.client().cached().json(cx.kind(), cx.key())?.unwrap_or_default();
    let mut template = object.pointer("/spec/template").cloned().unwrap_or_else(|| json!({}));
    template["$patch"] = json!("replace");
    Ok(json!({"spec": {"template": template}}))
}

/// The pod template a revision stores.
pub fn template(revision: &ControllerRevision) -> Result<PodTemplateSpec> {
    let data = revision.data.as_ref().map(|RawExtension(value)| value);
    let mut template = data.and_then(|d| d.pointer("/spec/template")).cloned().unwrap_or_default();
    if let Some(map) = template.as_object_mut() {
        map.remove("$patch");
    }
    serde_json::from_value(template).map_err(|error| {
        Error::from(format!("template of revision {} cannot be read: {error}", name(revision)))
    })
}

/// The name of a revision.
pub fn name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

/// Returns `true` if a revision stores this.
pub fn stores(revision: &ControllerRevision, data: &Value) -> bool {
    revision.data.as_ref().is_some_and(|RawExtension(stored)| stored == data)
}

/// The hash of a revision, in the letters of generated names.
pub fn hash(data: &Value, collisions: i32) -> String {
    let mut text = data.to_string();
    // The form in which Go writes JSON, so that the hash is the same.
    for (plain, escaped) in [
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ] {
        if text.contains(plain) {
            text = text.replace(plain, escaped);
        }
    }
    text.push_str(&collisions.to_string());
    safe(&fnv1(text.as_bytes()).to_string())
}

fn fnv1(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte);
    bytes.iter().fold(0x811c_9dc5, step)
}

fn safe(text: &str) -> String {
    text.bytes().map(|b| char::from(ALPHABET[usize::from(b) % ALPHABET.len()])).collect()
}

/// A revision to be created.
pub struct Draft<'a> {
    /// The label that carries the hash.
    pub label: &'a str,
    /// The labels of the pod template.
    pub labels: std::collections::BTreeMap<String, String>,
    /// What it stores.
    pub data: &'a Value,
    /// Its number.
    pub number: i64,
}

/// Creates a revision under a free name; raises `collisions` for every name that is taken.
pub async fn create<O: Object<DynamicType = ()>>(
    cx: &Context<O>,
    parent: &O,
    draft: Draft<'_>,
    collisions: &mut i32,
) -> Result<ControllerRevision> {
    let stem: String = cx.name().chars().take(223).collect();
    while *collisions < COLLISIONS_MAX {
        let hash = hash(draft.data, *collisions);
        let mut labels = draft.labels.clone();
        labels.insert(draft.label.into(), hash.clone());
        let mut revision = ControllerRevision {
            metadata: ObjectMeta {
                name: Some(format!("{stem}-{hash}")),
                namespace: cx.namespace().map(Into::into),
                labels: Some(labels),
                annotations: parent.meta().annotations.clone(),
                ..ObjectMeta::default()
            },
            data: Some(RawExtension(draft.data.clone())),
            revision: draft.number,
        };
        owner::set_controller(parent, &mut revision)?;
        match cx.client().api().create(&revision).await {
            Err(error) if error.is_already_exists() => {}
            other => return other,
        }
        let there = cx.client().api::<ControllerRevision>().get(&Key::of(&revision)).await?;
        match there {
            Some(there) if stores(&there, draft.data) => return Ok((*there).clone()),
            _ => *collisions = collisions.saturating_add(1),
        }
    }
    Err(Error::Invalid(format!("no free name for a revision of {}", cx.key())))
}

/// Gives a revision another number.
pub async fn renumber<O: Object<DynamicType = ()>>(
    cx: &Context<O>,
    revision: &ControllerRevision,
    number: i64,
) -> Result<Arc<ControllerRevision>> {
    let patch = Patch::Merge(json!({"revision": number}));
    cx.client().api::<ControllerRevision>().patch(&Key::of(revision), &patch).await.map(Arc::new)
}

/// Deletes the oldest revisions that nothing uses, so that `limit` of those are left.
pub async fn truncate<O: Object<DynamicType = ()>>(
    cx: &Context<O>,
    revisions: &[Arc<ControllerRevision>],
    used: &BTreeSet<String>,
    limit: i32,
) -> Result<()> {
    let idle: Vec<_> = revisions.iter().filter(|r| !used.contains(name(r))).collect();
    let surplus = idle.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    for revision in idle.into_iter().take(surplus) {
        let api = cx.client().api::<ControllerRevision>();
        api.delete(Deletion::only(&**revision)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_upstream() {
        assert_eq!(fnv1(b""), 0x811c_9dc5);
        assert_eq!(fnv1(b"a"), 0x050c_5d7e);
        assert_eq!(safe("0123456789"), "456789bcdf");
    }

    #[test]
    fn what_go_escapes_is_escaped() {
        assert_eq!(hash(&json!({"a": "<"}), 0), safe(&fnv1(b"{\"a\":\"\\u003c\"}0").to_string()));
    }
}
