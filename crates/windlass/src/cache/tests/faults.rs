//! Faults of a server that must cost no object, no peace and no time.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{Instant, sleep};

use super::fake::{Answer, Fake, Part, bookmark, ending, event, list, object, take, watch};
use crate::cache::{Cache, CacheOptions, Informer, Key, Scope, SyncState};

const LONG: Duration = Duration::from_secs(3600);

fn key(name: &str) -> Key {
    Key::namespaced("n", name)
}

/// An informer that does not take the first version of `b` nor what is over four thousand bytes.
fn picky(fake: &Fake, streaming: bool) -> Informer<ConfigMap> {
    let options = CacheOptions::default().streaming(streaming).transform(|value| {
        let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        assert_ne!(version, "12", "on purpose");
    });
    let options = CacheOptions { object_max: 4096, ..options };
    Cache::with(fake.client(), options).informer(&Scope::default())
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_relist_brings_unreadable_is_not_gone() {
    let large = object("a", 11).replace(r#""v":"11""#, &format!(r#""v":"{}""#, "x".repeat(5000)));
    let fake = Fake::new([
        list("10", &[object("a", 1), object("b", 2), object("c", 3)]),
        ending([]),
        list("13", &[large, object("b", 12)]),
        watch([event("DELETED", &object("b", 14))]),
    ]);
    let informer = picky(&fake, false);
    let mut events = informer.subscribe();
    take(&mut events, 3).await;
    informer.store().wait_for(14, LONG).await.unwrap();
    assert_eq!(take(&mut events, 2).await, ["deleted c 3 unseen", "deleted b 14"]);
    assert!(events.try_recv().is_none());
    assert_eq!(informer.store().keys(), [key("a")], "as it was known before");
    assert_eq!(informer.stats().skipped, 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_streaming_list_brings_unreadable_is_not_gone() {
    let fake = Fake::new([
        ending([event("ADDED", &object("b", 2)), bookmark(10, true)]),
        watch([event("ADDED", &object("b", 12)), bookmark(13, true)]),
    ]);
    let informer = picky(&fake, true);
    informer.synced(LONG).await.unwrap();
    informer.store().wait_for(13, LONG).await.unwrap();
    assert_eq!(informer.store().keys(), [key("b")]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_list_takes_nothing_away() {
    for no_list in ["{}", r#"{"kind":"Status","status":"Failure"}"#, r#"{"items":[]}"#, "[]", ""] {
        let fake = Fake::new([
            list("10", &[object("a", 1)]),
            ending([]),
            Answer::Status(200, no_list.to_owned()),
            list("11", &[object("a", 1)]),
            watch([]),
        ]);
        let informer = fake.informer(false);
        let mut events = informer.subscribe();
        assert_eq!(take(&mut events, 1).await, ["initial a 1"], "{no_list}");
        informer.store().wait_for(11, LONG).await.unwrap();
        assert!(events.try_recv().is_none(), "{no_list}");
        assert_eq!(informer.stats().failures, 2, "{no_list}");
    }
}

#[tokio::test(start_paused = true)]
async fn half_an_event_and_then_nothing_is_given_up_after_half_a_minute() {
    for end in [Part::Hang, Part::Wait(Duration::from_secs(100))] {
        let half = Part::Text(r#"{"type":"ADDED","object":{"kind":"Con"#.to_owned());
        let first = event("ADDED", &object("a", 11));
        let fake = Fake::new([
            list("10", &[]),
            Answer::Body(vec![first, half, end]),
            watch([event("ADDED", &object("b", 12))]),
        ]);
        let (start, informer) = (Instant::now(), fake.informer(false));
        informer.store().wait_for(12, LONG).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(30));
        assert_eq!((informer.stats().lists, informer.stats().breaks), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_repeats_itself_and_ends_is_not_asked_without_pause() {
    let again = || ending([event("MODIFIED", &object("a", 9)), bookmark(10, false)]);
    let round = || [list("10", &[object("a", 9)]), again()];
    let fake = Fake::new((0..10_000).flat_map(|_| round()));
    let informer = fake.informer(false);
    sleep(Duration::from_secs(600)).await;
    assert!(fake.asked().len() < 60, "{}", fake.asked().len());
    let state = informer.state();
    assert!(
        matches!(&state, SyncState::Stale { reason, .. } if reason.contains("without anything new"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_proxy_is_named_as_one() {
    let page = "<html><body>Sign in</body></html>".to_owned();
    let fake = Fake::new([Answer::Page(page.clone()), Answer::Page(page), list("10", &[])]);
    let informer = fake.informer(false);
    let mut states = informer.states();
    let away = states.wait_for(|state| *state != SyncState::Pending).await.unwrap().to_string();
    assert!(away.contains("got text/html instead of JSON"), "{away}");
    states.wait_for(SyncState::synced).await.unwrap();
}
