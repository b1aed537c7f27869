//! What real clients and suites rely on.

use serde_json::{Value, json};

use crate::support::{MERGE_PATCH, PODS, accept, ask, patch, pod, pod_server, send, server};
use crate::tools;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test]
async fn a_binding_does_not_change_the_generation() {
    let server = pod_server().await;
    ask(&server, &format!("POST {PODS}"), pod("p")).await.ok();
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    ask(&server, &format!("POST {PODS}/p/binding"), binding).await.ok();
    let bound = ask(&server, &format!("GET {PODS}/p"), Value::Null).await.ok();
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["metadata"]["generation"], 1);
}

#[tokio::test]
async fn the_log_of_the_only_container_needs_no_name() {
    let server = pod_server().await;
    let mut one = pod("one");
    one["spec"]["initContainers"] = json!([{"name": "init", "image": "i"}]);
    let only = one["spec"]["containers"][0]["name"].as_str().unwrap().to_owned();
    ask(&server, &format!("POST {PODS}"), one.clone()).await.ok();
    let log = ask(&server, &format!("GET {PODS}/one/log"), Value::Null).await;
    assert_eq!(log.code, 204, "{}", log.text());
    let mut two = one;
    two["metadata"]["name"] = "two".into();
    let second = json!({"name": "second", "image": "i"});
    two["spec"]["containers"].as_array_mut().unwrap().push(second);
    ask(&server, &format!("POST {PODS}"), two).await.ok();
    let refused = ask(&server, &format!("GET {PODS}/two/log"), Value::Null).await;
    assert_eq!(
        refused.fails(400),
        format!(
            "a container name must be specified for pod two, choose one of: [init {only} second]"
        )
    );
}

#[tokio::test]
async fn admission_sees_what_is_executed_in_a_pod() {
    let server = tools::server();
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = seen.clone();
    server.register_webhook("https://hook.example.com/x", move |review: Value| {
        log.lock().push(review["request"].clone());
        async move {
            let denied = json!({"allowed": false, "status": {"message": "no shells"}});
            tools::answer(&review, denied)
        }
    });
    let rules = json!([{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["pods/exec", "pods/portforward", "services/proxy"]}]);
    let config = json!({"url": "https://hook.example.com/x"});
    tools::configure(&server, false, "v", config, json!({"rules": rules})).await;
    let path = format!("{}/p/exec?command=sh&command=-c&stdin=true&container=c", tools::PODS);
    let refused = tools::post(&server, &path, Value::Null).await;
    assert_eq!(refused.code, 400, "{refused:?}");
    assert_eq!(
        refused.message(),
        "admission webhook \"v.example.com\" denied the request: no shells"
    );
    tools::post(&server, &format!("{}/p/portforward?ports=80", tools::PODS), Value::Null).await;
    tools::get(&server, "/api/v1/namespaces/default/services/s/proxy/a/b").await;
    let seen = seen.lock();
    assert_eq!(seen[0]["operation"], "CONNECT");
    assert_eq!(seen[0]["kind"], json!({"group": "", "version": "v1", "kind": "PodExecOptions"}));
    assert_eq!(seen[0]["subResource"], "exec");
    assert_eq!(
        seen[0]["object"],
        json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "container": "c",
            "command": ["sh", "-c"]})
    );
    assert_eq!(seen[0]["options"], Value::Null);
    assert_eq!(seen[1]["object"]["ports"], json!([80]));
    assert_eq!(seen[2]["object"]["path"], "/a/b");
}

#[tokio::test]
async fn an_access_review_has_no_table() {
    let server = server();
    let path = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let headers = |accept| {
        [
            ("content-type", "application/json"),
            ("authorization", "Bearer admin"),
            ("accept", accept),
        ]
    };
    let refused = send(&server, path, &headers(table), review.to_string()).await;
    assert!(refused.fails(406).starts_with("only the following media types are accepted"));
    let either = format!("{table},application/json");
    let answered = send(&server, path, &headers(&either), review.to_string()).await.ok();
    assert_eq!(answered["kind"], "SelfSubjectAccessReview");
}

async fn create_quota(server: &windlass_apiserver::ApiServer, name: &str, spec: Value) {
    let path = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": name}, "spec": spec});
    ask(server, &format!("POST {path}"), quota).await.ok();
    let hard = spec["hard"].clone();
    let zero = hard.as_object().unwrap().keys().map(|key| (key.clone(), "0".into()));
    let used = Value::Object(zero.collect());
    let status = json!({"status": {"hard": hard, "used": used}});
    patch(server, &format!("{path}/{name}/status"), MERGE_PATCH, status).await.ok();
}

#[tokio::test]
async fn a_pod_that_gains_a_deadline_is_charged_to_the_quota_of_such_pods() {
    let server = pod_server().await;
    let quota = json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]});
    create_quota(&server, "q", quota).await;
    let deadline = json!({"spec": {"activeDeadlineSeconds": 60}});
    for (name, code) in [("a", 200), ("b", 403)] {
        ask(&server, &format!("POST {PODS}"), pod(name)).await.ok();
        let answer = patch(&server, &format!("{PODS}/{name}"), MERGE_PATCH, deadline.clone()).await;
        assert_eq!(answer.code, code, "{name}: {}", answer.text());
    }
    let quota = "GET /api/v1/namespaces/default/resourcequotas/q";
    let used = ask(&server, quota, Value::Null).await.ok();
    assert_eq!(used["status"]["used"]["pods"], "1");
}

