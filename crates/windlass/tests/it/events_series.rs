//! Events on the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRole;
use windlass::clock::Clock;
use windlass::events::{EventType, Recorder};
use windlass::{Client, Key, Kind};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, key};

async fn events(client: &Client) -> Vec<(String, String, i32)> {
    let found = client.api::<Event>().list().namespace("default").items().await.expect("listed");
    let mut events: Vec<_> = found
        .iter()
        .map(|event| {
            let count = event.series.as_ref().map_or(1, |series| series.count);
            let text = |s: &Option<String>| s.clone().unwrap_or_default();
            (text(&event.reason), text(&event.note), count)
        })
        .collect();
    events.sort();
    events
}

#[tokio::test(start_paused = true)]
async fn repeated_events_become_a_series_and_no_text_is_lost() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&config_map("a", &[])).await.expect("created");
    let recorder = Recorder::spawn(&client, "maps", Clock::default());
    let about = key("a").object_reference(&Kind::of::<ConfigMap>());
    for at in 0..10 {
        let note = if at % 5 == 0 { "odd one" } else { "as always" };
        recorder.publish(EventType::Warning, about.clone(), "Failed", "Sync", note.to_string());
    }
    recorder.publish(EventType::Normal, about, "Done", "Sync", "fine".to_string());
    recorder.flush().await;
    let wanted = [
        ("Done".to_string(), "fine".to_string(), 1),
        ("Failed".to_string(), "as always".to_string(), 8),
        ("Failed".to_string(), "odd one".to_string(), 2),
    ];
    assert_eq!(events(&client).await, wanted);
    let found = client.api::<Event>().list().namespace("default").items().await.expect("listed");
    let event = found.iter().find(|e| e.reason.as_deref() == Some("Done")).expect("is there");
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.reporting_controller.as_deref(), Some("maps"));
    assert_eq!(event.regarding.as_ref().and_then(|r| r.kind.as_deref()), Some("ConfigMap"));
}

#[tokio::test(start_paused = true)]
async fn where_the_newer_group_is_forbidden_events_go_to_the_core_group() {
    use k8s_openapi::api::core::v1::Event as CoreEvent;
    let server = ApiServer::start();
    server.inject(Some(Box::new(|request| {
        let refused = request.group == "events.k8s.io";
        let status = || windlass_apiserver::Status::new(403, "Forbidden", "no events for you");
        Fault { fail: refused.then(status), ..Fault::default() }
    })));
    let client = Client::new(server.client());
    client.api().create(&config_map("a", &[])).await.expect("created");
    let recorder = Recorder::spawn(&client, "maps", Clock::default());
    let about = key("a").object_reference(&Kind::of::<ConfigMap>());
    for note in ["one", "two", "one"] {
        recorder.publish(EventType::Warning, about.clone(), "Failed", "Sync", note.to_string());
    }
    recorder.flush().await;
    let found =
        client.api::<CoreEvent>().list().namespace("default").items().await.expect("listed");
    let mut published: Vec<_> = found.iter().map(|e| (e.message.clone(), e.count)).collect();
    published.sort();
    assert_eq!(published, [(Some("one".into()), Some(2)), (Some("two".into()), Some(1))]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_expired_is_made_anew_and_long_names_and_texts_are_no_obstacle() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let name = "n".repeat(253);
    client.api().create(&config_map(&name, &[])).await.expect("created");
    let recorder = Recorder::spawn(&client, "maps", Clock::default());
    let about = key(&name).object_reference(&Kind::of::<ConfigMap>());
    let note = "x".repeat(5000);
    let publish = || {
        recorder.publish(EventType::Normal, about.clone(), "Long", "Sync", note.clone());
    };
    publish();
    recorder.flush().await;
    let all = client.api::<Event>().list().namespace("default");
    all.delete(None).await.expect("expired");
    assert!(all.items().await.expect("listed").is_empty());
    publish();
    recorder.flush().await;
    let found = all.items().await.expect("listed");
    assert_eq!(found.len(), 1);
    assert!(found[0].note.as_ref().expect("has one").ends_with("x..."));
}

/// A client and a recorder of it, whose publisher runs.
fn recording(server: &ApiServer) -> (Client, Recorder) {
    let client = Client::new(server.client());
    let recorder = Recorder::spawn(&client, "maps", Clock::default());
    (client, recorder)
}

fn publish(recorder: &Recorder, about: &Key, note: &str) {
    let about = about.object_reference(&Kind::of::<ConfigMap>());
    recorder.publish(EventType::Warning, about, "Failed", "Sync", note.to_string());
}

async fn namespace(client: &Client, name: &str) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.into());
    client.api().create(&namespace).await.expect("created");
}

