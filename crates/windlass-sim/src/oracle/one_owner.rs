//! `OneOwner`: nobody overwrites what belongs to somebody else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::{Check, Oracle, Verdict};
use crate::diff::{Difference, differences};
use crate::kernel::Write;
use crate::plan::Fault;
use crate::sim::Outcome;
use crate::trace::What;
use crate::world::{Change, ObjectKey};

mod fights;
mod stripped;

pub(super) fn check(check: &Check<'_>, verdict: &mut Verdict) {
    verdict.looked(Oracle::OneOwner, check.run.history.len());
    applied_fields(check.run, verdict);
    lost_updates(check.run, verdict);
    stripped::check(check.run, verdict);
    fights::check(check.run, verdict);
    after_the_lease(check, verdict);
}

/// The fields in which two states differ, without what every write changes.
fn changed(before: &Value, after: &Value) -> Vec<Difference> {
    let server = ["metadata.resourceVersion", "metadata.managedFields", "metadata.generation"];
    let mut all = differences(before, after);
    all.retain(|difference| !server.iter().any(|field| difference.path.starts_with(field)));
    all
}

/// The operator does not change fields that the user has applied or scaled.
fn applied_fields(run: &Outcome, verdict: &mut Verdict) {
    for (change, write) in run.by_operator() {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
        let owned = owned_by_user(before);
        if owned.is_empty() {
            continue;
        }
        let hit = changed(before, after).into_iter().find(|difference| {
            owned.iter().any(|path| {
                let rest = difference.path.strip_prefix(path.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
        });
        if let Some(difference) = hit {
            let text = format!(
                "the operator changes {} of {}, which the user has set",
                difference.path, change.key
            );
            verdict.add(Oracle::OneOwner, text, vec![line(write, &difference)]);
            return;
        }
    }
}

/// The fields that the user owns by apply or through the subresource `scale`.
fn owned_by_user(object: &Value) -> BTreeSet<String> {
    let mut owned = BTreeSet::new();
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let claims = entry["operation"] == "Apply" || entry["subresource"] == "scale";
        if entry["manager"] == "user" && claims {
            leaves(&entry["fieldsV1"], String::new(), &mut owned);
        }
    }
    owned
}

fn leaves(fields: &Value, path: String, owned: &mut BTreeSet<String>) {
    let inner = fields.as_object().into_iter().flatten();
    let mut inner = inner.filter_map(|(name, fields)| Some((name.strip_prefix("f:")?, fields)));
    let mut any = false;
    for (name, fields) in &mut inner {
        any = true;
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let path = match (path.as_str(), plain) {
            ("", true) => name.to_owned(),
            (path, true) => format!("{path}.{name}"),
            (path, false) => format!("{path}[{name:?}]"),
        };
        leaves(fields, path, owned);
    }
    let list = fields.as_object().is_some_and(|map| map.keys().any(|key| !key.starts_with("f:")));
    if !any && !list && !path.is_empty() {
        owned.insert(path);
    }
}

/// An update does not take back a change of the user that the operator has not seen.
fn lost_updates(run: &Outcome, verdict: &mut Verdict) {
    let mut by_user = BTreeMap::<&ObjectKey, Vec<(&Change, Duration)>>::new();
    for (change, write) in run.changes() {
        let Some(write) = write else { continue };
        if write.actor == "user" {
            by_user.entry(&change.key).or_default().push((change, write.at));
            continue;
        }
        let Some(after) = &change.after else { continue };
        if write.site.verb != "update" || write.sent.guarded {
            continue;
        }
        // A reconcile decides on what it read since it began.
        let seen = write.sight.as_ref().map_or(0, |sight| sight.revision);
        let began = write.reconcile.and_then(|number| began(run, number));
        let unseen = by_user.get(&change.key).into_iter().flatten().filter(|(earlier, at)| {
            earlier.revision > seen || began.is_some_and(|began| *at >= began)
        });
        for (earlier, _) in unseen {
            let (Some(was), Some(set)) = (&earlier.before, &earlier.after) else { continue };
            let took_back = changed(set, after);
            let lost = changed(was, set).into_iter().find(|difference| {
                took_back
                    .iter()
                    .any(|t| t.path == difference.path && t.found == difference.expected)
            });
            if let Some(difference) = lost {
                let text = format!(
                    "the operator takes back {} of {}, which the user has set: it has not seen it",
                    difference.path, change.key
                );
                verdict.add(Oracle::OneOwner, text, vec![line(write, &difference)]);
                return;
            }
        }
    }
}

/// When a reconcile began.
fn began(run: &Outcome, reconcile: u32) -> Option<Duration> {
    run.trace.iter().find_map(|record| match &record.what {
        What::Reconcile { number, .. } if *number == reconcile => Some(record.at),
        _ => None,
    })
}

/// A replica that has lost its lease writes nothing.
fn after_the_lease(check: &Check<'_>, verdict: &mut Verdict) {
    let free: BTreeSet<String> = match check.is_reference {
        true => BTreeSet::new(),
        // What every replica writes without the lease in the reference is meant to be so.
        false => unled(check.reference)
            .into_iter()
            .map(|(change, _)| change.key.resource.clone())
            .collect(),
    };
    for (change, write) in unled(check.run) {
        let late = write.fault == Some(Fault::Late);
        if check.is_reference || late || free.contains(&change.key.resource) {
            continue;
        }
        let text = format!("{} writes {} after it has lost the lease", write.actor, change.key);
        let at = write.at.as_secs_f64();
        verdict.add(Oracle::OneOwner, text, vec![format!("{at:.3} s  {}", write.site.words())]);
        return;
    }
}

/// The changes that a replica made while another one held the lease.
fn unled(run: &Outcome) -> Vec<(&Change, &Write)> {
    let mut holder: Option<&str> = None;
    let mut writes = Vec::new();
    for (change, write) in run.changes() {
        let Some(write) = write.filter(|write| write.actor != "user") else { continue };
        if change.key.resource == "leases.coordination.k8s.io" {
            let held = change.after.as_ref().and_then(|o| o["spec"]["holderIdentity"].as_str());
            holder = held.filter(|name| !name.is_empty()).map(|_| write.actor.as_str());
        } else if !crate::site::is_background(&change.key.resource)
            && holder.is_some_and(|holder| holder != write.actor)
        {
            writes.push((change, write));
        }
    }
    writes
}

fn line(write: &Write, difference: &Difference) -> String {
    let shown = |value: &Option<Value>| match value {
        None => "nothing".to_owned(),
        Some(value) => crate::diff::shorten(&value.to_string()),
    };
    format!(
        "{:.3} s  {}  {}: {} → {}",
        write.at.as_secs_f64(),
        write.site.words(),
        difference.path,
        shown(&difference.expected),
        shown(&difference.found)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn applied_and_scaled_fields_belong_to_the_user() {
        let object = json!({"metadata": {"managedFields": [
            {"manager": "user", "operation": "Apply",
             "fieldsV1": {"f:spec": {"f:size": {}, "f:labels": {"f:a.b/c": {}}}}},
            {"manager": "user", "operation": "Update", "fieldsV1": {"f:data": {"f:x": {}}}},
            {"manager": "user", "operation": "Update", "subresource": "scale",
             "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "other", "operation": "Apply", "fieldsV1": {"f:spec": {"f:y": {}}}},
        ]}});
        let owned: Vec<_> = owned_by_user(&object).into_iter().collect();
        assert_eq!(owned, ["spec.labels[\"a.b/c\"]", "spec.replicas", "spec.size"]);
    }
}
