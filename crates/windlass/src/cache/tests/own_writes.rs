//! Own writes in the store, before the watch shows them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, Expression, Selector};

use super::indexes::{by_value, names};
use super::stores::{entry, json, store};
use crate::cache::batch::Delta;
use crate::cache::store::{StoreOptions, StoreScope};
use crate::cache::{Entry, Key, Store};

#[test]
fn an_own_write_is_read_at_once_and_until_the_watch_has_it() {
    let store = store();
    let key = Key::namespaced("n", "a");
    let version = || store.entry(&key).map(|entry| entry.version());
    store.apply([Delta::Begin, Delta::Replace { version: 1 }]);
    let index = by_value();
    let _guard = store.declare(&index).unwrap();

    store.observe_write(json("n", "a", 5, "own").as_bytes()).unwrap();
    assert_eq!(version(), Some(5));
    assert_eq!(names(&store, &index, "own"), ["n/a"]);

    store.apply([Delta::Upsert(entry(&store, "n", "a", 4, "older"))]);
    assert_eq!(version(), Some(5), "an older event does not hide the write");
    store.apply([Delta::Upsert(entry(&store, "n", "a", 7, "newer"))]);
    assert_eq!(version(), Some(7));
    store.observe_write(json("n", "a", 6, "late").as_bytes()).unwrap();
    assert_eq!(version(), Some(7), "a write the watch is ahead of is not shown");
}

#[test]
fn an_own_deletion_is_read_at_once_and_a_new_object_of_that_name_is_seen() {
    let store = store();
    let key = Key::namespaced("n", "a");
    store.apply([Delta::Upsert(entry(&store, "n", "a", 4, "x"))]);
    store.observe_delete(&key, "u-a");
    assert!(store.entry(&key).is_none());
    store.apply([Delta::Upsert(entry(&store, "n", "a", 5, "x"))]);
    assert!(store.entry(&key).is_none(), "the last changes before the deletion");
    let other = json("n", "a", 8, "x").replace("u-a", "u-other");
    store.apply([Delta::Upsert(store.read(other.as_bytes()).unwrap())]);
    assert_eq!(store.entry(&key).unwrap().version(), 8);
}

#[test]
fn an_own_write_that_the_watch_never_shows_ends_with_a_bookmark_or_a_relist() {
    for end in
        [vec![Delta::Bookmark { version: 9 }], vec![Delta::Begin, Delta::Replace { version: 9 }]]
    {
        let store = store();
        store.observe_write(json("n", "a", 5, "own").as_bytes()).unwrap();
        assert_eq!(store.len(), 1);
        store.apply(end);
        assert_eq!(store.len(), 0);
    }
    let store = store();
    store.observe_write(json("n", "a", 5, "own").as_bytes()).unwrap();
    store.apply([Delta::Begin, Delta::Replace { version: 4 }]);
    assert_eq!(store.len(), 1, "a list from before the write does not hide it");
}

#[test]
fn an_object_created_anew_under_a_deleted_name_is_read_at_once() {
    let store = store();
    let key = Key::namespaced("n", "a");
    let uid = || store.entry(&key).map(|entry| entry.uid().to_owned());
    store.apply([Delta::Begin, Delta::Listed(entry(&store, "n", "a", 4, "x"))]);
    store.apply([Delta::Replace { version: 4 }]);
    store.observe_delete(&key, "u-a");
    let again = json("n", "a", 8, "own").replace("u-a", "u-new");
    store.observe_write(again.as_bytes()).unwrap();
    assert_eq!(uid().as_deref(), Some("u-new"));
    // The watch is behind: it reports the old object first.
    store.apply([Delta::Upsert(entry(&store, "n", "a", 5, "x"))]);
    assert_eq!(uid().as_deref(), Some("u-new"));
    store.apply([Delta::Delete(entry(&store, "n", "a", 7, "x"))]);
    assert_eq!(uid().as_deref(), Some("u-new"));
    store.apply([Delta::Upsert(store.read(again.as_bytes()).unwrap())]);
    assert_eq!(uid().as_deref(), Some("u-new"));
}

