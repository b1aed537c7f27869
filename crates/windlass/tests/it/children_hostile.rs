//! Children that cannot exist, that belong to somebody else, or that somebody else is faster with.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Key, Manager, Predicate};

use crate::children_world::{
    Meanwhile, SET, Wire, children, come_to, delete, gone, inventory, operator, want, world,
};
use crate::common::{config_map, eventually, key, secret};
use crate::proxy::Log;

/// A role, which can have no reference to a namespaced owner.
fn role(name: &str, annotations: &Value) -> ClusterRole {
    serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations}}))
        .expect("a role")
}

async fn mark(client: &Client, role: &str) -> Option<String> {
    let found = client.api::<ClusterRole>().get(&Key::cluster(role)).await.expect("read")?;
    found.metadata.annotations.as_ref()?.get("windlass.dev/owner").cloned()
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_name_no_request_can_address_is_refused_and_keeps_nobody() {
    let (log, _guard) = Log::start();
    let (server, client) = world().await;
    let running = operator(server.client());
    for name in ["a/b", "50%", "..", "x/../../pods"] {
        want(&client, "owner", &[("1", &format!("secret:default:{name}"))]).await;
        let said = format!(
            "a child of kind Secret.v1 cannot exist: name \\\"{name}\\\" is not a valid path segment"
        );
        eventually("the refusal", || !log.lines(&[&said]).is_empty()).await;
        assert_eq!(inventory(&client, "owner").await, None, "{name}: nothing is recorded");
        // A correction is enough.
        want(&client, "owner", &[("1", "secret:default:a")]).await;
        assert!(come_to(&client, &["secret:default:a"]).await, "{name}");
        want(&client, "owner", &[("1", &format!("secret:{name}:a"))]).await;
        let said = format!("namespace \\\"{name}\\\" is not a valid path segment");
        eventually("the refusal of a namespace", || !log.lines(&[&said]).is_empty()).await;
        delete(&client, "owner").await;
        assert!(gone(&client, "owner").await, "{name}: the owner stays");
        assert!(children(&client).await.is_empty(), "{name}");
    }
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_inventory_with_members_that_no_request_can_address_keeps_nobody() {
    let (server, client) = world().await;
    let member = |plural: &str, namespace: Value, name: &str| {
        let api_version = if plural == "drives" { "ships/../v1" } else { "v1" };
        json!({"apiVersion": api_version, "kind": "Secret", "plural": plural,
            "namespace": namespace, "names": [name]})
    };
    let listed = json!([[
        member("secrets", json!("default"), "a/b"),
        member("secrets", json!("default"), ".."),
        member("secrets", json!("a/b"), "a"),
        member("secrets", Value::Null, "no-namespace"),
        member("../secrets", json!("default"), "a"),
        member("drives", json!("default"), "warp"),
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
         "plural": "clusterroles", "namespace": "default", "names": ["a-namespace"]},
    ]]);
    let mut owner = config_map("owner", &[("1", "secret:default:a")]);
    owner.metadata.annotations = Some([(SET.into(), listed.to_string())].into());
    owner.metadata.finalizers = Some(vec![SET.into()]);
    client.api().create(&owner).await.expect("created");
    let running = operator(server.client());
    assert!(come_to(&client, &["secret:default:a"]).await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let listed = inventory(&client, "owner").await.expect("is there");
    assert!(listed.contains(r#""names":["a"]"#) && !listed.contains(".."), "{listed}");
    delete(&client, "owner").await;
    assert!(gone(&client, "owner").await);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_has_children_of_both_scopes_and_none_without_a_place() {
    let (server, client) = world().await;
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let says = said.clone();
    let reconcile = move |cx: Context<ClusterRole>| {
        let says = says.clone();
        async move {
            let mut set = cx.children(SET);
            set.add(&role("child", &Value::Null))?;
            set.then();
            set.add(&secret("child"))?;
            let mut nowhere = secret("nowhere");
            nowhere.metadata.namespace = None;
            says.lock().extend(set.add(&nowhere).err().map(|error| error.to_string()));
            set.apply().await?;
            Ok(Next::Done)
        }
    };
    let owners =
        Predicate::object(|role: &ClusterRole| role.metadata.name.as_deref() == Some("owner"));
    let controller = Controller::<ClusterRole>::builder("roles")
        .when(owners)
        .owns::<Secret>()
        .owns::<ClusterRole>()
        .build(reconcile);
    let running = Manager::new(server.client()).add(controller).spawn().expect("starts");
    let owner = client.api().create(&role("owner", &Value::Null)).await.expect("created");
    assert!(come_to(&client, &["role::child", "secret:default:child"]).await);
    assert_eq!(
        said.lock()[0],
        "a child of kind Secret.v1 cannot exist: Secret is namespaced, and neither the child nor \
         its owner has a namespace"
    );
    // Both have owner references, so the garbage collector helps.
    let found = client.api::<Secret>().get(&key("child")).await.expect("read").expect("there");
    let owners = found.metadata.owner_references.clone().unwrap_or_default();
    assert_eq!(Some(&owners[0].uid), owner.metadata.uid.as_ref());
    // A child that is deleted is created again.
    client.api::<Secret>().delete(&key("child")).await.expect("deleted");
    client.api::<ClusterRole>().delete(&Key::cluster("child")).await.expect("deleted");
    assert!(come_to(&client, &["role::child", "secret:default:child"]).await);
    client.api::<ClusterRole>().delete(&Key::cluster("owner")).await.expect("deleted");
    assert!(come_to(&client, &[]).await);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let owner = client.api::<ClusterRole>().get(&Key::cluster("owner")).await.expect("read");
    assert!(owner.is_none(), "the finalizer stays");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn the_error_names_every_child_that_failed() {
    let (log, _guard) = Log::start();
    let (server, client) = world().await;
    for name in ["a", "b"] {
        let theirs = json!({"metadata": {"name": name, "namespace": "default",
            "annotations": {"windlass.dev/owner": "example.com/other Shop default/x"}}});
        let theirs: Secret = serde_json::from_value(theirs).expect("a secret");
        client.api().create(&theirs).await.expect("created");
    }
    let running = operator(server.client());
    want(&client, "owner", &[("1", "secret:default:a secret:default:b secret:default:c")]).await;
    assert!(come_to(&client, &["secret:default:c"]).await, "the third one is applied");
    let all = "2 objects failed: Secret default/a is not touched: it already belongs to another set \
               of children: example.com/other Shop default/x; Secret default/b is not touched";
    eventually("one error with both", || !log.lines(&[all]).is_empty()).await;
    running.stop().await.expect("stops");
}

/// Creates a role for an operator, with somebody else's work right before one of its requests.
async fn race(before: Option<ClusterRole>, method: Method, then: ClusterRole, by: &'static str) {
    let (log, _guard) = Log::start();
    let (server, client) = world().await;
    if let Some(before) = before {
        client.api().create(&before).await.expect("created");
    }
    let wire = Wire::new(&server, None);
    let running = operator(wire.client());
    running.ready().await;
    let (theirs, case) = (client.field_owner(by), format!("{method} {by}"));
    let what = async move { drop(theirs.api().apply(&then).await.expect("applied")) }.boxed();
    *wire.meanwhile.lock() = Some(Meanwhile { method, path: "clusterroles/r", what });
    want(&client, "owner", &[("1", "role::r secret:default:a")]).await;
    assert!(come_to(&client, &["secret:default:a", "role::r"]).await, "{case}");
    let said = "ClusterRole r is not touched: it already belongs to another set of children: \
                example.com/other Shop default/x";
    eventually("the refusal", || !log.lines(&[said]).is_empty()).await;
    assert!(wire.meanwhile.lock().is_none(), "{case}: it did not happen");
    let kept = mark(&client, "r").await;
    assert_eq!(kept.as_deref(), Some("example.com/other Shop default/x"), "{case}");
    delete(&client, "owner").await;
    assert!(gone(&client, "owner").await, "{case}");
    assert!(mark(&client, "r").await.is_some(), "{case}: it is not deleted either");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_another_set_creates_right_before_the_first_apply_keeps_its_mark() {
    let marked = || {
        let mut theirs =
            role("r", &json!({"windlass.dev/owner": "example.com/other Shop default/x"}));
        theirs.metadata.labels = Some([("windlass.dev/owner".into(), "1".into())].into());
        theirs
    };
    // Created by another operator between the look at the server and the apply.
    race(None, Method::PATCH, marked(), "other").await;
    // Created by an operator of the same name, before that look and after the one into the cache.
    race(None, Method::GET, marked(), "sets").await;
    // It belonged to nobody when it was looked at.
    race(Some(role("r", &Value::Null)), Method::PATCH, marked(), "sets").await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_nobody_that_appears_right_before_the_first_apply_is_taken_over() {
    let (server, client) = world().await;
    let wire = Wire::new(&server, None);
    let running = operator(wire.client());
    running.ready().await;
    let theirs = client.clone();
    let what = async move {
        let mut secret = secret("a");
        secret.metadata.labels = Some([("windlass.dev/owner".into(), "nobody".into())].into());
        theirs.api().create(&secret).await.expect("created");
    };
    let path = "secrets/a";
    *wire.meanwhile.lock() = Some(Meanwhile { method: Method::PATCH, path, what: what.boxed() });
    want(&client, "owner", &[("1", "secret:default:a")]).await;
    eventually("the race", || wire.meanwhile.lock().is_none()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let taken = client.api::<Secret>().get(&key("a")).await.expect("read").expect("there");
    let owner = client.api::<ConfigMap>().get(&key("owner")).await.expect("read").expect("there");
    let label = taken.metadata.labels.as_ref().and_then(|all| all.get("windlass.dev/owner"));
    assert_eq!(label, owner.metadata.uid.as_ref());
    // What is known to be the set's own is brought back whatever version it has.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"windlass.dev/owner": "x"}}}));
    client.api::<Secret>().patch(&key("a"), &patch).await.expect("patched");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let back = client.api::<Secret>().get(&key("a")).await.expect("read").expect("there");
    let label = back.metadata.labels.as_ref().and_then(|all| all.get("windlass.dev/owner"));
    assert_eq!(label, owner.metadata.uid.as_ref());
    running.stop().await.expect("stops");
}
