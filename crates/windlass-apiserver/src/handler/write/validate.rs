//! Validation: the rules of the kind, and those of metadata.

use serde_json::Value;

use super::super::Call;
use super::{Intent, Part, Write};
use crate::builtin::rules::meta::{validate_meta, validate_meta_common};
use crate::builtin::rules::rounds::Rounds;
use crate::object;
use crate::status::{FieldError, FieldErrors, Result, Status};

impl Write<'_> {
    /// Refuses an object that breaks the rules of its kind.
    pub(super) fn validate(&self) -> Result<()> {
        let errors = match (&self.intent, &self.old) {
            (Intent::Create(_), _) => self.call.validate_new(&self.new),
            (Intent::Change { .. }, Some(old)) => {
                self.call.validate_change(self.part, &self.new, &old.object)
            }
            _ => return Ok(()),
        };
        match errors.is_empty() {
            true => Ok(()),
            false => Err(self.call.invalid_object(&self.new, &errors)),
        }
    }
}

impl Call {
    fn validate_change(&self, part: Part, new: &Value, old: &Value) -> FieldErrors {
        let rules = self.rules();
        let (meta, old_meta) = (object::meta(new), object::meta(old));
        let (gvk, custom) = (&self.resource.gvk, self.resource.is_custom());
        let rounds = match part {
            // Nothing else is looked at in an object of another kind.
            _ if rules.is_other_kind(new) => Rounds::NONE,
            Part::Main => Rounds::of(gvk, custom),
            _ => Rounds::of_part(gvk, custom),
        };
        let namespaced = self.resource.namespaced;
        let mut errors = rounds.validate(meta, old_meta, rules.name_rule(), namespaced);
        errors.extend(self.errors_of(rules.validate_part(part, new, old)));
        errors
    }

    fn validate_new(&self, object: &Value) -> FieldErrors {
        let rules = self.rules();
        let (meta, namespaced) = (object::meta(object), self.resource.namespaced);
        if !rules.checks_meta() {
            let errors = self.errors_of(rules.validate(object));
            let path_segment = crate::builtin::NameRule::PathSegment;
            return match errors.is_empty() {
                true => validate_meta_common(meta, path_segment, namespaced),
                false => errors,
            };
        }
        let mut errors = match () {
            () if rules.is_other_kind(object) => FieldErrors::default(),
            () if self.has_core_meta() => validate_meta(meta, rules.name_rule(), namespaced),
            () => validate_meta_common(meta, rules.name_rule(), namespaced),
        };
        errors.extend(self.errors_of(rules.validate(object)));
        errors
    }

    /// Returns the errors of a verdict, and sends its warnings to the client.
    fn errors_of(&self, verdict: crate::custom::Verdict) -> FieldErrors {
        for warning in verdict.warnings {
            self.warn(warning);
        }
        verdict.errors
    }

    /// Returns `true` if finalizers have to be qualified: custom resources and what serves them are
    /// laxer.
    fn has_core_meta(&self) -> bool {
        !self.resource.is_custom() && self.rules().hooks().qualifies_finalizers()
    }

    /// 422 of this kind.
    pub(in crate::handler) fn invalid(&self, name: &str, errors: &[FieldError]) -> Status {
        let gvk = &self.resource.gvk;
        // Both kinds of events are one kind inside the server, of the core group.
        Status::invalid(&self.storage.group, &gvk.kind, name, errors)
    }
}
