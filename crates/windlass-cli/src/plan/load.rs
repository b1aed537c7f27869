//! The state of a cluster, read from where it is and written into a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kube::api::{Api, DynamicObject, PostParams};
use kube::discovery::{Discovery, verbs};
use serde_json::{Map, Value, json};
use windlass_apiserver::ApiServer;

use super::Builds;
use crate::failure::Failure;
use crate::manifest_files;
use crate::objects::{Objects, reference};
use crate::target_cluster::NamedArgs;
use crate::text::{explain, plain};

/// Controllers that would act on the nodes of the cluster that was copied, whose kubelets are not
/// there.
pub const NOT_IN_A_COPY: [&str; 2] = ["node-lifecycle", "pod-garbage-collector"];
/// Kinds that the copy has by itself, or that say nothing about what an operator does.
const LEFT_OUT: [&str; 8] = [
    "events",
    "leases",
    "nodes",
    "endpoints",
    "endpointslices",
    "controllerrevisions",
    "componentstatuses",
    "podmetrics",
];
/// Workloads are part of every state: pods that restart are part of every plan.
const WORKLOADS: [(&str, &str); 7] = [
    ("", "pods"),
    ("", "namespaces"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
];
/// The most objects of a state.
const OBJECTS_MAX: usize = 50_000;

/// Where the state comes from.
pub enum Source<'a> {
    Files(Vec<Value>),
    Cluster(&'a NamedArgs),
    /// The samples of the project, if there are any.
    Samples(Option<&'a Path>),
}

/// The UIDs of the copy by those of the cluster.
type Uids = BTreeMap<String, String>;

// === impl Source ===

impl<'a> Source<'a> {
    pub fn of(
        files: Option<Vec<Value>>,
        cluster: &'a NamedArgs,
        samples: Option<&'a Path>,
    ) -> Self {
        match files {
            Some(objects) => Self::Files(objects),
            None if cluster.is_named() => Self::Cluster(cluster),
            None => Self::Samples(samples.filter(|path| path.is_dir())),
        }
    }

    /// Reads all objects.
    pub(super) async fn read(
        self,
        builds: &Builds,
        definitions: &[Value],
    ) -> Result<Vec<Value>, Failure> {
        match self {
            Self::Files(objects) => Ok(objects),
            Self::Samples(Some(path)) => read_files(path),
            Self::Samples(None) => Ok(Vec::new()),
            Self::Cluster(named) => {
                let cluster = named.open().await?;
                note!("reading {}", cluster.shown);
                read_cluster(&cluster.client, &resources(&builds.access().await?, definitions))
                    .await
            }
        }
    }
}

/// The resources that the operator reads, and the workloads, by group and plural.
fn resources(access: &[Value], definitions: &[Value]) -> BTreeSet<(String, String)> {
    let mut found: BTreeSet<(String, String)> = WORKLOADS
        .iter()
        .map(|(group, plural)| ((*group).to_owned(), (*plural).to_owned()))
        .collect();
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    for rule in access.iter().flat_map(|role| role["rules"].as_array().into_iter().flatten()) {
        for group in texts(&rule["apiGroups"]) {
            for plural in texts(&rule["resources"]) {
                let reviews = ["authentication.k8s.io", "authorization.k8s.io"];
                if !plural.contains(['/', '*']) && !reviews.contains(&group.as_str()) {
                    found.insert((group.clone(), plural));
                }
            }
        }
    }
    for definition in definitions {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        found.insert((text(&spec["group"]), text(&spec["names"]["plural"])));
    }
    found.retain(|(_, plural)| !LEFT_OUT.contains(&plural.as_str()));
    found
}

async fn read_cluster(
    client: &kube::Client,
    wanted: &BTreeSet<(String, String)>,
) -> Result<Vec<Value>, Failure> {
    let failed = |error: kube::Error| {
        Failure::other(format!("the cluster cannot be read: {}", explain(&error)))
    };
    let discovery = Discovery::new(client.clone()).run().await.map_err(failed)?;
    let objects = Objects::new(client.clone());
    let mut all = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let key = (resource.group.clone(), resource.plural.clone());
            if !wanted.contains(&key) || !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            all.extend(objects.list(&resource, None, "").await?);
            if all.len() > OBJECTS_MAX {
                return Err(Failure::other(format!(
                    "the cluster has more than {OBJECTS_MAX} objects that matter; save a part of \
                     it with kubectl and use --from"
                )));
            }
        }
    }
    Ok(all)
}

/// Reads all manifests of a file or directory.
pub fn read_files(path: &Path) -> Result<Vec<Value>, Failure> {
    let mut all = manifest_files::read(path)?;
    all.retain(|object| object["kind"] != "Kustomization");
    let bad = all.iter().find(|object| {
        object["kind"].as_str().is_none() || object["metadata"]["name"].as_str().is_none()
    });
    if let Some(bad) = bad {
        let start = plain(&bad.to_string().chars().take(60).collect::<String>());
        let shown = path.display();
        return Err(Failure::usage(format!("{shown} has an object without kind or name: {start}")));
    }
    Ok(all)
}

