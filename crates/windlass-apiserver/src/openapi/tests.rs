//! OpenAPI documents, tested by what kubectl looks for in them.

use super::*;
use crate::resource::{Subresource, builtins};
use crate::shape::ShapeRef;

fn doc(path: &str) -> Value {
    serde_json::from_slice(&v3_document(path, builtins()).unwrap().body).unwrap()
}

fn canoe() -> Arc<Resource> {
    let gvk = Gvk::new("x.example.com", "v1", "Canoe");
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "required": ["owner"], "properties": {"owner": {"type": "string"},
        "size": {"type": "integer", "default": 2}}}}});
    let definition = json!({"spec": {"versions": [{"name": "v1", "storage": true,
        "schema": {"openAPIV3Schema": schema}}]}});
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let status = Subresource {
        verbs: ["get", "patch", "update"].map(str::to_owned).into(),
        gvk: gvk.clone(),
    };
    Arc::new(Resource {
        plural: "canoes".into(),
        singular: "canoe".into(),
        list_kind: "CanoeList".into(),
        namespaced: true,
        verbs: verbs.map(str::to_owned).into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: [("status".to_owned(), status)].into(),
        shape: ShapeRef::any(),
        custom: Some(crate::custom::compile(&Arc::new(definition)).remove(0)),
        gvk,
    })
}

#[test]
fn the_index_names_documents_that_exist_with_their_hashes() {
    let index: Value = serde_json::from_slice(&v3_index(builtins()).body).unwrap();
    let paths = index["paths"].as_object().unwrap();
    for path in ["api/v1", "apis/apps/v1", "version", "apis", "api", "apis/apps"] {
        let url = paths[path]["serverRelativeURL"].as_str().unwrap();
        let hash = v3_hash(path, builtins()).unwrap();
        assert_eq!(url, format!("/openapi/v3/{path}?hash={hash}"));
    }
    assert!(v3_document("apis/none.example.com/v1", builtins()).is_none());
}

#[test]
fn the_document_of_apps_has_operations_and_schemas() {
    let doc = doc("apis/apps/v1");
    assert_eq!(doc["openapi"], "3.0.0");
    let item = &doc["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    assert_eq!(item["get"]["operationId"], "readAppsV1NamespacedDeployment");
    let patch = &item["patch"];
    assert_eq!(patch["x-kubernetes-action"], "patch");
    let names: Vec<_> =
        patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    for name in ["fieldValidation", "dryRun", "fieldManager"] {
        assert!(names.contains(&json!(name)));
    }
    let post = &doc["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["post"];
    assert_eq!(
        post["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    let schemas = &doc["components"]["schemas"];
    let spec = &schemas["io.k8s.api.apps.v1.DeploymentSpec"];
    assert_eq!(spec["required"], json!(["selector", "template"]));
    assert_eq!(spec["properties"]["replicas"]["type"], "integer");
    assert!(spec["properties"]["replicas"]["description"].is_string());
    assert_eq!(
        schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
    );
    let container = &schemas["io.k8s.api.core.v1.Container"]["properties"]["imagePullPolicy"];
    assert!(container["enum"].as_array().unwrap().contains(&json!("Always")));
}

/// All `$ref` targets of a document.
fn references<'v>(value: &'v Value, out: &mut BTreeSet<&'v str>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get("$ref") {
                out.insert(target);
            }
            map.values().for_each(|v| references(v, out));
        }
        Value::Array(items) => items.iter().for_each(|v| references(v, out)),
        _ => {}
    }
}

#[test]
fn every_reference_has_a_definition() {
    let mut resources = builtins().to_vec();
    resources.push(canoe());
    for path in v3_paths(&resources) {
        let body = v3_document(&path, &resources).unwrap().body;
        let doc: Value = serde_json::from_slice(&body).unwrap();
        let mut targets = BTreeSet::new();
        references(&doc, &mut targets);
        for target in targets {
            let name = target.strip_prefix("#/components/schemas/").unwrap();
            assert!(doc["components"]["schemas"].get(name).is_some(), "{path}: {name}");
        }
    }
    let doc: Value = serde_json::from_slice(&v2_document(&resources).body).unwrap();
    let mut targets = BTreeSet::new();
    references(&doc, &mut targets);
    for target in targets {
        let name = target.strip_prefix("#/definitions/").unwrap();
        assert!(doc["definitions"].get(name).is_some(), "v2: {name}");
    }
}

#[test]
fn the_swagger_document_has_the_merge_facts() {
    let doc: Value = serde_json::from_slice(&v2_document(builtins()).body).unwrap();
    assert_eq!(doc["swagger"], "2.0");
    let spec = &doc["definitions"]["io.k8s.api.core.v1.PodSpec"];
    assert_eq!(spec["required"], json!(["containers"]));
    assert_eq!(spec["properties"]["containers"]["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(
        doc["definitions"]["io.k8s.api.core.v1.ConfigMap"]["x-kubernetes-group-version-kind"],
        json!([{"group": "", "kind": "ConfigMap", "version": "v1"}])
    );
}

#[test]
fn a_custom_kind_is_published_as_defined() {
    let mut resources = builtins().to_vec();
    resources.push(canoe());
    let body = v3_document("apis/x.example.com/v1", &resources).unwrap().body;
    let doc: Value = serde_json::from_slice(&body).unwrap();
    let schemas = &doc["components"]["schemas"];
    let kind = &schemas["com.example.x.v1.Canoe"];
    assert_eq!(kind["properties"]["spec"]["properties"]["size"]["default"], 2);
    assert_eq!(
        kind["properties"]["metadata"]["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}])
    );
    let list = &schemas["com.example.x.v1.CanoeList"];
    assert_eq!(list["required"], json!(["items"]));
    let status = "/apis/x.example.com/v1/namespaces/{namespace}/canoes/{name}/status";
    assert_eq!(doc["paths"][status]["patch"]["x-kubernetes-action"], "patch");
    assert_eq!(doc["paths"]["/apis/x.example.com/v1/canoes"]["get"]["x-kubernetes-action"], "list");
    assert_ne!(v2_document(&resources).etag, v2_document(builtins()).etag);
}

#[test]
fn the_version_is_one_that_clients_know() {
    assert_eq!(version()["minor"], "36");
    assert_eq!(version()["gitVersion"], VERSION);
}
