//! What the table of first objects is made of: a test writes it from these parts, and sees that
//! it still agrees with them.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::auth::{RBAC_GROUP, aggregate, text};

mod flow;

/// The placeholders of a server's own values, see [`Seed`](crate::store::Seed).
const TIME: &str = "\u{1}";
const VERSION: &str = "\u{2}";
const UID: &str = "\u{3}";

/// Where the service `default/kubernetes` is reached by, and the range its address is from.
const CLUSTER_IP: &str = "10.0.0.1";
const SERVICE_CIDR: &str = "10.0.0.0/24";
const ADDRESS: &str = "127.0.0.1";
const PORT: u16 = 6443;

/// Returns all first objects, without uid, versions and times.
pub fn objects() -> Vec<Value> {
    let mut out: Vec<Value> =
        ["default", "kube-node-lease", "kube-public", "kube-system"].map(namespace).into();
    out.extend(priority_classes());
    out.extend(rbac());
    out.extend(flow::objects());
    out.extend(api_services());
    out.extend(own_service());
    out
}

/// Returns an object without apiVersion and kind, encoded with its holes.
pub fn body(mut object: Value) -> String {
    let metadata = crate::object::meta_mut(&mut object);
    metadata.insert("uid".into(), UID.into());
    metadata.insert("creationTimestamp".into(), TIME.into());
    metadata.insert("resourceVersion".into(), VERSION.into());
    String::from_utf8(crate::object::encode(&object)).expect("JSON is UTF-8")
}

fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
    })
}

fn priority_classes() -> [Value; 2] {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        })
    };
    [
        class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to \
             another node if necessary.",
        ),
        class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ]
}

/// A line of the table of roles and bindings.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    kind: Value,
    name: Value,
    namespace: Option<Value>,
    #[serde(default)]
    labels: Map<String, Value>,
    rules: Option<Value>,
    aggregation_rule: Option<Value>,
    /// The kind and name of a binding's role.
    role: Option<String>,
    #[serde(default)]
    subjects: Vec<String>,
}

/// Roles and bindings from the table, aggregated roles filled.
fn rbac() -> Vec<Value> {
    let table = include_str!("../../../data/bootstrap-rbac.jsonl");
    let mut out: Vec<Value> = table
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| rbac_object(serde_json::from_str(line).expect("the table is ours and valid")))
        .collect();
    out.sort_by(|a, b| key(a).cmp(&key(b)));
    // An aggregated role may feed another (view, edit, admin): a pass per link of the chain.
    for _ in 0..3 {
        let roles = out.iter().filter(|o| o["kind"] == "ClusterRole");
        let filled = out.iter().map(|role| aggregate(role, roles.clone())).collect::<Vec<_>>();
        for (object, rules) in out.iter_mut().zip(filled) {
            if let Some(rules) = rules {
                object["rules"] = rules.into();
            }
        }
    }
    out
}

fn key(object: &Value) -> (&str, &str, &str) {
    let metadata = &object["metadata"];
    (text(object, &["kind"]), text(metadata, &["namespace"]), text(metadata, &["name"]))
}

fn rbac_object(line: Line) -> Value {
    let mut labels = line.labels;
    labels.insert("kubernetes.io/bootstrapping".into(), "rbac-defaults".into());
    let annotations = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
    let mut metadata = Map::from_iter([
        ("name".to_owned(), line.name),
        ("labels".to_owned(), labels.into()),
        ("annotations".to_owned(), annotations),
    ]);
    metadata.extend(line.namespace.map(|namespace| ("namespace".to_owned(), namespace)));
    let mut out = Map::from_iter([
        ("apiVersion".to_owned(), format!("{RBAC_GROUP}/v1").into()),
        ("kind".to_owned(), line.kind),
        ("metadata".to_owned(), metadata.into()),
    ]);
    out.extend(line.rules.map(|rules| ("rules".to_owned(), rules)));
    out.extend(line.aggregation_rule.map(|rule| ("aggregationRule".to_owned(), rule)));
    if let Some((kind, name)) = line.role.as_deref().and_then(|role| role.split_once('/')) {
        let role = json!({"apiGroup": RBAC_GROUP, "kind": kind, "name": name});
        out.insert("roleRef".to_owned(), role);
        if !line.subjects.is_empty() {
            let subjects = line.subjects.iter().map(|s| subject(s)).collect();
            out.insert("subjects".to_owned(), Value::Array(subjects));
        }
    }
    out.into()
}

fn subject(short: &str) -> Value {
    let (kind, name) = short.split_once(':').unwrap_or(("User", short));
    match (kind, name.split_once('/')) {
        ("ServiceAccount", Some((namespace, name))) => {
            json!({"kind": kind, "name": name, "namespace": namespace})
        }
        _ => json!({"apiGroup": RBAC_GROUP, "kind": kind, "name": name}),
    }
}

