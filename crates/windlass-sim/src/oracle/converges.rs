//! `Converges`, `NoLeak`: the end of a run is that of the reference.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Check, Oracle, Verdict};
use crate::canonical::{Canonical, CanonicalKey};
use crate::diff;
use crate::sim::Outcome;
use crate::world::ObjectKey;

pub(super) fn check(check: &Check<'_>, verdict: &mut Verdict) {
    // A plan with transitions is about taking them back.
    let transition = check.run.faults.iter().any(|(f, ..)| *f == crate::Fault::Transition);
    let oracles = match transition {
        true => (Oracle::Rollback, Oracle::Rollback),
        false => (Oracle::Converges, Oracle::NoLeak),
    };
    compare(check, oracles, verdict);
    dangling(check, verdict);
}

/// Compares the ends; `oracles` are those for what is different or missing, and for what is there in
/// addition.
pub(super) fn compare(check: &Check<'_>, oracles: (Oracle, Oracle), verdict: &mut Verdict) {
    let (expected, found) = (check.reference_end, check.run_end);
    let keys: BTreeSet<&CanonicalKey> =
        expected.objects.keys().chain(found.objects.keys()).collect();
    verdict.looked(oracles.0, keys.len());
    verdict.looked(oracles.1, keys.len() + found.external.len());
    if check.is_reference {
        return;
    }
    for key in keys {
        let none = Vec::new();
        let before = expected.objects.get(key).unwrap_or(&none);
        let after = found.objects.get(key).unwrap_or(&none);
        compare_objects(check, key, (before, after), oracles, verdict);
    }
    compare_external(expected, found, oracles, verdict);
}

type Objects = Vec<(Value, ObjectKey)>;

fn compare_objects(
    check: &Check<'_>,
    key: &CanonicalKey,
    (before, after): (&Objects, &Objects),
    (differs, leaks): (Oracle, Oracle),
    verdict: &mut Verdict,
) {
    let (resource, namespace, name) = key;
    let object = format!("{resource} {}", crate::site::object(namespace, name));
    let mut details: Vec<String> = Vec::new();
    if before.len() != after.len() {
        for (_, real) in after {
            details.push(format!("{real}{}", origin(check.run, real)));
        }
        let (count, without) = (after.len(), before.len());
        match count > without {
            true => {
                let text = match without {
                    0 => format!("{object} is left at the end; without the fault there is none"),
                    _ => format!(
                        "{count} of {object} are left at the end; without the fault {without}"
                    ),
                };
                verdict.add(leaks, text.clone(), details);
                if leaks != differs {
                    verdict.add(differs, text, Vec::new());
                }
            }
            false => {
                let text = match count {
                    0 => format!("{object} is missing at the end"),
                    _ => format!(
                        "there are {count} of {object} at the end; without the fault {without}"
                    ),
                };
                verdict.add(differs, text, details);
            }
        }
        return;
    }
    for ((expected, _), (found, real)) in before.iter().zip(after) {
        if expected != found {
            let text = format!("{real} is not as it is without the fault");
            verdict.add(differs, text, diff::lines(expected, found));
        }
    }
}

fn compare_external(
    expected: &Canonical,
    found: &Canonical,
    (differs, leaks): (Oracle, Oracle),
    verdict: &mut Verdict,
) {
    let keys: BTreeSet<_> = expected.external.keys().chain(found.external.keys()).collect();
    for key in keys {
        let count = |end: &Canonical| end.external.get(key).copied().unwrap_or_default();
        let (without, with) = (count(expected), count(found));
        let thing = format!("{} {}", key.0, key.1);
        if with > without {
            let text = format!(
                "outside the cluster {with} of {thing} exist at the end; without the fault {without}"
            );
            verdict.add(leaks, text.clone(), Vec::new());
            if leaks != differs {
                verdict.add(differs, text, Vec::new());
            }
        } else if with < without {
            let text = format!("outside the cluster {thing} is missing at the end");
            verdict.add(differs, text, Vec::new());
        }
    }
}

/// Objects whose owners are gone.
fn dangling(check: &Check<'_>, verdict: &mut Verdict) {
    let run = check.run;
    let uids: BTreeSet<&str> =
        run.end.objects.values().filter_map(|object| object["metadata"]["uid"].as_str()).collect();
    // Owners that existed before the first step are not part of the end.
    let known: BTreeSet<&str> = run
        .history
        .iter()
        .flat_map(|change| change.before.iter().chain(&change.after))
        .filter_map(|object| object["metadata"]["uid"].as_str())
        .collect();
    for (key, object) in &run.end.objects {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let owners: Vec<&str> =
            owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str()).collect();
        let gone = |uid: &&str| known.contains(uid) && !uids.contains(uid);
        if !owners.is_empty() && owners.iter().all(gone) {
            let text = format!("{key} is left at the end although its owner is gone");
            verdict.add(Oracle::NoLeak, text, vec![format!("{key}{}", origin(run, key))]);
        }
    }
}

/// Who made an object, for a report.
pub(super) fn origin(run: &Outcome, key: &ObjectKey) -> String {
    let made =
        run.changes().filter(|(change, _)| change.key == *key && change.before.is_none()).last();
    match made {
        Some((change, Some(write))) => {
            let reconcile =
                write.reconcile.map(|n| format!(" in reconcile {n}")).unwrap_or_default();
            let fault = write.fault.map(|f| format!(" ({})", f.name())).unwrap_or_default();
            format!(
                "   created by {}#{}{reconcile} as r{}{fault}",
                write.actor, write.life, change.revision
            )
        }
        Some((change, None)) => format!("   created by the cluster as r{}", change.revision),
        None => String::new(),
    }
}
