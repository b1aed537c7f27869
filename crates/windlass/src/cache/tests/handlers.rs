use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::fake::{Fake, Part, bookmark, event, line, list, object, take, watch};
use crate::cache::{HandlerGuard, Key, Scope};
use crate::kind::Kind;

const LONG: Duration = Duration::from_secs(3600);

async fn synced(handler: &HandlerGuard) {
    handler.handled().wait_for(|handled| *handled).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_gets_the_current_state_exactly_once_and_then_the_changes() {
    let fake = Fake::new([
        list("10", &[object("a", 1), object("b", 2)]),
        watch([Part::Wait(Duration::from_secs(60)), event("MODIFIED", &object("a", 11))]),
    ]);
    let informer = fake.informer(false);
    informer.synced(LONG).await.unwrap();
    let mut late = informer.subscribe();
    assert_eq!(late.synced().now_or_never(), None);
    assert_eq!(take(&mut late, 2).await, ["initial a 1", "initial b 2"]);
    assert_eq!(take(&mut late, 1).await, ["updated a 1 -> 11"]);
    assert_eq!(late.synced().now_or_never(), Some(()));
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_synced_when_it_has_handled_the_first_list_even_an_empty_one() {
    let fake = Fake::new([list("10", &[]), watch([])]);
    let informer = fake.informer(false);
    let handler = informer.handle(None, std::future::ready(()), |_| {});
    tokio::time::timeout(LONG, synced(&handler)).await.unwrap();
    assert!(informer.state().synced());
}

#[tokio::test(start_paused = true)]
async fn changes_while_a_handler_is_busy_are_merged_into_one_with_the_last_state() {
    let fake = Fake::new([
        list("10", &[object("a", 1), object("b", 2), object("d", 3), object("e", 4)]),
        watch([
            Part::Wait(Duration::from_secs(1)),
            event("MODIFIED", &object("a", 11)),
            event("MODIFIED", &object("a", 12)),
            event("ADDED", &object("c", 13)),
            event("DELETED", &object("c", 14)),
            event("DELETED", &object("b", 15)),
            event("ADDED", &object("b", 16)),
            event("MODIFIED", &object("d", 17)),
            event("DELETED", &object("d", 18)),
            event("DELETED", &object("e", 19)),
        ]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    take(&mut events, 4).await;
    informer.store().wait_for(19, LONG).await.unwrap();
    assert_eq!(events.lag(), 5);
    let changes = take(&mut events, 6).await;
    assert_eq!(changes[..3], ["updated a 1 -> 12", "deleted c 14", "updated b 2 -> 16"]);
    let merged = ["updated d 3 -> 18", "deleted d 18", "deleted e 19"];
    assert_eq!(changes[3..], merged, "an update before a deletion is delivered as well");
    assert_eq!(events.lag(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_is_called_again() {
    let fake = Fake::new([list("10", &[object("a", 1), object("b", 2)]), watch([])]);
    let informer = fake.informer(false);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let handler = informer.handle(None, std::future::ready(()), move |event| {
        log.lock().push(line(&event));
        assert!(event.key().name() != "a", "refuses a");
    });
    synced(&handler).await;
    assert_eq!(*seen.lock(), ["initial a 1", "initial b 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_removed_is_not_called_any_more() {
    let fake = Fake::new([
        list("10", &[object("a", 1)]),
        watch([Part::Wait(Duration::from_secs(5)), event("MODIFIED", &object("a", 11))]),
    ]);
    let informer = fake.informer(false);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let handler = informer.handle(None, std::future::ready(()), move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    synced(&handler).await;
    drop(handler);
    informer.store().wait_for(11, LONG).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn each_handler_gets_resyncs_at_its_own_interval_and_others_do_not() {
    let fake = Fake::new([list("10", &[object("a", 1)]), watch([Part::Wait(LONG)])]);
    let informer = fake.informer(false);
    let mut often = informer.subscribe().resync(Duration::from_secs(10));
    let mut never = informer.subscribe();
    let start = Instant::now();
    assert_eq!(take(&mut often, 3).await, ["initial a 1", "resync a", "resync a"]);
    assert_eq!(start.elapsed(), Duration::from_secs(20));
    assert_eq!(take(&mut never, 1).await, ["initial a 1"]);
    assert!(never.try_recv().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_handler_reads_a_store_that_is_at_least_as_new_as_its_event() {
    let fake = Fake::new([
        list("10", &[]),
        watch([event("ADDED", &object("a", 11)), event("MODIFIED", &object("a", 12))]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    let change = events.recv().await.unwrap();
    let held = informer.store().entry(change.key()).unwrap();
    assert!(held.version() >= change.entry().version());
}

#[tokio::test(start_paused = true)]
async fn typed_dynamic_and_metadata_readers_are_views_of_one_watch() {
    let fake = Fake::new([watch([event("ADDED", &object("a", 1)), bookmark(2, true)])]);
    let cache = fake.cache(true);
    let typed = cache.informer::<ConfigMap>(&Scope::default());
    let kind = Kind::of::<ConfigMap>();
    let dynamic = cache.informer_of::<DynamicObject>(&kind, &Scope::default());
    let meta =
        cache.informer_of::<PartialObjectMeta<ConfigMap>>(&kind, &Scope::default().metadata_only());
    typed.synced(LONG).await.unwrap();
    let key = Key::namespaced("n", "a");
    assert_eq!(typed.reader().get(&key).unwrap().data.as_ref().unwrap()["v"], "1");
    assert_eq!(dynamic.reader().get(&key).unwrap().data["data"]["v"], "1");
    let meta = meta.reader().get(&key).unwrap();
    assert_eq!(meta.metadata.name.as_deref(), Some("a"));
    assert_eq!(meta.metadata.managed_fields, None);
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_last_holder_and_starts_again_when_needed() {
    let fake = Fake::new([
        list("10", &[object("a", 1)]),
        watch([]),
        list("20", &[object("b", 2)]),
        watch([]),
    ]);
    let cache = fake.cache(false);
    let first = cache.informer::<ConfigMap>(&Scope::default());
    let reader = first.reader();
    first.synced(LONG).await.unwrap();
    drop(first);
    assert_eq!(cache.states().len(), 1, "the reader holds the watch");
    drop(reader);
    assert!(cache.states().is_empty());
    let again = cache.informer::<ConfigMap>(&Scope::default());
    again.synced(LONG).await.unwrap();
    assert_eq!(again.store().keys(), [Key::namespaced("n", "b")]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_into_the_type_is_left_out_and_counted() {
    let odd = object("odd", 2).replace(r#"{"v":"2"}"#, r#"{"v":{}}"#);
    let fake = Fake::new([list("10", &[object("a", 1), odd]), watch([])]);
    let informer = fake.informer(false);
    informer.synced(LONG).await.unwrap();
    let reader = informer.reader();
    assert_eq!(reader.list().len(), 1);
    assert!(reader.get(&Key::namespaced("n", "odd")).is_none());
    assert_eq!(informer.stats().undecodable, 1);
    assert_eq!(informer.store().reader::<DynamicObject>().list().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_nothing_delays_neither_the_store_nor_other_handlers() {
    let changes = (11..3011).map(|version| event("MODIFIED", &object("a", version)));
    let fake = Fake::new([list("10", &[object("a", 1)]), watch(changes)]);
    let informer = fake.informer(false);
    let mut blocked = informer.subscribe();
    let mut other = informer.subscribe();
    informer.store().wait_for(3010, LONG).await.unwrap();
    assert_eq!(blocked.lag(), 1, "bounded by the objects, not by the events");
    assert_eq!(take(&mut other, 1).await, ["initial a 3010"]);
    assert_eq!(take(&mut blocked, 1).await, ["initial a 3010"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_metadata_becomes_one_of_whole_objects_when_these_are_wanted() {
    let partial = |name: &str, version: u64| {
        let whole: serde_json::Value = serde_json::from_str(&object(name, version)).unwrap();
        let meta = &whole["metadata"];
        format!(
            r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{meta}}}"#
        )
    };
    let fake = Fake::new([
        watch([event("ADDED", &partial("a", 1)), bookmark(2, true)]),
        watch([
            event("ADDED", &object("a", 1)),
            event("ADDED", &object("b", 3)),
            bookmark(4, true),
        ]),
    ]);
    let cache = fake.cache(true);
    let kind = Kind::of::<ConfigMap>();
    let meta =
        cache.informer_of::<PartialObjectMeta<ConfigMap>>(&kind, &Scope::default().metadata_only());
    meta.synced(LONG).await.unwrap();
    assert!(!meta.is_full());
    let mut events = meta.subscribe();
    assert_eq!(take(&mut events, 1).await, ["initial a 1"]);

    let whole = cache.informer::<ConfigMap>(&Scope::default());
    assert!(!whole.state().synced(), "not until the whole objects are there");
    whole.synced(LONG).await.unwrap();
    assert!(whole.is_full() && meta.is_full());
    let key = Key::namespaced("n", "a");
    assert_eq!(whole.reader().get(&key).unwrap().data.as_ref().unwrap()["v"], "1");
    assert_eq!(meta.reader().get(&key).unwrap().metadata.name.as_deref(), Some("a"));
    // An object that did not change is not delivered again.
    assert_eq!(take(&mut events, 1).await, ["added b 3"]);
    assert_eq!((cache.states().len(), fake.asked().len()), (1, 2), "one watch after the other");
    assert_eq!(whole.stats().watches, 2);
    assert!(Arc::ptr_eq(&whole.store().entry(&key).unwrap(), &meta.store().entry(&key).unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_resync_does_not_replace_a_change_that_waits() {
    let fake = Fake::new([
        list("10", &[object("a", 1), object("b", 2)]),
        watch([Part::Wait(Duration::from_secs(9)), event("MODIFIED", &object("a", 11))]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe().resync(Duration::from_secs(10));
    take(&mut events, 2).await;
    informer.store().wait_for(11, LONG).await.unwrap();
    events.resync_now();
    let mut changes = take(&mut events, 2).await;
    changes.sort();
    assert_eq!(changes, ["resync b", "updated a 1 -> 11"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_always_has_one_more_change_gets_resyncs_as_well() {
    let change =
        |version| [Part::Wait(Duration::from_millis(50)), event("MODIFIED", &object("a", version))];
    let fake = Fake::new([
        list("10", &[object("a", 1), object("b", 2)]),
        watch((11..1211).flat_map(change)),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe().resync(Duration::from_secs(1));
    let (began, mut changes, mut resyncs) = (Instant::now(), 0, 0);
    while began.elapsed() < Duration::from_secs(30) {
        match take(&mut events, 1).await[0].as_str() {
            "resync b" => resyncs += 1,
            _ => changes += 1,
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert!(changes > 200, "there was always one more: {changes}");
    assert!(resyncs >= 25, "{resyncs} resyncs in 30 s at an interval of a second");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_first_list_that_changes_before_it_is_taken_is_reported_as_initial() {
    let fake = Fake::new([
        list("10", &[object("a", 1), object("b", 2)]),
        watch([event("MODIFIED", &object("a", 11)), event("DELETED", &object("b", 12))]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    informer.store().wait_for(12, LONG).await.unwrap();
    assert_eq!(take(&mut events, 2).await, ["initial a 11", "deleted b 12"]);
}
