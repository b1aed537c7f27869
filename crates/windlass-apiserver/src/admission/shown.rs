//! A write as webhooks and policies are shown it: in the version and the kind they asked for.

use std::sync::Arc;

use serde_json::Value;

use super::Review;
use crate::decode;
use crate::handler::{Call, Rules};
use crate::object;
use crate::resource::{Gvk, Resource};
use crate::server::Inner;
use crate::status::{Result, Status};

/// The objects of a review in another version, or as another kind (`Scale`).
pub(super) struct Shown {
    /// The resource in the version that is shown.
    pub resource: Arc<Resource>,
    /// The kind of the objects.
    pub kind: Gvk,
    /// The new object.
    pub object: Option<Value>,
    /// The stored object.
    pub old: Option<Value>,
}

/// The kind of the objects of a resource or its subresource.
pub(crate) fn kind_of(resource: &Resource, subresource: &str) -> Gvk {
    match resource.subresources.get(subresource) {
        Some(sub) if sub.gvk.version.is_empty() => {
            Gvk { kind: sub.gvk.kind.clone(), ..resource.gvk.clone() }
        }
        Some(sub) => sub.gvk.clone(),
        None => resource.gvk.clone(),
    }
}

fn is_scale(review: &Review<'_>) -> bool {
    review.subresource == "scale"
}

impl Inner {
    /// Shows a review in the version of a resource.
    pub(super) async fn show(
        &self,
        review: &Review<'_>,
        resource: Arc<Resource>,
        call: &Call,
    ) -> Result<Shown> {
        let kind = kind_of(&resource, review.subresource);
        let mut objects = [review.object.clone(), review.old.cloned()];
        for object in objects.iter_mut().flatten() {
            if is_scale(review) {
                *object = call.scale_of(object)?;
            } else if resource.gvk != review.resource.gvk && kind == resource.gvk {
                let taken = std::mem::take(object);
                *object = self.convert_between(review.resource, &resource, taken).await?;
            }
        }
        let [object, old] = objects;
        Ok(Shown { resource, kind, object, old })
    }

    /// Takes over what a webhook made of the shown object. Returns `true` if it changed anything.
    pub(super) async fn take_patched(
        &self,
        review: &mut Review<'_>,
        shown: &Shown,
        patched: Value,
        call: &Call,
    ) -> Result<bool> {
        let mut new = read(&shown.resource, &shown.kind, patched)?;
        let changed = shown.object.as_ref() != Some(&new);
        if is_scale(review) {
            if let Some(object) = &mut review.object {
                call.put_replicas(object, &new)?;
            }
            return Ok(changed);
        }
        if shown.kind == shown.resource.gvk {
            Rules::of(&shown.resource).defaults(&mut new);
            if shown.resource.gvk != review.resource.gvk {
                new = self.convert_between(&shown.resource, review.resource, new).await?;
            }
        }
        review.object = Some(new);
        Ok(changed)
    }
}

/// A patched document as an object of its kind.
fn read(resource: &Resource, kind: &Gvk, mut patched: Value) -> Result<Value> {
    if let Some(version) = resource.custom.as_ref().filter(|_| *kind == resource.gvk) {
        version.decode(&mut patched).map_err(Status::internal)?;
        return Ok(patched);
    }
    let mut value = decode::check_value(&patched, kind).map_err(Status::internal)?.value;
    object::set_type(&mut value, &kind.api_version(), &kind.kind);
    Ok(value)
}
