//! Requests that would do something else than they say are not sent, and reads that cannot know are
//! no answers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt;
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::json;
use windlass::client::{Deleted, Deletion, Patch};
use windlass::controller::{Context, Controller, Next, Watch};
use windlass::{Client, Error, Key, Kind};
use windlass_apiserver::fault::Fault;
use windlass_apiserver::{ApiServer, Status};

use crate::common::{config_map, key, manager, meta};

async fn nothing<K: windlass::Object>(_: Context<K>) -> windlass::Result<Next> {
    Ok(Next::Done)
}

async fn names(client: &Client) -> Vec<String> {
    let found =
        client.api::<ConfigMap>().list().namespace("default").items().await.expect("listed");
    found.iter().filter_map(|map| map.metadata.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_deletes_nothing_and_a_limit_is_kept() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    for name in ["a", "b", "c"] {
        client.api().create(&config_map(name, &[])).await.expect("created");
    }
    let dry = client.dry_run();
    assert_eq!(dry.api::<ConfigMap>().delete(&key("a")).await.expect("checked"), Deleted::Gone);
    let api = dry.api::<ConfigMap>();
    api.list().namespace("default").delete(None).await.expect("checked");
    assert_eq!(names(&client).await, ["a", "b", "c"]);
    let api = client.api::<ConfigMap>();
    api.list().namespace("default").limit(1).delete(None).await.expect("deleted");
    assert_eq!(names(&client).await, ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_names_no_object_is_refused_before_anything_is_sent() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&config_map("a", &[])).await.expect("created");
    const INVALID: &str = "nor contain \"/\" or \"%\"";
    let api = client.api::<ConfigMap>();
    let patch = Patch::Merge(json!({}));
    for (wrong, why) in [
        (Key::namespaced("default", ""), INVALID),
        (Key::cluster("a"), "make it with Kind::cluster_scoped)"),
        (Key::namespaced("", "a"), "make it with Kind::cluster_scoped)"),
        (Key::namespaced("default", "a/status"), INVALID),
        (Key::namespaced("default", ".."), INVALID),
    ] {
        let refused = [
            api.get(&wrong).await.map(drop),
            api.patch(&wrong, &patch).await.map(drop),
            api.delete(&wrong).await.map(drop),
            api.subresource("status").get(&wrong).await.map(drop),
        ];
        for refused in refused {
            let error = refused.expect_err("refused").to_string();
            assert!(error.ends_with(why), "{error}");
        }
    }
    let mut homeless = config_map("b", &[]);
    homeless.metadata.namespace = None;
    let error = client.api().create(&homeless).await.expect_err("refused");
    assert!(
        error.to_string().starts_with("create ConfigMap b: ConfigMap.v1 is namespaced"),
        "{error}"
    );
    let error = api.delete(Deletion::only(&config_map("a", &[]))).await;
    assert!(error.expect_err("refused").to_string().contains("has no UID"));
    assert_eq!(names(&client).await, ["a"]);
    assert_eq!(client.api::<ConfigMap>().list().namespace("").items().await.expect("all").len(), {
        client.api::<ConfigMap>().list().items().await.expect("all").len()
    });

    let role = ClusterRole {
        metadata: kube::core::ObjectMeta { name: Some("my:role é?".into()), ..Default::default() },
        ..ClusterRole::default()
    };
    client.api().create(&role).await.expect("created");
    let read = client.api::<ClusterRole>().get(&Key::cluster("my:role é?")).await.expect("read");
    assert_eq!(read.expect("is there").metadata.name, role.metadata.name);
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_never_overwrites_an_object() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&config_map("a", &[("k", "v")])).await.expect("created");
    let api = client.api::<PartialObjectMeta<ConfigMap>>();
    let mut map = (*api.get(&key("a")).await.expect("read").expect("is there")).clone();
    map.metadata.labels = Some([("l".to_string(), "1".to_string())].into());
    for refused in [
        api.update(&map).await,
        api.create(&map).await,
        api.subresource("status").update(&map).await,
    ] {
        let error = refused.expect_err("refused").to_string();
        assert!(
            error.ends_with("only the metadata is known, so patch or apply the object instead")
        );
    }
    map.metadata.managed_fields = None;
    api.apply(&map).await.expect("applied");
    let whole = client.api::<ConfigMap>().get(&key("a")).await.expect("read").expect("is there");
    assert_eq!(whole.data.as_ref().map(|data| data["k"].as_str()), Some("v"));
    assert_eq!(whole.metadata.labels, map.metadata.labels);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_what_is_cached_as_metadata_is_not_guessed() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let mut node = Node::default();
    node.metadata.name = Some("n".into());
    client.api().create(&node).await.expect("created");
    let (sender, mut results) = tokio::sync::mpsc::unbounded_channel();
    let controller = Controller::<PartialObjectMeta<Node>>::builder("nodes").build(
        move |cx: Context<PartialObjectMeta<Node>>| {
            let sender = sender.clone();
            async move {
                let done = cx.status_as(|_: &mut serde_json::Value| {}).await;
                let _ = sender.send(done.map_err(|error| error.to_string()));
                Ok(Next::Done)
            }
        },
    );
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let error = results.recv().await.expect("reconciled").expect_err("refused");
    assert_eq!(error, "Node.v1 is cached as metadata only: read it as PartialObjectMeta");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_to_go_is_there_until_it_is_gone() {
    let server = ApiServer::start();
    let controller = Controller::<Namespace>::builder("spaces").build(nothing::<Namespace>);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let client = handle.client();
    let mut space = Namespace::default();
    space.metadata.name = Some("shop".into());
    client.api().create(&space).await.expect("created");
    let shop = Key::cluster("shop");
    assert_eq!(client.api::<Namespace>().delete(&shop).await.expect("marked"), Deleted::Pending);
    let read = client.api::<Namespace>().get(&shop).await.expect("read").expect("terminates");
    assert!(read.metadata.deletion_timestamp.is_some());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_cached_read_waits_for_the_first_sync_or_says_why_it_cannot() {
    let server = ApiServer::start();
    let plain = Client::new(server.client());
    plain.api().create(&config_map("a", &[])).await.expect("created");
    server.inject(Some(Box::new(|request| Fault {
        fail: (request.resource == "secrets").then(|| Status::new(403, "Forbidden", "no")),
        delay: Duration::from_secs(3),
        ..Fault::default()
    })));
    let controller =
        Controller::<ConfigMap>::builder("maps").reads::<Secret>().build(nothing::<ConfigMap>);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client();
    let early = client.cached().get::<ConfigMap>(&key("a"));
    assert!(matches!(early, Err(Error::NotCached { .. } | Error::NotSynced { .. })), "{early:?}");
    tokio::task::yield_now().await;
    let minute = Duration::from_secs(60);
    client.cached().synced(&Kind::of::<ConfigMap>(), minute).await.expect("can be read");
    let read = client.cached().get::<ConfigMap>(&key("a")).expect("read");
    assert!(read.is_some(), "it was there all the time");
    let refused = client.cached().synced(&Kind::of::<Secret>(), minute).await;
    let refused = refused.expect_err("cannot know").to_string();
    assert!(refused.starts_with("Secret.v1 is not read into the cache yet (forbidden: "));
    server.inject(None);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_cached_is_no_empty_one() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("maps").build(nothing::<ConfigMap>);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let client = handle.client();
    let wanted = "ConfigMap.v1 is cached in default only: read it in other with Client::api";
    let one = client.cached().get::<ConfigMap>(&Key::namespaced("other", "a"));
    assert_eq!(one.expect_err("cannot know").to_string(), wanted);
    let many = client.cached().list::<ConfigMap>().namespace("other").items();
    assert_eq!(many.expect_err("cannot know").to_string(), wanted);
    assert!(client.cached().list::<ConfigMap>().items().is_ok());
    let (cache, kind) = (client.cached(), Kind::of::<ConfigMap>());
    let owned = cache.list::<ConfigMap>().namespace("other").owned_by("u");
    for refused in [
        owned.items().map(drop),
        owned.keys().map(drop),
        cache.json(&kind, &Key::namespaced("other", "a")).map(drop),
    ] {
        assert_eq!(refused.expect_err("cannot know").to_string(), wanted);
    }
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_object_created_again_is_not_finalized_in_the_place_of_the_one_before() {
    let server = ApiServer::start();
    let (sender, mut results) = tokio::sync::mpsc::unbounded_channel();
    let reconcile = move |cx: Context<ConfigMap>| {
        let sender = sender.clone();
        async move {
            let first = cx.object().and_then(|map| map.metadata.uid.clone());
            cx.client().api::<ConfigMap>().delete(cx.key()).await?;
            cx.client().api().create(&config_map("a", &[])).await?;
            assert_eq!(first, cx.object().and_then(|map| map.metadata.uid.clone()), "stays");
            let done = cx.finalize("example.com/hold", || async { Ok(()) }).await;
            let _ = sender.send(done.map_err(|error| error.is_conflict()));
            cx.stopping().await;
            Ok(Next::Done)
        }
    };
    Client::new(server.client()).api().create(&config_map("a", &[])).await.expect("created");
    let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    assert_eq!(results.recv().await.expect("reconciled"), Err(true));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn any_subresource_is_patched() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let pod = json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {
            "requests": {"cpu": "1"}, "limits": {"cpu": "2"},
        }}]},
    });
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    client.api().create(&pod).await.expect("created");
    let api = client.api::<Pod>();
    let resize = Patch::Strategic(json!({"spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": "1500m"}}},
    ]}}));
    let patched = api.subresource("resize").patch(&key("p"), &resize).await.expect("patched");
    let resources = patched.spec.expect("has one").containers.remove(0).resources;
    let requests = resources.and_then(|resources| resources.requests).expect("has some");
    assert_eq!(requests["cpu"].0, "1500m");
}

