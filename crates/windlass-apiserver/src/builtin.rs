//! What the server knows of built-in kinds beyond their schema: defaults, preparation, validation.
//!
//! Objects arrive decoded (known fields only, right JSON types) and without `managedFields` work.
//! The order on create: `defaults`, admission, `prepare_create`, common metadata rules, `validate`;
//! on update: `defaults`, admission, `prepare_update`, common rules, `validate_update`.
//!
//! **Invariant:** strategies are pure functions on values; what needs other objects (cluster IPs,
//! quotas, priorities) is admission's.

use serde_json::Value;

use crate::resource::Gvk;
use crate::status::FieldErrors;

pub mod general;
pub mod rules;
pub mod workload;

/// The rules of one built-in kind.
pub trait Strategy: Sync {
    /// Fills in what the author left out, as decoding does for every request body.
    fn defaults(&self, _object: &mut Value) {}

    /// Clears or sets what a client may not choose on create (status, generated fields).
    fn prepare_create(&self, _object: &mut Value) {}

    /// The same on update of the main resource: keeps the old status and immutable parts.
    fn prepare_update(&self, _object: &mut Value, _old: &Value) {}

    /// The same on update of the status subresource: keeps the old spec.
    fn prepare_status(&self, _object: &mut Value, _old: &Value) {}

    /// Problems of a new object, apart from common metadata.
    fn validate(&self, _object: &Value) -> FieldErrors {
        FieldErrors::default()
    }

    /// Problems of an update of the main resource, apart from common metadata.
    fn validate_update(&self, object: &Value, _old: &Value) -> FieldErrors {
        self.validate(object)
    }

    /// Problems of an update of the status subresource.
    fn validate_status(&self, _object: &Value, _old: &Value) -> FieldErrors {
        FieldErrors::default()
    }

    /// Texts for `Warning` headers on create (`old` is `None`) and update.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// How its names are checked.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Whether its own rules look at metadata. If not, the storage layer does, after them and only
    /// if they found nothing; every path segment is a name then.
    fn checks_meta(&self) -> bool {
        true
    }

    /// Whether `metadata.generation` is kept (1 on create, +1 per spec change).
    fn has_generation(&self) -> bool {
        false
    }

    /// Whether a PUT of a missing object creates it.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// Whether a PUT without resourceVersion overwrites.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Whether DELETE answers with the object instead of a `Status`.
    fn returns_deleted_object(&self) -> bool {
        false
    }

    /// The values of field selectors beyond metadata.name and metadata.namespace;
    /// `None` if the kind has no list of its own.
    fn selectable_fields(&self, _object: &Value) -> Option<Vec<(&'static str, String)>> {
        None
    }

    /// Fields (as dotted paths) that the main resource's apply and update do not own.
    fn reset_fields(&self) -> &'static [&'static str] {
        &["status"]
    }
}

/// The rule for a kind's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS-1123 subdomain.
    Subdomain,
    /// DNS-1123 label.
    Label,
    /// DNS-1035 label (services).
    Label1035,
    /// Any path segment (RBAC).
    PathSegment,
}

struct Plain;

impl Strategy for Plain {}

/// The strategy of a built-in kind.
pub fn strategy_of(gvk: &Gvk) -> &'static dyn Strategy {
    if &*gvk.kind == "CustomResourceDefinition" && &*gvk.group == "apiextensions.k8s.io" {
        return crate::custom::definition::strategy();
    }
    workload::strategy_of(gvk).or_else(|| general::strategy_of(gvk)).unwrap_or(&Plain)
}
