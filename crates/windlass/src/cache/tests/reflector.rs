use std::time::Duration;

use super::fake::{
    Answer, Fake, Part, bookmark, ending, error, event, list, object, status, take, watch,
};
use crate::cache::{Cache, CacheOptions, Key, Scope, SyncState};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{Instant, sleep};

const LONG: Duration = Duration::from_secs(3600);

fn key(name: &str) -> Key {
    Key::namespaced("n", name)
}

#[tokio::test(start_paused = true)]
async fn child_deleted_in_a_watch_gap_that_ends_in_410_reaches_the_handler() {
    let fake = Fake::new([
        list("10", &[object("owner", 1), object("child", 2)]),
        watch([event("ERROR", &status(410, "Expired"))]),
        list("20", &[object("owner", 1)]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    assert_eq!(take(&mut events, 2).await, ["initial child 2", "initial owner 1"]);
    assert_eq!(take(&mut events, 1).await, ["deleted child 2 unseen"]);
    assert_eq!(informer.store().len(), 1);
    assert!(events.try_recv().is_none(), "what did not change is not delivered again");
}

#[tokio::test(start_paused = true)]
async fn a_relist_after_410_asks_for_the_last_version_and_for_the_newest_if_that_is_gone_too() {
    let fake = Fake::new([
        list("10", &[]),
        watch([event("ADDED", &object("a", 11)), event("ERROR", &status(410, "Expired"))]),
        error(410, "Expired"),
        list("20", &[object("a", 11)]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    take(&mut events, 1).await;
    informer.store().wait_for(20, LONG).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    let versions: Vec<_> = (0..5).map(|i| fake.asked_for(i, "resourceVersion")).collect();
    let wanted = [None, Some("10"), Some("11"), None, Some("20")];
    assert_eq!(versions, wanted.map(|v| v.map(str::to_owned)));
    assert_eq!(fake.asked_for(0, "limit").as_deref(), Some("500"));
    assert_eq!(fake.asked_for(2, "limit"), None, "served from the server's cache");
}

#[tokio::test(start_paused = true)]
async fn a_version_the_server_has_not_reached_leads_to_the_newest_at_once() {
    let ahead = r#"{"kind":"Status","code":504,"reason":"Timeout","message":"Timeout: Too large resource version: 99, current: 5","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
    let fake = Fake::new([
        list("99", &[]),
        watch([event("ERROR", &status(500, "InternalError"))]),
        Answer::Status(504, ahead.to_owned()),
        list("5", &[object("a", 4)]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    assert_eq!(take(&mut events, 1).await, ["added a 4"]);
    assert_eq!(fake.asked_for(2, "resourceVersion").as_deref(), Some("99"));
    assert_eq!(fake.asked_for(3, "resourceVersion"), None);
}

#[tokio::test(start_paused = true)]
async fn after_a_clean_end_the_watch_continues_at_once_from_the_last_version() {
    let fake = Fake::new([
        list("10", &[]),
        ending([event("ADDED", &object("a", 11)), bookmark(15, false)]),
        watch([event("MODIFIED", &object("a", 16))]),
    ]);
    let start = Instant::now();
    let informer = fake.informer(false);
    informer.store().wait_for(16, LONG).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(fake.asked_for(2, "resourceVersion").as_deref(), Some("15"));
    assert_eq!(informer.stats().lists, 1);
    assert!(informer.state().synced());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_without_events_leads_to_a_relist_after_a_wait() {
    let fake = Fake::new([list("10", &[]), ending([]), list("11", &[]), watch([])]);
    let start = Instant::now();
    let informer = fake.informer(false);
    informer.store().wait_for(11, LONG).await.unwrap();
    let wait = start.elapsed().as_millis();
    assert!((800..1600).contains(&wait), "{wait}");
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_and_refused_connections_wait_without_a_relist() {
    let fake = Fake::new([
        list("10", &[]),
        error(429, "TooManyRequests"),
        Answer::Refused,
        watch([event("ERROR", &status(429, "TooManyRequests"))]),
        watch([event("ADDED", &object("a", 11))]),
    ]);
    let informer = fake.informer(false);
    informer.store().wait_for(10, LONG).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    assert!(matches!(informer.state(), SyncState::Stale { .. }), "{}", informer.state());
    informer.store().wait_for(11, LONG).await.unwrap();
    assert_eq!(informer.stats().lists, 1);
    assert_eq!(informer.stats().failures, 3);
    sleep(Duration::from_millis(1)).await;
    assert!(informer.state().synced());
}

#[tokio::test(start_paused = true)]
async fn forbidden_and_missing_kinds_fail_at_once_and_recover_by_themselves() {
    let fake = Fake::new([
        error(403, "Forbidden"),
        error(404, "NotFound"),
        list("10", &[object("a", 1)]),
        watch([]),
    ]);
    let start = Instant::now();
    let informer = fake.informer(false);
    let refused = informer.synced(LONG).await.unwrap_err();
    assert_eq!(refused, SyncState::Forbidden("Forbidden it is".to_owned()));
    assert_eq!(start.elapsed(), Duration::ZERO);
    let mut states = informer.states();
    states.wait_for(|state| matches!(state, SyncState::NoKind(_))).await.unwrap();
    states.wait_for(SyncState::synced).await.unwrap();
    assert_eq!(informer.store().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_at_the_start_is_reported_and_waited_for() {
    let fake = Fake::new([
        Answer::Refused,
        Answer::Hang,
        error(500, "InternalError"),
        Answer::Status(200, "<html>proxy</html>".to_owned()),
        Answer::Status(200, r#"{"metadata":{},"items":[{"metadata":{"#.to_owned()),
        list("10", &[object("a", 1)]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    sleep(Duration::from_millis(1)).await;
    assert!(matches!(informer.state(), SyncState::Unreachable(_)), "{}", informer.state());
    informer.states().wait_for(SyncState::synced).await.unwrap();
    assert_eq!(informer.stats().failures, 5);
}

#[tokio::test(start_paused = true)]
async fn garbage_in_a_watch_leads_to_a_relist() {
    for garbage in ["no json at all\n", "{\"type\":\"ADDED\",\"object\":{\"meta}}\n"] {
        let fake = Fake::new([
            list("10", &[]),
            watch([Part::Text(garbage.to_owned())]),
            list("11", &[object("a", 11)]),
            watch([]),
        ]);
        let informer = fake.informer(false);
        informer.store().wait_for(11, LONG).await.unwrap();
        assert_eq!(informer.store().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn after_half_a_line_or_a_broken_connection_the_watch_continues_from_the_last_whole_event() {
    let half = object("b", 12)[..40].to_owned();
    for end in [vec![], vec![Part::Break]] {
        let mut parts = vec![event("ADDED", &object("a", 11))];
        parts.push(Part::Text(format!("{{\"type\":\"ADDED\",\"object\":{half}")));
        parts.extend(end);
        let fake =
            Fake::new([list("10", &[]), ending(parts), watch([event("ADDED", &object("b", 12))])]);
        let informer = fake.informer(false);
        informer.store().wait_for(12, LONG).await.unwrap();
        assert_eq!(fake.asked_for(2, "resourceVersion").as_deref(), Some("11"));
        assert_eq!((informer.stats().lists, informer.stats().breaks), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_last_line_without_newline_counts_if_it_is_whole() {
    let last = format!("{{\"type\":\"ADDED\",\"object\":{}}}", object("a", 11));
    let fake = Fake::new([list("10", &[]), ending([Part::Text(last)]), watch([])]);
    let informer = fake.informer(false);
    informer.store().wait_for(11, LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_hangs_without_end_is_renewed_after_its_timeout() {
    let fake = Fake::new([list("10", &[]), watch([]), watch([event("ADDED", &object("a", 11))])]);
    let start = Instant::now();
    let informer = fake.informer(false);
    informer.store().wait_for(11, LONG).await.unwrap();
    let asked: u64 = fake.asked_for(1, "timeoutSeconds").unwrap().parse().unwrap();
    assert!((300..600).contains(&asked), "{asked}");
    assert_eq!(start.elapsed().as_secs(), asked + 30);
    assert_eq!(informer.stats().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_skipped_and_counted_and_the_rest_is_kept() {
    let nameless = r#"{"metadata":{"name":5}}"#.to_owned();
    let table = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"name":"t","resourceVersion":"99"}}"#;
    let fake = Fake::new([
        list("10", &[nameless, object("a", 1)]),
        ending([event("ADDED", table), event("ADDED", &object("b", 11))]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    informer.store().wait_for(11, LONG).await.unwrap();
    assert_eq!(informer.store().keys(), [key("a"), key("b")]);
    assert_eq!(informer.stats().skipped, 2);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.asked_for(2, "resourceVersion").as_deref(), Some("11"));
}

#[tokio::test(start_paused = true)]
async fn an_object_larger_than_allowed_is_skipped_and_counted_and_the_rest_is_kept() {
    let large =
        object("large", 11).replace(r#""v":"11""#, &format!(r#""v":"{}""#, "x".repeat(5000)));
    let fake = Fake::new([
        list("10", &[object("large", 1), object("a", 1)]),
        // The watch brings it: only a list can pass over it.
        watch([event("MODIFIED", &large)]),
        list("12", &[large, object("a", 1)]),
        watch([event("ADDED", &object("b", 13))]),
    ]);
    let options = CacheOptions { streaming: false, object_max: 4096, ..CacheOptions::default() };
    let cache = Cache::with(fake.client(), options);
    let informer = cache.informer::<ConfigMap>(&Scope::default());
    informer.store().wait_for(13, LONG).await.unwrap();
    // What was known of it before it became too large stays.
    assert_eq!(informer.store().keys(), [key("a"), key("b"), key("large")]);
    assert_eq!((informer.stats().skipped, informer.stats().failures), (1, 1));
    assert!(informer.state().synced());
}

#[tokio::test(start_paused = true)]
async fn waits_between_tries_grow_to_half_a_minute_and_more() {
    let fake = Fake::new((0..9).map(|_| error(500, "InternalError")));
    let start = Instant::now();
    let informer = fake.informer(false);
    let mut last = start;
    for (tries, step) in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000].iter().enumerate()
    {
        while fake.asked().len() < tries + 2 {
            sleep(Duration::from_millis(10)).await;
        }
        let wait = last.elapsed().as_millis();
        assert!((*step..*step * 2 + 20).contains(&wait), "{wait} for {step}");
        last = Instant::now();
    }
    drop(informer);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_move_the_version_of_the_store_in_order_with_events() {
    let fake = Fake::new([
        list("10", &[]),
        watch([
            bookmark(50, false),
            Part::Wait(Duration::from_secs(1)),
            event("ADDED", &object("a", 60)),
        ]),
    ]);
    let informer = fake.informer(false);
    informer.store().wait_for(50, LONG).await.unwrap();
    assert_eq!(informer.store().resource_version(), 50);
    let late = informer.store().wait_for(60, Duration::from_millis(10)).await.unwrap_err();
    assert_eq!(late, "it is at version 50");
    informer.store().wait_for(60, LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_are_several_watches_into_one_store() {
    let in_namespace = |namespace: &str, name: &str| {
        object(name, 1).replace(r#""namespace":"n""#, &format!(r#""namespace":"{namespace}""#))
    };
    let fake = Fake::new([
        list("10", &[in_namespace("a", "x")]),
        list("12", &[in_namespace("b", "x")]),
        watch([]),
        watch([]),
    ]);
    let cache = fake.cache(false);
    let informer = cache.informer::<ConfigMap>(&Scope::default().namespace("a").namespace("b"));
    informer.synced(LONG).await.unwrap();
    assert_eq!(informer.store().len(), 2);
    assert_eq!(informer.store().resource_version(), 10, "the slowest watch counts");
    assert!(fake.asked()[0].starts_with("/api/v1/namespaces/a/configmaps?"));
    assert!(fake.asked()[1].starts_with("/api/v1/namespaces/b/configmaps?"));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_vanishes_is_reported_and_its_objects_are_deleted_when_it_returns() {
    let fake = Fake::new([
        list("10", &[object("a", 1)]),
        ending([bookmark(11, false)]),
        error(404, "NotFound"),
        error(404, "NotFound"),
        list("20", &[]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    take(&mut events, 1).await;
    let mut states = informer.states();
    states.wait_for(|state| matches!(state, SyncState::NoKind(_))).await.unwrap();
    assert_eq!(take(&mut events, 1).await, ["deleted a 1 unseen"]);
    states.wait_for(SyncState::synced).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_was_forbidden_for_long_is_watched_within_seconds_of_the_permission() {
    let refused = (0..60).map(|at| error(if at % 2 == 0 { 403 } else { 404 }, "Refused"));
    let fake = Fake::new(refused.chain([list("10", &[object("a", 1)]), watch([])]));
    let start = Instant::now();
    let informer = fake.informer(false);
    informer.states().wait_for(SyncState::synced).await.unwrap();
    assert!(start.elapsed() <= 60 * Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sent_bookmarks_and_fell_silent_is_watched_anew() {
    let fake = Fake::new([
        list("10", &[]),
        watch([bookmark(12, false)]),
        watch([event("ADDED", &object("a", 13))]),
    ]);
    let start = Instant::now();
    let informer = fake.informer(false);
    informer.store().wait_for(13, LONG).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(180));
    assert_eq!(fake.asked_for(2, "resourceVersion").as_deref(), Some("12"));
    assert_eq!(informer.stats().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn the_observer_is_called_for_every_list_and_watch() {
    let fake = Fake::new([error(500, "InternalError"), Answer::Refused, list("1", &[]), watch([])]);
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = seen.clone();
    let options = CacheOptions {
        streaming: false,
        observe: Some(std::sync::Arc::new(move |code, _| log.lock().push(code))),
        ..CacheOptions::default()
    };
    let informer = Cache::with(fake.client(), options).informer::<ConfigMap>(&Scope::default());
    informer.states().wait_for(SyncState::synced).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(*seen.lock(), [Some(500), None, Some(200), Some(200)]);
}

#[tokio::test(start_paused = true)]
async fn synthetic_additions_of_a_watch_without_a_version_do_not_move_its_version() {
    let fake = Fake::new([
        list("", &[]),
        ending([event("ADDED", &object("a", 50)), event("ADDED", &object("b", 20))]),
        ending([event("ADDED", &object("a", 50)), event("MODIFIED", &object("b", 60))]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    informer.store().wait_for(60, LONG).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    let versions: Vec<_> = (1..4).map(|i| fake.asked_for(i, "resourceVersion")).collect();
    assert_eq!(versions, [None, None, Some("60".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_and_created_again_in_a_gap_is_one_update_with_another_uid() {
    let again = object("a", 18).replace("uid-a", "uid-new");
    let fake = Fake::new([
        list("10", &[object("a", 1), object("gone", 2)]),
        watch([event("ERROR", &status(410, "Expired"))]),
        list("20", &[again, object("new", 19)]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    take(&mut events, 2).await;
    let next = tokio::time::timeout(LONG, events.recv()).await.unwrap().unwrap();
    assert_eq!(next.key(), &key("gone"), "deletions come first");
    assert_eq!(informer.store().len(), 2, "the store is ahead of its events");
    let update = events.recv().await.unwrap();
    let (old, new) = (update.old.as_ref().unwrap(), update.new.as_ref().unwrap());
    assert_eq!((old.uid(), new.uid()), ("uid-a", "uid-new"));
    assert_eq!(take(&mut events, 1).await, ["added new 19"]);
}
