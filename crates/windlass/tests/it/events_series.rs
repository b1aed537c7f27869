//! Events on the server.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use windlass::clock::Clock;
use windlass::events::{EventType, Recorder};
use windlass::{Client, Kind, List};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, key};

async fn events(client: &Client) -> Vec<(String, String, i32)> {
    let found = client.list::<Event>(&List::within("default")).await.expect("listed");
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
    client.create(&config_map("a", &[])).await.expect("created");
    let (recorder, publisher) = Recorder::new(&client, "maps", Clock::system());
    let task = tokio::spawn(publisher.run());
    let about = key("a").object_reference(&Kind::of::<ConfigMap>().api_resource());
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
    let found = client.list::<Event>(&List::within("default")).await.expect("listed");
    let event = found.iter().find(|e| e.reason.as_deref() == Some("Done")).expect("is there");
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.reporting_controller.as_deref(), Some("maps"));
    assert_eq!(event.regarding.as_ref().and_then(|r| r.kind.as_deref()), Some("ConfigMap"));
    drop(recorder);
    task.await.expect("ends with its recorders");
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
    client.create(&config_map("a", &[])).await.expect("created");
    let (recorder, publisher) = Recorder::new(&client, "maps", Clock::system());
    tokio::spawn(publisher.run());
    let about = key("a").object_reference(&Kind::of::<ConfigMap>().api_resource());
    for note in ["one", "two", "one"] {
        recorder.publish(EventType::Warning, about.clone(), "Failed", "Sync", note.to_string());
    }
    recorder.flush().await;
    let found = client.list::<CoreEvent>(&List::within("default")).await.expect("listed");
    let mut told: Vec<_> = found.iter().map(|e| (e.message.clone(), e.count)).collect();
    told.sort();
    assert_eq!(told, [(Some("one".into()), Some(2)), (Some("two".into()), Some(1))]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_expired_is_made_anew_and_long_names_and_texts_are_no_obstacle() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let name = "n".repeat(253);
    client.create(&config_map(&name, &[])).await.expect("created");
    let (recorder, publisher) = Recorder::new(&client, "maps", Clock::system());
    tokio::spawn(publisher.run());
    let about = key(&name).object_reference(&Kind::of::<ConfigMap>().api_resource());
    let note = "x".repeat(5000);
    let publish = || {
        recorder.publish(EventType::Normal, about.clone(), "Long", "Sync", note.clone());
    };
    publish();
    recorder.flush().await;
    let all = List::within("default");
    client.api::<Event>().delete_collection(&all, &Default::default()).await.expect("expired");
    assert!(client.list::<Event>(&all).await.expect("listed").is_empty());
    publish();
    recorder.flush().await;
    let found = client.list::<Event>(&all).await.expect("listed");
    assert_eq!(found.len(), 1);
    assert!(found[0].note.as_ref().expect("has one").ends_with("x..."));
}
