//! Own writes are read at once, whatever way they took and however far the watch is behind.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::json;
use windlass::client::{Deleted, Deletion, Patch};
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Client, Index, Key, Kind};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, key, manager};

fn by_first() -> Index<ConfigMap, String> {
    Index::new("first", |map: &ConfigMap| {
        map.data.iter().flat_map(|data| data.get("first").cloned()).collect()
    })
}

async fn nothing(_: Context<ConfigMap>) -> windlass::Result<Next> {
    Ok(Next::Done)
}

/// A manager that caches config maps, deployments, pods and nodes, from a watch that lags an hour.
async fn lagging(server: &ApiServer) -> Running {
    let controller = Controller::<ConfigMap>::builder("maps")
        .reads::<Deployment>()
        .reads::<Pod>()
        .reads::<Node>()
        .index(&by_first())
        .build(nothing);
    let handle = manager(server).add(controller).spawn().expect("starts");
    handle.ready().await;
    server.inject(Some(Box::new(|_| Fault {
        watch_lag: Duration::from_secs(3600),
        ..Fault::default()
    })));
    handle
}

async fn names(client: &Client) -> Vec<String> {
    let found = client.cached().list::<ConfigMap>().namespace("default").items().expect("listed");
    found.iter().filter_map(|map| map.metadata.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_created_again_is_read_as_the_new_one() {
    let server = ApiServer::start();
    let handle = lagging(&server).await;
    let client = handle.client();
    let first = client.api().create(&config_map("a", &[])).await.expect("created");
    assert_eq!(client.api::<ConfigMap>().delete(&key("a")).await.expect("deleted"), Deleted::Gone);
    assert!(client.cached().get::<ConfigMap>(&key("a")).expect("read").is_none());
    let second = client.api().create(&config_map("a", &[("k", "2")])).await.expect("created");
    let read = client.cached().get::<ConfigMap>(&key("a")).expect("read").expect("is there");
    assert_eq!(read.metadata.uid, second.metadata.uid);
    assert_ne!(read.metadata.uid, first.metadata.uid);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_collection_is_gone_at_once_and_what_is_finalized_first_is_not() {
    let server = ApiServer::start();
    let handle = lagging(&server).await;
    let client = handle.client();
    for name in ["a", "b", "kept"] {
        let mut map = config_map(name, &[]);
        map.metadata.labels = Some([("app".to_string(), name[..1].to_string())].into());
        if name == "b" {
            map.metadata.finalizers = Some(vec!["example.com/wait".into()]);
        }
        client.api().create(&map).await.expect("created");
    }
    let selector = json!({"matchExpressions": [
        {"key": "app", "operator": "In", "values": ["a", "b"]},
    ]});
    let selector: LabelSelector = serde_json::from_value(selector).expect("a selector");
    let some = client.api::<ConfigMap>().list().namespace("default").matching(selector);
    some.delete(None).await.expect("deleted");
    assert_eq!(names(client).await, ["b", "kept"]);
    let b = client.cached().get::<ConfigMap>(&key("b")).expect("read").expect("waits");
    assert!(b.metadata.deletion_timestamp.is_some());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_write_through_a_subresource_is_read_at_once() {
    let server = ApiServer::start();
    let handle = lagging(&server).await;
    let client = handle.client();
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .expect("a deployment");
    client.api().create(&deployment).await.expect("created");
    let api = client.api::<Deployment>();
    let cached = || client.cached().get::<Deployment>(&key("web")).expect("read");
    let scales =
        |client: &Client| client.api_of::<Scale>(&Kind::of::<Deployment>()).subresource("scale");
    let replicas = |count| Patch::Merge(json!({"spec": {"replicas": count}}));
    scales(client).patch(&key("web"), &replicas(5)).await.expect("scaled");
    let read = cached().expect("is there");
    assert_eq!(read.spec.as_ref().and_then(|spec| spec.replicas), Some(5));
    let patch = Patch::Merge(json!({"status": {"replicas": 3}}));
    api.subresource("status").patch(&key("web"), &patch).await.expect("patched");
    let read = cached().expect("is there");
    assert_eq!(read.status.as_ref().and_then(|status| status.replicas), Some(3));
    // A dry run changes nothing, here neither.
    scales(&client.dry_run()).patch(&key("web"), &replicas(9)).await.expect("checked");
    let read = cached().expect("is there");
    assert_eq!(read.spec.as_ref().and_then(|spec| spec.replicas), Some(5));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_is_read_as_evicted_at_once() {
    let server = ApiServer::start();
    let handle = lagging(&server).await;
    let client = handle.client();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .expect("a pod");
    client.api().create(&pod).await.expect("created");
    let eviction = Eviction { metadata: pod.metadata, ..Eviction::default() };
    let evictions = client.api_of::<Eviction>(&Kind::of::<Pod>()).subresource("eviction");
    assert_eq!(evictions.create(&eviction).await.expect("evicted"), eviction);
    let read = client.cached().get::<Pod>(&key("p")).expect("read");
    assert!(read.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn what_others_created_and_this_process_deleted_does_not_appear_later() {
    let server = ApiServer::start();
    let handle = lagging(&server).await;
    let other = Client::new(server.client());
    other.api().create(&config_map("theirs", &[])).await.expect("created");
    let client = handle.client();
    assert_eq!(
        client.api::<ConfigMap>().delete(&key("theirs")).await.expect("deleted"),
        Deleted::Gone
    );
    server.inject(None);
    for _ in 0..200 {
        assert!(client.cached().get::<ConfigMap>(&key("theirs")).expect("read").is_none());
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_namespaces_is_found_under_any() {
    let server = ApiServer::start();
    let handle = lagging(&server).await;
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n1"}})).expect("a node");
    let client = handle.client();
    client.api().create(&node).await.expect("created");
    for key in [Key::cluster("n1"), Key::namespaced("default", "n1")] {
        assert!(client.cached().get::<Node>(&key).expect("read").is_some(), "{key}");
        assert!(client.cached().get::<Node>(&key).expect("read").is_some(), "{key}");
    }
    assert_eq!(
        client.cached().list::<Node>().namespace("default").items().expect("listed").len(),
        1
    );
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn cached_lists_know_limits_and_indexes() {
    let server = ApiServer::start();
    let handle = lagging(&server).await;
    let client = handle.client();
    for name in ["a", "b", "c"] {
        client.api().create(&config_map(name, &[("first", &name[..1])])).await.expect("created");
    }
    let all = || client.cached().list::<ConfigMap>().namespace("default");
    assert_eq!(all().limit(2).items().expect("listed").len(), 2);
    assert_eq!(all().limit(2).keys().expect("listed").len(), 2);
    assert_eq!(all().limit(0).keys().expect("listed").len(), 3);
    let found = all().by(&by_first(), "c").items().expect("cached");
    assert_eq!(found[0].metadata.name.as_deref(), Some("c"));
    assert_eq!(all().by(&by_first(), "c").namespace("other").keys().ok(), None, "not cached there");
    assert!(all().by(&by_first(), "c").labels([("no", "body")]).keys().expect("listed").is_empty());
    let unknown = Index::new("unknown", |_: &ConfigMap| vec![1]);
    let refused = all().by(&unknown, 1).items().expect_err("nobody declared it").to_string();
    assert!(refused.starts_with("index unknown of ConfigMap is not declared: "), "{refused}");
    let indexes = handle.diagnostics()["clusters"][0]["watches"][0]["indexes"].to_string();
    assert!(indexes.contains(r#""name":"first""#), "{indexes}");
    handle.stop().await.expect("stops");
}

/// Every verb that writes one object, typed, dynamic and as metadata; the watch shows none of it.
#[tokio::test(start_paused = true)]
async fn every_verb_is_read_at_once_through_every_type() {
    use kube::core::{DynamicObject, PartialObjectMeta};
    let server = ApiServer::start();
    let handle = lagging(&server).await;
    let client = handle.client();
    let kind = Kind::of::<ConfigMap>();
    let typed = client.api::<ConfigMap>();
    let dynamic = client.api_of::<DynamicObject>(&kind);
    let metadata = client.api_of::<PartialObjectMeta<DynamicObject>>(&kind);
    let cache = client.cached();
    let read = async |value: &str, what: &str| {
        let wanted = cache.get::<ConfigMap>(&key("a")).expect("read").expect("is there");
        assert_eq!(wanted.data.as_ref().expect("has data")["k"], value, "{what}");
        let version = wanted.metadata.resource_version.clone();
        let same =
            cache.get_of::<DynamicObject>(&kind, &key("a")).expect("read").expect("is there");
        assert_eq!(same.data["data"]["k"], value, "{what}");
        assert_eq!(same.metadata.resource_version, version, "{what}");
        let meta = cache.get_of::<PartialObjectMeta<DynamicObject>>(&kind, &key("a"));
        let meta = meta.expect("read").expect("is there");
        assert_eq!(meta.metadata.resource_version, version, "{what}");
        let listed = cache.list::<ConfigMap>().namespace("default").items().expect("listed");
        let listed = listed.iter().find(|map| map.metadata.name.as_deref() == Some("a"));
        assert_eq!(listed.expect("is listed").metadata.resource_version, version, "{what}");
        wanted
    };
    typed.create(&config_map("a", &[("k", "created")])).await.expect("created");
    let mut map = (*read("created", "create").await).clone();
    map.data.get_or_insert_default().insert("k".into(), "updated".into());
    typed.update(&map).await.expect("updated");
    read("updated", "update").await;
    let data = |value: &str| json!({"data": {"k": value}});
    let replace = json!([{"op": "replace", "path": "/data/k", "value": "json"}]);
    for (value, patch) in [
        ("merge", Patch::Merge(data("merge"))),
        ("json", Patch::Json(replace)),
        ("strategic", Patch::Strategic(data("strategic"))),
    ] {
        typed.patch(&key("a"), &patch).await.expect("patched");
        read(value, value).await;
    }
    dynamic.patch(&key("a"), &Patch::Merge(data("dynamic"))).await.expect("patched");
    read("dynamic", "a dynamic patch").await;
    typed.apply(&config_map("a", &[("k", "applied")])).await.expect("applied");
    read("applied", "apply").await;
    let mark = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    metadata.patch(&key("a"), &mark).await.expect("patched");
    let marked = read("applied", "a patch of metadata").await;
    assert_eq!(marked.metadata.labels.as_ref().expect("labelled")["seen"], "yes");
    // One that has to be finalized first is there, and on its way out.
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/wait"]}}));
    typed.patch(&key("a"), &held).await.expect("patched");
    assert_eq!(typed.delete(&key("a")).await.expect("deleted"), Deleted::Pending);
    assert!(read("applied", "delete").await.metadata.deletion_timestamp.is_some());
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    typed.patch(&key("a"), &free).await.expect("patched");
    assert!(cache.get::<ConfigMap>(&key("a")).expect("read").is_none(), "nothing holds it");
    assert!(cache.get_of::<DynamicObject>(&kind, &key("a")).expect("read").is_none());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn every_write_of_a_status_is_read_at_once() {
    let server = ApiServer::start();
    let handle = lagging(&server).await;
    let client = handle.client();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .expect("a pod");
    let api = client.api::<Pod>();
    let mut pod = api.create(&pod).await.expect("created");
    let message = async || {
        let pod = client.cached().get::<Pod>(&key("p")).expect("read").expect("is there");
        pod.status.as_ref().and_then(|status| status.message.clone())
    };
    pod.status.get_or_insert_default().message = Some("updated".into());
    let pod = api.subresource("status").update(&pod).await.expect("updated");
    assert_eq!(message().await.as_deref(), Some("updated"));
    let patch = Patch::Merge(json!({"status": {"message": "patched"}}));
    api.subresource("status").patch(&key("p"), &patch).await.expect("patched");
    assert_eq!(message().await.as_deref(), Some("patched"));
    let applied: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "default"},
        "status": {"message": "applied"},
    }))
    .expect("a pod");
    api.subresource("status").apply(&applied).await.expect("applied");
    assert_eq!(message().await.as_deref(), Some("applied"));
    let version = pod.metadata.resource_version.expect("was stored");
    let old = Deletion::from(&key("p")).resource_version(&version);
    let refused = api.delete(old).await.expect_err("it changed since");
    assert!(refused.is_conflict(), "{refused}");
    assert_eq!(message().await.as_deref(), Some("applied"), "what is refused changes nothing");
    handle.stop().await.expect("stops");
}