/// Writes objects into a copy, owners before what they own.
///
/// References by UID are translated, so that owners are found. What the copy has by itself stays.
pub async fn load(server: &ApiServer, mut wanted: Vec<Value>) -> Result<(), Failure> {
    let client = server.client();
    wanted.retain(|object| {
        let plural = format!("{}s", object["kind"].as_str().unwrap_or_default().to_lowercase());
        !LEFT_OUT.contains(&plural.as_str())
    });
    let wanted = in_order(wanted);
    let namespaces: BTreeSet<String> = wanted
        .iter()
        .filter_map(|object| object["metadata"]["namespace"].as_str().map(str::to_owned))
        .collect();
    for namespace in namespaces {
        ensure_namespace(&client, &namespace).await?;
    }
    let mut objects = Objects::new(client);
    let (mut uids, mut left_out) = (Uids::new(), BTreeSet::new());
    for object in wanted {
        let Some(api) = objects.api_if_served(&object).await? else {
            let text = |field: &str| plain(object[field].as_str().unwrap_or_default());
            let kind = format!("{} {}", text("apiVersion"), text("kind"));
            if left_out.insert(kind.clone()) {
                note!("left out: the copy does not serve {kind}");
            }
            continue;
        };
        let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        let created = create(&api, translated(&object, &uids)).await?;
        if let (Some(old), Some(new)) = (uid, created) {
            uids.insert(old, new);
        }
    }
    Ok(())
}

/// Objects whose owners come before them; definitions and namespaces first.
fn in_order(mut objects: Vec<Value>) -> Vec<Value> {
    let rank = |object: &Value| match object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    };
    objects.sort_by_key(rank);
    let here: BTreeSet<String> = objects
        .iter()
        .filter_map(|object| object["metadata"]["uid"].as_str().map(str::to_owned))
        .collect();
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut ordered = Vec::with_capacity(objects.len());
    // Chains of owners are short; what is left after them belongs to a cycle and comes as it is.
    for _ in 0..8 {
        let mut rest = Vec::new();
        for object in objects {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let waits = owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str());
            let waits = waits.into_iter().any(|uid| here.contains(uid) && !done.contains(uid));
            if waits {
                rest.push(object);
                continue;
            }
            done.extend(object["metadata"]["uid"].as_str().map(str::to_owned));
            ordered.push(object);
        }
        objects = rest;
    }
    ordered.extend(objects);
    ordered
}

/// The object with the UIDs of the copy, wherever it names one.
fn translated(object: &Value, uids: &Uids) -> Value {
    match object {
        Value::String(text) => {
            Value::String(uids.get(text).cloned().unwrap_or_else(|| text.clone()))
        }
        Value::Array(items) => items.iter().map(|item| translated(item, uids)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), translated(value, uids)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

async fn ensure_namespace(client: &kube::Client, name: &str) -> Result<(), Failure> {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))
        .map_err(|error| Failure::of(&error))?;
    match api.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => {
            Err(Failure::other(format!("namespace {}: {}", plain(name), explain(&error))))
        }
    }
}

/// Creates an object with its status; returns its UID.
async fn create(api: &Api<DynamicObject>, mut object: Value) -> Result<Option<String>, Failure> {
    let shown = reference(&object);
    let failed = |error: kube::Error| {
        Failure::other(format!("{shown} cannot be copied: {}", explain(&error)))
    };
    let ending = !object["metadata"]["deletionTimestamp"].is_null();
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in [
            "uid",
            "resourceVersion",
            "managedFields",
            "generation",
            "selfLink",
            "deletionTimestamp",
        ] {
            meta.remove(field);
        }
    }
    let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let parsed: DynamicObject =
        serde_json::from_value(object).map_err(|error| Failure::of(&error).context(&shown))?;
    let created = match api.create(&PostParams::default(), &parsed).await {
        Ok(created) => created,
        // The copy has it by itself, such as the namespace `default`.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            api.get(&name).await.map_err(failed)?
        }
        Err(error) => return Err(failed(error)),
    };
    if let Some(status) = status.filter(|status| !status.is_null()) {
        let patch = kube::api::Patch::Merge(json!({"status": status}));
        let params = kube::api::PatchParams::default();
        match api.patch_status(&name, &params, &patch).await {
            Ok(_) => {}
            // A kind without the subresource has its status already, or none at all.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if ending {
        // One with finalizers stays until they are removed, as in the cluster.
        api.delete(&name, &kube::api::DeleteParams::background()).await.map_err(failed)?;
    }
    Ok(created.metadata.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, uid: &str, owner: Option<&str>) -> Value {
        let owners: Vec<Value> = owner.map(|uid| json!({"uid": uid})).into_iter().collect();
        json!({"kind": kind, "metadata": {"name": uid, "uid": uid, "ownerReferences": owners}})
    }

    #[test]
    fn owners_come_before_what_they_own() {
        let all = vec![
            object("Pod", "pod", Some("set")),
            object("ReplicaSet", "set", Some("deployment")),
            object("Namespace", "a", None),
            object("Deployment", "deployment", Some("elsewhere")),
            object("Loop", "x", Some("y")),
            object("Loop", "y", Some("x")),
        ];
        let ordered = in_order(all);
        let names: Vec<_> =
            ordered.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
        assert_eq!(names, ["a", "deployment", "set", "pod", "x", "y"]);
    }

    #[test]
    fn uids_are_translated_wherever_they_occur() {
        let uids = Uids::from([("old".to_owned(), "new".to_owned())]);
        let before = json!({"metadata": {"labels": {"controller-uid": "old"}}, "n": [1, "old"]});
        let after = json!({"metadata": {"labels": {"controller-uid": "new"}}, "n": [1, "new"]});
        assert_eq!(translated(&before, &uids), after);
    }

    #[test]
    fn the_state_has_what_the_role_names_and_the_workloads() {
        let role = json!({"rules": [
            {"apiGroups": [""], "resources": ["configmaps", "events", "pods/status"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"]},
        ]});
        let definition = json!({"spec": {"group": "example.com", "names": {"plural": "lamps"}}});
        let found = resources(&[role], &[definition]);
        let has = |group: &str, plural: &str| found.contains(&(group.into(), plural.into()));
        assert!(has("", "configmaps") && has("apps", "deployments") && has("example.com", "lamps"));
        assert!(!has("", "events") && !has("authorization.k8s.io", "subjectaccessreviews"));
    }
}
