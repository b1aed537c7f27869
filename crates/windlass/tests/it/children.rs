//! Children as a set: applied, pruned and deleted, with a fault at every request.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::json;
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Key, Kind, Readiness};

use crate::children_world::{
    Fault, SET, Wire, children, come_to, delete, gone, inventory, operator, want, world,
};
use crate::common::{config_map, eventually, key, manager, secret};
use crate::proxy::Log;

const FIRST: [(&str, &str); 2] =
    [("1", "secret:default:a role::r"), ("2", "map:other:m secret:default:b")];
const SECOND: [(&str, &str); 2] = [("1", "secret:default:a"), ("2", "map:other:n")];

/// The waves of children of an operator, and the children that must exist afterwards.
type Phase<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

/// Takes an owner through its life with one fault; returns `false` if it did not happen.
async fn life(fault: Fault, at: usize) -> bool {
    let (server, client) = world().await;
    client.api().create(&secret("bystander")).await.expect("created");
    let wire = Wire::new(&server, Some((at, fault)));
    let second = Wire::new(&server, None);
    let mut running = operator(wire.client());
    let mut replaced = false;
    let phases: [Phase; 3] = [
        (&FIRST, &["map:other:m", "role::r", "secret:default:a", "secret:default:b"]),
        (&SECOND, &["map:other:n", "secret:default:a"]),
        (&[], &[]),
    ];
    for (waves, wanted) in phases {
        match waves {
            [] => delete(&client, "owner").await,
            waves => want(&client, "owner", waves).await,
        }
        let mut there = false;
        for _ in 0..10 {
            there = come_to(&client, wanted).await;
            if there || (wire.crashed() && !replaced) {
                break;
            }
        }
        if wire.crashed() && !replaced {
            running.stop().await.expect("stops");
            running = operator(second.client());
            replaced = true;
            there = come_to(&client, wanted).await;
        }
        assert!(there, "{fault:?} at {at}: {:?} instead of {wanted:?}", children(&client).await);
    }
    assert!(gone(&client, "owner").await, "{fault:?} at {at}: the owner stays");
    let bystander = client.api::<Secret>().get(&key("bystander")).await.expect("read");
    assert!(bystander.is_some(), "{fault:?} at {at}: a wrong delete");
    for wire in [&wire, &second] {
        let orphans = wire.orphans.lock();
        assert!(orphans.is_empty(), "{fault:?} at {at}: not in the inventory: {orphans:?}");
    }
    let happened = wire.requests() >= at;
    running.stop().await.expect("stops");
    happened
}

