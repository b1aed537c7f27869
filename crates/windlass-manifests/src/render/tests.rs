//! What is rendered, and that it is always the same.

use serde_json::{Value, json};

use crate::model::{Api, Model};
use crate::rbac::{Grant, Reach, Rule};

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "memcacheds.cache.example.com"},
        "spec": {
            "group": "cache.example.com",
            "names": {
                "kind": "Memcached", "listKind": "MemcachedList",
                "plural": "memcacheds", "singular": "memcached",
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {
                        "type": "object",
                        "required": ["size", "zones", "mode"],
                        "properties": {
                            "size": {"type": "integer", "minimum": 1, "maximum": 5},
                            "zones": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                            "mode": {"type": "string", "enum": ["Fast", "Safe"]},
                            "note": {"type": "string", "example": "for the shop"},
                            "other": {"type": "string"},
                        },
                    },
                    "status": {"type": "object", "properties": {"conditions": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"type": {"type": "string"}}},
                    }}},
                }}},
            }],
        },
    })
}

fn model() -> Model {
    let mut model = Model::new("memcached-operator");
    model.apis.push(Api::new(definition()));
    model.controllers.push("memcached".into());
    let grant = |rule| Grant::new(rule, Reach::Watched);
    let kinds = Rule::new("cache.example.com", "memcacheds", ["list", "watch"]);
    let owned = Rule::new("apps", "deployments", ["create", "list", "patch", "watch"]);
    model.grants.extend([grant(kinds), grant(owned)]);
    model
}

fn object(model: &Model, kind: &str) -> Value {
    model.objects().into_iter().find(|object| object["kind"] == kind).expect("rendered")
}

#[test]
fn the_layout_is_that_of_kubebuilder() {
    let files = model().files();
    let paths: Vec<&str> = files.iter().map(|(path, _)| path).collect();
    assert_eq!(
        paths,
        [
            "Dockerfile",
            "config/crd/bases/cache.example.com_memcacheds.yaml",
            "config/crd/kustomization.yaml",
            "config/default/kustomization.yaml",
            "config/default/metrics_service.yaml",
            "config/gitops/argocd-cm.yaml",
            "config/gitops/flux-health-checks.yaml",
            "config/grafana/memcached-operator.json",
            "config/manager/kustomization.yaml",
            "config/manager/manager.yaml",
            "config/network-policy/allow-metrics-traffic.yaml",
            "config/network-policy/kustomization.yaml",
            "config/prometheus/alerts.yaml",
            "config/prometheus/kustomization.yaml",
            "config/prometheus/monitor.yaml",
            "config/rbac/kustomization.yaml",
            "config/rbac/leader_election_role.yaml",
            "config/rbac/leader_election_role_binding.yaml",
            "config/rbac/memcached_admin_role.yaml",
            "config/rbac/memcached_editor_role.yaml",
            "config/rbac/memcached_viewer_role.yaml",
            "config/rbac/metrics_auth_role.yaml",
            "config/rbac/metrics_auth_role_binding.yaml",
            "config/rbac/metrics_reader_role.yaml",
            "config/rbac/role.yaml",
            "config/rbac/role_binding.yaml",
            "config/rbac/service_account.yaml",
            "config/samples/cache.example.com_v1alpha1_memcached.yaml",
            "config/samples/kustomization.yaml",
            "dist/install.yaml",
            "docs/api.md",
        ]
    );
}

#[test]
fn every_kustomization_names_files_that_exist() {
    let files = model().files();
    for (path, content) in files.iter().filter(|(path, _)| path.ends_with("kustomization.yaml")) {
        let directory = path.trim_end_matches("/kustomization.yaml");
        let read: Value = serde_saphyr::from_str(content).expect("YAML");
        for resource in read["resources"].as_array().expect("a list") {
            let resource = resource.as_str().expect("a path");
            let wanted = match resource.strip_prefix("../") {
                Some(other) => format!("config/{other}/kustomization.yaml"),
                None => format!("{directory}/{resource}"),
            };
            assert!(files.get(&wanted).is_some(), "{path}: {wanted}");
        }
    }
}

