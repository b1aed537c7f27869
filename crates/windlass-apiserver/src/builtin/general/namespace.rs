//! Namespace.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_text::select::key;

use super::tools::{drop_empty, items, keep, object, set, text};
use crate::builtin::deletion::{self, Plan};
use crate::builtin::{Action, NameRule, Part, Strategy};
use crate::handler::{Answer, Call, Intent, Subresource, Write};
use crate::status::{FieldError, FieldErrors, Result};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Namespace.
pub(super) struct Namespace;

impl Strategy for Namespace {
    fn action(&self, subresource: &str) -> Action {
        match subresource {
            "finalize" => Action::Own(&Finalize),
            _ => Action::shared(subresource),
        }
    }

    fn defaults(&self, namespace: &mut Value) {
        let name = text(&namespace["metadata"], "name").to_owned();
        if !name.is_empty() {
            set(object(object(namespace, "metadata"), "labels"), NAME_LABEL, name);
        }
        object(namespace, "spec");
        object(namespace, "status");
    }

    fn prepare_create(&self, namespace: &mut Value) {
        self.defaults(namespace);
        set(namespace, "status", json!({"phase": "Active"}));
        let spec = object(namespace, "spec");
        let mut finalizers = items(spec, "finalizers").to_vec();
        if !finalizers.iter().any(|f| f == "kubernetes") {
            finalizers.push("kubernetes".into());
        }
        set(spec, "finalizers", finalizers);
    }

    fn prepare_update(&self, namespace: &mut Value, old: &Value) {
        set(object(namespace, "spec"), "finalizers", old["spec"]["finalizers"].clone());
        drop_empty(object(namespace, "spec"), "finalizers");
        keep(namespace, old, "status");
    }

    fn prepare_status(&self, namespace: &mut Value, old: &Value) {
        keep(namespace, old, "spec");
    }

    fn validate(&self, namespace: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        for finalizer in items(&namespace["spec"], "finalizers") {
            let name = finalizer.as_str().unwrap_or_default();
            let problems = key::qualified_name(name);
            let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&name);
            if !name.contains('/') && !standard {
                errors.push(FieldError::invalid_str(
                    "spec.finalizers",
                    name,
                    "name is neither a standard finalizer name nor is it fully qualified",
                ));
            }
            super::names::push(&mut errors, "spec.finalizers", name, problems);
        }
        errors
    }

    fn validate_update(&self, _: &Value, _: &Value) -> FieldErrors {
        FieldErrors::default()
    }

    fn validate_status(&self, namespace: &Value, _: &Value) -> FieldErrors {
        let phase = text(&namespace["status"], "phase");
        let deleted = namespace["metadata"].get("deletionTimestamp").is_some();
        match (deleted, phase) {
            (false, "Active" | "") | (true, "Terminating") => FieldErrors::default(),
            (false, _) => {
                let why = "may only be 'Active' if `deletionTimestamp` is empty";
                [FieldError::invalid_str("status.Phase", phase, why)].into()
            }
            (true, _) => {
                let why = "may only be 'Terminating' if `deletionTimestamp` is not empty";
                [FieldError::invalid_str("status.Phase", phase, why)].into()
            }
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn selectable_fields(&self, namespace: &Value) -> Option<Vec<(&'static str, String)>> {
        let phase = text(&namespace["status"], "phase").to_owned();
        Some(vec![("status.phase", phase)])
    }

    fn selects_namespace(&self) -> bool {
        false
    }

    fn prepare_part(&self, part: Part, namespace: &mut Value, old: &Value, _now: &str) {
        match part {
            Part::Main => self.prepare_update(namespace, old),
            Part::Status => self.prepare_status(namespace, old),
            _ => namespace["status"] = old["status"].clone(),
        }
    }

    fn is_held(&self, namespace: &Value) -> bool {
        namespace["spec"]["finalizers"].as_array().is_some_and(|held| !held.is_empty())
    }

    /// A namespace is deleted after its contents: until then it is terminating.
    fn plan_deletion(&self, namespace: &mut Value, now: Timestamp) -> Option<Plan> {
        if !self.is_held(namespace) && crate::object::finalizers(namespace).is_empty() {
            return Some(Plan::Remove);
        }
        deletion::mark(namespace, now, 0);
        crate::object::meta_mut(namespace).remove("deletionGracePeriodSeconds");
        namespace["status"]["phase"] = "Terminating".into();
        Some(Plan::Mark)
    }
}

/// PUT of `namespaces/NAME/finalize`: sets the finalizers of the spec; the last one ends it.
struct Finalize;

impl Subresource for Finalize {
    fn answer<'a>(&self, call: &'a Arc<Call>) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(finalize(call))
    }
}

async fn finalize(call: &Arc<Call>) -> Result<Answer> {
    let options = call.write_options("UpdateOptions", false)?;
    let body = call.decode_body(&options)?;
    call.check_name(&body)?;
    let make = |_: &Value| Ok(body.clone());
    let intent = Intent::Change { make: &make, versioned: true, tracked: false };
    let write = Write::change(call, Part::Finalize, intent, "UpdateOptions", &options);
    call.answer_written(200, write.run().await?).await
}
