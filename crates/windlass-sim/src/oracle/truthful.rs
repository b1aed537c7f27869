//! `Truthful`: the status says what is.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Check, Oracle, Verdict};
use crate::sim::Outcome;
use crate::world::{ObjectKey, World};

/// Kinds whose status says how many of their pods are available.
const WORKLOADS: &[&str] =
    &["deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps"];

pub(super) fn check(check: &Check<'_>, verdict: &mut Verdict) {
    verdict.looked(Oracle::Truthful, check.run.end.objects.len());
    observed(check.run, verdict);
    backwards(check.run, verdict);
    at_rest(check.run, verdict);
    too_early(check.run, verdict);
}

fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

fn observed_generation(object: &Value) -> Option<i64> {
    object["status"]["observedGeneration"].as_i64()
}

/// At rest, the status is that of the newest generation.
fn observed(run: &Outcome, verdict: &mut Verdict) {
    for (key, object) in &run.end.objects {
        let (newest, observed) = (generation(object), observed_generation(object));
        if let Some(observed) = observed.filter(|observed| *observed < newest) {
            let text = format!(
                "the status of {key} is that of generation {observed}, the object is at {newest}"
            );
            verdict.add(Oracle::Truthful, text, Vec::new());
        }
    }
}

/// The observed generation never decreases.
fn backwards(run: &Outcome, verdict: &mut Verdict) {
    for (change, write) in run.by_operator() {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
        if let (Some(old), Some(new)) = (observed_generation(before), observed_generation(after))
            && new < old
        {
            let text =
                format!("the status of {} goes back from generation {old} to {new}", change.key);
            let line = format!("{:.3} s  {}", write.at.as_secs_f64(), write.site.words());
            verdict.add(Oracle::Truthful, text, vec![line]);
            return;
        }
    }
}

/// At rest, what claims to be ready has workloads that are available.
fn at_rest(run: &Outcome, verdict: &mut Verdict) {
    for (key, object) in run.end.objects.iter().filter(|(_, object)| claim(object).is_some()) {
        for (child_key, child) in children(&run.end, object) {
            let (wanted, available) = replicas(child_key, child);
            if available < wanted {
                let text = format!(
                    "{key} claims to be ready, but {available} of {wanted} pods of {child_key} are"
                );
                verdict.add(Oracle::Truthful, text, Vec::new());
            }
        }
    }
}

/// Nothing claims to be ready for a generation because of what was true for an earlier one.
fn too_early(run: &Outcome, verdict: &mut Verdict) {
    let mut world = World::default();
    // Who made the newest generation of each object.
    let mut makers = BTreeMap::<&ObjectKey, bool>::new();
    for (change, write) in run.changes() {
        world.apply(change);
        let Some(after) = &change.after else { continue };
        let by_operator = write.is_some_and(|write| write.actor != "user");
        let before = change.before.as_deref().unwrap_or(&Value::Null);
        if generation(after) != generation(before) {
            makers.insert(&change.key, by_operator);
        }
        let (Some(claimed), true) = (claim(after), by_operator) else { continue };
        if claim(before) == Some(claimed) {
            continue;
        }
        for (key, child) in children(&world, after) {
            if makers.get(key) == Some(&true)
                && let Some(why) = unfinished(key, child)
            {
                let text = format!(
                    "{} claims to be ready for generation {claimed} although {key}, which the \
                     operator has changed for it, is not: {why}",
                    change.key
                );
                verdict.add(Oracle::Truthful, text, Vec::new());
                return;
            }
        }
    }
}

/// Why the newest generation of a workload is not in effect yet, if it is not.
fn unfinished(key: &ObjectKey, workload: &Value) -> Option<String> {
    let (newest, observed) = (generation(workload), observed_generation(workload).unwrap_or(0));
    if observed < newest {
        return Some(format!("it is at generation {newest}, and its status at {observed}"));
    }
    let status = |field: &str| workload["status"][field].as_i64().unwrap_or_default();
    if key.resource == "deployments.apps" {
        let (wanted, _) = replicas(key, workload);
        let (updated, all) = (status("updatedReplicas"), status("replicas"));
        if updated < wanted || all > updated {
            return Some(format!("{updated} of {wanted} pods are updated, and {all} exist"));
        }
    }
    None
}

/// The generation for which an object claims to be ready.
fn claim(object: &Value) -> Option<i64> {
    let status = &object["status"];
    let conditions = status["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| {
        let kind = condition["type"].as_str().unwrap_or_default();
        matches!(kind, "Ready" | "Available") && condition["status"] == "True"
    });
    let newest = || observed_generation(object).unwrap_or_else(|| generation(object));
    let plain =
        status["ready"] == true || status["phase"] == "Ready" || status["phase"] == "Available";
    match ready {
        Some(condition) => Some(condition["observedGeneration"].as_i64().unwrap_or_else(newest)),
        None => plain.then(newest),
    }
}

/// The workloads that an object of another kind owns.
fn children<'a>(
    world: &'a World,
    owner: &Value,
) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
    let uid = owner["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    world.objects.iter().filter_map(move |(key, object)| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let owned = owners.into_iter().flatten().any(|owner| owner["uid"] == *uid);
        let workload = WORKLOADS.contains(&key.resource.as_str());
        (owned && workload && !uid.is_empty()).then_some((key, &**object))
    })
}

/// How many pods a workload wants, and how many are available.
fn replicas(key: &ObjectKey, object: &Value) -> (i64, i64) {
    let status = |field: &str| object["status"][field].as_i64().unwrap_or_default();
    match key.resource.as_str() {
        "daemonsets.apps" => (status("desiredNumberScheduled"), status("numberAvailable")),
        _ => {
            let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
            (wanted, status("availableReplicas").max(status("readyReplicas")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_a_condition_a_flag_or_a_phase() {
        let meta = json!({"generation": 4});
        let condition = json!([{"type": "Ready", "status": "True", "observedGeneration": 3}]);
        let claims = [
            (json!({"metadata": meta, "status": {"conditions": condition}}), Some(3)),
            (json!({"metadata": meta, "status": {"ready": true}}), Some(4)),
            (
                json!({"metadata": meta, "status": {"phase": "Ready", "observedGeneration": 2}}),
                Some(2),
            ),
            (json!({"metadata": meta, "status": {"ready": false}}), None),
            (json!({"metadata": meta}), None),
        ];
        for (object, expected) in claims {
            assert_eq!(claim(&object), expected, "{object}");
        }
    }
}
