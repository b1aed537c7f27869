//! Answers that were compared with those of a real server, request by request.

use http::Method;
use serde_json::{Value, json};

use crate::asked::{Answer, Asked, boat, boats, boats_path, version};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn web() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

async fn strategic(asked: &Asked, path: &str, body: &str) -> Answer {
    asked.send(Method::PATCH, path, STRATEGIC, body.into()).await
}

#[tokio::test]
async fn a_strategic_patch_that_fits_no_struct_is_shown_as_a_map() {
    let asked = Asked::new();
    asked.post(DEPLOYMENTS, web()).await.good();
    let path = format!("{DEPLOYMENTS}/web");
    for (patch, expected) in [
        (r#"{"spec":{"replicas":"x"}}"#, "\"map[spec:map[replicas:x]]\": unrecognized type: int32"),
        (r#"{"spec":"x"}"#, "\"map[spec:x]\": cannot restore struct from: string"),
        (
            r#"{"metadata":{"labels":{"a":1}}}"#,
            "\"map[metadata:map[labels:map[a:1]]]\": cannot convert int64 to string",
        ),
    ] {
        let answer = strategic(&asked, &path, patch).await;
        assert_eq!(answer.code, 422, "{patch}");
        let message = format!(" \"\" is invalid: patch: Invalid value: {expected}");
        assert_eq!(answer.message(), message);
    }
    let kept = strategic(&asked, &path, r#"{"kind":"X","apiVersion":"apps/v2"}"#).await.good();
    assert_eq!(kept["kind"], "Deployment");
    let list = strategic(&asked, &path, "[]").await;
    let expected = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    assert_eq!(list.message(), expected);
}

#[tokio::test]
async fn duplicate_keys_in_a_patch_are_reported() {
    let asked = Asked::new();
    asked.post(DEPLOYMENTS, web()).await.good();
    let path = format!("{DEPLOYMENTS}/web");
    let patch = r#"{"metadata":{"labels":{"a":"1","a":"2"}}}"#;
    let warned = strategic(&asked, &path, patch).await;
    assert_eq!(warned.warnings, ["299 - \"duplicate field \\\"metadata.labels.a\\\"\""]);
    let merge = "application/merge-patch+json";
    let strict = format!("{path}?fieldValidation=Strict");
    let refused = asked.send(Method::PATCH, &strict, merge, patch.into()).await;
    assert_eq!(refused.code, 422);
    let expected = "strict decoding error: duplicate field \"metadata.labels.a\"";
    assert!(refused.message().ends_with(expected), "{}", refused.message());
}

#[tokio::test]
async fn a_patch_that_takes_the_version_away_leaves_nothing_to_read() {
    let asked = Asked::new();
    asked.post(DEPLOYMENTS, web()).await.good();
    let path = format!("{DEPLOYMENTS}/web");
    let refused = asked.merge(&path, json!({"apiVersion": null})).await;
    assert_eq!(refused.code, 400);
    assert!(refused.message().contains("was undeterminable: name must be provided"));
    assert_eq!(refused.warnings.len(), 3, "{:?}", refused.warnings);
    let replaced = json!([{"op": "replace", "path": "", "value": {}}]);
    assert_eq!(asked.json_patch(&path, replaced).await.code, 400);
    let media = "Application/Merge-Patch+JSON";
    assert_eq!(asked.send(Method::PATCH, &path, media, b"{}".to_vec()).await.code, 415);
}

#[tokio::test]
async fn options_of_a_deletion_are_refused_in_plain_words() {
    let asked = Asked::new();
    let json = "application/json";
    for (body, expected) in [
        (
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            "no kind \"Pod\" is registered for version \"v1\" in scheme \
             \"pkg/runtime/scheme.go:111\"",
        ),
        (
            r#"{"gracePeriodSeconds":"x"}"#,
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds \
             of type int64",
        ),
        (
            "x",
            "couldn't get version/kind; json parse error: invalid character 'x' looking for \
             beginning of value",
        ),
    ] {
        let answer = asked.send(Method::DELETE, &format!("{MAPS}/a"), json, body.into()).await;
        assert_eq!((answer.code, answer.message()), (400, expected));
    }
}

#[tokio::test]
async fn a_limited_deletion_reports_what_is_left() {
    let asked = Asked::new();
    for name in ["a", "b", "c"] {
        asked.post(MAPS, map(name)).await.good();
    }
    let deleted = asked.delete(&format!("{MAPS}?limit=2")).await.good();
    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    assert_eq!(deleted["metadata"]["remainingItemCount"], 1);
    assert!(deleted["metadata"]["continue"].is_string());
}

#[tokio::test]
async fn bad_metadata_is_reported_as_often_as_it_is_validated() {
    let asked = Asked::new();
    asked.post(MAPS, map("a")).await.good();
    asked.post(DEPLOYMENTS, web()).await.good();
    asked.define(boats(json!([version("v1", true, json!({}))]))).await;
    asked.post(&boats_path("v1"), boat("v1", "b", json!({}))).await.good();
    let boat = format!("{}/b", boats_path("v1"));
    let web = format!("{DEPLOYMENTS}/web");
    for (path, times) in [(format!("{MAPS}/a"), 4), (web, 3), (boat, 3)] {
        let refused = asked.merge(&path, json!({"metadata": {"labels": {"a b": "c"}}})).await;
        let causes = refused.body["details"]["causes"].as_array().unwrap().len();
        assert_eq!((refused.code, causes), (422, times), "{path}");
        let refused = asked.merge(&path, json!({"metadata": {"finalizers": ["a b/c"]}})).await;
        assert_eq!(refused.code, 422, "{path}");
    }
}

#[tokio::test]
async fn some_kinds_take_every_path_segment_as_a_name() {
    let asked = Asked::new();
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    asked.post(budgets, json!({"metadata": {"name": "A_b"}})).await.good();
    let events = "/api/v1/namespaces/kube-system/events";
    let refused = asked.post(events, json!({})).await;
    let expected = "Event \"\" is invalid: involvedObject.namespace: Invalid value: \"\": does not \
                match event.namespace";
    assert_eq!(refused.message(), expected);
}

#[tokio::test]
async fn an_applied_item_without_its_key_has_an_empty_one() {
    let asked = Asked::new();
    asked.apply(&format!("{DEPLOYMENTS}/web"), "one", web()).await.good();
    let mut second = web();
    second["spec"]["template"]["spec"]["containers"] = json!([{"image": "x"}]);
    let refused = asked.apply(&format!("{DEPLOYMENTS}/web"), "two", second).await;
    assert_eq!(refused.code, 422);
    assert!(refused.message().contains("containers[1].name: Required value"));
}

#[tokio::test]
async fn bodies_of_yaml_are_refused_in_the_words_of_its_parser() {
    let asked = Asked::new();
    let yaml = "application/yaml";
    let refused = asked.send(Method::POST, MAPS, yaml, b"a: b: c".to_vec()).await;
    let expected = "the object provided is unrecognized (must be of type ConfigMap): yaml: mapping \
                values are not allowed in this context (613a20623a2063)";
    assert_eq!(refused.message(), expected);
    let twice = b"metadata: {name: a}\ndata: {k: v, k: w}\n".to_vec();
    let warned = asked.send(Method::POST, MAPS, yaml, twice).await;
    assert_eq!(warned.warnings, ["299 - \"line 2: key \\\"k\\\" already set in map\""]);
}

#[tokio::test]
async fn lists_refuse_tokens_and_fields_as_the_real_server() {
    let asked = Asked::new();
    for (path, expected) in [
        (
            format!("{MAPS}?continue=e30"),
            "invalid continue token: continue key is not valid: server does not recognize this \
             encoded version ",
        ),
        (
            "/api/v1/nodes?fieldSelector=metadata.namespace%3Dx".to_owned(),
            "field label not supported: metadata.namespace",
        ),
        (
            "/apis/batch/v1/jobs?fieldSelector=spec.x%3Dx".to_owned(),
            "field label \"spec.x\" not supported for Job",
        ),
    ] {
        let answer = asked.get(&path).await;
        assert_eq!((answer.code, answer.message()), (400, expected));
    }
}

#[tokio::test]
async fn an_autoscaler_of_the_first_version_aims_at_80_percent() {
    let asked = Asked::new();
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let made = asked
        .post(
            path,
            json!({"metadata": {"name": "a"},
                "spec": {"maxReplicas": 3, "scaleTargetRef": target}}),
        )
        .await
        .good();
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 80);
}

#[tokio::test]
async fn nothing_is_known_of_a_version_that_is_not_declared() {
    let asked = Asked::new();
    let spec = json!({"n": {"type": "integer"}});
    let versions = json!([version("v1", true, spec.clone()), version("v2", false, spec)]);
    asked.define(boats(versions)).await;
    let path = format!("{}?fieldValidation=Strict", boats_path("v1"));
    let unknown = asked.post(&path, boat("v9", "a", json!({"n": 1}))).await;
    let expected = "Boat in version \"v9\" cannot be handled as a Boat: strict decoding error: \
                unknown field \"spec\"";
    assert_eq!((unknown.code, unknown.message()), (400, expected));
    let other = asked.post(&path, boat("v2", "a", json!({"n": 1}))).await;
    let expected = "the API version in the data (sea.example/v2) does not match the expected API \
                version (sea.example/v1)";
    assert_eq!((other.code, other.message()), (400, expected));
}

#[tokio::test]
async fn a_webhook_names_no_resource_that_a_star_covers() {
    let asked = Asked::new();
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let hooks = |resources: Value, service: &str| {
        json!({"metadata": {"name": "a"}, "webhooks": [{
            "name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": {"name": "s", "namespace": "n", "path": service}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": resources}],
        }]})
    };
    for (resources, expected) in [
        (
            json!(["*", "pods"]),
            "if '*' is present, must not specify other resources without subresources",
        ),
        (json!(["*/*", "pods"]), "if '*/*' is present, must not specify other resources"),
        (json!(["pods/*", "pods/status"]), "if 'pods/*' is present, must not specify pods/status"),
    ] {
        let refused = asked.post(path, hooks(resources, "/x")).await;
        assert!(refused.message().ends_with(expected), "{}", refused.message());
    }
    let refused = asked.post(path, hooks(json!(["pods"]), "/a//b")).await;
    assert!(refused.message().ends_with("segment[1] may not be empty"), "{}", refused.message());
}

#[tokio::test]
async fn pods_are_refused_in_the_words_that_were_compared() {
    let asked = Asked::new();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |container: Value| {
        let mut container = container;
        container["name"] = "c".into();
        container["image"] = "i".into();
        json!({"metadata": {"name": "p"}, "spec": {
            "containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}})
    };
    let mount = |more: Value| {
        let mut mount = json!({"name": "v", "mountPath": "/a"});
        mount.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"volumeMounts": [mount]})
    };
    let field = json!({"env": [{"name": "a",
        "valueFrom": {"fieldRef": {"fieldPath": "spec.foo"}}}]});
    for (container, expected) in [
        (
            json!({"securityContext": {"runAsUser": -1}}),
            "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, \
             inclusive",
        ),
        (
            field,
            "env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.foo\": error converting \
             fieldPath: field label not supported: spec.foo",
        ),
        (
            json!({"envFrom": [{}]}),
            "envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
        ),
        (
            mount(json!({"mountPropagation": "Bidirectional"})),
            "volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is \
             available only to privileged containers",
        ),
        (
            mount(json!({"recursiveReadOnly": "Enabled"})),
            "volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is \
             true",
        ),
    ] {
        let refused = asked.post(pods, pod(container)).await;
        let message = format!("Pod \"p\" is invalid: spec.containers[0].{expected}");
        assert_eq!(refused.message(), message);
    }
}
