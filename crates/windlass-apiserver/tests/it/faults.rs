//! Hooks for tests: delays, failures before and after, watches that lag or end; the request log.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use windlass_apiserver::fault::Fault;
use windlass_apiserver::{ApiServer, Status};

use crate::support::*;

/// What requests with this verb for config maps suffer.
fn inject(server: &ApiServer, verb: &'static str, fault: Fault) {
    server.inject(Some(Box::new(move |request| {
        match request.verb == verb && request.resource == "configmaps" {
            true => fault.clone(),
            false => Fault::default(),
        }
    })));
}

fn unavailable() -> Status {
    Status::new(503, "ServiceUnavailable", "not now")
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_takes_its_time() {
    let server = server();
    inject(&server, "list", Fault { delay: Duration::from_secs(9), ..Fault::default() });
    let begin = tokio::time::Instant::now();
    ask(&server, &format!("GET {MAPS}"), json!(null)).await.ok();
    assert_eq!(begin.elapsed(), Duration::from_secs(9));
    create_map(&server, "a", "1").await;
    assert_eq!(begin.elapsed(), Duration::from_secs(9));
    server.inject(None);
    ask(&server, &format!("GET {MAPS}"), json!(null)).await.ok();
    assert_eq!(begin.elapsed(), Duration::from_secs(9));
}

#[tokio::test]
async fn a_failed_request_does_nothing() {
    let server = server();
    inject(&server, "create", Fault { fail: Some(unavailable()), ..Fault::default() });
    let before = server.revision();
    assert_eq!(ask(&server, &format!("POST {MAPS}"), map("a", "1")).await.fails(503), "not now");
    assert_eq!(server.revision(), before);
}

#[tokio::test]
async fn a_request_that_fails_after_happened() {
    let server = server();
    inject(&server, "create", Fault { fail_after: Some(unavailable()), ..Fault::default() });
    assert_eq!(ask(&server, &format!("POST {MAPS}"), map("a", "1")).await.fails(503), "not now");
    ask(&server, &format!("GET {MAPS}/a"), json!(null)).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_lagging_watch_sees_all_later() {
    let server = server();
    inject(&server, "watch", Fault { watch_lag: Duration::from_secs(5), ..Fault::default() });
    let mut watch = Watch::open(&server, MAPS).await;
    let begin = tokio::time::Instant::now();
    create_map(&server, "a", "1").await;
    assert_eq!(watch.next_text().await, "ADDED a");
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_made_to_end_early() {
    let server = server();
    inject(&server, "watch", Fault { watch_events_max: Some(2), ..Fault::default() });
    let mut watch = Watch::open(&server, MAPS).await;
    for name in ["a", "b", "c"] {
        create_map(&server, name, "1").await;
    }
    assert_eq!(watch.rest().await.len(), 2);
    // What exists already counts as well.
    let mut watch = Watch::open(&server, MAPS).await;
    assert_eq!(watch.rest().await.len(), 2);
}

#[tokio::test]
async fn the_log_shows_who_requested_what() {
    let server = server();
    create_map(&server, "before", "1").await;
    server.request_log().enable();
    create_map(&server, "a", "1").await;
    ask_as(&server, "alice", &format!("GET {MAPS}/a"), json!(null)).await.fails(403);
    let entries = server.request_log().entries();
    let shown: Vec<_> = entries
        .iter()
        .map(|e| (e.user.as_str(), e.request.verb.as_str(), e.request.name.as_str(), e.code))
        .collect();
    assert_eq!(shown, [("admin", "create", "", 201), ("alice", "get", "a", 403)]);
    assert_eq!(entries[1].revision, server.revision());
    let calls = Arc::new(Mutex::new(0));
    let sink = calls.clone();
    server.request_log().set_sink(Box::new(move |_| *sink.lock().unwrap() += 1));
    ask(&server, "GET /version", json!(null)).await.ok();
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_hook_knows_who_sends_what() {
    let server = server();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = seen.clone();
    server.inject(Some(Box::new(move |request| {
        requests.lock().unwrap().push(request.clone());
        Fault::default()
    })));
    let headers = [("authorization", "Bearer alice"), ("user-agent", "operator/1.2")];
    send(&server, &format!("GET {MAPS}/a"), &headers, "").await;
    send(&server, "GET /version", &[("authorization", "Bearer wrong")], "").await;
    let seen = seen.lock().unwrap();
    let first = &seen[0];
    assert_eq!((&*first.user, &*first.user_agent), ("alice", "operator/1.2"));
    assert_eq!((&*first.verb, &*first.resource), ("get", "configmaps"));
    assert_eq!((&*first.namespace, &*first.name), ("default", "a"));
    assert_eq!((&*seen[1].user, &*seen[1].user_agent), ("", ""));
}
