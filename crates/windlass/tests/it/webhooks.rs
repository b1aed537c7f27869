//! Admission webhooks as function calls of the embedded server, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::core::DynamicObject;
use kube::{CustomResource, CustomResourceExt};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::manifests::model;
use windlass::webhook::{Findings, Operation, Request, Webhook, Webhooks};
use windlass::{Client, Key, Kind, Manager, Operator, Result};
use windlass_apiserver::ApiServer;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    namespaced,
    status = "MemcachedStatus"
)]
struct MemcachedSpec {
    #[serde(default)]
    size: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct MemcachedStatus {
    ready: Option<i32>,
}

async fn complete(request: Request<Memcached>) -> Result<Memcached> {
    let mut memcached = request.object;
    if memcached.spec.size == 0 {
        memcached.spec.size = 3;
    }
    Ok(memcached)
}

async fn check(request: Request<Memcached>) -> Result<Findings> {
    let mut found = Findings::new();
    let size = request.object.spec.size;
    if request.operation == Operation::Delete {
        if size > 3 {
            found.forbidden("spec.size", "is too large to delete");
        }
        return Ok(found);
    }
    if !(1..=5).contains(&size) {
        found.invalid("spec.size", size, "must be between 1 and 5");
    }
    if request.old.is_some_and(|old| old.spec.size > size) {
        found.warn("shrinking\nloses data");
    }
    Ok(found)
}

fn memcached(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// A server that calls the webhooks as functions, with their configurations installed.
async fn install(operator: &Operator) -> (ApiServer, Client) {
    let server = ApiServer::start();
    let model = operator.model().expect("valid");
    route(&server, &operator.webhooks(), &model);
    let client = Client::new(server.client());
    for object in model.definitions().into_iter().chain(model.webhook_configurations()) {
        create(&client, object).await.expect("created");
    }
    (server, client)
}

/// Lets the server call the webhooks behind the service of a model.
fn route(server: &ApiServer, webhooks: &Webhooks, model: &windlass::manifests::Model) {
    for path in webhooks.paths() {
        let (webhooks, path) = (webhooks.clone(), path.to_owned());
        let url = format!("https://{}.{}.svc{path}", model.webhook_service(), model.namespace);
        server.register_webhook(&url, move |review| {
            let (webhooks, path) = (webhooks.clone(), path.clone());
            async move { webhooks.call(&path, review).await }
        });
    }
}

fn kind_of(object: &Value) -> Kind {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let found = Kind::new(group, version, &kind, &format!("{}s", kind.to_lowercase()));
    match object["metadata"]["namespace"].is_null() {
        true => found.cluster_scoped(),
        false => found,
    }
}

/// Creates an object of a kind with a regular plural.
pub async fn create(client: &Client, object: Value) -> Result<Value> {
    let kind = kind_of(&object);
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let created = client.api_of::<DynamicObject>(&kind).create(&object).await?;
    Ok(serde_json::to_value(created).expect("JSON"))
}

fn operator() -> Operator {
    let webhook = Webhook::new().default(complete).validate(check).on_delete();
    Operator::new("memcached-operator").api::<Memcached>().webhook(webhook)
}

fn memcacheds() -> Kind {
    Kind::of::<Memcached>()
}

#[tokio::test(start_paused = true)]
async fn an_object_is_completed_and_validated_on_its_way_into_the_store() {
    let (_server, client) = install(&operator()).await;
    let created = create(&client, memcached("a", json!({}))).await.expect("valid");
    assert_eq!(created["spec"], json!({"size": 3}));
    let denied = create(&client, memcached("x", json!({"size": 6}))).await.expect_err("too many");
    let status = denied.status().expect("the server answered");
    assert_eq!(
        status.message,
        "admission webhook \"validate.memcached.cache.example.com\" denied the request: \
         Memcached.cache.example.com \"x\" is invalid: \
         spec.size: Invalid value: 6: must be between 1 and 5"
    );
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let details = status.details.as_ref().expect("has details");
    assert_eq!((details.causes.len(), details.causes[0].field.as_str()), (1, "spec.size"));
    assert_eq!(details.causes[0].reason, "FieldValueInvalid");
}

#[tokio::test(start_paused = true)]
async fn field_errors_read_like_those_of_the_server_itself() {
    let mut crd = Memcached::crd();
    let version = &mut crd.spec.versions[0];
    let mut schema = serde_json::to_value(&version.schema).expect("JSON");
    let size = &mut schema["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"];
    size["maximum"] = 5.into();
    version.schema = serde_json::from_value(schema).expect("a schema");
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&crd).await.expect("created");
    let own = create(&client, memcached("x", json!({"size": 6}))).await.expect_err("too many");
    let mut found = Findings::new();
    let detail = "spec.size in body should be less than or equal to 5";
    found.invalid("spec.size", 6, detail);
    let wanted = format!("Memcached.cache.example.com \"x\" is invalid: {}", found.errors()[0]);
    assert_eq!(own.status().expect("answered").message, wanted);
}

#[tokio::test(start_paused = true)]
async fn updates_show_the_old_object_and_deletions_the_deleted_one() {
    let (_server, client) = install(&operator()).await;
    create(&client, memcached("a", json!({"size": 5}))).await.expect("valid");
    let api = client.api_of::<DynamicObject>(&memcacheds());
    let key = Key::namespaced("default", "a");
    let refused = api.delete(&key).await.expect_err("too large to delete");
    let text = refused.status().expect("answered").message.clone();
    assert!(
        text.ends_with("\"a\" is invalid: spec.size: Forbidden: is too large to delete"),
        "{text}"
    );
    api.patch(&key, &Patch::Merge(json!({"spec": {"size": 2}}))).await.expect("valid");
    api.delete(&key).await.expect("small enough");
}

/// The requests that a webhook was sent.
type Requests<K> = Arc<Mutex<Vec<Request<K>>>>;

/// A webhook that accepts everything and remembers what it was asked.
fn recorded<K: windlass::Object<DynamicType = ()>>() -> (Webhook<K>, Requests<K>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    let webhook = Webhook::<K>::new().validate(move |request| {
        kept.lock().push(request);
        async { Ok(Findings::new()) }
    });
    (webhook, asked)
}

#[tokio::test(start_paused = true)]
async fn a_request_names_user_dry_run_and_subresource() {
    let (webhook, asked) = recorded::<Memcached>();
    let webhook = webhook.settings(|entry| {
        let rules = entry.rules.iter_mut().flatten();
        rules.for_each(|rule| rule.resources = Some(vec!["memcacheds/*".into()]));
    });
    let operator = Operator::new("memcached-operator").api::<Memcached>().webhook(webhook);
    let (_server, client) = install(&operator).await;
    let object: DynamicObject =
        serde_json::from_value(memcached("a", json!({"size": 1}))).expect("an object");
    let api = client.dry_run().api_of::<DynamicObject>(&memcacheds());
    api.create(&object).await.expect("valid");
    client.api_of::<DynamicObject>(&memcacheds()).create(&object).await.expect("valid");
    let status = client.api_of::<DynamicObject>(&memcacheds()).subresource("status");
    let patch = Patch::Merge(json!({"status": {"ready": 1}}));
    status.patch(&Key::namespaced("default", "a"), &patch).await.expect("valid");
    let asked = asked.lock();
    let [dry, wet, status] = &asked[..] else { panic!("{} calls", asked.len()) };
    assert!(dry.dry_run && !wet.dry_run && !status.dry_run);
    assert_eq!((wet.name.as_str(), wet.namespace.as_str()), ("a", "default"));
    assert_eq!((wet.subresource.as_str(), status.subresource.as_str()), ("", "status"));
    assert_eq!(wet.user.username.as_deref(), Some("kubernetes-admin"));
    assert_eq!(wet.raw["options"]["kind"], "CreateOptions");
    let old = status.old.as_ref().expect("an update");
    assert_eq!((old.status.is_none(), status.object.status.is_some()), (true, true));
    assert!(wet.client().is_err(), "no manager serves the webhook");
}

#[tokio::test(start_paused = true)]
async fn warnings_reach_the_user_in_one_line() {
    let webhooks = operator().webhooks();
    let request = json!({"uid": "1", "operation": "UPDATE", "name": "a",
        "object": memcached("a", json!({"size": 1})),
        "oldObject": memcached("a", json!({"size": 2}))});
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let answer = webhooks.call("/validate-cache-example-com-v1alpha1-memcached", review).await;
    assert_eq!(answer["response"]["warnings"], json!(["shrinking loses data"]));
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(answer["response"]["uid"], "1");
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_type_does_not_know_are_kept() {
    let webhooks = operator().webhooks();
    let mut object = memcached("a", json!({"future": {"deep": [1, {"x": 2}]}}));
    object["metadata"]["futureMeta"] = json!(true);
    let request = json!({"uid": "1", "operation": "CREATE", "object": object});
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let answer = webhooks.call("/mutate-cache-example-com-v1alpha1-memcached", review).await;
    let patch = answer["response"]["patch"].as_str().expect("a patch");
    let patch = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, patch);
    let patch: Value = serde_json::from_slice(&patch.expect("base64")).expect("JSON");
    assert_eq!(patch, json!([{"op": "add", "path": "/spec/size", "value": 3}]));
}

#[tokio::test(start_paused = true)]
async fn a_webhook_of_pods_leaves_out_the_namespaces_of_the_system_and_its_own() {
    let webhook = Webhook::<Pod>::new().default(|request: Request<Pod>| async move {
        let mut pod = request.object;
        if let Some(spec) = &mut pod.spec {
            let mut proxy = spec.containers[0].clone();
            proxy.name = "proxy".into();
            spec.containers.insert(0, proxy);
        }
        Ok(pod)
    });
    let operator = Operator::new("mesh").webhook(webhook);
    let (_server, client) = install(&operator).await;
    let mut own = Namespace::default();
    own.metadata.name = Some("mesh-system".into());
    client.api().create(&own).await.expect("created");
    for (namespace, containers) in [("default", 2), ("kube-system", 1), ("mesh-system", 1)] {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace}});
        create(&client, account).await.expect("created");
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": namespace},
            "spec": {"containers": [{"name": "app", "image": "app"}]}});
        let pod = create(&client, pod).await.expect("created");
        let found = pod["spec"]["containers"].as_array().expect("a list").len();
        assert_eq!(found, containers, "{namespace}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_raw_handler_answers_what_no_type_describes() {
    let mut entry = model::Webhook::new(false, "exec.guard.example.com", "/validate-exec");
    entry.rule("", "v1", "configmaps", &["CREATE"]);
    entry.everywhere = true;
    let webhook = Webhook::raw(entry, |request: Value| async move {
        let name = request["name"].as_str().unwrap_or_default().to_owned();
        Ok(json!({"allowed": name != "bad", "status": {"code": 418, "message": "no teapots"}}))
    });
    let (_server, client) = install(&Operator::new("guard").webhook(webhook)).await;
    let map = |name: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}})
    };
    create(&client, map("good")).await.expect("allowed");
    let denied = create(&client, map("bad")).await.expect_err("denied");
    let status = denied.status().expect("answered");
    assert_eq!(status.code, 418);
    assert!(status.message.ends_with("denied the request: no teapots"), "{}", status.message);
}

