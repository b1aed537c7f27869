//! What an object uses of a quota, by kind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_text::quantity::{Format, Quantity};

use crate::admission::resources::{List, list, pod_limits, pod_requests};
use crate::admission::{Review, text};
use crate::builtin::rules::value;

/// Kinds that quotas know by a name of their own as well.
const PLAIN_NAMES: [&str; 4] =
    ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];
const COMPUTE: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
const CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";
/// What every container has to say when a quota counts it.
const EXPLICIT: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// How objects of a resource are counted.
#[derive(Clone, Copy)]
pub(super) enum Evaluator<'a> {
    Pods,
    Services,
    Claims,
    /// Only by their number: the name in `count/`, and the plain one.
    Objects(&'a str, &'a str),
}

impl<'a> Evaluator<'a> {
    /// Returns the evaluator of a write, if it is one that counts.
    pub fn of(review: &'a Review<'_>) -> Option<Self> {
        if review.namespace.is_empty() || review.concerns("", "namespaces") {
            return None;
        }
        let resized = review.subresource == "resize" && review.is_update();
        let resizes = review.concerns("", "pods") && resized;
        if !review.subresource.is_empty() && !resizes {
            return None;
        }
        let (group, plural) = (&*review.resource.gvk.group, &*review.resource.plural);
        let (evaluator, updates) = match (group, plural) {
            ("", "pods") => (Self::Pods, resized || gains_deadline(review)),
            ("", "services") => (Self::Services, true),
            ("", "persistentvolumeclaims") => (Self::Claims, true),
            _ => (Self::Objects(group, plural), false),
        };
        (review.is_create() || (updates && review.is_update())).then_some(evaluator)
    }

    /// Returns `true` if it counts the resource of this name.
    pub fn counts(self, name: &str) -> bool {
        match self {
            Self::Pods => {
                let bare = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits."));
                let compute =
                    |name: &str| COMPUTE.contains(&name) || name.starts_with("hugepages-");
                matches!(name, "pods" | "count/pods")
                    || compute(name)
                    || bare.is_some_and(compute)
                    || name.strip_prefix("requests.").is_some_and(is_extended)
            }
            Self::Services => matches!(
                name,
                "services" | "services.loadbalancers" | "services.nodeports" | "count/services"
            ),
            Self::Claims => {
                let class = name.split_once(CLASS_SUFFIX).map(|(_, what)| what);
                let plain = ["persistentvolumeclaims", "requests.storage"];
                name == "count/persistentvolumeclaims"
                    || plain.contains(&name)
                    || class.is_some_and(|what| plain.contains(&what))
            }
            Self::Objects(group, plural) => {
                name == count_name(group, plural)
                    || (group.is_empty() && name == plural && PLAIN_NAMES.contains(&plural))
            }
        }
    }