#[test]
fn kustomize_and_the_single_file_install_the_same_objects() {
    let (model, name) = (model(), |object: &Value| {
        format!(
            "{} {} {}",
            object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]
        )
    });
    let files = model.files();
    let mut below: Vec<String> = Vec::new();
    for (path, content) in files.iter() {
        let default = ["crd/bases/", "rbac/", "manager/", "network-policy/", "default/"];
        let part =
            path.strip_prefix("config/").is_some_and(|p| default.iter().any(|d| p.starts_with(d)));
        if part && !path.ends_with("kustomization.yaml") {
            let objects: Vec<Value> = serde_saphyr::from_multiple(content).expect("YAML");
            below.extend(objects.iter().map(name));
        }
    }
    let single: Vec<Value> = serde_saphyr::from_multiple(&model.install()).expect("YAML");
    assert_eq!(single, model.objects());
    let mut installed: Vec<String> = single.iter().map(name).collect();
    below.sort();
    installed.sort();
    assert_eq!(below, installed);
}

#[test]
fn equal_models_give_equal_files() {
    let json = serde_json::to_string(&model()).expect("serialisable");
    let read: Model = serde_json::from_str(&json).expect("readable");
    assert_eq!(read.files(), model().files());
}

#[test]
fn pods_get_more_time_to_stop_than_their_manager() {
    let mut model = model();
    model.run.grace_seconds = 90;
    let spec = &object(&model, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(spec["terminationGracePeriodSeconds"], 100);
}

#[test]
fn roles_have_no_wildcards_and_name_the_lease() {
    let model = model();
    for role in model.roles() {
        for rule in &role.rules {
            let all = rule.verbs.iter().chain(&rule.resources).chain(&rule.api_groups);
            assert!(all.into_iter().all(|text| text != "*"), "{}: {rule:?}", role.name);
        }
    }
    let lease = model.roles().into_iter().find(|role| role.name.ends_with("leader-election-role"));
    let lease = lease.expect("there is a lease");
    assert_eq!(lease.namespace.as_deref(), Some("memcached-operator-system"));
    let named = Rule::new("coordination.k8s.io", "leases", ["get", "update"]);
    assert!(lease.rules.contains(&named.name("memcached-operator")), "{lease:?}");
    let events = Rule::new("events.k8s.io", "events", ["create", "patch"]);
    assert!(lease.rules.contains(&events), "Events say who leads: {lease:?}");
}

#[test]
fn an_operator_of_some_namespaces_has_no_rights_elsewhere() {
    let mut model = model();
    model.watched = vec!["shop".into(), "lab".into()];
    let roles = model.roles();
    let cluster: Vec<&str> =
        roles.iter().filter(|r| r.namespace.is_none()).map(|r| r.name.as_str()).collect();
    assert_eq!(cluster, ["memcached-operator-metrics-auth-role"]);
    let container = &object(&model, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert!(container["args"].as_array().expect("args").contains(&json!("--namespaces=shop,lab")));
}

#[test]
fn the_roles_of_users_are_aggregated_for_namespaced_kinds() {
    let mut model = model();
    let viewer = |model: &Model| {
        let text = model.files().get("config/rbac/memcached_viewer_role.yaml").map(str::to_owned);
        serde_saphyr::from_str::<Value>(&text.expect("rendered")).expect("YAML")
    };
    let label = "rbac.authorization.k8s.io/aggregate-to-view";
    assert_eq!(viewer(&model)["metadata"]["labels"][label], "true");
    assert_eq!(viewer(&model)["rules"][0]["verbs"], json!(["get", "list", "watch"]));
    model.apis[0].definition["spec"]["scope"] = "Cluster".into();
    assert_eq!(viewer(&model)["metadata"]["labels"].get(label), None);
}

#[test]
fn a_sample_has_what_is_required_and_the_examples() {
    let files = model().files();
    let text = files.get("config/samples/cache.example.com_v1alpha1_memcached.yaml");
    let sample: Value = serde_saphyr::from_str(text.expect("rendered")).expect("YAML");
    let spec = json!({"size": 1, "zones": [""], "mode": "Fast", "note": "for the shop"});
    assert_eq!(sample["spec"], spec);
}

#[test]
fn mistakes_are_named_before_anything_is_rendered() {
    let mut model = model();
    assert_eq!(model.check(), Ok(()));
    model.name = "Memcached".into();
    model.watched = vec!["a b".into()];
    model.run.replicas = 2;
    model.lease = None;
    model.run.metrics_port = model.run.probe_port;
    let found = model.check().expect_err("wrong in many ways");
    assert_eq!(found.len(), 4, "{found:?}");
}