#[tokio::test(start_paused = true)]
async fn an_own_deletion_hides_what_the_watch_or_an_old_list_still_brings() {
    let store = store();
    let key = Key::namespaced("n", "a");
    store.apply([Delta::Begin, Delta::Replace { version: 1 }]);
    // Somebody else created it and this process deleted it before the watch reported either.
    store.observe_delete(&key, "u-a");
    store.apply([Delta::Upsert(entry(&store, "n", "a", 4, "x"))]);
    assert!(store.entry(&key).is_none());
    let a = entry(&store, "n", "a", 4, "x");
    store.apply([Delta::Begin, Delta::Listed(a), Delta::Replace { version: 4 }]);
    assert!(store.entry(&key).is_none(), "a list from before the deletion");
    store.apply([Delta::Begin, Delta::Replace { version: 6 }]);
    store.apply([Delta::Upsert(entry(&store, "n", "a", 7, "x"))]);
    assert!(store.entry(&key).is_some(), "the deletion was seen; this is another");
}

#[tokio::test(start_paused = true)]
async fn an_own_deletion_that_the_watch_never_reports_does_not_hide_for_ever() {
    let store = store();
    let key = Key::namespaced("n", "a");
    store.apply([Delta::Upsert(entry(&store, "n", "a", 4, "x"))]);
    store.observe_delete(&key, "u-a");
    store.apply([Delta::Bookmark { version: 9 }]);
    assert!(store.entry(&key).is_none());
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    store.apply([Delta::Bookmark { version: 10 }]);
    assert!(store.entry(&key).is_some());
}

#[test]
fn an_object_deleted_while_a_list_is_streamed_stays_deleted_under_an_own_write() {
    let store = store();
    let key = Key::namespaced("n", "a");
    let a = || entry(&store, "n", "a", 4, "x");
    store.apply([Delta::Begin, Delta::Listed(a()), Delta::Replace { version: 4 }]);
    store.apply([Delta::Begin, Delta::Listed(a())]);
    store.observe_write(json("n", "a", 5, "own").as_bytes()).unwrap();
    store.apply([Delta::Unlisted(key.clone()), Delta::Replace { version: 9 }]);
    assert!(store.entry(&key).is_none());
}

