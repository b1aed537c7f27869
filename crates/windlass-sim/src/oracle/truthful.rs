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
    counted(check.run, verdict);
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

/// At rest, what claims to be ready has workloads that are available, pods that are ready and a job
/// that is complete.
fn at_rest(run: &Outcome, verdict: &mut Verdict) {
    for (key, object) in run.end.objects.iter().filter(|(_, object)| claim(object).is_some()) {
        if is_built_in(run, key) {
            continue;
        }
        let mut jobs = Vec::new();
        for (child_key, child) in owned(&run.end, object) {
            let text = match child_key.resource.as_str() {
                "pods" => unready(child).map(|why| format!("{child_key} {why}")),
                "jobs.batch" if child["spec"]["suspend"] != true => {
                    jobs.push((child_key, child));
                    None
                }
                _ if is_workload(child_key) => {
                    let (wanted, available) = replicas(child_key, child);
                    let lacks = available < wanted;
                    lacks.then(|| format!("{available} of {wanted} pods of {child_key} are"))
                }
                _ => None,
            };
            if let Some(text) = text {
                let text = format!("{key} claims to be ready, but {text}");
                verdict.add(Oracle::Truthful, text, Vec::new());
            }
        }
        // Older jobs are kept for their history.
        if let Some((job, _)) = jobs.first()
            && !jobs.iter().any(|(_, job)| is_true(job, "Complete"))
        {
            let text = format!("{key} claims to be ready, but {job} is not complete");
            verdict.add(Oracle::Truthful, text, Vec::new());
        }
    }
}

/// Kinds of the cluster itself: a Deployment is available while some of its pods are not.
fn is_built_in(run: &Outcome, key: &ObjectKey) -> bool {
    let custom = run.definitions.iter().filter_map(crate::sim::kind_of);
    !custom
        .into_iter()
        .any(|kind| crate::site::resource(kind.group(), kind.plural()) == key.resource)
}

/// Why a pod is not ready, if it is one that runs and should be.
fn unready(pod: &Value) -> Option<&'static str> {
    let always = pod["spec"]["restartPolicy"].as_str().is_none_or(|policy| policy == "Always");
    match pod["status"]["phase"].as_str() {
        Some("Succeeded") => None,
        Some("Failed") if !always => None,
        Some("Failed") => Some("has failed"),
        _ if is_true(pod, "Ready") => None,
        _ => Some("is not ready"),
    }
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == condition && c["status"] == "True")
}

/// At rest, a status that counts ready or available pods has the count of one of the workloads that
/// the object owns, of all of them together, or of the pods that it owns itself.
fn counted(run: &Outcome, verdict: &mut Verdict) {
    for (key, object) in &run.end.objects {
        let claimed = ["readyReplicas", "availableReplicas"]
            .into_iter()
            .find_map(|field| Some((field, object["status"][field].as_i64()?)));
        let Some((field, claimed)) = claimed.filter(|_| !is_built_in(run, key)) else { continue };
        let mut counts = Vec::new();
        let mut pods = (0, 0);
        for (child_key, child) in owned(&run.end, object) {
            if is_workload(child_key) {
                counts.push(replicas(child_key, child).1);
            } else if child_key.resource == "pods" {
                pods = (pods.0 + 1, pods.1 + i64::from(is_true(child, "Ready")));
            }
        }
        if counts.len() > 1 {
            counts.push(counts.iter().sum());
        }
        if pods.0 > 0 {
            counts.push(pods.1);
        }
        if !counts.is_empty() && !counts.contains(&claimed) {
            let text = format!("{key} has {field} {claimed}, and there are {}", list(&counts));
            verdict.add(Oracle::Truthful, text, Vec::new());
        }
    }
}

