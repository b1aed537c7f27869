//! Children of an operator with few rights, as the server's own authorizer and admission see it.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Key};
use windlass_apiserver::User;

use crate::children_world::{Wire, children, come_to, delete, gone, operator, want, world};
use crate::common::{config_map, eventually, key, manager};
use crate::proxy::Log;

const RULE: &str = "allow it with the rule ";

/// Sets the rules of the role of user `operator`.
async fn allow(client: &Client, rules: &[Value]) {
    let role: ClusterRole =
        serde_json::from_value(json!({"metadata": {"name": "operator"}, "rules": rules}))
            .expect("a role");
    client.api().apply(&role).await.expect("applied");
}

/// Returns the rules that the log names, in the form of a role.
fn named(log: &Log) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for line in log.lines(&["Reconciler error", RULE]) {
        let line = line.replace("\\\"", "\"");
        for text in line.split(RULE).skip(1) {
            let text = text.split_inclusive('}').next().unwrap_or_default();
            let quoted = ["apiGroups", "resources", "verbs"]
                .iter()
                .fold(text.to_string(), |text, name| text.replace(name, &format!("\"{name}\"")));
            let rule = serde_json::from_str(&quoted).expect("a rule");
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    rules
}

#[tokio::test(start_paused = true)]
async fn the_rules_that_errors_name_are_those_that_the_authorizer_wants() {
    let (log, _guard) = Log::start();
    let (server, client) = world().await;
    let read = json!({"apiGroups": ["", "rbac.authorization.k8s.io"], "verbs": ["list", "watch"],
        "resources": ["configmaps", "secrets", "clusterroles"]});
    allow(&client, std::slice::from_ref(&read)).await;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "operator"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
            "name": "operator"}],
    }))
    .expect("a binding");
    client.api().create(&binding).await.expect("created");
    let running = operator(server.client_as(User::new("operator", &["system:authenticated"])));
    want(&client, "owner", &[("1", "secret:default:a"), ("2", "role::r")]).await;
    let follow = async |wanted: &[&str]| {
        for _ in 0..12 {
            tokio::time::sleep(Duration::from_secs(1100)).await;
            if children(&client).await.iter().map(String::as_str).eq(wanted.iter().copied()) {
                return;
            }
            let rules: Vec<Value> = named(&log).into_iter().chain([read.clone()]).collect();
            allow(&client, &rules).await;
        }
        panic!("the rules do not suffice: {:?}", named(&log));
    };
    follow(&["role::r", "secret:default:a"]).await;
    let verbs = |plural: &str| -> Vec<String> {
        let all = named(&log);
        let of_kind = all.iter().filter(|rule| rule["resources"][0] == plural);
        of_kind.filter_map(|rule| rule["verbs"][0].as_str().map(str::to_string)).collect()
    };
    assert_eq!(verbs("configmaps"), ["patch"], "the inventory of the owner");
    assert_eq!(verbs("secrets"), ["patch", "create"]);
    assert_eq!(verbs("clusterroles"), ["get", "patch", "create"]);
    delete(&client, "owner").await;
    follow(&[]).await;
    assert!(gone(&client, "owner").await);
    assert_eq!(verbs("secrets"), ["patch", "create", "get", "delete"]);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn what_a_quota_forbids_names_no_rule() {
    let (log, _guard) = Log::start();
    let (server, client) = world().await;
    let hard = json!({"count/secrets": "1"});
    let quota: ResourceQuota = serde_json::from_value(
        json!({"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}),
    )
    .expect("a quota");
    client.api().create(&quota).await.expect("created");
    let used = json!({"status": {"hard": hard, "used": {"count/secrets": "0"}}});
    let quotas = client.api::<ResourceQuota>();
    quotas.subresource("status").patch(&key("q"), &Patch::Merge(used)).await.expect("patched");
    let running = operator(server.client());
    want(&client, "owner", &[("1", "secret:default:a secret:default:b")]).await;
    assert!(come_to(&client, &["secret:default:a"]).await);
    eventually("the error", || !log.lines(&["Reconciler error", "exceeded quota"]).is_empty())
        .await;
    assert!(log.lines(&[RULE]).is_empty(), "{:?}", log.lines(&[RULE]));
    running.stop().await.expect("stops");
}

/// A job that runs once.
fn job() -> Job {
    serde_json::from_value(json!({
        "metadata": {"name": "migrate", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}},
    }))
    .expect("a job")
}

#[tokio::test(start_paused = true)]
async fn the_owner_s_annotations_and_jobs_that_run_once_name_their_rules_too() {
    for (method, path, rule) in [
        (Method::PATCH, "configmaps/owner", r#"resources: ["configmaps"], verbs: ["patch"]"#),
        (Method::PATCH, "jobs/migrate-", r#"["batch"], resources: ["jobs"], verbs: ["patch"]"#),
        (Method::GET, "jobs/migrate-", r#"["batch"], resources: ["jobs"], verbs: ["get"]"#),
    ] {
        let (log, _guard) = Log::start();
        let (server, client) = world().await;
        let wire = Wire::new(&server, None);
        let refused = method.clone();
        *wire.refuse.lock() = Some(std::sync::Arc::new(move |request| {
            let meant = request.method() == refused && request.uri().path().contains(path);
            meant.then_some(403)
        }));
        let controller = Controller::<ConfigMap>::builder("maps");
        // A kind that is not cached is read before anything is sent.
        let controller = match method {
            Method::GET => controller,
            _ => controller.owns::<Job>(),
        };
        let controller = controller.build(|cx: Context<ConfigMap>| async move {
            let mut children = cx.children("example.com/app");
            children.once(&job(), "1")?;
            children.apply().await?;
            Ok(Next::Done)
        });
        let running = windlass::Manager::new(wire.client()).namespaces(["default"]).add(controller);
        let running = running.spawn().expect("starts");
        client.api().create(&config_map("owner", &[])).await.expect("created");
        let rule = rule.replace('"', "\\\"");
        eventually("the rule", || !log.lines(&[RULE, &rule]).is_empty()).await;
        *wire.refuse.lock() = None;
        tokio::time::sleep(Duration::from_secs(1100)).await;
        let jobs = client.api::<Job>().list().namespace("default").items().await.expect("listed");
        assert_eq!(jobs.len(), 1, "{method} {path}");
        running.stop().await.expect("stops");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_exists_is_not_applied_again_by_a_newer_release() {
    let (log, _guard) = Log::start();
    let (server, client) = world().await;
    let release = |image: &'static str| {
        let controller = Controller::<ConfigMap>::builder("maps").owns::<Job>().build(
            move |cx: Context<ConfigMap>| async move {
                let mut job = job();
                let spec = job.spec.get_or_insert_default().template.spec.get_or_insert_default();
                spec.containers[0].image = Some(image.into());
                let mut children = cx.children("example.com/app");
                children.once(&job, "1")?;
                let state = children.apply().await?;
                cx.event("State", state.reason());
                Ok(Next::Done)
            },
        );
        manager(&server).add(controller).spawn().expect("starts")
    };
    client.api().create(&config_map("owner", &[])).await.expect("created");
    let first = release("old");
    tokio::time::sleep(Duration::from_secs(60)).await;
    first.stop().await.expect("stops");
    // Once while it runs, and once after it completed while no operator was there.
    let second = release("new");
    tokio::time::sleep(Duration::from_secs(60)).await;
    second.stop().await.expect("stops");
    let jobs = client.api::<Job>().list().namespace("default").items().await.expect("listed");
    let name = jobs[0].metadata.name.clone().expect("a name");
    let done = json!({"status": {"startTime": "2026-01-01T00:00:00Z", "succeeded": 1,
    "completionTime": "2026-01-01T00:00:01Z", "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True",
         "lastTransitionTime": "2026-01-01T00:00:01Z"},
        {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
    ]}});
    let api = client.api::<Job>();
    api.subresource("status").patch(&key(&name), &Patch::Merge(done)).await.expect("patched");
    let third = release("newest");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(log.lines(&["Reconciler error"]).is_empty(), "{:?}", log.lines(&["Reconciler error"]));
    let owner = client.api::<ConfigMap>().get(&key("owner")).await.expect("read").expect("there");
    let remembered = owner
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get("example.com/app-once").cloned());
    assert!(remembered.is_some_and(|text| text.contains("Job migrate")), "it is remembered");
    let left = api.get(&Key::namespaced("default", &name)).await.expect("read").expect("there");
    let spec = left.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).expect("a spec");
    assert_eq!(spec.containers[0].image.as_deref(), Some("old"));
    third.stop().await.expect("stops");
}
