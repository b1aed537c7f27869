//! What the server knows of built-in kinds beyond their schema: defaults, preparation, validation.
//!
//! Objects arrive decoded (known fields only, right JSON types) and without `managedFields` work.
//! The order on create: `defaults`, admission, `prepare_create`, common metadata rules, `validate`;
//! on update: `defaults`, admission, `prepare_update`, common rules, `validate_update`.
//!
//! **Invariant:** strategies are pure functions on values; what needs other objects (cluster IPs,
//! quotas, priorities) is admission's. Only a [`Subresource`] that one kind alone has sees the
//! request and the server.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::auth::User;
use crate::handler::Subresource;
use crate::request::Query;
use crate::resource::Gvk;
use crate::status::FieldErrors;
use deletion::{Grace, Plan};

pub mod deletion;
pub mod general;
pub mod rules;
pub mod workload;

pub(crate) use general::binding;
pub use general::event;

/// The rules of one built-in kind.
pub(crate) trait Strategy: Sync {
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

    /// Returns `true` if its own rules look at metadata. If not, the storage layer does, after them
    /// and only if they found nothing; every path segment is a name then.
    fn checks_meta(&self) -> bool {
        true
    }

    /// Returns `true` if `metadata.generation` is kept (1 on create, +1 per spec change).
    fn has_generation(&self) -> bool {
        false
    }

    /// Returns `true` if a PUT of a missing object creates it.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// Returns `true` if a PUT without resourceVersion overwrites.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Returns `true` if DELETE answers with the object instead of a `Status`.
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

    /// Fields (as dotted paths) that an apply or update of a subresource does not own.
    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        if subresource == "status" { &["spec"] } else { &[] }
    }

    /// Prepares an update of one part; `now` is for times that are left out.
    fn prepare_part(&self, part: Part, object: &mut Value, old: &Value, _now: &str) {
        match part {
            Part::Main => self.prepare_update(object, old),
            Part::Status => self.prepare_status(object, old),
            _ => {}
        }
    }

    /// Problems of an update of one part, apart from common metadata.
    fn validate_part(&self, part: Part, object: &Value, old: &Value) -> FieldErrors {
        match part {
            Part::Main => self.validate_update(object, old),
            Part::Status => self.validate_status(object, old),
            _ => FieldErrors::default(),
        }
    }

    /// Records in a new object who asked for it.
    fn record_creator(&self, _object: &mut Value, _user: &User) {}

    /// Returns `true` if something besides its finalizers holds an object that is being deleted.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// Marks an object as being deleted and decides how that continues; `None` leaves both to the
    /// rules that all kinds share.
    fn plan_deletion(&self, _object: &mut Value, _now: Timestamp) -> Option<Plan> {
        None
    }

    /// Marks an object with the grace period of its deletion, if its kind has one.
    fn begin_grace(&self, _object: &mut Value, _asked: Option<i64>, _now: Timestamp) -> Grace {
        Grace::None
    }

    /// The warning for a deletion that does not say what happens to dependents.
    fn deletion_warning(&self) -> Option<&'static str> {
        None
    }

    /// Returns `true` if dependents are orphaned unless a deletion says otherwise.
    fn orphans_dependents(&self) -> bool {
        false
    }

    /// Returns `true` if its objects may have dependents that are garbage collected.
    fn has_dependents(&self) -> bool {
        true
    }

    /// Returns `true` if its finalizers have to be standard or qualified names.
    fn qualifies_finalizers(&self) -> bool {
        true
    }

    /// The warning that every request for an outdated kind gets.
    fn deprecation(&self) -> Option<&'static str> {
        None
    }

    /// The place of its objects in the real server's storage, as texts show it; `None` if that is
    /// the plural.
    fn storage_prefix(&self) -> Option<&'static str> {
        None
    }

    /// Returns `true` if its objects are stored in another form than they are served in.
    fn is_converted(&self) -> bool {
        false
    }

    /// An object in the form in which it is stored.
    fn stored_form(&self, object: Value) -> Value {
        object
    }

    /// A stored object in the form of this version.
    fn read_stored(&self, object: Value) -> Value {
        object
    }

    /// Returns `true` if objects without a namespace can be selected by `metadata.namespace`.
    fn selects_namespace(&self) -> bool {
        true
    }

    /// The error for a field that its objects cannot be selected by.
    fn unselectable(&self, field: &str) -> String {
        format!("field label not supported: {field}")
    }

    /// Returns `true` if its objects are deleted a while after their last write.
    fn expires(&self) -> bool {
        false
    }

    /// Returns `true` if its objects grant rights, so that a write of them may be an escalation.
    fn grants_rights(&self) -> bool {
        false
    }

    /// Returns `true` if its objects use addresses and ports that the server allocates.
    fn allocates(&self) -> bool {
        false
    }

    /// Returns `true` if its objects define resources.
    fn defines_resources(&self) -> bool {
        false
    }

    /// Returns `true` if the server creates an object again when it is deleted: it belongs to the
    /// service that the server is reached by.
    fn is_restored(&self, _namespace: &str, _name: &str) -> bool {
        false
    }

    /// All objects of a kind that is computed when it is read, and never stored.
    fn computed(&self, _controllers_run: bool) -> Option<Vec<Value>> {
        None
    }

    /// Answers a create of this kind, which is never stored; `None` if that is for others to do.
    fn posted(&self) -> Option<&'static dyn Subresource> {
        None
    }

    /// What a request to a subresource does.
    fn action(&self, subresource: &str) -> Action {
        Action::shared(subresource)
    }

    /// Returns what a request to open a connection asks for; `None` for a proxy.
    fn connection(&self, _subresource: &str, _query: &Query) -> Option<Connection> {
        None
    }

    /// The refusal of a connection to something that does not run yet.
    fn check_connection(&self, _object: &Value) -> crate::status::Result<()> {
        Ok(())
    }
}

