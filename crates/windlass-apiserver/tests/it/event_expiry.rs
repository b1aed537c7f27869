//! Events are deleted an hour after their last write.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_apiserver::store::Journal;
use windlass_apiserver::{ApiServer, Options};

use crate::support::*;

const EVENTS: &str = "/api/v1/namespaces/default/events";
const HOUR: Duration = Duration::from_secs(3600);

async fn create_event(server: &ApiServer, name: &str) {
    let event = json!({
        "metadata": {"name": name}, "reason": "Test", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"},
    });
    ask(server, &format!("POST {EVENTS}"), event).await.ok();
}

async fn is_there(server: &ApiServer, name: &str) -> bool {
    ask(server, &format!("GET {EVENTS}/{name}"), Value::Null).await.code == 200
}

/// A watch that lasts for more than an hour.
fn lasting(path: &str) -> String {
    format!("{path}?timeoutSeconds=7000")
}

fn about_an_hour_since(start: Instant) -> bool {
    // The time of a write is kept in whole seconds.
    let second = Duration::from_secs(1);
    (HOUR - second..HOUR + second).contains(&start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn an_event_is_deleted_an_hour_after_it_was_created_and_watches_see_it() {
    let server = server();
    let mut watch = Watch::open(&server, &lasting(EVENTS)).await;
    let mut other = Watch::open(&server, &lasting("/apis/events.k8s.io/v1/events")).await;
    let start = Instant::now();
    create_event(&server, "a").await;
    assert_eq!(watch.next_text().await, "ADDED a");
    assert_eq!(watch.next_text().await, "DELETED a");
    assert!(about_an_hour_since(start), "{:?}", start.elapsed());
    assert_eq!(other.next_text().await, "ADDED a");
    assert_eq!(other.next_text().await, "DELETED a");
}

#[tokio::test(start_paused = true)]
async fn a_write_lets_an_event_live_for_another_hour() {
    let server = server();
    create_event(&server, "a").await;
    create_event(&server, "b").await;
    tokio::time::sleep(HOUR / 2).await;
    let path = format!("{EVENTS}/a");
    patch(&server, &path, MERGE_PATCH, json!({"count": 2})).await.ok();
    tokio::time::sleep(HOUR / 2 + Duration::from_secs(1)).await;
    assert!(is_there(&server, "a").await);
    assert!(!is_there(&server, "b").await);
    tokio::time::sleep(HOUR / 2).await;
    assert!(!is_there(&server, "a").await);
}

#[tokio::test(start_paused = true)]
async fn many_events_expire_and_those_that_were_deleted_are_forgotten() {
    let server = server();
    for number in 0..250 {
        create_event(&server, &format!("e{number}")).await;
    }
    ask(&server, &format!("DELETE {EVENTS}/e7"), Value::Null).await.ok();
    tokio::time::sleep(HOUR - Duration::from_secs(5)).await;
    create_event(&server, "late").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let list = ask(&server, &format!("GET {EVENTS}"), Value::Null).await.ok();
    assert_eq!(names(&list), ["late"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_a_data_directory_expire_after_a_restart() {
    let dir = TempDir::new();
    let open = || {
        let journal = Journal::open(&dir.path().join("data")).unwrap();
        server_with(Options { journal: Some(journal), ..Options::default() })
    };
    let server = open();
    create_event(&server, "a").await;
    drop(server);
    let server = open();
    assert!(is_there(&server, "a").await);
    let mut watch = Watch::open(&server, &lasting(EVENTS)).await;
    assert_eq!(watch.next_text().await, "ADDED a");
    assert_eq!(watch.next_text().await, "DELETED a");
}

#[tokio::test(start_paused = true)]
async fn a_fork_expires_its_own_events() {
    let server = server();
    create_event(&server, "a").await;
    let fork = server.fork();
    tokio::time::sleep(HOUR + Duration::from_secs(2)).await;
    assert!(!is_there(&server, "a").await);
    // A fork has no tokens of its own.
    let events: kube::Api<k8s_openapi::api::core::v1::Event> =
        kube::Api::namespaced(fork.client(), "default");
    assert_eq!(events.get_opt("a").await.unwrap(), None);
}