/// The group versions the server registers for itself, with their priorities.
const API_SERVICES: [(&str, &str, u32, u32); 21] = [
    ("", "v1", 18000, 1),
    ("admissionregistration.k8s.io", "v1", 16700, 15),
    ("apiextensions.k8s.io", "v1", 16700, 15),
    ("apps", "v1", 17800, 15),
    ("authentication.k8s.io", "v1", 17700, 15),
    ("authorization.k8s.io", "v1", 17600, 15),
    ("autoscaling", "v1", 17500, 15),
    ("autoscaling", "v2", 17500, 30),
    ("batch", "v1", 17400, 15),
    ("certificates.k8s.io", "v1", 17300, 15),
    ("coordination.k8s.io", "v1", 16500, 15),
    ("discovery.k8s.io", "v1", 16200, 15),
    ("events.k8s.io", "v1", 17750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16100, 21),
    ("networking.k8s.io", "v1", 17200, 15),
    ("node.k8s.io", "v1", 16300, 15),
    ("policy", "v1", 17100, 15),
    ("rbac.authorization.k8s.io", "v1", 17000, 15),
    ("resource.k8s.io", "v1", 16200, 20),
    ("scheduling.k8s.io", "v1", 16600, 15),
    ("storage.k8s.io", "v1", 16800, 15),
];

fn api_services() -> impl Iterator<Item = Value> {
    API_SERVICES.into_iter().map(|(group, version, group_priority, version_priority)| {
        let mut spec = json!({
            "version": version, "groupPriorityMinimum": group_priority,
            "versionPriority": version_priority,
        });
        if !group.is_empty() {
            spec["group"] = group.into();
        }
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {
                "name": format!("{version}.{group}"),
                "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
            },
            "spec": spec,
            "status": {"conditions": [{
                "type": "Available", "status": "True", "reason": "Local",
                "message": "Local APIServices are always available",
                "lastTransitionTime": TIME,
            }]},
        })
    })
}

/// The service the server is reached by from inside, and what belongs to it.
fn own_service() -> Vec<Value> {
    let port = json!({"name": "https", "port": PORT, "protocol": "TCP"});
    let meta =
        |labels: Value| json!({"name": "kubernetes", "namespace": "default", "labels": labels});
    vec![
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": meta(json!({"component": "apiserver", "provider": "kubernetes"})),
            "spec": {
                "clusterIP": CLUSTER_IP, "clusterIPs": [CLUSTER_IP], "type": "ClusterIP",
                "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP",
                           "targetPort": PORT}],
            },
            "status": {"loadBalancer": {}},
        }),
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": meta(json!({"endpointslice.kubernetes.io/skip-mirror": "true"})),
            "subsets": [{"addresses": [{"ip": ADDRESS}], "ports": [port]}],
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": meta(json!({"kubernetes.io/service-name": "kubernetes"})),
            "addressType": "IPv4", "ports": [port],
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": true}}],
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes",
                         "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
            "spec": {"cidrs": [SERVICE_CIDR]},
            "status": {"conditions": [{
                "type": "Ready", "status": "True", "reason": "",
                "message": "Kubernetes default Service CIDR is ready",
                "lastTransitionTime": TIME,
            }]},
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {"name": CLUSTER_IP, "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            }},
            "spec": {"parentRef": {"resource": "services", "namespace": "default",
                                   "name": "kubernetes"}},
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(kind: &str) -> usize {
        objects().iter().filter(|o| o["kind"] == kind).count()
    }

    #[test]
    fn the_first_roles_and_bindings_are_as_many_as_the_real_ones() {
        assert_eq!(count("ClusterRole"), 69);
        assert_eq!(count("ClusterRoleBinding"), 50);
        assert_eq!((count("Role"), count("RoleBinding")), (7, 7));
        assert_eq!(count("Namespace"), 4);
        assert_eq!(count("PriorityLevelConfiguration"), 8);
        assert_eq!(count("FlowSchema"), 13);
    }

    #[test]
    fn aggregated_roles_hold_the_rules_of_all_they_gather() {
        let all = objects();
        let rules = |name: &str| {
            let role = all.iter().find(|o| o["metadata"]["name"] == name).unwrap();
            role["rules"].as_array().unwrap().clone()
        };
        let (view, edit, admin) = (rules("view"), rules("edit"), rules("admin"));
        assert!(!view.is_empty());
        assert!(view.iter().all(|r| edit.contains(r)));
        assert!(edit.iter().all(|r| admin.contains(r)));
    }

    #[test]
    fn no_two_objects_share_a_name() {
        let all = objects();
        let mut keys: Vec<_> = all.iter().map(|o| (text(o, &["apiVersion"]), key(o))).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