/// Which part of an object a request changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Main,
    /// The status.
    Status,
    /// The approval of a request for a certificate.
    Approval,
    /// The finalizers of a spec.
    Finalize,
    /// The ephemeral containers of a pod.
    EphemeralContainers,
    /// The sizes of the containers of a pod.
    Resize,
    /// The node of a pod. It is not a change that a node could have missed, so the generation
    /// stays.
    Binding,
}

/// What a request to open a connection asks for.
pub(crate) struct Connection {
    /// The options that admission sees, without their type.
    pub options: Map<String, Value>,
    /// What there would have to be, and is not.
    pub missing: &'static str,
}

/// What a request to a subresource does.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// Reads or changes a part of the object.
    Part(Part),
    /// Reads or changes its scale.
    Scale,
    /// Does what only this kind does.
    Own(&'static dyn Subresource),
    /// Opens a connection to it.
    Connect,
}

impl Part {
    /// Returns `true` if a change of it counts in the generation.
    pub fn counts(self) -> bool {
        !matches!(self, Self::Status | Self::Approval | Self::Binding)
    }
}

impl Action {
    /// Returns what the subresources do that many kinds have.
    pub fn shared(subresource: &str) -> Self {
        match subresource {
            "status" => Self::Part(Part::Status),
            "scale" => Self::Scale,
            _ => Self::Connect,
        }
    }
}

/// The rule for a kind's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS-1123 subdomain.
    Subdomain,
    /// DNS-1123 label.
    Label,
    /// Any path segment (RBAC).
    PathSegment,
}

/// A kind without rules of its own.
pub(crate) struct Plain;

impl Strategy for Plain {}

/// Returns the strategy of a built-in kind.
pub(crate) fn strategy_of(gvk: &Gvk) -> &'static dyn Strategy {
    if &*gvk.kind == "CustomResourceDefinition" && &*gvk.group == "apiextensions.k8s.io" {
        return crate::custom::definition::strategy();
    }
    workload::strategy_of(gvk).or_else(|| general::strategy_of(gvk)).unwrap_or(&Plain)
}