#[tokio::test]
async fn a_quota_counts_claims_by_their_volume_attributes_class() {
    let server = server();
    let selector = json!({"matchExpressions": [
        {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}]});
    let spec = json!({"hard": {"persistentvolumeclaims": "1"}, "scopeSelector": selector});
    create_quota(&server, "q", spec).await;
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    for (name, class, code) in
        [("a", "gold", 201), ("b", "gold", 403), ("c", "silver", 201), ("d", "", 201)]
    {
        let mut claim = json!({"metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        if !class.is_empty() {
            claim["spec"]["volumeAttributesClassName"] = class.into();
        }
        let answer = ask(&server, &format!("POST {path}"), claim).await;
        assert_eq!(answer.code, code, "{name}: {}", answer.text());
    }
    let gains = json!({"spec": {"volumeAttributesClassName": "gold"}});
    let moved = patch(&server, &format!("{path}/c"), MERGE_PATCH, gains).await;
    assert_eq!(moved.code, 403, "{}", moved.text());
}

fn definition(version: impl Fn(&str) -> Value, conversion: Value) -> Value {
    json!({"metadata": {"name": "boats.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "conversion": conversion,
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
        "versions": [version("v1"), version("v2")]}})
}

#[tokio::test]
async fn field_selectors_read_the_version_that_was_asked_for() {
    let server = server();
    const URL: &str = "https://convert.example.com/x";
    server.register_webhook(URL, |review: Value| async move {
        let request = &review["request"];
        let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default().to_owned();
        let convert = |object: &Value| {
            let mut object = object.clone();
            object["apiVersion"] = wanted.as_str().into();
            let spec = object["spec"].as_object_mut().unwrap();
            let color = spec.remove("color").or_else(|| spec.remove("paint")).unwrap();
            let field = if wanted.ends_with("v1") { "color" } else { "paint" };
            spec.insert(field.into(), color);
            object
        };
        let objects = request["objects"].as_array().unwrap();
        let converted: Vec<Value> = objects.iter().map(convert).collect();
        json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": {
            "uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted}})
    });
    let field = |version: &str| if version == "v1" { "color" } else { "paint" };
    let version = |name: &str| {
        json!({"name": name, "served": true, "storage": name == "v1",
            "selectableFields": [{"jsonPath": format!(".spec.{}", field(name))}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                "type": "object", "properties": {field(name): {"type": "string"}}}}}}})
    };
    let conversion = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": URL}}});
    ask(&server, &format!("POST {CRDS}"), definition(version, conversion)).await.ok();
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/boats");
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat",
            "metadata": {"name": name}, "spec": {"color": color}});
        ask(&server, &format!("POST {}", path("v1")), boat).await.ok();
    }
    let list = |version: &str, query: &str| format!("GET {}?{query}", path(version));
    let names = |list: Value| crate::support::names(&list);
    let red = ask(&server, &list("v2", "fieldSelector=spec.paint=red"), Value::Null).await.ok();
    assert_eq!(names(red), ["a", "c"]);
    let page = "fieldSelector=spec.paint=red&limit=1";
    let first = ask(&server, &list("v2", page), Value::Null).await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(names(first), ["a"]);
    let next = format!("{page}&continue={token}");
    assert_eq!(names(ask(&server, &list("v2", &next), Value::Null).await.ok()), ["c"]);
    let query = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true&fieldSelector=spec.paint!=red";
    let mut watch = crate::support::Watch::open(&server, &format!("{}{query}", path("v2"))).await;
    assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], "b");
    assert_eq!(watch.next().await.unwrap()["type"], "BOOKMARK");
    let repaint = json!({"spec": {"color": "green"}});
    patch(&server, &format!("{}/a", path("v1")), MERGE_PATCH, repaint).await.ok();
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "ADDED");
    assert_eq!(event["object"]["spec"]["paint"], "green");
}

#[tokio::test]
async fn a_definition_that_keeps_unknown_fields_lists_none_in_openapi_v2() {
    let server = server();
    let version = |name: &str| {
        let schema = match name {
            "v1" => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"spec": {"type": "object"}}}),
            _ => json!({"type": "object", "properties": {"spec": {"type": "object"}}}),
        };
        json!({"name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": schema}})
    };
    let none = json!({"strategy": "None"});
    ask(&server, &format!("POST {CRDS}"), definition(version, none)).await.ok();
    let document = accept(&server, "GET /openapi/v2", "application/json").await.ok();
    let boat =
        |version: &str| document["definitions"][format!("com.example.{version}.Boat")].clone();
    let gvk = json!([{"group": "example.com", "kind": "Boat", "version": "v1"}]);
    assert_eq!(boat("v1"), json!({"type": "object", "x-kubernetes-group-version-kind": gvk}));
    assert!(boat("v2")["properties"]["metadata"].is_object());
}

#[tokio::test]
async fn verbose_health_names_the_hooks_that_ran_after_the_start() {
    let server = server();
    let live = ask(&server, "GET /livez?verbose", Value::Null).await.text();
    assert!(live.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]poststarthook/"), "{live}");
    assert!(live.contains("[+]poststarthook/rbac/bootstrap-roles ok\n"));
    assert!(live.ends_with("\nlivez check passed\n"));
    let ready =
        ask(&server, "GET /readyz?verbose&exclude=etcd&exclude=x", Value::Null).await.text();
    assert!(ready.contains("[+]etcd excluded: ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n"));
    assert!(ready.contains("[+]shutdown ok\n"));
    assert!(ready.contains("cannot be excluded: no matches for \"x\"\n"));
    let hook = "GET /livez/poststarthook/rbac/bootstrap-roles";
    assert_eq!(ask(&server, hook, Value::Null).await.text(), "ok");
    assert_eq!(ask(&server, "GET /livez/informer-sync", Value::Null).await.code, 404);
}