fn list(counts: &[i64]) -> String {
    counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

/// Nothing claims to be ready for a generation because of what was true for an earlier one.
fn too_early(run: &Outcome, verdict: &mut Verdict) {
    let mut world = World::default();
    // Who made the newest generation of each object.
    let mut makers = BTreeMap::<&ObjectKey, bool>::new();
    // The newest generation of each workload whose pods were all available once.
    let mut reached = BTreeMap::<&ObjectKey, i64>::new();
    for (change, write) in run.changes() {
        world.apply(change);
        let Some(after) = &change.after else { continue };
        if is_workload(&change.key) && unavailable(&change.key, after).is_none() {
            reached.insert(&change.key, generation(after));
        }
        let by_operator = write.is_some_and(|write| write.actor != "user");
        let before = change.before.as_deref().unwrap_or(&Value::Null);
        if generation(after) != generation(before) {
            makers.insert(&change.key, by_operator);
        }
        let (Some(claimed), true) = (claim(after), by_operator) else { continue };
        if claim(before) == Some(claimed) || is_built_in(run, &change.key) {
            continue;
        }
        for (key, child) in children(&world, after) {
            let before = reached.get(key) == Some(&generation(child));
            let why = || unavailable(key, child).filter(|_| !before);
            if makers.get(key) == Some(&true)
                && let Some(why) = unfinished(key, child).or_else(why)
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
    let (wanted, _) = replicas(key, workload);
    let (updated, all) = match key.resource.as_str() {
        "deployments.apps" => (status("updatedReplicas"), status("replicas")),
        // Not every rollout of these is meant to reach all pods.
        _ if holds_back(workload) => return None,
        "statefulsets.apps" => (status("updatedReplicas"), status("replicas")),
        "daemonsets.apps" => (status("updatedNumberScheduled"), wanted),
        _ => return None,
    };
    let unfinished = updated < wanted || all > updated;
    unfinished.then(|| format!("{updated} of {wanted} pods are updated, and {all} exist"))
}

/// Why not all pods of a workload are available, as far as its status says.
fn unavailable(key: &ObjectKey, workload: &Value) -> Option<String> {
    let observed = observed_generation(workload).unwrap_or_default();
    let (wanted, available) = replicas(key, workload);
    let all = observed >= generation(workload) && available >= wanted;
    (!all)
        .then(|| format!("{available} of {wanted} pods are available, and it was never available"))
}

/// Returns `true` if a workload replaces its pods only when somebody deletes them, or only some of them.
fn holds_back(workload: &Value) -> bool {
    let strategy = &workload["spec"]["updateStrategy"];
    strategy["type"] == "OnDelete"
        || strategy["rollingUpdate"]["partition"].as_i64().unwrap_or_default() > 0
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
    owned(world, owner).filter(|(key, _)| is_workload(key))
}

fn is_workload(key: &ObjectKey) -> bool {
    WORKLOADS.contains(&key.resource.as_str())
}

/// The objects that an object owns.
fn owned<'a>(world: &'a World, owner: &Value) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
    let uid = owner["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    world.objects.iter().filter_map(move |(key, object)| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let owned = owners.into_iter().flatten().any(|owner| owner["uid"] == *uid);
        (owned && !uid.is_empty()).then_some((key, &**object))
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

    /// A run that ends with a Deployment's worth of children below one custom object.
    fn ended(status: Value, children: &[(&str, Value)]) -> Vec<String> {
        let definition = json!({"spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "App", "plural": "apps"},
            "versions": [{"name": "v1", "storage": true}]}});
        let mut run = Outcome { definitions: vec![definition], ..Outcome::default() };
        let key = |resource: &str| ObjectKey {
            resource: resource.into(),
            namespace: "default".into(),
            name: "web".into(),
        };
        let app = json!({"metadata": {"uid": "1", "generation": 1}, "status": status});
        run.end.objects.insert(key("apps.example.com"), app.into());
        for (resource, child) in children {
            let mut child = child.clone();
            child["metadata"] = json!({"ownerReferences": [{"uid": "1"}]});
            run.end.objects.insert(key(resource), child.into());
        }
        let mut verdict = Verdict::default();
        at_rest(&run, &mut verdict);
        counted(&run, &mut verdict);
        verdict.violations.into_iter().map(|violation| violation.text).collect()
    }

    #[test]
    fn a_claim_is_compared_with_pods_jobs_and_all_workloads() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let up = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
        let pending = json!({"status": {"phase": "Pending"}});
        let sets =
            |ready: i32| json!({"spec": {"replicas": 2}, "status": {"readyReplicas": ready}});
        for (resource, good, bad) in [
            ("pods", up("Ready"), pending.clone()),
            ("jobs.batch", up("Complete"), up("Failed")),
            ("statefulsets.apps", sets(2), sets(1)),
            ("replicasets.apps", sets(2), sets(1)),
        ] {
            assert_eq!(ended(ready.clone(), &[(resource, good)]), [""; 0], "{resource}");
            assert_eq!(ended(ready.clone(), &[(resource, bad.clone())]).len(), 1, "{resource}");
            assert_eq!(ended(json!({}), &[(resource, bad)]), [""; 0], "it claims nothing");
        }
        let done = json!({"status": {"phase": "Succeeded"}});
        assert_eq!(ended(ready, &[("pods", done)]), [""; 0]);
    }

    #[test]
    fn a_count_is_that_of_what_the_object_owns() {
        let set = json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 2}});
        let count = |n: i32| json!({"readyReplicas": n});
        let sets = [("statefulsets.apps", set.clone()), ("deployments.apps", set)];
        assert_eq!(ended(count(2), &sets[..1]), [""; 0]);
        assert_eq!(ended(count(4), &sets), [""; 0], "of both together");
        assert_eq!(ended(count(2), &sets), [""; 0], "of one of them");
        assert_eq!(ended(count(3), &sets).len(), 1);
        assert_eq!(ended(count(3), &[]), [""; 0], "it owns nothing");
    }

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
