//! The state of a cluster, read from where it is and written into a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::{Map, Value, json};
use windlass_apiserver::ApiServer;

use super::Builds;
use crate::failure::Failure;
use crate::objects::reference;
use crate::target_cluster::TargetArgs;
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
/// The most bytes of a file.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Where the state comes from.
pub enum Source<'a> {
    Files(&'a Path),
    Cluster(&'a TargetArgs),
    /// The samples of the project, if there are any.
    Samples(Option<&'a Path>),
}

/// The UIDs of the copy by those of the cluster.
type Uids = BTreeMap<String, String>;

// === impl Source ===

impl<'a> Source<'a> {
    pub fn of(from: Option<&'a Path>, target: &'a TargetArgs, samples: Option<&'a Path>) -> Self {
        match from {
            Some(path) => Self::Files(path),
            None if target.is_named() => Self::Cluster(target),
            None => Self::Samples(samples.filter(|path| path.is_dir())),
        }
    }

    /// Reads all objects.
    pub(super) async fn read(
        &self,
        builds: &Builds,
        definitions: &[Value],
    ) -> Result<Vec<Value>, Failure> {
        match self {
            Self::Files(path) => read_files(path),
            Self::Samples(Some(path)) => read_files(path),
            Self::Samples(None) => Ok(Vec::new()),
            Self::Cluster(target) => {
                let cluster = target.read_only().await?;
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
    let mut all = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let key = (resource.group.clone(), resource.plural.clone());
            if !wanted.contains(&key) || !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            all.extend(list(client, &resource).await?);
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

async fn list(client: &kube::Client, resource: &ApiResource) -> Result<Vec<Value>, Failure> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut params = ListParams::default().limit(500);
    let mut found = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(found),
            Err(error) => {
                let why = explain(&error);
                let plural = &resource.plural;
                return Err(Failure::other(format!("{plural} cannot be listed: {why}")));
            }
        };
        for mut item in page.items {
            let (api_version, kind) = (resource.api_version.clone(), resource.kind.clone());
            item.types = Some(kube::core::TypeMeta { api_version, kind });
            found.push(serde_json::to_value(&item).map_err(|error| Failure::of(&error))?);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if found.len() <= OBJECTS_MAX => params = params.continue_token(&token),
            _ => return Ok(found),
        }
    }
}

/// Reads all manifests below a path, lists included.
fn read_files(path: &Path) -> Result<Vec<Value>, Failure> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::usage(format!("{}: {error}", path.display()))
    };
    let mut files: Vec<PathBuf> = Vec::new();
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(|error| failed(path, &error))? {
            let file = entry.map_err(|error| failed(path, &error))?.path();
            let known = ["yaml", "yml", "json"];
            let is_manifest =
                file.extension().and_then(|e| e.to_str()).is_some_and(|e| known.contains(&e));
            if is_manifest && file.file_stem().is_some_and(|stem| stem != "kustomization") {
                files.push(file);
            }
        }
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    let mut all = Vec::new();
    for file in files {
        let size = fs::metadata(&file).map_err(|error| failed(&file, &error))?.len();
        if size > FILE_BYTES_MAX {
            return Err(failed(&file, &"larger than 256 MiB"));
        }
        let text = fs::read_to_string(&file).map_err(|error| failed(&file, &error))?;
        let documents =
            windlass_manifests::yaml::read(&text).map_err(|error| failed(&file, &error))?;
        for document in documents {
            match document["items"].as_array() {
                Some(items) => all.extend(items.iter().cloned()),
                None => all.push(document),
            }
        }
        if let Some(bad) = all.iter().find(|object| {
            object["kind"].as_str().is_none() || object["metadata"]["name"].as_str().is_none()
        }) {
            let shown = plain(&bad.to_string().chars().take(60).collect::<String>());
            return Err(failed(&file, &format!("an object without kind or name: {shown}")));
        }
    }
    Ok(all)
}

/// Writes objects into a copy, owners before what they own.
///
/// References by UID are translated, so that owners are found. What the copy has by itself stays.
pub async fn load(server: &ApiServer, mut wanted: Vec<Value>) -> Result<(), Failure> {
    let client = server.client();
    let failed = |error: kube::Error| Failure::other(explain(&error));
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
    let mut known: BTreeMap<(String, String), Option<(ApiResource, Scope)>> = BTreeMap::new();
    let mut uids = Uids::new();
    for object in wanted {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let gvk = (text("apiVersion"), text("kind"));
        if !known.contains_key(&gvk) {
            let found = resource_of(&client, &gvk).await.map_err(failed)?;
            if found.is_none() {
                note!("left out: the copy does not serve {} {}", gvk.0, gvk.1);
            }
            known.insert(gvk.clone(), found);
        }
        let Some(Some((resource, scope))) = known.get(&gvk) else { continue };
        let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        let created = create(&client, resource, scope, translated(&object, &uids)).await?;
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

async fn resource_of(
    client: &kube::Client,
    (version, kind): &(String, String),
) -> Result<Option<(ApiResource, Scope)>, kube::Error> {
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
    match kube::discovery::pinned_kind(client, &gvk).await {
        Ok((resource, capabilities)) => Ok(Some((resource, capabilities.scope))),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates an object with its status; returns its UID.
async fn create(
    client: &kube::Client,
    resource: &ApiResource,
    scope: &Scope,
    mut object: Value,
) -> Result<Option<String>, Failure> {
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
    let api: Api<DynamicObject> = match scope {
        Scope::Cluster => Api::all_with(client.clone(), resource),
        Scope::Namespaced => {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, resource)
        }
    };
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
