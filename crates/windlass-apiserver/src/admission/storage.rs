//! DefaultStorageClass, StorageObjectInUseProtection and PersistentVolumeClaimResize.

use std::sync::Arc;

use serde_json::Value;
use windlass_text::quantity::Quantity;

use super::{Review, text};
use crate::lookup::Lookup;
use crate::object;
use crate::server::Inner;
use crate::status::Result;

const GROUP: &str = "storage.k8s.io";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// Lets nothing that is in use disappear.
pub(super) fn protect(review: &mut Review<'_>) {
    if !review.is_create() || !review.subresource.is_empty() {
        return;
    }
    let finalizer = match (&*review.resource.gvk.group, &*review.resource.plural) {
        ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
        ("", "persistentvolumes") => "kubernetes.io/pv-protection",
        (GROUP, "volumeattributesclasses") => "kubernetes.io/vac-protection",
        _ => return,
    };
    let Some(object) = &mut review.object else { return };
    let mut finalizers: Vec<String> =
        object::finalizers(object).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|f| f == finalizer) {
        finalizers.push(finalizer.to_owned());
        object::set_finalizers(object, finalizers);
    }
}

/// The newest object that is marked as the default by an annotation.
pub(super) fn default_of(objects: Vec<Arc<Value>>, annotations: &[&str]) -> Option<Arc<Value>> {
    let marked = |object: &&Arc<Value>| {
        annotations.iter().any(|name| object["metadata"]["annotations"][*name] == "true")
    };
    let mut found: Vec<&Arc<Value>> = objects.iter().filter(marked).collect();
    found.sort_by(|a, b| {
        let at = |object: &Value| object::meta_str(object, "creationTimestamp").to_owned();
        at(b).cmp(&at(a)).then_with(|| object::name(a).cmp(object::name(b)))
    });
    found.first().map(|object| Arc::clone(object))
}

impl Inner {
    pub(super) fn default_storage_class(&self, review: &mut Review<'_>) {
        if !review.writes("", "persistentvolumeclaims") || !review.is_create() {
            return;
        }
        let Some(claim) = &mut review.object else { return };
        let annotated = claim["metadata"]["annotations"].get(CLASS_ANNOTATION).is_some();
        if annotated || !claim["spec"]["storageClassName"].is_null() {
            return;
        }
        let classes = self.list(GROUP, "storageclasses", None);
        if let Some(class) = default_of(classes, &DEFAULT_ANNOTATIONS) {
            crate::custom::put(claim, &["spec", "storageClassName"], object::name(&class).into());
        }
    }

    /// Claims grow only where their class can.
    pub(super) fn check_claim_growth(&self, review: &Review<'_>) -> Result<()> {
        let (Some(new), Some(old)) = (&review.object, &review.old) else { return Ok(()) };
        if !review.writes("", "persistentvolumeclaims") || !review.is_update() {
            return Ok(());
        }
        let size = |claim: &Value| {
            let size = text(claim, &["spec", "resources", "requests", "storage"]);
            size.parse().unwrap_or_else(|_| Quantity::zero())
        };
        if size(new) <= size(old) {
            return Ok(());
        }
        if old["status"]["phase"] != "Bound" {
            return Err(review.forbidden("Only bound persistent volume claims can be expanded"));
        }
        let class = class_of(new);
        let grows = !class.is_empty()
            && class == class_of(old)
            && self
                .get(GROUP, "storageclasses", "", class)
                .is_some_and(|class| class["allowVolumeExpansion"] == true);
        if !grows {
            return Err(review.forbidden(
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
            ));
        }
        Ok(())
    }
}

/// The class a claim names, in its old annotation or its spec.
fn class_of(claim: &Value) -> &str {
    let annotated = claim["metadata"]["annotations"].get(CLASS_ANNOTATION).and_then(Value::as_str);
    annotated.unwrap_or_else(|| text(claim, &["spec", "storageClassName"]))
}