/// An operator whose webhook for config maps behaves as the test sets it.
fn behaving<F, Fut>(policy: &'static str, check: F) -> Operator
where
    F: Fn(Request<ConfigMap>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Findings>> + Send + 'static,
{
    let webhook = Webhook::new().validate(check).settings(move |entry| {
        entry.failure_policy = Some(policy.into());
        entry.timeout_seconds = Some(7);
    });
    Operator::new("fault").webhook(webhook)
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}})
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_costs_its_timeout_and_then_the_failure_policy_decides() {
    for (policy, fails) in [("Fail", true), ("Ignore", false)] {
        let operator = behaving(policy, |_| std::future::pending());
        let (_server, client) = install(&operator).await;
        let start = tokio::time::Instant::now();
        let created = create(&client, config_map("a")).await;
        assert_eq!(start.elapsed(), Duration::from_secs(7), "{policy}");
        assert_eq!(created.is_err(), fails, "{policy}");
        if let Err(error) = created {
            let text = error.to_string();
            assert!(text.contains("failed calling webhook \"validate.configmap.core\""), "{text}");
            assert!(text.contains("context deadline exceeded"), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_given_up_is_dropped_at_the_deadline_of_the_server() {
    let operator = behaving("Fail", |_| std::future::pending());
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request":
        {"uid": "1", "operation": "CREATE", "object": config_map("a")}});
    let start = tokio::time::Instant::now();
    let answer = operator.webhooks().call("/validate--v1-configmap", review).await;
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    assert_eq!(answer["response"]["status"]["code"], 504);
    assert_eq!(answer["response"]["uid"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_panics_denies_the_request_and_is_counted() {
    let operator = behaving("Ignore", |_| async { panic!("on purpose") });
    let server = ApiServer::start();
    let model = operator.model().expect("valid");
    let webhooks = operator.webhooks();
    let handle = operator.manager(server.client()).spawn().expect("starts");
    route(&server, &webhooks, &model);
    let client = Client::new(server.client());
    for object in model.webhook_configurations() {
        create(&client, object).await.expect("created");
    }
    let denied = create(&client, config_map("a")).await.expect_err("the handler panics");
    let status = denied.status().expect("answered");
    assert_eq!(status.code, 500);
    assert!(status.message.contains("panic: on purpose"), "{}", status.message);
    let metrics = handle.metrics();
    for line in [
        "controller_runtime_webhook_panics_total 1",
        r#"controller_runtime_webhook_requests_total{webhook="/validate--v1-configmap",code="200"} 1"#,
        r#"controller_runtime_webhook_requests_total{webhook="/validate--v1-configmap",code="500"} 0"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/validate--v1-configmap"} 0"#,
        r#"controller_runtime_webhook_latency_seconds_count{webhook="/validate--v1-configmap"} 1"#,
    ] {
        assert!(metrics.contains(line), "missing {line} in\n{metrics}");
    }
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_handler_reads_with_the_client_of_its_manager() {
    let operator = behaving("Fail", |request| async move {
        let key = Key::cluster(&request.namespace);
        let namespace = request.client()?.api::<Namespace>().get(&key).await?;
        let mut found = Findings::new();
        if namespace.is_none_or(|namespace| namespace.metadata.labels.is_none()) {
            found.forbidden("metadata.namespace", "has no labels");
        }
        Ok(found)
    });
    let server = ApiServer::start();
    let (model, webhooks) = (operator.model().expect("valid"), operator.webhooks());
    let handle = operator.manager(server.client()).spawn().expect("starts");
    route(&server, &webhooks, &model);
    let client = Client::new(server.client());
    for object in model.webhook_configurations() {
        create(&client, object).await.expect("created");
    }
    create(&client, config_map("a")).await.expect("every namespace has a label");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn errors_of_handlers_become_denials_with_their_status() {
    let operator = behaving("Ignore", |request| async move {
        match request.name.as_str() {
            "api" => {
                let client = Client::new(ApiServer::start().client());
                let missing = client.api::<ConfigMap>();
                let patch = Patch::Merge(json!({}));
                missing.patch(&Key::namespaced("default", "none"), &patch).await?;
            }
            _ => return Err("the moon is full".into()),
        }
        Ok(Findings::new())
    });
    let (_server, client) = install(&operator).await;
    for (name, code, text) in
        [("api", 404, "configmaps \"none\" not found"), ("plain", 403, "the moon is full")]
    {
        let denied = create(&client, config_map(name)).await.expect_err("denied");
        let status = denied.status().expect("answered");
        assert_eq!(status.code, code, "{name}");
        assert!(
            status.message.ends_with(&format!("denied the request: {text}")),
            "{}",
            status.message
        );
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_reviews_and_unknown_paths_are_refused_with_a_status() {
    let webhooks = operator().webhooks();
    let path = "/validate-cache-example-com-v1alpha1-memcached";
    for (path, review, code) in [
        ("/nowhere", json!({}), 404),
        (path, json!({}), 400),
        (path, json!([1]), 400),
        (path, json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v3"}), 400),
        (path, json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}), 400),
        ("/convert", json!({"kind": "ConversionReview"}), 404),
    ] {
        let answer = webhooks.call(path, review.clone()).await;
        assert_eq!(
            (&answer["kind"], &answer["code"]),
            (&json!("Status"), &json!(code)),
            "{review}"
        );
    }
    let request = json!({"uid": "7", "operation": "CREATE", "object": {"spec": "not a spec"}});
    let review = json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": request});
    let answer = webhooks.call(path, review).await;
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1beta1");
    assert_eq!(answer["response"]["status"]["code"], 400);
    assert_eq!(answer["response"]["uid"], "7");
}

#[tokio::test(start_paused = true)]
async fn two_webhooks_of_one_path_are_an_error_before_anything_starts() {
    let twice = operator().webhook(Webhook::new().validate(check));
    let error = twice.model().expect_err("twice").to_string();
    assert!(error.contains("two webhooks have the path \"/validate-cache-"), "{error}");
    let server = ApiServer::start();
    let webhooks = Webhooks::new().add(Webhook::new().validate(check));
    let webhooks = webhooks.add(Webhook::new().validate(check));
    let error = Manager::new(server.client()).webhooks(webhooks).spawn().err();
    assert!(error.is_some_and(|error| error.to_string().contains("two webhooks have the path")));
}