#[tokio::test(start_paused = true)]
async fn own_deletions_of_several_objects_of_one_name_are_all_remembered() {
    let store = store();
    let key = Key::namespaced("n", "a");
    store.apply([Delta::Upsert(entry(&store, "n", "a", 3, "x"))]);
    store.observe_delete(&key, "u-a");
    let second = json("n", "a", 5, "x").replace("u-a", "u-second");
    store.observe_write(second.as_bytes()).unwrap();
    store.observe_delete(&key, "u-second");
    let first = || entry(&store, "n", "a", 3, "x");
    store.apply([Delta::Begin, Delta::Listed(first()), Delta::Replace { version: 3 }]);
    assert!(store.entry(&key).is_none(), "a list from before all of it");
    store.apply([Delta::Upsert(first())]);
    assert!(store.entry(&key).is_none(), "an event from before all of it");
    store.apply([Delta::Upsert(store.read(second.as_bytes()).unwrap())]);
    assert!(store.entry(&key).is_none(), "the second one, which is deleted as well");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_others_that_follows_an_own_deletion_can_be_deleted_too() {
    let store = store();
    let key = Key::namespaced("n", "a");
    store.apply([Delta::Upsert(entry(&store, "n", "a", 3, "x"))]);
    store.observe_delete(&key, "u-a");
    // Somebody else creates another one, which is deleted here before the watch shows it.
    store.observe_delete(&key, "u-theirs");
    let theirs = json("n", "a", 5, "x").replace("u-a", "u-theirs");
    store.apply([
        Delta::Delete(entry(&store, "n", "a", 4, "x")),
        Delta::Upsert(store.read(theirs.as_bytes()).unwrap()),
    ]);
    assert!(store.entry(&key).is_none(), "deleted here, although somebody else created it");
    let third = json("n", "a", 7, "x").replace("u-a", "u-third");
    store.apply([Delta::Upsert(store.read(third.as_bytes()).unwrap())]);
    assert_eq!(store.entry(&key).unwrap().uid(), "u-third", "and a later one is there");
}

#[tokio::test(start_paused = true)]
async fn an_own_deletion_outlives_a_list_from_before_the_object_was_created() {
    let store = store();
    let key = Key::namespaced("n", "a");
    let created = json("n", "a", 5, "x");
    store.observe_write(created.as_bytes()).unwrap();
    store.observe_delete(&key, "u-a");
    store.apply([Delta::Begin, Delta::Replace { version: 3 }]);
    store.apply([Delta::Upsert(store.read(created.as_bytes()).unwrap())]);
    assert!(store.entry(&key).is_none(), "the watch is only now where it was created");
    store.apply([Delta::Delete(store.read(created.as_bytes()).unwrap())]);
    // A list that is new enough and does not name it ends the matter.
    store.observe_write(json("n", "b", 8, "x").as_bytes()).unwrap();
    store.observe_delete(&Key::namespaced("n", "b"), "u-b");
    store.apply([Delta::Begin, Delta::Replace { version: 9 }]);
    store.apply([Delta::Upsert(entry(&store, "n", "b", 8, "x"))]);
    assert!(store.entry(&Key::namespaced("n", "b")).is_some(), "a backup was restored");
}

#[test]
fn an_object_that_own_writes_take_out_of_the_selection_and_back_is_read_as_it_is() {
    let web = Selector::from(Expression::Equal("app".into(), "web".into()));
    let scope = StoreScope { namespaces: vec![None], labels: Some(web), ..StoreScope::default() };
    let kind = ApiResource::erase::<ConfigMap>(&());
    let store = Store::new(kind, StoreOptions::default(), scope, None);
    let key = Key::namespaced("n", "a");
    let version = || store.entry(&key).map(|entry| entry.version());
    let write =
        |version, app: &str| store.observe_write(json("n", "a", version, app).as_bytes()).unwrap();
    store.apply([Delta::Upsert(entry(&store, "n", "a", 3, "web"))]);
    write(5, "other");
    assert_eq!(version(), None, "out");
    write(7, "web");
    assert_eq!(version(), Some(7), "and back");
    write(6, "other");
    assert_eq!(version(), Some(7), "late news of what was before");
    write(9, "other");
    write(8, "web");
    assert_eq!(version(), None, "late news of what was before");
    // The watch shows its leaving as a deletion, and is behind.
    store.apply([Delta::Delete(entry(&store, "n", "a", 5, "web"))]);
    store.apply([Delta::Upsert(entry(&store, "n", "a", 7, "web"))]);
    assert_eq!(version(), None);
    store.apply([Delta::Delete(entry(&store, "n", "a", 9, "web"))]);
    write(11, "web");
    assert_eq!(version(), Some(11));
}

/// An object of a name that several share one after the other.
fn of_uid(store: &Store, uid: &str, version: u64) -> Arc<Entry> {
    let json = json("n", "a", version, "x").replace("u-a", uid);
    store.read(json.as_bytes()).unwrap()
}

#[test]
fn the_second_of_two_own_deletions_of_a_name_stays_when_the_watch_reports_the_first() {
    let (store, key) = (store(), Key::namespaced("n", "a"));
    let first = of_uid(&store, "first", 7);
    store.apply([Delta::Begin, Delta::Listed(first), Delta::Replace { version: 7 }]);
    // One hand deletes it, somebody creates another, a second hand writes and deletes that; the
    // second one's requests are observed first.
    let second = json("n", "a", 10, "own").replace("u-a", "second");
    store.observe_write(second.as_bytes()).unwrap();
    store.observe_delete(&key, "second");
    store.observe_delete(&key, "first");
    assert!(store.entry(&key).is_none());
    for delta in [
        Delta::Delete(of_uid(&store, "first", 8)),
        Delta::Upsert(of_uid(&store, "second", 9)),
        Delta::Upsert(of_uid(&store, "second", 10)),
        Delta::Delete(of_uid(&store, "second", 11)),
    ] {
        store.apply([delta]);
        assert!(store.entry(&key).is_none());
    }
    store.apply([Delta::Upsert(of_uid(&store, "third", 12))]);
    assert_eq!(store.entry(&key).unwrap().uid(), "third");
}

#[test]
fn an_older_own_deletion_that_is_observed_late_uncovers_nothing_older_than_what_was_read() {
    let (store, key) = (store(), Key::namespaced("n", "a"));
    store.apply([Delta::Begin, Delta::Replace { version: 2 }]);
    // The server: 3 creates the first object, 4 deletes it (own), 5 and 6 are somebody else's
    // second object, 9 creates the third one (own), 10 deletes it (own). The process observes its
    // first deletion last, and the watch is behind all of it.
    store.observe_write(json("n", "a", 9, "own").replace("u-a", "third").as_bytes()).unwrap();
    assert_eq!(store.entry(&key).unwrap().uid(), "third");
    store.observe_delete(&key, "third");
    store.observe_delete(&key, "first");
    for delta in [
        Delta::Upsert(of_uid(&store, "first", 3)),
        Delta::Delete(of_uid(&store, "first", 4)),
        Delta::Upsert(of_uid(&store, "second", 5)),
        Delta::Delete(of_uid(&store, "second", 6)),
        Delta::Upsert(of_uid(&store, "third", 9)),
        Delta::Delete(of_uid(&store, "third", 10)),
    ] {
        let text = format!("{delta:?}");
        store.apply([delta]);
        assert!(store.entry(&key).is_none(), "a read went back in time after {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_own_deletion_of_what_was_never_seen_hides_it_behind_an_older_object_of_its_name() {
    for relists in [false, true] {
        let (store, key) = (store(), Key::namespaced("n", "a"));
        store.apply([Delta::Begin, Delta::Replace { version: 1 }]);
        store.observe_delete(&key, "new");
        store.apply([Delta::Upsert(of_uid(&store, "old", 3))]);
        assert_eq!(store.entry(&key).unwrap().uid(), "old", "it is there, as far as is known");
        let late = json("n", "a", 8, "own").replace("u-a", "new");
        store.observe_write(late.as_bytes()).unwrap();
        assert!(
            store.entry(&key).is_none(),
            "what was there before an own write, and that is gone"
        );
        store.apply([Delta::Delete(of_uid(&store, "old", 4))]);
        assert!(store.entry(&key).is_none());
        let new = of_uid(&store, "new", 9);
        store.apply(match relists {
            false => vec![Delta::Upsert(new)],
            true => vec![Delta::Begin, Delta::Listed(new), Delta::Replace { version: 9 }],
        });
        assert!(store.entry(&key).is_none(), "an own deletion stays");
        tokio::time::advance(std::time::Duration::from_secs(61)).await;
        store.apply([Delta::Bookmark { version: 10 }]);
        assert!(store.entry(&key).is_some(), "but not for ever");
    }
}

#[test]
fn own_writes_outside_the_selection_are_forgotten_when_the_watch_has_passed_them() {
    let kind = ApiResource::erase::<ConfigMap>(&());
    let labels = Some(Expression::Equal("app".into(), "x".into()).into());
    let scope = StoreScope { namespaces: vec![None], labels, ..StoreScope::default() };
    let store = Store::new(kind, StoreOptions::default(), scope, None);
    store.apply([Delta::Begin, Delta::Replace { version: 1 }]);
    for n in 0..100 {
        let other = json("n", &format!("m{n}"), 10 + n, "other");
        store.observe_write(other.as_bytes()).unwrap();
    }
    assert_eq!((store.overlays(), store.len()), (100, 0));
    store.apply([Delta::Upsert(entry(&store, "n", "a", 60, "x"))]);
    assert_eq!(store.overlays(), 50, "what the watch has not reached yet stays");
    store.apply([Delta::Delete(entry(&store, "n", "a", 200, "x"))]);
    assert_eq!(store.overlays(), 0);
}