    /// Checks that the object says all that the quota counts.
    pub fn constraints(self, counted: &[&str], object: &Value) -> Result<(), String> {
        if !matches!(self, Self::Pods) {
            return Ok(());
        }
        let wanted: Vec<&str> =
            counted.iter().copied().filter(|name| EXPLICIT.contains(name)).collect();
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for field in ["containers", "initContainers"] {
            for container in value::items(&object["spec"], field) {
                let resources = &container["resources"];
                let said = compute(&list(&resources["requests"]), &list(&resources["limits"]));
                for name in wanted.iter().filter(|name| !said.contains_key(**name)) {
                    missing.entry(name).or_default().insert(text(container, &["name"]));
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let texts = missing.iter().map(|(resource, containers)| {
            let names: Vec<&str> = containers.iter().copied().collect();
            format!("{resource} for: {}", names.join(","))
        });
        Err(format!("must specify {}", texts.collect::<Vec<_>>().join("; ")))
    }

    /// Returns what the object uses.
    pub fn usage(self, object: &Value) -> List {
        match self {
            Self::Pods => pod(object),
            Self::Services => service(object),
            Self::Claims => claim(object),
            Self::Objects(group, plural) => {
                let mut usage = List::from([(count_name(group, plural), units(1))]);
                if group.is_empty() && PLAIN_NAMES.contains(&plural) {
                    usage.insert(plural.to_owned(), units(1));
                }
                usage
            }
        }
    }
}

/// Returns `true` if an update gives a pod a deadline, which moves it to other quotas.
fn gains_deadline(review: &Review<'_>) -> bool {
    let before = review.old.is_some_and(super::scope::is_terminating);
    review.is_update()
        && !before
        && review.object.as_ref().is_some_and(super::scope::is_terminating)
}

fn count_name(group: &str, plural: &str) -> String {
    match group {
        "" => format!("count/{plural}"),
        group => format!("count/{plural}.{group}"),
    }
}

fn units(count: usize) -> Quantity {
    Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi)
}

fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    !native && !name.starts_with("requests.")
}

fn pod(pod: &Value) -> List {
    let mut usage = List::from([("count/pods".to_owned(), units(1))]);
    if matches!(text(pod, &["status", "phase"]), "Failed" | "Succeeded") {
        return usage;
    }
    let spec = &pod["spec"];
    usage.insert("pods".into(), units(1));
    usage.extend(compute(&pod_requests(spec), &pod_limits(spec)));
    usage
}

/// Requests and limits under the names quotas have for them.
fn compute(requests: &List, limits: &List) -> List {
    let mut usage = List::new();
    for (name, amount) in requests {
        let page = name.starts_with("hugepages-");
        if COMPUTE.contains(&&**name) || page {
            usage.insert(name.clone(), amount.clone());
        }
        if COMPUTE.contains(&&**name) || page || is_extended(name) {
            usage.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for (name, amount) in limits {
        if COMPUTE.contains(&&**name) {
            usage.insert(format!("limits.{name}"), amount.clone());
        }
    }
    usage
}

fn service(service: &Value) -> List {
    let mut usage = List::from([
        ("count/services".to_owned(), units(1)),
        ("services".to_owned(), units(1)),
        ("services.loadbalancers".to_owned(), units(0)),
        ("services.nodeports".to_owned(), units(0)),
    ]);
    let ports = value::items(&service["spec"], "ports");
    match text(service, &["spec", "type"]) {
        "NodePort" => {
            usage.insert("services.nodeports".into(), units(ports.len()));
        }
        "LoadBalancer" => {
            let chosen = ports.iter().filter(|p| p["nodePort"].as_i64().unwrap_or(0) != 0).count();
            let all = service["spec"]["allocateLoadBalancerNodePorts"].as_bool().unwrap_or(true);
            let count = if all { ports.len() } else { chosen };
            usage.insert("services.nodeports".into(), units(count));
            usage.insert("services.loadbalancers".into(), units(1));
        }
        _ => {}
    }
    usage
}

fn claim(claim: &Value) -> List {
    let mut usage = List::from([
        ("count/persistentvolumeclaims".to_owned(), units(1)),
        ("persistentvolumeclaims".to_owned(), units(1)),
    ]);
    let annotation = "volume.beta.kubernetes.io/storage-class";
    let annotated = text(claim, &["metadata", "annotations", annotation]);
    let class = match annotated {
        "" => text(claim, &["spec", "storageClassName"]),
        class => class,
    };
    if !class.is_empty() {
        usage.insert(format!("{class}{CLASS_SUFFIX}persistentvolumeclaims"), units(1));
    }
    let storage = list(&claim["spec"]["resources"]["requests"]).remove("storage");
    if let Some(storage) = storage {
        if !class.is_empty() {
            usage.insert(format!("{class}{CLASS_SUFFIX}requests.storage"), storage.clone());
        }
        usage.insert("requests.storage".into(), storage);
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_counted_under_all_names_of_its_resources() {
        let object = json!({"spec": {"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "1", "example.com/gpu": "2"}, "limits": {"memory": "1Gi"},
        }}]}});
        let usage = Evaluator::Pods.usage(&object);
        let shown: Vec<String> = usage.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            shown,
            [
                "count/pods=1",
                "cpu=1",
                "limits.memory=1Gi",
                "pods=1",
                "requests.cpu=1",
                "requests.example.com/gpu=2"
            ]
        );
        assert!(usage.keys().all(|name| Evaluator::Pods.counts(name)));
    }

    #[test]
    fn missing_requests_of_containers_are_reported_by_resource() {
        let object = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}});
        let why = Evaluator::Pods.constraints(&["pods", "limits.cpu", "requests.cpu"], &object);
        assert_eq!(why.unwrap_err(), "must specify limits.cpu for: a,b; requests.cpu for: a,b");
    }

    #[test]
    fn a_claim_is_counted_for_its_class_too() {
        let object = json!({"spec": {"storageClassName": "gold",
            "resources": {"requests": {"storage": "1Gi"}}}});
        let usage = Evaluator::Claims.usage(&object);
        assert!(usage.contains_key("gold.storageclass.storage.k8s.io/requests.storage"));
        assert!(usage.keys().all(|name| Evaluator::Claims.counts(name)));
    }
}
