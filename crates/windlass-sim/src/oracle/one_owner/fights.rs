//! Two writers do not take turns with a field.

use std::collections::BTreeMap;

use serde_json::Value;

use super::changed;
use crate::kernel::Write;
use crate::oracle::{Oracle, Verdict};
use crate::sim::Outcome;
use crate::trace::What;
use crate::world::ObjectKey;

/// How often two writers may take turns with a field.
const TURNS_MAX: u32 = 2;

/// The last change of a field, and how often it was taken back.
#[derive(Default)]
struct Turns {
    writer: String,
    before: Option<Value>,
    count: u32,
}

pub(super) fn check(run: &Outcome, verdict: &mut Verdict) {
    let mut fields = BTreeMap::<(&ObjectKey, String), Turns>::new();
    let reconciles = reconciles(run);
    for (change, write) in run.changes() {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
        if crate::site::is_background(&change.key.resource) {
            continue;
        }
        let writer = writer(write, &reconciles);
        for difference in changed(before, after) {
            let turns = fields.entry((&change.key, difference.path.clone())).or_default();
            let other = !turns.writer.is_empty() && turns.writer != writer;
            let between = || format!("{} and {writer}", turns.writer);
            if other && turns.before == difference.found && between().contains("operator") {
                turns.count += 1;
            }
            if turns.count > TURNS_MAX {
                let text =
                    format!("{} take turns with {} of {}", between(), difference.path, change.key);
                verdict.add(Oracle::OneOwner, text, Vec::new());
                return;
            }
            (turns.writer, turns.before) = (writer.clone(), difference.expected);
        }
    }
}

/// The controller and the key of each reconcile.
fn reconciles(run: &Outcome) -> BTreeMap<u32, (&str, &str)> {
    let began = run.trace.iter().filter_map(|record| match &record.what {
        What::Reconcile { number, key, controller, .. } => {
            Some((*number, (controller.as_str(), key.as_str())))
        }
        _ => None,
    });
    began.collect()
}

/// Who writes: two controllers of one operator are two writers, and so are the reconciles of two keys.
fn writer(write: Option<&Write>, reconciles: &BTreeMap<u32, (&str, &str)>) -> String {
    let Some(write) = write else { return "the cluster".into() };
    let actor = &write.actor;
    let reconcile = write.reconcile.and_then(|number| reconciles.get(&number));
    match (reconcile, write.manager.as_str()) {
        _ if actor == "user" => actor.clone(),
        (Some((controller, key)), _) => format!("{actor} ({controller} of {key})"),
        (None, "") => actor.clone(),
        (None, manager) => format!("{actor} ({manager})"),
    }
}