/// The notes of a namespace, and whether each was written to the newer group.
async fn forms(client: &Client, namespace: &str) -> Vec<(String, bool)> {
    let found = client.api::<Event>().list().namespace(namespace).items().await.expect("listed");
    let form = |e: &Arc<Event>| (e.note.clone().unwrap_or_default(), e.event_time.is_some());
    let mut forms: Vec<_> = found.iter().map(form).collect();
    forms.sort();
    forms
}

fn published(forms: &[(&str, bool)]) -> Vec<(String, bool)> {
    forms.iter().map(|(note, newer)| ((*note).to_string(), *newer)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_being_deleted_moves_no_events_to_the_core_group() {
    let server = ApiServer::start();
    let (client, recorder) = recording(&server);
    namespace(&client, "shop").await;
    client.api::<Namespace>().delete(&Key::cluster("shop")).await.expect("deleted");
    publish(&recorder, &Key::namespaced("shop", "a"), "refused");
    publish(&recorder, &key("a"), "taken");
    recorder.flush().await;
    assert_eq!(forms(&client, "shop").await, []);
    assert_eq!(forms(&client, "default").await, published(&[("taken", true)]));
}

#[tokio::test(start_paused = true)]
async fn the_core_group_is_for_namespaces_that_take_it_and_refuse_the_newer_one() {
    let server = ApiServer::start();
    let (client, recorder) = recording(&server);
    for name in ["shop", "bank"] {
        namespace(&client, name).await;
    }
    // In the shop only the newer group is refused, in the bank both are.
    server.inject(Some(Box::new(|request| {
        let newer = request.group == "events.k8s.io" && request.namespace == "shop";
        let both = request.resource == "events" && request.namespace == "bank";
        let writes = request.verb == "create" || request.verb == "patch";
        let refused = writes && (newer || both);
        let status = || windlass_apiserver::Status::new(403, "Forbidden", "no events for you");
        Fault { fail: refused.then(status), ..Fault::default() }
    })));
    for namespace in ["shop", "bank", "default"] {
        for note in ["one", "two", "one"] {
            publish(&recorder, &Key::namespaced(namespace, "a"), note);
        }
    }
    recorder.flush().await;
    assert_eq!(forms(&client, "shop").await, published(&[("one", false), ("two", false)]));
    assert_eq!(forms(&client, "bank").await, []);
    assert_eq!(forms(&client, "default").await, published(&[("one", true), ("two", true)]));
    // Rights may be given later.
    server.inject(None);
    tokio::time::sleep(Duration::from_secs(2 * 60 * 60)).await;
    publish(&recorder, &Key::namespaced("shop", "a"), "three");
    publish(&recorder, &Key::namespaced("bank", "a"), "three");
    recorder.flush().await;
    assert!(forms(&client, "shop").await.contains(&("three".into(), true)));
    assert_eq!(forms(&client, "bank").await, published(&[("three", true)]));
}

#[tokio::test(start_paused = true)]
async fn the_count_of_a_series_without_a_pause_is_updated_every_half_minute() {
    let server = ApiServer::start();
    let (client, recorder) = recording(&server);
    for _ in 0..65 {
        publish(&recorder, &key("a"), "again");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let count = events(&client).await[0].2;
    assert!((50..65).contains(&count), "{count}");
}

#[tokio::test(start_paused = true)]
async fn a_count_that_is_refused_is_given_up() {
    let server = ApiServer::start();
    let (client, recorder) = recording(&server);
    let patches = Arc::new(AtomicUsize::new(0));
    let count = patches.clone();
    server.inject(Some(Box::new(move |request| {
        let patch = request.resource == "events" && request.verb == "patch";
        count.fetch_add(usize::from(patch), Ordering::SeqCst);
        let status = || windlass_apiserver::Status::new(403, "Forbidden", "create only");
        Fault { fail: patch.then(status), ..Fault::default() }
    })));
    for _ in 0..3 {
        publish(&recorder, &key("a"), "again");
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    publish(&recorder, &key("a"), "again");
    recorder.flush().await;
    assert_eq!(patches.load(Ordering::SeqCst), 1);
    assert_eq!(events(&client).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn objects_whose_names_no_event_may_have_have_events() {
    let server = ApiServer::start();
    let (client, recorder) = recording(&server);
    let kind = Kind::of::<ClusterRole>();
    for name in ["system:Aggregate_to_view", "Ünicode", "-.-"] {
        let about = Key::cluster(name).object_reference(&kind);
        recorder.publish(EventType::Normal, about, "Seen", "Look", name.to_string());
    }
    recorder.flush().await;
    assert_eq!(events(&client).await.len(), 3);
}
