//! Lists, streaming and plain.

use std::time::Duration;

use super::fake::{
    Answer, Fake, Part, bookmark, ending, error, event, list, object, page, status, take, watch,
};
use crate::cache::{Cache, CacheOptions, Key, Scope, SyncState};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{Instant, sleep};

const LONG: Duration = Duration::from_secs(3600);

fn key(name: &str) -> Key {
    Key::namespaced("n", name)
}

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_is_joined_and_starts_over_in_one_piece_if_a_page_expires() {
    let fake = Fake::new([
        page("10", "t1", &[object("a", 1)]),
        page("10", "t2", &[object("b", 2)]),
        error(410, "Expired"),
        list("12", &[object("a", 1), object("c", 3)]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    informer.synced(LONG).await.unwrap();
    assert_eq!(informer.store().keys(), [key("a"), key("c")]);
    assert_eq!(fake.asked_for(1, "continue").as_deref(), Some("t1"));
    assert_eq!(fake.asked_for(1, "resourceVersion"), None);
    assert_eq!(fake.asked_for(3, "limit"), None);
    assert_eq!(fake.asked_for(3, "resourceVersion"), None);
}

#[tokio::test(start_paused = true)]
async fn a_list_in_small_pages_holds_everything() {
    let server = windlass_apiserver::ApiServer::start();
    let client = crate::Client::new(server.client());
    for at in 0..25 {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("c{at:02}"));
        map.metadata.namespace = Some("default".into());
        client.api().create(&map).await.unwrap();
    }
    let options = CacheOptions::default().streaming(false).page_size(4);
    let cache = Cache::with(server.client(), options);
    let informer = cache.informer::<ConfigMap>(&Scope::default().namespace("default"));
    informer.synced(LONG).await.unwrap();
    assert_eq!(informer.reader().list().len(), 25);
}

#[tokio::test(start_paused = true)]
async fn the_first_list_asks_for_the_most_recent_state() {
    let fake = Fake::new([error(422, "Invalid"), list("10", &[object("a", 1)]), watch([])]);
    fake.informer(true).synced(LONG).await.unwrap();
    assert_eq!(fake.asked_for(1, "resourceVersion"), None, "{:?}", fake.asked());
    assert_eq!(fake.asked_for(1, "resourceVersionMatch"), None, "{:?}", fake.asked());
    assert_eq!(fake.asked_for(2, "resourceVersion").as_deref(), Some("10"));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_failed_is_tried_again_after_a_while() {
    let fake = Fake::new([
        Answer::Hang,
        list("10", &[object("a", 1)]),
        ending([Part::Wait(Duration::from_secs(290))]),
        ending([Part::Wait(Duration::from_secs(290))]),
        watch([Part::Wait(Duration::from_secs(30)), event("ERROR", &status(500, "InternalError"))]),
        watch([event("ADDED", &object("a", 1)), bookmark(11, true)]),
    ]);
    let informer = fake.informer(true);
    informer.store().wait_for(11, LONG).await.unwrap();
    assert_eq!(fake.asked_for(5, "sendInitialEvents").as_deref(), Some("true"));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_fails_for_one_kind_is_still_used_for_others() {
    let streamed = || watch([event("ADDED", &object("a", 1)), bookmark(11, true)]);
    let fake = Fake::new([Answer::Hang, list("10", &[object("a", 1)]), watch([]), streamed()]);
    let cache = fake.cache(true);
    let slow = cache.informer::<ConfigMap>(&Scope::default());
    slow.synced(LONG).await.unwrap();
    let other = cache.informer::<ConfigMap>(&Scope::default().namespace("n"));
    other.synced(LONG).await.unwrap();
    assert_eq!(fake.asked_for(3, "sendInitialEvents").as_deref(), Some("true"));
    assert_eq!((slow.stats().fallbacks, other.stats().fallbacks), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_syncs_at_its_bookmark_and_the_same_watch_continues() {
    let fake = Fake::new([watch([
        event("ADDED", &object("a", 1)),
        event("ADDED", &object("b", 2)),
        bookmark(5, false),
        event("MODIFIED", &object("a", 6)),
        event("DELETED", &object("b", 7)),
        Part::Wait(Duration::from_secs(1)),
        bookmark(8, true),
        event("ADDED", &object("c", 9)),
    ])]);
    let informer = fake.informer(true);
    let mut events = informer.subscribe();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(informer.state(), SyncState::Pending);
    assert!(informer.store().keys().is_empty(), "a list becomes visible as a whole");
    assert_eq!(take(&mut events, 2).await, ["initial a 6", "added c 9"]);
    assert_eq!(fake.asked().len(), 1);
    assert_eq!(fake.asked_for(0, "sendInitialEvents").as_deref(), Some("true"));
    assert_eq!(fake.asked_for(0, "resourceVersion"), None);
    assert_eq!(informer.store().resource_version(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_and_asked_again_next_time() {
    let fake = Fake::new([
        error(422, "Invalid"),
        list("10", &[]),
        watch([event("ERROR", &status(500, "InternalError"))]),
        error(422, "Invalid"),
        list("11", &[]),
        watch([]),
    ]);
    let informer = fake.informer(true);
    informer.store().wait_for(11, LONG).await.unwrap();
    assert_eq!(fake.asked_for(3, "sendInitialEvents").as_deref(), Some("true"));
    assert_eq!(informer.stats().fallbacks, 2);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_whose_end_never_comes_is_replaced_by_lists_from_then_on() {
    let fake = Fake::new([
        watch([event("ADDED", &object("a", 1)), bookmark(5, false)]),
        list("10", &[object("a", 1)]),
        watch([Part::Wait(Duration::from_secs(1)), event("ERROR", &status(500, "InternalError"))]),
        list("11", &[object("a", 1)]),
        watch([]),
    ]);
    let start = Instant::now();
    let informer = fake.informer(true);
    informer.synced(LONG).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    informer.store().wait_for(11, LONG).await.unwrap();
    assert_eq!(fake.asked_for(3, "sendInitialEvents"), None, "{:?}", fake.asked());
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_breaks_or_expires_is_begun_anew() {
    let fake = Fake::new([
        ending([event("ADDED", &object("gone", 1))]),
        watch([event("ERROR", &status(410, "Expired"))]),
        Answer::Refused,
        watch([event("ADDED", &object("a", 2)), bookmark(3, true)]),
    ]);
    let informer = fake.informer(true);
    informer.store().wait_for(3, LONG).await.unwrap();
    assert_eq!(informer.store().keys(), [key("a")]);
    assert_eq!(informer.stats().lists, 0);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_is_cut_every_time_is_replaced_by_lists_from_then_on() {
    for end in [vec![], vec![Part::Break]] {
        let cut = || ending([event("ADDED", &object("a", 1))].into_iter().chain(end.clone()));
        let fake = Fake::new([
            cut(),
            cut(),
            list("10", &[object("a", 1), object("b", 2)]),
            ending([Part::Wait(Duration::from_secs(2)), bookmark(11, false)]),
            error(500, "InternalError"),
            list("12", &[object("a", 1)]),
            watch([]),
        ]);
        let start = Instant::now();
        let informer = fake.informer(true);
        informer.states().wait_for(SyncState::synced).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert_eq!(informer.store().len(), 2);
        informer.store().wait_for(12, LONG).await.unwrap();
        assert_eq!(fake.asked_for(5, "sendInitialEvents"), None, "{:?}", fake.asked());
        assert_eq!(informer.stats().fallbacks, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_life_of_a_cluster_is_no_progress_of_a_streaming_list() {
    // The bookmark was swallowed; objects are changed, and now and then one is created.
    let mut life = vec![event("ADDED", &object("a", 1))];
    for at in 0..1000 {
        life.push(Part::Wait(Duration::from_secs(2)));
        life.push(event("MODIFIED", &object("a", 10 + 2 * at)));
        life.push(event("ADDED", &object(&format!("n{at}"), 11 + 2 * at)));
    }
    let fake = Fake::new([watch(life), list("5000", &[object("a", 1)]), watch([])]);
    let start = Instant::now();
    let informer = fake.informer(true);
    informer.states().wait_for(SyncState::synced).await.unwrap();
    assert!(start.elapsed() <= Duration::from_secs(40), "{:?}", start.elapsed());
    assert_eq!((informer.stats().fallbacks, informer.stats().lists), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_streaming_list_that_makes_progress_is_waited_for() {
    let mut slow = vec![Part::Wait(Duration::from_secs(9))];
    for at in 0..100 {
        slow.push(event("ADDED", &object(&format!("n{at}"), at + 1)));
        slow.push(Part::Wait(Duration::from_millis(500)));
    }
    slow.push(bookmark(200, true));
    let fake = Fake::new([watch(slow)]);
    let informer = fake.informer(true);
    informer.synced(LONG).await.unwrap();
    assert_eq!((informer.store().len(), informer.stats().fallbacks), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_without_any_answer_is_replaced_by_lists_from_then_on() {
    let fake = Fake::new([
        Answer::Hang,
        list("10", &[object("a", 1)]),
        watch([Part::Wait(Duration::from_secs(1)), event("ERROR", &status(500, "InternalError"))]),
        list("11", &[]),
        watch([]),
    ]);
    let start = Instant::now();
    let informer = fake.informer(true);
    informer.synced(LONG).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    informer.store().wait_for(11, LONG).await.unwrap();
    assert_eq!(fake.asked_for(3, "sendInitialEvents"), None);
}

#[tokio::test(start_paused = true)]
async fn a_relist_delivers_deletions_first_and_then_what_differs_by_key() {
    let expired = event("ERROR", &status(410, "Expired"));
    let first = [object("f", 4), object("b", 1), object("e", 3), object("c", 2)];
    let fake = Fake::new([
        list("10", &first),
        watch([Part::Wait(Duration::from_secs(1)), expired]),
        list("20", &[object("g", 17), object("e", 3), object("c", 16), object("a", 15)]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    let mut changes = informer.subscribe();
    let initial = ["initial b 1", "initial c 2", "initial e 3", "initial f 4"];
    assert_eq!(take(&mut changes, 4).await, initial);
    let relisted = [
        "deleted b 1 unseen",
        "deleted f 4 unseen",
        "added a 15",
        "updated c 2 -> 16",
        "added g 17",
    ];
    assert_eq!(take(&mut changes, 5).await, relisted);
    assert!(changes.try_recv().is_none(), "what is as before is not delivered");
}

#[tokio::test(start_paused = true)]
async fn a_relist_delivers_deletions_by_key_also_of_objects_that_this_process_has_written() {
    let fake = Fake::new([
        list("10", &[object("a", 1), object("b", 2), object("c", 3)]),
        watch([Part::Wait(Duration::from_secs(1)), event("ERROR", &status(410, "Expired"))]),
        list("20", &[]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    let mut changes = informer.subscribe();
    take(&mut changes, 3).await;
    informer.store().observe_write(object("a", 12).as_bytes()).unwrap();
    let deleted = ["deleted a 1 unseen", "deleted b 2 unseen", "deleted c 3 unseen"];
    assert_eq!(take(&mut changes, 3).await, deleted);
}
