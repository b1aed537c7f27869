//! Indexes are declared before they are used, and are one index wherever they are declared.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use windlass::cache::Scope;
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Index, Object};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, key, manager};

async fn nothing<K: Object>(_: Context<K>) -> windlass::Result<Next> {
    Ok(Next::Done)
}

fn by_color() -> Index<ConfigMap, String> {
    Index::new("color", |map: &ConfigMap| {
        map.data.iter().flat_map(|data| data.get("color").cloned()).collect()
    })
}

#[tokio::test(start_paused = true)]
async fn controllers_that_declare_the_same_index_share_it() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&config_map("a", &[("color", "blue")])).await.expect("created");
    client.api().create(&config_map("b", &[("color", "red")])).await.expect("created");
    let maps = |name: &str| {
        Controller::<ConfigMap>::builder(name).index(&by_color()).build(nothing::<ConfigMap>)
    };
    let (one, two) = (maps("one"), maps("two"));
    let handle = manager(&server).add(one).add(two).spawn().expect("starts");
    handle.ready().await;
    let found = handle.client().cached().list::<ConfigMap>().by(&by_color(), "blue");
    assert_eq!(found.keys().expect("is declared"), [key("a")]);
    let indexes = &handle.diagnostics()["clusters"][0]["watches"][0]["indexes"];
    let names = indexes.as_array().expect("a list").iter().map(|index| index["name"].as_str());
    assert_eq!(names.flatten().filter(|name| *name == "color").count(), 1, "{indexes}");
    // One that comes later finds what is there.
    let by_name = Index::new("name", |map: &ConfigMap| vec![map.metadata.name.clone()]);
    let late = Controller::<ConfigMap>::builder("late").index(&by_name).build(nothing::<ConfigMap>);
    handle.add(late).expect("added").await.expect("started");
    let found = handle.client().cached().list::<ConfigMap>().by(&by_name, Some("b".to_string()));
    assert_eq!(found.names().expect("is declared"), ["b"]);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn one_name_for_two_functions_is_refused() {
    let server = ApiServer::start();
    let other = Index::new("color", |_: &ConfigMap| vec!["grey".to_string()]);
    let maps = Controller::<ConfigMap>::builder("maps").index(&other).build(nothing::<ConfigMap>);
    let handle = manager(&server).spawn().expect("starts");
    handle.client().cached().declare(&by_color()).expect("the first one");
    handle.ready().await;
    let error = handle.add(maps).expect("added").await.expect_err("two functions").to_string();
    assert!(error.contains("index color of ConfigMap is declared twice"), "{error}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_index_of_a_kind_that_the_controller_does_not_cache_is_refused() {
    let server = ApiServer::start();
    let by_type = Index::new("type", |secret: &Secret| secret.type_.iter().cloned().collect());
    let maps = Controller::<ConfigMap>::builder("maps").index::<_, String>(&by_type);
    let handle = manager(&server).spawn().expect("starts");
    handle.ready().await;
    let added = handle.add(maps.build(nothing::<ConfigMap>)).expect("added");
    let error = added.await.expect_err("nobody caches secrets").to_string();
    assert!(error.contains("index type needs Secret.v1 in the cache: declare it with"), "{error}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_cached_as_long_as_somebody_holds_a_handle_of_it() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&config_map("a", &[("color", "blue")])).await.expect("created");
    let cache = client.cached();
    let error = cache.get::<ConfigMap>(&key("a")).expect_err("nobody asked for it");
    assert!(matches!(error, windlass::Error::NotCached { .. }), "{error}");
    cache.declare(&by_color()).expect("declared before there is a cache of the kind");
    let maps = cache.informer::<ConfigMap>(&Scope::default());
    maps.synced(Duration::from_secs(60)).await.expect("can be watched");
    let list = || cache.list::<ConfigMap>().by(&by_color(), "blue").names();
    assert_eq!(list().expect("cached"), ["a"]);
    let reader = maps.reader();
    drop(maps);
    assert_eq!(list().expect("the reader holds it"), ["a"]);
    drop(reader);
    assert!(matches!(list(), Err(windlass::Error::NotCached { .. })));
    let _again = cache.informer::<ConfigMap>(&Scope::default().metadata_only());
    let kind = windlass::Kind::of::<ConfigMap>();
    cache.synced(&kind, Duration::from_secs(60)).await.expect("can be watched");
    let error = list().expect_err("metadata have no data").to_string();
    assert!(error.ends_with("is cached as metadata only: read it as PartialObjectMeta"), "{error}");
}
