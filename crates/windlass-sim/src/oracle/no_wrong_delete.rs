//! `NoWrongDelete`: the operator deletes nothing that has to stay.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Check, Oracle, Verdict};
use crate::canonical::generated;
use crate::kernel::Write;
use crate::sim::Outcome;
use crate::world::{Change, ObjectKey};

/// One object that the operator deleted.
struct Deletion<'a> {
    key: &'a ObjectKey,
    uid: &'a str,
    change: &'a Change,
    write: &'a Write,
}

pub(super) fn check(check: &Check<'_>, verdict: &mut Verdict) {
    let deletions = deletions(check.run);
    verdict.looked(Oracle::NoWrongDelete, check.run.history.len());
    of_the_user(check, &deletions, verdict);
    of_a_successor(&deletions, verdict);
    // A transition is a change of the spec, which may delete what the reference keeps.
    let transition = check.run.faults.iter().any(|(f, ..)| *f == crate::Fault::Transition);
    if !check.is_reference && !transition {
        too_many(check, &deletions, verdict);
    }
}

/// The deletions of the operator that had an effect, once per object.
fn deletions(run: &Outcome) -> Vec<Deletion<'_>> {
    let mut seen = BTreeSet::new();
    let mut deletions = Vec::new();
    for (change, write) in run.by_operator() {
        let Some(before) = &change.before else { continue };
        let was_going = is_going(before);
        let ends = change.after.is_none() || change.after.as_ref().is_some_and(|o| is_going(o));
        let asked = write.site.verb.starts_with("delete");
        let Some(uid) = before["metadata"]["uid"].as_str() else { continue };
        if ends && !was_going && asked && seen.insert(uid) {
            deletions.push(Deletion { key: &change.key, uid, change, write });
        }
    }
    deletions
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// What the user made and did not delete is not for the operator to delete.
fn of_the_user(check: &Check<'_>, deletions: &[Deletion<'_>], verdict: &mut Verdict) {
    let made: BTreeSet<&str> = check
        .run
        .changes()
        .filter(|(change, write)| {
            change.before.is_none() && write.is_some_and(|write| write.actor == "user")
        })
        .filter_map(|(change, _)| change.after.as_ref()?["metadata"]["uid"].as_str())
        .collect();
    for deletion in deletions.iter().filter(|deletion| made.contains(deletion.uid)) {
        let text = format!("the operator deletes {}, which the user has created", deletion.key);
        verdict.add(Oracle::NoWrongDelete, text, vec![deletion.line()]);
    }
}

/// A deletion without a precondition may hit another object of the same name.
fn of_a_successor(deletions: &[Deletion<'_>], verdict: &mut Verdict) {
    for deletion in deletions {
        let Some(sight) = &deletion.write.sight else { continue };
        if deletion.write.sent.guarded || sight.uid.is_empty() || sight.uid == deletion.uid {
            continue;
        }
        let text = format!(
            "the operator deletes a {} that it has never seen: it knows an earlier one of that name",
            deletion.key
        );
        verdict.add(Oracle::NoWrongDelete, text, vec![deletion.line()]);
    }
}

/// No more objects of a kind are deleted than without the fault, apart from those that the fault
/// itself has doubled.
fn too_many(check: &Check<'_>, deletions: &[Deletion<'_>], verdict: &mut Verdict) {
    let count = |deletions: &[Deletion<'_>]| {
        let mut counts = BTreeMap::<String, usize>::new();
        for deletion in deletions {
            *counts.entry(deletion.kind()).or_default() += 1;
        }
        counts
    };
    let without = count(&self::deletions(check.reference));
    for (kind, number) in count(deletions) {
        let doubled = check.run.writes.iter().filter(|write| {
            let hit = write.fault.is_some_and(crate::Fault::may_double);
            hit && write.site.verb == "create" && kind.starts_with(&write.resource)
        });
        let allowed = without.get(&kind).copied().unwrap_or_default() + doubled.count();
        if number > allowed {
            let text = format!(
                "the operator deletes {number} of {kind}; without the fault it deletes {allowed}"
            );
            let lines = deletions.iter().filter(|d| d.kind() == kind).map(Deletion::line).collect();
            verdict.add(Oracle::NoWrongDelete, text, lines);
        }
    }
}

// === impl Deletion ===

impl Deletion<'_> {
    /// The resource, with the name or its prefix.
    fn kind(&self) -> String {
        let before = self.change.before.as_deref().unwrap_or(&Value::Null);
        let name = generated(before).map_or_else(|| self.key.name.clone(), |p| format!("~{p}"));
        format!("{} {}", self.key.resource, crate::site::object(&self.key.namespace, &name))
    }

    fn line(&self) -> String {
        let (write, revision) = (self.write, self.change.revision);
        let reconcile = write.reconcile.map(|n| format!(" in reconcile {n}")).unwrap_or_default();
        let at = write.at.as_secs_f64();
        format!(
            "{}   deleted by {}#{}{reconcile} at {at:.3} s as r{revision}",
            self.key, write.actor, write.life
        )
    }
}
