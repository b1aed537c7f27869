//! Watches: where they start, what they see, how they end.

use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, WatchEvent, WatchParams};
use serde_json::json;
use windlass_apiserver::store::LogLimits;
use windlass_apiserver::{ApiServer, Options};

use crate::support::*;

async fn set(server: &ApiServer, name: &str, value: &str) -> u64 {
    let done = ask(server, &format!("PUT {MAPS}/{name}"), map(name, value)).await;
    version(&done.ok())
}

async fn remove(server: &ApiServer, name: &str) {
    ask(server, &format!("DELETE {MAPS}/{name}"), json!(null)).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_nothing_shows_what_exists_then_what_changes() {
    let server = server();
    create_map(&server, "a", "1").await;
    create_map(&server, "b", "1").await;
    for from in ["", "?resourceVersion=0"] {
        let mut watch = Watch::open(&server, &format!("{MAPS}{from}")).await;
        assert_eq!(watch.next_text().await, "ADDED a");
        assert_eq!(watch.next_text().await, "ADDED b");
        assert!(watch.is_silent().await);
        let changed = set(&server, "a", if from.is_empty() { "2" } else { "3" }).await;
        assert_eq!(watch.next_key().await, ("MODIFIED".into(), "a".into(), changed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_shows_all_that_came_after_it() {
    let server = server();
    create_map(&server, "a", "1").await;
    let from = server.revision();
    let changed = set(&server, "a", "2").await;
    remove(&server, "a").await;
    let removed = server.revision();
    let mut watch = Watch::open(&server, &format!("{MAPS}?resourceVersion={from}")).await;
    assert_eq!(watch.next_key().await, ("MODIFIED".into(), "a".into(), changed));
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(version(&event["object"]), removed);
    assert_eq!(event["object"]["data"]["key"], "2");
    assert_eq!(event["object"]["kind"], "ConfigMap");
    assert!(watch.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_a_bookmark() {
    let server = server();
    create_map(&server, "a", "1").await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Watch::open(&server, &format!("{MAPS}?{query}")).await;
    assert_eq!(watch.next_text().await, "ADDED a");
    let end = watch.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(version(&end["object"]), server.revision());
    let annotations = &end["object"]["metadata"]["annotations"];
    assert_eq!(annotations["k8s.io/initial-events-end"], "true");
    create_map(&server, "b", "1").await;
    assert_eq!(watch.next_text().await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_follow_the_version_of_other_resources() {
    let server = server();
    let mut watch = Watch::open(&server, &format!("{MAPS}?allowWatchBookmarks=1")).await;
    let secret = json!({"metadata": {"name": "s"}});
    ask(&server, "POST /api/v1/namespaces/default/secrets", secret).await.ok();
    let (kind, _, at) = watch.next_key().await;
    assert_eq!((kind.as_str(), at), ("BOOKMARK", server.revision()));
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_bookmarks_gets_none() {
    let server = server();
    let mut watch = Watch::open(&server, &format!("{MAPS}?timeoutSeconds=600")).await;
    assert!(watch.rest().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn objects_enter_and_leave_a_selection() {
    let server = server();
    let mut watch = Watch::open(&server, &format!("{MAPS}?labelSelector=on")).await;
    let label = |value: Option<&str>| json!({"metadata": {"labels": {"on": value}}});
    create_map(&server, "a", "1").await;
    let path = format!("{MAPS}/a");
    patch(&server, &path, MERGE_PATCH, label(Some("1"))).await.ok();
    assert_eq!(watch.next_text().await, "ADDED a");
    patch(&server, &path, MERGE_PATCH, label(Some("2"))).await.ok();
    assert_eq!(watch.next_text().await, "MODIFIED a");
    patch(&server, &path, MERGE_PATCH, label(None)).await.ok();
    let left = watch.next().await.unwrap();
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["on"], "2");
    assert_eq!(version(&left["object"]), server.revision());
    set(&server, "a", "5").await;
    remove(&server, "a").await;
    assert!(watch.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_field_selector_watches_one_object() {
    let server = server();
    let what = format!("{MAPS}?fieldSelector=metadata.name%3Db");
    let mut watch = Watch::open(&server, &what).await;
    let mut by_path =
        Watch::open(&server, "/api/v1/watch/namespaces/default/configmaps/b?resourceVersion=0")
            .await;
    create_map(&server, "a", "1").await;
    create_map(&server, "b", "1").await;
    assert_eq!(watch.next_text().await, "ADDED b");
    assert_eq!(by_path.next_text().await, "ADDED b");
    assert!(watch.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_version_is_gone() {
    let server = server();
    create_map(&server, "a", "1").await;
    let from = server.revision();
    set(&server, "a", "2").await;
    server.compact();
    let mut watch = Watch::open(&server, &format!("{MAPS}?resourceVersion={from}")).await;
    let error = watch.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!(error["object"]["code"], 410);
    assert_eq!(error["object"]["reason"], "Expired");
    assert!(watch.next().await.is_none());
    let newest = server.revision();
    let mut watch = Watch::open(&server, &format!("{MAPS}?resourceVersion={newest}")).await;
    assert!(watch.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_saw_everything_survives_a_compaction() {
    let server = server();
    create_map(&server, "a", "1").await;
    let now = server.revision();
    let mut from_nothing = Watch::open(&server, MAPS).await;
    assert_eq!(from_nothing.next_text().await, "ADDED a");
    let mut from_now = Watch::open(&server, &format!("{MAPS}?resourceVersion={now}")).await;
    assert!(from_nothing.is_silent().await && from_now.is_silent().await);
    let secret = json!({"metadata": {"name": "s"}});
    ask(&server, "POST /api/v1/namespaces/default/secrets", secret).await.ok();
    server.compact();
    set(&server, "a", "2").await;
    assert_eq!(from_nothing.next_text().await, "MODIFIED a");
    assert_eq!(from_now.next_text().await, "MODIFIED a");
    // One that did not read what was forgotten is cut.
    set(&server, "a", "3").await;
    server.compact();
    set(&server, "a", "4").await;
    assert_eq!(from_now.next_text().await, "ERROR");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_read_is_cut_and_blocks_nobody() {
    let history = LogLimits { events_max: 10, bytes_max: 1 << 20 };
    let server = server_with(Options { history, ..Options::default() });
    create_map(&server, "a", "0").await;
    let mut slow = Watch::open(&server, MAPS).await;
    assert_eq!(slow.next_text().await, "ADDED a");
    for index in 0..50 {
        set(&server, "a", &format!("v{index}")).await;
    }
    let error = slow.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(slow.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_over() {
    let server = server();
    let begin = tokio::time::Instant::now();
    let what = format!("{MAPS}?timeoutSeconds=7&allowWatchBookmarks=true");
    let events = Watch::open(&server, &what).await.rest().await;
    assert_eq!(begin.elapsed().as_secs(), 7);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["type"], "BOOKMARK");
    let long = format!("{MAPS}?timeoutSeconds={}", i64::MAX);
    assert!(Watch::open(&server, &long).await.is_silent().await);
    // Without a time of its own a watch ends between half an hour and an hour.
    let begin = tokio::time::Instant::now();
    Watch::open(&server, MAPS).await.rest().await;
    assert!((1800..3600).contains(&begin.elapsed().as_secs()));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_ends_its_watches_cleanly() {
    let server = server();
    create_map(&server, "a", "1").await;
    let mut watches = Vec::new();
    for _ in 0..50 {
        let mut watch = Watch::open(&server, MAPS).await;
        assert_eq!(watch.next_text().await, "ADDED a");
        watches.push(watch);
    }
    server.shut_down();
    for mut watch in watches {
        assert!(watch.next().await.is_none());
    }
    assert_eq!(names(&ask(&server, &format!("GET {MAPS}"), json!(null)).await.ok()), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn many_watchers_see_the_same_events_in_the_same_order() {
    let server = server();
    let mut watches = Vec::new();
    for _ in 0..200 {
        watches.push(Watch::open(&server, MAPS).await);
    }
    create_map(&server, "a", "1").await;
    set(&server, "a", "2").await;
    remove(&server, "a").await;
    for watch in &mut watches {
        for wanted in ["ADDED a", "MODIFIED a", "DELETED a"] {
            assert_eq!(watch.next_text().await, wanted);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_joins_while_writes_go_on_misses_nothing() {
    let server = server();
    let writer = server.clone();
    let writes = tokio::spawn(async move {
        for index in 0..300 {
            create_map(&writer, &format!("m{index:03}"), "1").await;
        }
    });
    let mut seen = Vec::new();
    let mut watch = Watch::open(&server, MAPS).await;
    while seen.len() < 300 {
        let (kind, name, _) = watch.next_key().await;
        assert_eq!(kind, "ADDED");
        seen.push(name);
    }
    writes.await.unwrap();
    let wanted: Vec<_> = (0..300).map(|i| format!("m{i:03}")).collect();
    assert_eq!(seen, wanted);
}

#[tokio::test(start_paused = true)]
async fn tables_and_metadata_can_be_watched() {
    let server = server();
    create_map(&server, "a", "1").await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut watch = Watch::open_as(&server, MAPS, table).await;
    let first = watch.next().await.unwrap();
    assert_eq!(first["object"]["kind"], "Table");
    assert!(first["object"]["columnDefinitions"].is_array());
    create_map(&server, "b", "1").await;
    let second = watch.next().await.unwrap();
    assert!(second["object"]["columnDefinitions"].is_null());
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut watch = Watch::open_as(&server, MAPS, metadata).await;
    let first = watch.next().await.unwrap();
    assert_eq!(first["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(first["object"]["data"], json!(null));
}

#[tokio::test]
async fn options_that_do_not_fit_a_watch_are_refused() {
    let server = server();
    for (query, code) in [
        ("resourceVersionMatch=Exact", 422),
        ("sendInitialEvents=true", 422),
        ("timeoutSeconds=x", 400),
        ("labelSelector=,,,", 400),
    ] {
        let what = format!("GET {MAPS}?watch=1&{query}");
        assert!(!ask(&server, &what, json!(null)).await.fails(code).is_empty(), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_is_served_when_a_watch_shows_that_it_is_established() {
    let server = server();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut watch = Watch::open(&server, definitions).await;
    // A large schema takes a while to compile.
    let fields: serde_json::Map<_, _> =
        (0..500).map(|n| (format!("field{n}"), json!({"type": "string"}))).collect();
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
    for index in 0..10 {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("boats.sea{index}.example")},
            "spec": {
                "group": format!("sea{index}.example"), "scope": "Namespaced",
                "names": {"plural": "boats", "kind": "Boat"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                              "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let writer = server.clone();
        let created = tokio::spawn(async move {
            ask(&writer, &format!("POST {definitions}"), definition).await.ok()
        });
        loop {
            let event = watch.next().await.expect("an event");
            let conditions = event["object"]["status"]["conditions"].as_array().cloned();
            let established =
                |c: &serde_json::Value| c["type"] == "Established" && c["status"] == "True";
            if conditions.unwrap_or_default().iter().any(established) {
                break;
            }
        }
        ask(&server, &format!("GET /apis/sea{index}.example/v1/boats"), json!(null)).await.ok();
        created.await.expect("created");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_custom_kind_ends_with_its_definition() {
    let server = server();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "toys", "kind": "Toy"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    ask(&server, &format!("POST {CRDS}"), definition).await.ok();
    let toys = "/apis/example.com/v1/namespaces/default/toys";
    let toy = json!({"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "t"}});
    ask(&server, &format!("POST {toys}"), toy).await.ok();
    let mut watch = Watch::open(&server, toys).await;
    assert_eq!(watch.next_text().await, "ADDED t");
    ask(&server, &format!("DELETE {toys}/t"), json!(null)).await.ok();
    assert_eq!(watch.next_text().await, "DELETED t");
    ask(&server, &format!("DELETE {CRDS}/toys.example.com"), json!(null)).await.ok();
    assert!(watch.rest().await.iter().all(|e| e["type"] != "ERROR"));
    let gone = ask(&server, &format!("GET {toys}"), json!(null)).await;
    assert_eq!(gone.code, 404, "{}", gone.text());
}

#[tokio::test(start_paused = true)]
async fn a_typed_client_watches() {
    let server = server();
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let from = server.revision().to_string();
    let stream = maps.watch(&WatchParams::default(), &from).await.unwrap();
    let mut stream = std::pin::pin!(stream);
    create_map(&server, "a", "1").await;
    let next = tokio::time::timeout(Duration::from_secs(5), stream.try_next()).await.unwrap();
    assert!(matches!(next.unwrap(), Some(WatchEvent::Added(_))));
}
