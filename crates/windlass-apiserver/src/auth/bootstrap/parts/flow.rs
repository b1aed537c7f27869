//! The flow schemas and priority levels of a fresh server. They are served, not acted on.

use serde_json::{Value, json};

/// All of them, priority levels first.
pub(super) fn objects() -> Vec<Value> {
    let mut out = levels();
    out.extend(schemas());
    out
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}})
}

fn levels() -> Vec<Value> {
    let level = |name: &str, spec: Value| {
        json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
            "metadata": metadata(name), "spec": spec, "status": {},
        })
    };
    let queued = |name: &str, shares: u32, lendable: u32, queues: u32, hand: u32| {
        let response = json!({
            "type": "Queue",
            "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50},
        });
        let limited = json!({
            "nominalConcurrencyShares": shares, "lendablePercent": lendable,
            "limitResponse": response,
        });
        level(name, json!({"type": "Limited", "limited": limited}))
    };
    let exempt = json!({"nominalConcurrencyShares": 0, "lendablePercent": 0});
    let catch_all = json!({
        "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"},
    });
    vec![
        level("catch-all", json!({"type": "Limited", "limited": catch_all})),
        level("exempt", json!({"type": "Exempt", "exempt": exempt})),
        queued("global-default", 20, 50, 128, 6),
        queued("leader-election", 10, 0, 16, 4),
        queued("node-high", 40, 25, 64, 6),
        queued("system", 30, 33, 64, 6),
        queued("workload-high", 40, 50, 128, 6),
        queued("workload-low", 100, 90, 128, 6),
    ]
}

fn group(name: &str) -> Value {
    json!({"kind": "Group", "group": {"name": name}})
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "user": {"name": name}})
}

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount",
           "serviceAccount": {"name": name, "namespace": "kube-system"}})
}

/// A rule for some resources in namespaces.
fn some(verbs: &[&str], api_group: &str, resources: &[&str], namespace: &str) -> Value {
    json!({"verbs": verbs, "apiGroups": [api_group], "resources": resources,
           "namespaces": [namespace]})
}

/// A rule for everything, by some subjects.
fn everything(subjects: Vec<Value>) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                           "clusterScope": true, "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })
}

fn schema(name: &str, level: &str, precedence: u32, by: &str, rule: &Value) -> Value {
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence,
        "rules": [rule],
    });
    if !by.is_empty() {
        spec["distinguisherMethod"] = json!({"type": by});
    }
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" and it \
         exists"
    );
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": metadata(name), "spec": spec,
        "status": {"conditions": [
            {"type": "Dangling", "status": "False", "reason": "Found", "message": message},
        ]},
    })
}

fn schemas() -> Vec<Value> {
    let everybody = || vec![group("system:unauthenticated"), group("system:authenticated")];
    let nodes = || vec![group("system:nodes")];
    let accounts = || vec![account("*")];
    let lead = ["get", "create", "update"];
    let old_locks = some(&lead, "", &["endpoints", "configmaps"], "*");
    let leases = some(&lead, "coordination.k8s.io", &["leases"], "*");
    let system_election = json!({
        "subjects": [user("system:kube-controller-manager"), user("system:kube-scheduler"),
                     account("*")],
        "resourceRules": [leases.clone()],
    });
    let workload_election = json!({"subjects": accounts(), "resourceRules": [old_locks, leases]});
    let mut own = some(&["*"], "", &["nodes", "nodes/status"], "*");
    own["clusterScope"] = true.into();
    let node_high = json!({
        "subjects": nodes(),
        "resourceRules": [own, some(&["*"], "coordination.k8s.io", &["leases"], "*")],
    });
    let endpoints = json!({
        "subjects": [user("system:kube-controller-manager"), account("endpoint-controller"),
                     account("endpointslicemirroring-controller")],
        "resourceRules": [some(&lead, "", &["endpoints"], "*")],
    });
    let probes = json!({
        "subjects": everybody(),
        "nonResourceRules": [
            {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]},
        ],
    });
    let manager = everything(vec![user("system:kube-controller-manager")]);
    let scheduler = everything(vec![user("system:kube-scheduler")]);
    let masters = everything(vec![group("system:masters")]);
    let services = everything(vec![group("system:serviceaccounts")]);
    let all = everything(everybody());
    let (by_user, by_namespace) = ("ByUser", "ByNamespace");
    vec![
        schema("catch-all", "catch-all", 10000, by_user, &all),
        schema("endpoint-controller", "workload-high", 150, by_user, &endpoints),
        schema("exempt", "exempt", 1, "", &masters),
        schema("global-default", "global-default", 9900, by_user, &all),
        schema("kube-controller-manager", "workload-high", 800, by_namespace, &manager),
        schema("kube-scheduler", "workload-high", 800, by_namespace, &scheduler),
        schema(
            "kube-system-service-accounts",
            "workload-high",
            900,
            by_namespace,
            &everything(accounts()),
        ),
        schema("probes", "exempt", 2, "", &probes),
        schema("service-accounts", "workload-low", 9000, by_user, &services),
        schema("system-leader-election", "leader-election", 100, by_user, &system_election),
        schema("system-node-high", "node-high", 400, by_user, &node_high),
        schema("system-nodes", "system", 500, by_user, &everything(nodes())),
        schema("workload-leader-election", "leader-election", 200, by_user, &workload_election),
    ]
}
