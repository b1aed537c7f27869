//! The cache on the embedded API server: real lists, watches, faults and rights.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::{DynamicObject, Expression, ObjectMeta, Selector};
use serde_json::json;
use windlass::Kind;
use windlass::cache::{Cache, CacheOptions, Change, Key, Origin, Scope, Subscription, SyncState};
use windlass_apiserver::fault::Fault;
use windlass_apiserver::{ApiServer, Status, User};

use crate::common::eventually;

const LONG: Duration = Duration::from_secs(600);

fn config(name: &str, value: &str) -> ConfigMap {
    let labels = BTreeMap::from([("app".to_owned(), value.to_owned())]);
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("v".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

fn configs(server: &ApiServer) -> Api<ConfigMap> {
    Api::namespaced(server.client(), "default")
}

async fn create(server: &ApiServer, name: &str, value: &str) -> ConfigMap {
    configs(server).create(&PostParams::default(), &config(name, value)).await.unwrap()
}

fn version(object: &ConfigMap) -> u64 {
    object.metadata.resource_version.as_ref().unwrap().parse().unwrap()
}

fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

fn wanted() -> Scope {
    Scope::default().namespace("default")
}

async fn next(changes: &mut Subscription) -> Change {
    let change = tokio::time::timeout(LONG, changes.recv()).await;
    change.expect("a change comes").expect("the subscription is open")
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_and_its_watch_follow_the_server() {
    let server = ApiServer::start();
    create(&server, "a", "x").await;
    let cache = Cache::new(server.client());
    let informer = cache.informer::<ConfigMap>(&wanted());
    informer.synced(LONG).await.unwrap();
    assert_eq!(informer.reader().get(&key("a")).unwrap().data.as_ref().unwrap()["v"], "x");
    let mut events = informer.subscribe();
    assert_eq!(next(&mut events).await.origin, Origin::Initial);

    let b = create(&server, "b", "y").await;
    let added = next(&mut events).await;
    assert!(
        added.old.is_none()
            && added.origin == Origin::Watch
            && added.entry().version == version(&b)
    );
    assert!(informer.reader().get(&key("b")).unwrap().metadata.managed_fields.is_none());

    configs(&server).delete("a", &DeleteParams::default()).await.unwrap();
    let deleted = next(&mut events).await;
    assert!(deleted.new.is_none() && !deleted.last_state_unknown && deleted.key() == &key("a"));
    let stats = informer.stats();
    assert_eq!((stats.lists, stats.watches, stats.skipped), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn child_deleted_in_a_watch_gap_that_ends_in_410_reaches_the_handler() {
    for streaming in [true, false] {
        let server = ApiServer::start();
        create(&server, "owner", "x").await;
        create(&server, "child", "x").await;
        // The first watch ends early, and no other is served as long as the server is away.
        let away = Arc::new(AtomicBool::new(true));
        let (gap, first) = (away.clone(), AtomicBool::new(true));
        let events_max = if streaming { 3 } else { 1 };
        server.inject(Some(Box::new(move |request| match &*request.verb {
            "watch" if first.swap(false, Ordering::Relaxed) => {
                Fault { watch_events_max: Some(events_max), ..Fault::default() }
            }
            "watch" if gap.load(Ordering::Relaxed) => {
                let refused = Status::new(429, "TooManyRequests", "away");
                Fault { fail: Some(refused), ..Fault::default() }
            }
            _ => Fault::default(),
        })));
        let options = CacheOptions::default().streaming(streaming);
        let cache = Cache::with(server.client(), options);
        let informer = cache.informer::<ConfigMap>(&wanted());
        let mut events = informer.subscribe();
        next(&mut events).await;
        next(&mut events).await;
        create(&server, "last-seen", "x").await;
        let stale = || matches!(informer.state(), SyncState::Stale { .. });
        eventually("the watch is stale", stale).await;

        configs(&server).delete("child", &DeleteParams::default()).await.unwrap();
        for i in 0..5 {
            create(&server, &format!("other-{i}"), "x").await;
        }
        server.compact();
        away.store(false, Ordering::Relaxed);

        let mut gone = Vec::new();
        for _ in 0..7 {
            let change = next(&mut events).await;
            if change.new.is_none() {
                gone.push((change.key().clone(), change.last_state_unknown));
            }
        }
        assert_eq!(gone, [(key("child"), true)], "streaming: {streaming}");
        assert_eq!(informer.reader().list().len(), 7);
    }
}

#[tokio::test(start_paused = true)]
async fn protobuf_brings_the_same_objects_as_json() {
    let server = ApiServer::start();
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "annotations": {"text": "a \"quoted\" line\n"}},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "50%"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{
                        "name": "main", "image": "busybox:1", "env": [{"name": "EMPTY", "value": ""}],
                        "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}},
                        "readinessProbe": {"httpGet": {"port": "http", "path": "/"}},
                    }],
                    "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "s", "secret": {
                        "secretName": "s", "defaultMode": 256,
                    }}],
                },
            },
        },
    }))
    .unwrap();
    let api: Api<Deployment> = Api::namespaced(server.client(), "default");
    api.create(&PostParams::default(), &deployment).await.unwrap();
    for streaming in [true, false] {
        let read = async |protobuf| {
            let options = CacheOptions::default().streaming(streaming).protobuf(protobuf);
            let cache = Cache::with(server.client(), options);
            let informer = cache.informer::<Deployment>(&wanted());
            informer.synced(LONG).await.unwrap();
            let entry = informer.store().entry(&key("web")).unwrap();
            let value: serde_json::Value = entry.decode().unwrap();
            (value, informer.reader().get(&key("web")).unwrap())
        };
        let ((json, typed), (other, other_typed)) = (read(false).await, read(true).await);
        assert_eq!(json, other, "streaming: {streaming}");
        assert_eq!(*typed, *other_typed);
        assert_eq!(other["kind"], "Deployment");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selection_is_gone() {
    let server = ApiServer::start();
    let a = create(&server, "a", "x").await;
    create(&server, "b", "y").await;
    let cache = Cache::new(server.client());
    let selector: Selector = Expression::Equal("app".into(), "x".into()).into();
    let informer = cache.informer::<ConfigMap>(&wanted().labels(selector));
    informer.synced(LONG).await.unwrap();
    let listed = informer.reader().list();
    assert_eq!(listed.iter().map(Key::of).collect::<Vec<_>>(), [key("a")]);
    let mut events = informer.subscribe();
    assert_eq!(next(&mut events).await.origin, Origin::Initial);
    let mut changed = config("a", "y");
    changed.metadata.resource_version = a.metadata.resource_version;
    let changed = configs(&server).replace("a", &PostParams::default(), &changed).await.unwrap();
    let left = next(&mut events).await;
    assert!(left.new.is_none() && left.entry().version == version(&changed));
    assert!(informer.reader().list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_appears_later_is_watched_from_then_on() {
    let server = ApiServer::start();
    let kind = Kind::new("shop.io", "v1", "Cart", "carts");
    let cache = Cache::new(server.client());
    let informer = cache.informer_of::<DynamicObject>(&kind, &Scope::default());
    let state = informer.synced(LONG).await.unwrap_err();
    assert!(matches!(state, SyncState::NoKind(_)), "{state}");

    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "carts.shop.io"},
        "spec": {
            "group": "shop.io", "scope": "Namespaced",
            "names": {"plural": "carts", "singular": "cart", "kind": "Cart"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }))
    .unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let synced = || matches!(informer.state(), SyncState::Synced { .. });
    eventually("the watch recovers by itself", synced).await;
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_fails_at_once_and_is_watched_when_permission_is_granted() {
    let server = ApiServer::start();
    create(&server, "a", "x").await;
    let cache = Cache::new(server.client_as(User::new("jane", &["system:authenticated"])));
    let informer = cache.informer::<ConfigMap>(&wanted());
    let state = tokio::time::timeout(Duration::from_secs(1), informer.synced(LONG)).await;
    let state = state.expect("in under a second").unwrap_err();
    assert!(matches!(state, SyncState::Forbidden(_)), "{state}");

    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}],
    }))
    .unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }))
    .unwrap();
    Api::all(server.client()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(server.client()).create(&PostParams::default(), &binding).await.unwrap();
    let synced = || matches!(informer.state(), SyncState::Synced { .. });
    eventually("the watch recovers by itself", synced).await;
    assert_eq!(informer.reader().list().len(), 1);
}
