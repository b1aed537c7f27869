//! Deletion: what becomes of an object, by its kind, its grace period and its finalizers.

use serde_json::Value;

use super::super::Call;
use super::super::delete::DeleteOptions;
use crate::builtin::deletion::{Grace, Plan, mark};
use crate::object;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

impl Call {
    /// Decides how a deletion continues, and marks the object as deleted.
    pub(super) fn plan_deletion(&self, object: &mut Value, options: &DeleteOptions) -> Plan {
        let (hooks, now) = (self.rules().hooks(), self.server.clock.now());
        if let Some(plan) = hooks.plan_deletion(object, now) {
            return plan;
        }
        let grace = hooks.begin_grace(object, options.grace_seconds, now);
        if grace == Grace::Pending {
            return Plan::Pending;
        }
        self.set_gc_finalizers(object, options);
        let held = !object::finalizers(object).is_empty();
        match grace {
            Grace::Seconds(seconds) if held || seconds > 0 => Plan::Mark,
            Grace::Seconds(_) => Plan::MarkAndRemove,
            _ if held => {
                mark(object, now, 0);
                Plan::Mark
            }
            _ => Plan::Remove,
        }
    }

    /// Sets the finalizers the garbage collector acts on.
    fn set_gc_finalizers(&self, object: &mut Value, options: &DeleteOptions) {
        let hooks = self.rules().hooks();
        if !hooks.has_dependents() {
            return;
        }
        let existing: Vec<String> =
            object::finalizers(object).into_iter().map(str::to_owned).collect();
        let has = |name: &str| existing.iter().any(|f| f == name);
        let policy = match (options.orphan_dependents, options.policy.as_deref()) {
            (Some(true), _) => ORPHAN,
            (Some(false), _) => "",
            (None, Some("Orphan")) => ORPHAN,
            (None, Some("Foreground")) => FOREGROUND,
            (None, Some(_)) => "",
            (None, None) if has(ORPHAN) => ORPHAN,
            (None, None) if has(FOREGROUND) => FOREGROUND,
            (None, None) if hooks.orphans_dependents() => ORPHAN,
            (None, None) => "",
        };
        let mut wanted: Vec<String> =
            existing.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
        if !policy.is_empty() {
            wanted.push(policy.to_owned());
        }
        let same = wanted.len() == existing.len() && wanted.iter().all(|f| existing.contains(f));
        if !same {
            object::set_finalizers(object, wanted);
        }
    }
}
