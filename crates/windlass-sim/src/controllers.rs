//! Which embedded controllers a scenario needs: those whose kinds occur in it.
//!
//! A controller that has nothing to do costs its watches in every run.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::sim::Outcome;
use crate::trace::What;

/// The garbage collector.
pub(crate) const COLLECTOR: &str = "garbagecollector";

/// Controllers by the resource that needs them; `node` stands for the nodes and the scheduler.
const NEEDED_FOR: &[(&str, &[&str])] = &[
    ("deployments.apps", &["deployment", "replicaset", "node"]),
    ("replicasets.apps", &["replicaset", "node"]),
    ("replicationcontrollers", &["replicationcontroller", "node"]),
    ("statefulsets.apps", &["statefulset", "node"]),
    ("daemonsets.apps", &["daemonset", "node"]),
    ("jobs.batch", &["job", "ttl-after-finished", "node"]),
    ("cronjobs.batch", &["cronjob", "job", "node"]),
    ("pods", &["node"]),
    ("services", &["endpointslice", "endpoints"]),
    ("poddisruptionbudgets.policy", &["disruption"]),
    ("resourcequotas", &["resourcequota"]),
    ("persistentvolumes", &["persistentvolume-binder", "persistentvolume-protection"]),
    ("horizontalpodautoscalers.autoscaling", &["horizontal-pod-autoscaler"]),
    (
        "namespaces",
        &["namespace", "serviceaccount", "serviceaccount-token", "root-ca-certificate-publisher"],
    ),
    ("serviceaccounts", &["serviceaccount", "serviceaccount-token"]),
    ("nodes", &["node", "node-lifecycle", "pod-garbage-collector"]),
    ("clusterroles.rbac.authorization.k8s.io", &["clusterrole-aggregation"]),
    (
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        &["validatingadmissionpolicy-status"],
    ),
];

/// The controllers that a run like this one needs.
pub(crate) fn needed(run: &Outcome) -> BTreeSet<&'static str> {
    let mut resources = BTreeSet::new();
    let mut claims = false;
    for change in &run.history {
        resources.insert(change.key.resource.as_str());
        let states = change.before.iter().chain(&change.after);
        for object in states {
            let volumes = object["spec"]["volumes"].as_array();
            claims |= volumes.into_iter().flatten().any(|v| !v["persistentVolumeClaim"].is_null());
        }
    }
    for record in &run.trace {
        if let What::Request { site, .. } = &record.what
            && (site.writes() || site.verb == "watch")
        {
            resources.insert(site.resource.as_str());
        }
    }
    let mut needed = BTreeSet::new();
    for (resource, controllers) in NEEDED_FOR {
        if resources.contains(resource) {
            needed.extend(controllers.iter().copied());
        }
    }
    if collects(run) {
        needed.insert(COLLECTOR);
    }
    if claims || resources.contains("persistentvolumes") {
        needed.extend(["persistentvolume-binder", "persistentvolumeclaim-protection"]);
    }
    needed
}

/// Returns `true` if the garbage collector has something to do in a run: an owner is missing, or a
/// deletion waits for it.
///
/// Its many watches cost more than everything else, so it runs only then. A fault may need it although
/// the reference does not.
pub(crate) fn collects(run: &Outcome) -> bool {
    let (mut owners, mut there) = (BTreeSet::new(), BTreeSet::new());
    let mut waits = false;
    for change in &run.history {
        for object in change.before.iter().chain(&change.after) {
            let meta = &object["metadata"];
            let references = meta["ownerReferences"].as_array().into_iter().flatten();
            owners.extend(references.filter_map(|owner| owner["uid"].as_str()));
            let finalizers = meta["finalizers"].as_array().into_iter().flatten();
            let mut finalizers = finalizers.filter_map(|name| name.as_str());
            waits |= finalizers.any(|name| matches!(name, "foregroundDeletion" | "orphan"));
        }
        let uid = |object: &'_ Arc<Value>| object["metadata"]["uid"].as_str().map(str::to_owned);
        match (&change.before, &change.after) {
            (_, Some(after)) => there.extend(uid(after)),
            (Some(before), None) => {
                if let Some(uid) = uid(before) {
                    there.remove(&uid);
                }
            }
            (None, None) => {}
        }
    }
    waits || owners.iter().any(|uid| !there.contains(*uid))
}