/// Runs the life of an owner with a fault at the first request, the second, and so on.
async fn at_every_request(fault: Fault) {
    let mut at = 1;
    while life(fault, at).await {
        at += 1;
    }
    assert!(at > 14, "{fault:?}: only {at} requests");
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_request_leaves_neither_an_orphan_nor_a_wrong_delete() {
    at_every_request(Fault::CrashBefore).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_request_leaves_neither_an_orphan_nor_a_wrong_delete() {
    at_every_request(Fault::CrashAfter).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_lost_at_any_request_leaves_neither_an_orphan_nor_a_wrong_delete() {
    at_every_request(Fault::Lost).await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_at_any_write_leaves_neither_an_orphan_nor_a_wrong_delete() {
    at_every_request(Fault::Conflict).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_at_any_request_leaves_neither_an_orphan_nor_a_wrong_delete() {
    at_every_request(Fault::Away).await;
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_with_twenty_unchanged_children_sends_no_request() {
    let (server, client) = world().await;
    let wire = Wire::new(&server, None);
    let running = operator(wire.client());
    let names: Vec<String> = (0..20).map(|n| format!("secret:default:s{n:02}")).collect();
    want(&client, "owner", &[("1", &names.join(" "))]).await;
    assert!(come_to(&client, &names.iter().map(String::as_str).collect::<Vec<_>>()).await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let runs = || {
        let page = running.diagnostics();
        page["controllers"][0]["reconciles"]["success"].as_u64().expect("a count")
    };
    let (sent, before) = (wire.requests(), runs());
    for n in 0..3 {
        let touch = json!({"metadata": {"labels": {"touched": n.to_string()}}});
        client
            .api::<ConfigMap>()
            .patch(&key("owner"), &Patch::Merge(touch))
            .await
            .expect("patched");
        eventually("a reconcile", || runs() > before + n).await;
    }
    assert_eq!(wire.requests(), sent);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_somebody_changes_or_deletes_is_brought_back() {
    let (server, client) = world().await;
    let running = operator(server.client());
    let all = ["map:other:m", "role::r", "secret:default:a", "secret:default:b"];
    want(&client, "owner", &FIRST).await;
    assert!(come_to(&client, &all).await);
    // Neither of the two has an owner reference.
    let elsewhere = Key::namespaced("other", "m");
    let child = client.api::<ConfigMap>().get(&elsewhere).await.expect("read").expect("there");
    assert_eq!(child.metadata.owner_references, None);
    client.api::<ConfigMap>().delete(&elsewhere).await.expect("deleted");
    client.api::<ClusterRole>().delete(&Key::cluster("r")).await.expect("deleted");
    assert!(come_to(&client, &all).await);
    let patch = json!({"metadata": {"labels": null}});
    client.api::<Secret>().patch(&key("a"), &Patch::Merge(patch)).await.expect("patched");
    assert!(come_to(&client, &all).await);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_child_of_another_controller_or_another_set_is_refused_with_a_sentence() {
    let (log, _guard) = Log::start();
    let (server, client) = world().await;
    let mut theirs = secret("a");
    theirs.metadata.owner_references = Some(vec![
        serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "7", "controller": true,
        }))
        .expect("a reference"),
    ]);
    client.api().create(&theirs).await.expect("created");
    let running = operator(server.client());
    want(&client, "owner", &[("1", "secret:default:a role::r")]).await;
    assert!(come_to(&client, &["role::r"]).await, "the rest of the wave is applied");
    let said = "Secret default/a is not touched: it is already controlled by ReplicaSet web (7)";
    eventually("the first refusal", || !log.lines(&[said]).is_empty()).await;

    want(&client, "owner2", &[("1", "role::r")]).await;
    let said = "ClusterRole r is not touched: it already belongs to another set of children: \
                example.com/set ConfigMap default/owner";
    eventually("the refusal", || !log.lines(&[said]).is_empty()).await;
    delete(&client, "owner2").await;
    assert!(gone(&client, "owner2").await);
    assert!(come_to(&client, &["role::r"]).await, "only its own set may delete it");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_object_created_under_the_name_of_a_child_before_its_deletion_is_left_alone() {
    let (server, client) = world().await;
    let wire = Wire::new(&server, None);
    let running = operator(wire.client());
    want(&client, "owner", &FIRST).await;
    assert!(
        come_to(&client, &["map:other:m", "role::r", "secret:default:a", "secret:default:b"]).await
    );
    // Between the look at the child and its deletion, somebody else replaces it.
    let (sender, mut asked) = tokio::sync::mpsc::unbounded_channel();
    *wire.refuse.lock() = Some(Arc::new(move |request| {
        let path = request.uri().path();
        if request.method() != Method::DELETE || !path.ends_with("/secrets/b") {
            return None;
        }
        let _ = sender.send(());
        Some(409)
    }));
    want(&client, "owner", &SECOND).await;
    asked.recv().await.expect("a deletion");
    client.api::<Secret>().delete(&key("b")).await.expect("deleted");
    client.api().create(&secret("b")).await.expect("created");
    *wire.refuse.lock() = None;
    assert!(come_to(&client, &["map:other:n", "secret:default:a"]).await);
    delete(&client, "owner").await;
    assert!(gone(&client, "owner").await);
    assert!(client.api::<Secret>().get(&key("b")).await.expect("read").is_some());
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_request_names_the_missing_rule_and_the_child_stays_listed() {
    let (log, _guard) = Log::start();
    let (server, client) = world().await;
    let wire = Wire::new(&server, None);
    let running = operator(wire.client());
    want(&client, "owner", &FIRST).await;
    assert!(
        come_to(&client, &["map:other:m", "role::r", "secret:default:a", "secret:default:b"]).await
    );
    *wire.refuse.lock() =
        Some(Arc::new(|request| (request.method() == Method::DELETE).then_some(403)));
    want(&client, "owner", &SECOND).await;
    let rule = r#"allow it with the rule {apiGroups: [\"\"], resources: [\"configmaps\"], verbs: [\"delete\"]}"#;
    eventually("the rule", || !log.lines(&[rule]).is_empty()).await;
    let listed = inventory(&client, "owner").await.expect("is there");
    assert!(listed.contains("\"b\"") && listed.contains("\"m\""), "{listed}");
    *wire.refuse.lock() = None;
    assert!(come_to(&client, &["map:other:n", "secret:default:a"]).await);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn kinds_and_versions_that_the_build_or_the_server_no_longer_has_are_dealt_with() {
    let (server, client) = world().await;
    // As an older build left them: one kind is not served any more, one in another version only.
    let mark = "example.com/set ConfigMap default/owner";
    let mut budget: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "old", "namespace": "default"}, "spec": {"maxUnavailable": 1},
    }))
    .expect("an object");
    budget.metadata.annotations = Some([("windlass.dev/owner".into(), mark.into())].into());
    let budgets = Kind::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
    client.api_of::<DynamicObject>(&budgets).create(&budget).await.expect("created");
    let listed = json!([[
        {"apiVersion": "ships.example.com/v1", "kind": "Drive", "plural": "drives",
         "namespace": "default", "names": ["warp"]},
        {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
         "plural": "poddisruptionbudgets", "namespace": "default", "names": ["old"]},
    ]]);
    let mut owner = config_map("owner", &[("1", "secret:default:a")]);
    owner.metadata.annotations = Some([(SET.into(), listed.to_string())].into());
    owner.metadata.finalizers = Some(vec![SET.into()]);
    client.api().create(&owner).await.expect("created");
    let running = operator(server.client());
    assert!(come_to(&client, &["secret:default:a"]).await);
    delete(&client, "owner").await;
    assert!(gone(&client, "owner").await);
    assert!(
        client.api_of::<DynamicObject>(&budgets).get(&key("old")).await.expect("read").is_none()
    );
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_inventory_that_somebody_edits_deletes_nothing_that_is_no_child() {
    let (log, _guard) = Log::start();
    let (server, client) = world().await;
    client.api().create(&secret("precious")).await.expect("created");
    let running = operator(server.client());
    want(&client, "owner", &[("1", "secret:default:a")]).await;
    assert!(come_to(&client, &["secret:default:a"]).await);
    let edit = async |text: Option<String>| {
        let patch = json!({"metadata": {"annotations": {SET: text}}});
        client
            .api::<ConfigMap>()
            .patch(&key("owner"), &Patch::Merge(patch))
            .await
            .expect("patched");
    };
    let foreign = json!([[{"apiVersion": "v1", "kind": "Secret", "plural": "secrets",
        "namespace": "default", "names": ["precious"]}]]);
    edit(Some(foreign.to_string())).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(client.api::<Secret>().get(&key("precious")).await.expect("read").is_some());
    let listed = inventory(&client, "owner").await.expect("is there");
    assert!(listed.contains("\"a\"") && !listed.contains("precious"), "{listed}");

    edit(Some("gibberish".into())).await;
    let said = "annotation example.com/set of ConfigMap default/owner does not list children";
    eventually("the complaint", || !log.lines(&[said]).is_empty()).await;
    edit(None).await;
    delete(&client, "owner").await;
    assert!(gone(&client, "owner").await);
    assert!(come_to(&client, &[]).await, "what was known is still deleted");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn waves_are_deleted_one_after_the_other() {
    let (server, client) = world().await;
    let running = operator(server.client());
    want(&client, "owner", &FIRST).await;
    assert!(
        come_to(&client, &["map:other:m", "role::r", "secret:default:a", "secret:default:b"]).await
    );
    let hold = |held: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": held}}));
    let slow = Key::namespaced("other", "m");
    client.api::<ConfigMap>().patch(&slow, &hold(&["example.com/slow"])).await.expect("patched");
    delete(&client, "owner").await;
    assert!(come_to(&client, &["map:other:m", "role::r", "secret:default:a"]).await);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(children(&client).await.len(), 3, "the first wave waits for the second one");
    client.api::<ConfigMap>().patch(&slow, &hold(&[])).await.expect("patched");
    assert!(come_to(&client, &[]).await);
    assert!(gone(&client, "owner").await);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn mistakes_of_the_author_are_refused_before_anything_is_sent() {
    let (server, client) = world().await;
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let says = said.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let says = says.clone();
        async move {
            let mut set = cx.children(SET);
            set.add(&secret("a"))?;
            let twice = set.add(&secret("a")).expect_err("twice");
            let nameless = set.add(&Secret::default()).expect_err("has no name");
            let name = cx.children("children").apply().await.expect_err("is no name");
            says.lock().extend([twice, nameless, name].map(|error| error.to_string()));
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("sets").owns::<Secret>().build(reconcile);
    let running = manager(&server).add(controller).spawn().expect("starts");
    client.api().create(&config_map("owner", &[])).await.expect("created");
    eventually("a reconcile", || !said.lock().is_empty()).await;
    assert_eq!(
        said.lock()[..3],
        [
            "Secret default/a was added twice to example.com/set",
            "a child of kind Secret.v1 has no name",
            "a set of children is named by a domain and a word, such as example.com/children, \
             unlike \"children\"",
        ]
    );
    assert!(children(&client).await.is_empty());
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn the_set_is_ready_when_all_children_are() {
    let (server, client) = world().await;
    let seen: Arc<Mutex<Vec<Readiness>>> = Arc::default();
    let sees = seen.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let sees = sees.clone();
        async move {
            let deployment: k8s_openapi::api::apps::v1::Deployment =
                serde_json::from_value(json!({
                    "metadata": {"name": "web"},
                    "spec": {
                        "replicas": 1,
                        "selector": {"matchLabels": {"app": "web"}},
                        "template": {
                            "metadata": {"labels": {"app": "web"}},
                            "spec": {"containers": [{"name": "c", "image": "i"}]},
                        },
                    },
                }))?;
            let mut set = cx.children(SET);
            set.add(&deployment)?;
            let state = set.apply().await?;
            sees.lock().push(state);
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("sets")
        .owns::<k8s_openapi::api::apps::v1::Deployment>()
        .build(reconcile);
    let running = manager(&server).add(controller).spawn().expect("starts");
    client.api().create(&config_map("owner", &[])).await.expect("created");
    let last = || seen.lock().last().cloned();
    eventually("a state", || last().is_some()).await;
    let state = last().expect("a state");
    assert_eq!(state.reason(), "LatestGenerationNotObserved");
    assert!(state.message().starts_with("Deployment default/web: "), "{state}");
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
        "readyReplicas": 1, "conditions": [
            {"type": "Available", "status": "True"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        ],
    }});
    let deployments = Client::new(server.client());
    let deployments = deployments.api::<k8s_openapi::api::apps::v1::Deployment>();
    deployments
        .subresource("status")
        .patch(&key("web"), &Patch::Merge(status))
        .await
        .expect("patched");
    eventually("all ready", || last() == Some(Readiness::Ready)).await;
    running.stop().await.expect("stops");
}