#[tokio::test(start_paused = true)]
async fn a_write_in_another_version_is_read_at_once() {
    let server = ApiServer::start();
    let plain = Client::new(server.client());
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": meta("h"),
        "spec": {"maxReplicas": 3, "scaleTargetRef": {
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "d",
        }},
    });
    let v2 = plain.kind_of("autoscaling", "v2", "HorizontalPodAutoscaler").await.expect("known");
    let v1 = plain.kind_of("autoscaling", "v1", "HorizontalPodAutoscaler").await.expect("known");
    let object: DynamicObject = serde_json::from_value(scaler).expect("an object");
    plain.api_of::<DynamicObject>(&v2).create(&object).await.expect("created");
    let controller = Controller::<ConfigMap>::builder("maps")
        .watch(Watch::read(v2.clone()))
        .build(nothing::<ConfigMap>);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    server.inject(Some(Box::new(|_| Fault {
        watch_lag: Duration::from_secs(3600),
        ..Fault::default()
    })));
    let client = handle.client();
    let patch = Patch::Merge(json!({"spec": {"maxReplicas": 7}}));
    client.api_of::<DynamicObject>(&v1).patch(&key("h"), &patch).await.expect("patched");
    let read =
        client.cached().get_of::<DynamicObject>(&v2, &key("h")).expect("read").expect("is there");
    assert_eq!(read.data["spec"]["maxReplicas"], 7);
    client.api_of::<DynamicObject>(&v1).delete(&key("h")).await.expect("deleted");
    assert!(client.cached().get_of::<DynamicObject>(&v2, &key("h")).expect("read").is_none());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn two_finalizers_and_a_status_are_written_in_one_reconcile() {
    let server = ApiServer::start();
    let (sender, mut results) = tokio::sync::mpsc::unbounded_channel();
    let reconcile = move |cx: Context<Pod>| {
        let sender = sender.clone();
        async move {
            let run = async {
                cx.status_as(|status: &mut serde_json::Value| {
                    *status = json!({"message": format!("{:?}", tokio::time::Instant::now())});
                })
                .await?;
                cx.finalize("example.com/one", || async { Ok(()) }).await?;
                cx.finalize("example.com/two", || async { Ok(()) }).await
            };
            let _ = sender.send(run.await.map_err(|error| error.to_string()));
            Ok(Next::Done)
        }
    };
    let mut pod: Pod = serde_json::from_value(json!({
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .expect("a pod");
    pod.metadata = meta("p");
    Client::new(server.client()).api().create(&pod).await.expect("created");
    let controller = Controller::<Pod>::builder("pods").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let first = results.recv().await.expect("reconciled");
    assert_eq!(first, Ok(windlass::finalizer::Finalizing::Active));
    let stored = handle.client().api::<Pod>().get(&key("p")).await.expect("read").expect("lives");
    assert_eq!(stored.metadata.finalizers.as_ref().map(Vec::len), Some(2));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn what_was_applied_empty_is_applied_again_when_it_is_gone() {
    let server = ApiServer::start();
    let wanted = || {
        let mut policy: NetworkPolicy = serde_json::from_value(json!({"spec": {
            "podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}],
        }}))
        .expect("a policy");
        policy.metadata = meta("child");
        policy
    };
    let reconcile = move |cx: Context<ConfigMap>| async move {
        cx.apply(&wanted()).await?;
        Ok(Next::Done)
    };
    let maps = Controller::<ConfigMap>::builder("maps");
    let controller = maps.owns::<NetworkPolicy>().build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client();
    client.api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let other = json!([{"from": [{"namespaceSelector": {}}]}]);
    let wrong = Patch::Merge(json!({"spec": {"ingress": other}}));
    client.api::<NetworkPolicy>().patch(&key("child"), &wrong).await.expect("changed");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let api = client.api::<NetworkPolicy>();
    let child = api.get(&key("child")).await.expect("read").expect("lives");
    assert_eq!(
        child.spec,
        wanted().spec.map(|mut spec| {
            spec.policy_types = Some(vec!["Ingress".into()]);
            spec
        })
    );
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_declared_by_their_metadata_are_cached_so() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("maps")
        .owns::<PartialObjectMeta<Secret>>()
        .reads::<PartialObjectMeta<Pod>>()
        .watch(Watch::map(|node: &PartialObjectMeta<Node>| vec![key(&node.name_any())]))
        .build(nothing::<ConfigMap>);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    assert!(handle.ready().await);
    let client = handle.client();
    let whole = [
        client.cached().list::<Secret>().items().map(drop),
        client.cached().list::<Pod>().items().map(drop),
        client.cached().list::<Node>().items().map(drop),
    ];
    for refused in whole {
        let error = refused.expect_err("only metadata is there").to_string();
        assert!(error.ends_with("is cached as metadata only: read it as PartialObjectMeta"));
    }
    assert!(client.cached().list::<PartialObjectMeta<Secret>>().items().is_ok());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_kind_given_by_hand_is_read_from_the_cache_of_its_type() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("maps").build(nothing::<ConfigMap>);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let client = handle.client();
    client.api().create(&config_map("a", &[])).await.expect("created");
    // The plural does not make it another kind.
    let by_hand = Kind::new("", "v1", "ConfigMap", "maps");
    let found = client.cached().get_of::<DynamicObject>(&by_hand, &key("a")).expect("cached");
    assert_eq!(found.expect("is there").name_any(), "a");
    handle.stop().await.expect("stops");
}
