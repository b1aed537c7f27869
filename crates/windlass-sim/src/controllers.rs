//! Which embedded controllers a scenario needs: those whose kinds occur in it.
//!
//! A controller that has nothing to do costs its watches in every run.

use std::collections::BTreeSet;

use crate::sim::Outcome;
use crate::trace::What;

/// Controllers by the resource that needs them; `node` stands for the nodes and the scheduler.
const NEEDED_FOR: &[(&str, &[&str])] = &[
    ("deployments.apps", &["deployment", "replicaset", "node", "garbagecollector"]),
    ("replicasets.apps", &["replicaset", "node", "garbagecollector"]),
    ("replicationcontrollers", &["replicationcontroller", "node", "garbagecollector"]),
    ("statefulsets.apps", &["statefulset", "node", "garbagecollector"]),
    ("daemonsets.apps", &["daemonset", "node", "garbagecollector"]),
    ("jobs.batch", &["job", "ttl-after-finished", "node", "garbagecollector"]),
    ("cronjobs.batch", &["cronjob", "job", "node", "garbagecollector"]),
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
    let (mut owners, mut deleted) = (BTreeSet::new(), BTreeSet::new());
    let mut claims = false;
    for change in &run.history {
        resources.insert(change.key.resource.as_str());
        if let (Some(before), None) = (&change.before, &change.after) {
            deleted.extend(before["metadata"]["uid"].as_str());
        }
        let states = change.before.iter().chain(&change.after);
        for object in states {
            let references = object["metadata"]["ownerReferences"].as_array();
            owners.extend(references.into_iter().flatten().filter_map(|o| o["uid"].as_str()));
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
    // Its many watches cost more than everything else, so it runs only if an owner goes.
    if !owners.is_disjoint(&deleted) {
        needed.insert("garbagecollector");
    }
    if claims || resources.contains("persistentvolumes") {
        needed.extend(["persistentvolume-binder", "persistentvolumeclaim-protection"]);
    }
    needed
}
