//! The objects every server starts with.
//!
//! What does not depend on the server (roles, bindings, priorities, namespaces) is built once per
//! process; the rest names the server's address and is built for each.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{RBAC_GROUP, aggregate, stamp, strings, text};

mod flow;

/// What the first objects tell of their server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the server can be reached.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// The address of the service `default/kubernetes`.
    pub cluster_ip: String,
    /// The range that addresses of services come from.
    pub service_cidr: String,
    /// The certificate of the CA that signs client certificates, as PEM.
    pub client_ca: String,
    /// The time the objects are made.
    pub now: Timestamp,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 6443,
            cluster_ip: "10.0.0.1".into(),
            service_cidr: "10.0.0.0/24".into(),
            client_ca: String::new(),
            now: Timestamp::UNIX_EPOCH,
        }
    }
}

/// All first objects of a server on its usual address, without uid, times and versions.
pub fn bootstrap_objects() -> Vec<Value> {
    objects(&Options::default())
}

/// All first objects of a server; namespaces come first.
pub fn objects(options: &Options) -> Vec<Value> {
    let mut out = fixed().to_vec();
    let now = stamp(options.now);
    for object in &mut out {
        // Only the times of conditions are open in what is shared.
        let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            condition["lastTransitionTime"] = now.clone().into();
        }
    }
    out.extend(own_service(options));
    out
}

fn fixed() -> &'static [Value] {
    static FIXED: OnceLock<Vec<Value>> = OnceLock::new();
    FIXED.get_or_init(|| {
        let mut out: Vec<Value> =
            ["default", "kube-node-lease", "kube-public", "kube-system"].map(namespace).into();
        out.extend(priority_classes());
        out.extend(rbac());
        out.extend(flow::objects());
        out.extend(api_services());
        out
    })
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

/// Roles and bindings from the table, aggregated roles filled.
fn rbac() -> Vec<Value> {
    let table = include_str!("../../data/bootstrap-rbac.jsonl");
    let mut out: Vec<Value> = table
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| rbac_object(&serde_json::from_str(line).expect("the table is ours and valid")))
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

fn rbac_object(line: &Value) -> Value {
    let mut labels = line["labels"].as_object().cloned().unwrap_or_default();
    labels.insert("kubernetes.io/bootstrapping".into(), "rbac-defaults".into());
    let mut metadata = Map::new();
    metadata.insert("name".into(), line["name"].clone());
    if let Some(namespace) = line.get("namespace") {
        metadata.insert("namespace".into(), namespace.clone());
    }
    metadata.insert("labels".into(), labels.into());
    metadata.insert(
        "annotations".into(),
        json!({"rbac.authorization.kubernetes.io/autoupdate": "true"}),
    );
    let mut out = json!({
        "apiVersion": format!("{RBAC_GROUP}/v1"), "kind": line["kind"], "metadata": metadata,
    });
    for field in ["rules", "aggregationRule"] {
        if let Some(value) = line.get(field) {
            out[field] = value.clone();
        }
    }
    if let Some((kind, name)) = text(line, &["role"]).split_once('/') {
        out["roleRef"] = json!({"apiGroup": RBAC_GROUP, "kind": kind, "name": name});
        let subjects: Vec<Value> = strings(&line["subjects"]).iter().map(|s| subject(s)).collect();
        if !subjects.is_empty() {
            out["subjects"] = subjects.into();
        }
    }
    out
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
            }]},
        })
    })
}

/// The service the server is reached by from inside, and what belongs to it.
fn own_service(options: &Options) -> Vec<Value> {
    let Options { address, port, cluster_ip, service_cidr, client_ca, now } = options;
    let family = |v6: bool| if v6 { "IPv6" } else { "IPv4" };
    let service_family = family(cluster_ip.contains(':'));
    let port = json!({"name": "https", "port": port, "protocol": "TCP"});
    let meta =
        |labels: Value| json!({"name": "kubernetes", "namespace": "default", "labels": labels});
    let mut config = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
    });
    if !client_ca.is_empty() {
        config["data"] = json!({"client-ca-file": client_ca});
    }
    vec![
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": meta(json!({"component": "apiserver", "provider": "kubernetes"})),
            "spec": {
                "clusterIP": cluster_ip, "clusterIPs": [cluster_ip], "type": "ClusterIP",
                "internalTrafficPolicy": "Cluster", "ipFamilies": [service_family],
                "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP",
                           "targetPort": options.port}],
            },
            "status": {"loadBalancer": {}},
        }),
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": meta(json!({"endpointslice.kubernetes.io/skip-mirror": "true"})),
            "subsets": [{"addresses": [{"ip": address}], "ports": [port]}],
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": meta(json!({"kubernetes.io/service-name": "kubernetes"})),
            "addressType": family(address.is_ipv6()), "ports": [port],
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes",
                         "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
            "spec": {"cidrs": [service_cidr]},
            "status": {"conditions": [{
                "type": "Ready", "status": "True", "reason": "",
                "message": "Kubernetes default Service CIDR is ready",
                "lastTransitionTime": stamp(*now),
            }]},
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {"name": cluster_ip, "labels": {
                "ipaddress.kubernetes.io/ip-family": service_family,
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            }},
            "spec": {"parentRef": {"resource": "services", "namespace": "default",
                                   "name": "kubernetes"}},
        }),
        config,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(kind: &str) -> usize {
        bootstrap_objects().iter().filter(|o| o["kind"] == kind).count()
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
        let all = bootstrap_objects();
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
        let all = bootstrap_objects();
        let mut keys: Vec<_> = all.iter().map(|o| (text(o, &["apiVersion"]), key(o))).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
