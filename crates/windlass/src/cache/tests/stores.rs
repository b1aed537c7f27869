use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, Expression, Selector};

use crate::cache::mailbox::{Mailbox, Notice};
use crate::cache::store::StoreScope;
use crate::cache::{Delta, Entry, Index, Key, Store, StoreOptions};

fn store() -> Store {
    Store::detached(&ApiResource::erase::<ConfigMap>(&()))
}

fn entry(store: &Store, namespace: &str, name: &str, version: u64, value: &str) -> Arc<Entry> {
    let json = json(namespace, name, version, value);
    store.read(json.as_bytes()).unwrap()
}

fn json(namespace: &str, name: &str, version: u64, value: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u-{name}",
        "resourceVersion":"{version}","labels":{{"app":"{value}"}},
        "ownerReferences":[{{"apiVersion":"v1","kind":"X","name":"o","uid":"o-{value}"}}]}},
        "data":{{"v":"{value}"}}}}"#
    )
}

fn by_value() -> Index<ConfigMap, String> {
    Index::new("by-value", |map: &ConfigMap| {
        map.data.iter().flat_map(|data| data.values().cloned()).collect()
    })
}

fn names(store: &Store, index: &Index<ConfigMap, String>, value: &str) -> Vec<String> {
    let found = store.reader::<ConfigMap>().by(index, &value.to_owned()).unwrap();
    found.iter().map(|object| object.key().to_string()).collect()
}

#[test]
fn an_index_follows_its_objects_and_may_be_added_late() {
    let store = store();
    let again = Index::new("late", |map: &ConfigMap| {
        map.data.iter().flat_map(|data| data.values().cloned()).collect()
    });
    let indexes = [by_value(), again];
    let _early = store.declare(&indexes[0]).unwrap();
    store.apply([
        Delta::Upsert(entry(&store, "n", "a", 1, "x")),
        Delta::Upsert(entry(&store, "n", "b", 2, "x")),
        Delta::Upsert(entry(&store, "m", "c", 3, "y")),
    ]);
    let _late = store.declare(&indexes[1]).unwrap();
    for index in &indexes {
        assert_eq!(names(&store, index, "x"), ["n/a", "n/b"]);
        assert_eq!(names(&store, index, "y"), ["m/c"]);
    }
    store.apply([
        Delta::Upsert(entry(&store, "n", "a", 4, "y")),
        Delta::Delete(entry(&store, "m", "c", 5, "y")),
    ]);
    for index in &indexes {
        assert_eq!(names(&store, index, "x"), ["n/b"]);
        assert_eq!(names(&store, index, "y"), ["n/a"]);
    }
}

#[test]
fn labels_owners_and_namespaces_select_without_decoding() {
    let store = store();
    store.apply([
        Delta::Upsert(entry(&store, "n", "a", 1, "x")),
        Delta::Upsert(entry(&store, "n", "b", 2, "y")),
        Delta::Upsert(entry(&store, "o", "c", 3, "x")),
    ]);
    let reader = store.reader::<ConfigMap>();
    let count = |namespace, expression: Option<Expression>| {
        let selector: Selector = expression.into_iter().collect();
        reader.select(namespace, &selector).len()
    };
    assert_eq!(count(Some("n"), None), 2);
    assert_eq!(count(Some("nn"), None), 0);
    assert_eq!(count(None, Some(Expression::Equal("app".into(), "x".into()))), 2);
    assert_eq!(count(Some("n"), Some(Expression::NotEqual("app".into(), "x".into()))), 1);
    assert_eq!(count(None, Some(Expression::Exists("zone".into()))), 0);
    assert_eq!(count(None, Some(Expression::NotIn("zone".into(), ["a".into()].into()))), 3);
}

#[test]
fn an_index_function_that_panics_leaves_out_its_object_only() {
    let store = store();
    let index = Index::new("odd", |map: &ConfigMap| {
        assert!(map.metadata.name.as_deref() != Some("a"), "refuses a");
        vec![1]
    });
    let _guard = store.declare(&index).unwrap();
    store.apply([
        Delta::Upsert(entry(&store, "n", "a", 1, "x")),
        Delta::Upsert(entry(&store, "n", "b", 2, "x")),
    ]);
    assert_eq!(store.len(), 2);
    let found = store.reader::<ConfigMap>().by(&index, &1).unwrap();
    assert_eq!(found.iter().map(|map| map.key().name()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(store.index_panics(), 1);
}

#[test]
fn an_unchanged_object_keeps_its_entry_over_a_relist() {
    let store = store();
    let relist = |version| {
        let listed = entry(&store, "n", "a", version, "x");
        store.apply([Delta::Begin, Delta::Listed(listed), Delta::Replace { version: 9 }]);
        store.entry(&Key::namespaced("n", "a")).unwrap()
    };
    let first = relist(1);
    assert!(Arc::ptr_eq(&first, &relist(1)));
    assert!(!Arc::ptr_eq(&first, &relist(2)));
}

#[test]
fn a_relist_that_is_given_up_changes_nothing() {
    let store = store();
    let a = entry(&store, "n", "a", 1, "x");
    store.apply([Delta::Begin, Delta::Listed(a), Delta::Replace { version: 1 }]);
    let b = entry(&store, "n", "b", 2, "x");
    store.apply([Delta::Begin, Delta::Listed(b)]);
    assert_eq!(store.len(), 1);
    store.apply([Delta::Begin, Delta::Replace { version: 3 }]);
    assert_eq!((store.len(), store.resource_version()), (0, 3));
}

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
    // The watch is behind: it tells of the old object first.
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
    // Somebody else created it and this process deleted it before the watch told of either.
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
async fn an_own_deletion_that_never_shows_does_not_hide_for_ever() {
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

#[test]
fn an_index_may_be_over_several_parts() {
    let store = store();
    let index = Index::new("app-and-name", |map: &ConfigMap| {
        let app = map.metadata.labels.as_ref().and_then(|labels| labels.get("app").cloned());
        app.map(|app| (app, map.metadata.name.clone().unwrap_or_default())).into_iter().collect()
    });
    let reader = store.reader::<ConfigMap>();
    let _guard = reader.declare(&index).unwrap();
    store.apply([
        Delta::Upsert(entry(&store, "n", "b", 1, "x")),
        Delta::Upsert(entry(&store, "n", "a", 2, "x")),
        Delta::Upsert(entry(&store, "n", "c", 3, "y")),
    ]);
    let pair = |app: &str, name: &str| (app.to_owned(), name.to_owned());
    assert_eq!(reader.by(&index, &pair("x", "a")).unwrap().len(), 1);
    assert_eq!(reader.by(&index, &pair("y", "a")).unwrap().len(), 0);
    assert_eq!(store.indexes(), [("app-and-name".to_owned(), 3)]);
}

#[test]
fn an_index_is_known_by_its_name_and_types_and_ends_with_its_last_guard() {
    let store = store();
    store.apply([Delta::Upsert(entry(&store, "n", "a", 1, "x"))]);
    let reader = store.reader::<ConfigMap>();
    let guards: Vec<_> = (0..100).map(|_| reader.declare(&by_value()).unwrap()).collect();
    assert_eq!(
        store.indexes(),
        [("by-value".to_owned(), 1)],
        "one index, however often it is made"
    );
    let other = Index::new("by-value", |_: &ConfigMap| vec!["other".to_owned()]);
    let error = reader.declare(&other).expect_err("the same name with another function");
    assert_eq!(
        error.to_string(),
        "index by-value of ConfigMap is declared twice with different functions: give one of them \
         another name"
    );
    let number = Index::new("by-value", |_: &ConfigMap| vec![7]);
    let number_guard = reader.declare(&number).expect("another type of value is another index");
    assert_eq!(reader.by(&number, &7).unwrap().len(), 1);
    drop((guards, number_guard));
    assert!(store.indexes().is_empty());
    let error = reader.by(&by_value(), &"x".to_owned()).expect_err("not declared any more");
    assert!(error.to_string().starts_with("index by-value of ConfigMap is not declared: "));
}

#[test]
fn the_watch_does_not_wait_for_an_index_that_is_built() {
    let store = store();
    store.apply([Delta::Upsert(entry(&store, "n", "a", 1, "x"))]);
    let (begun, begins) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let (begun, goes_on) = (std::sync::Mutex::new(begun), std::sync::Mutex::new(goes_on));
    // Files the first object only when the watch has brought others.
    let slow = Index::new("slow", move |map: &ConfigMap| {
        if map.metadata.resource_version.as_deref() == Some("1") {
            begun.lock().unwrap().send(()).unwrap();
            goes_on.lock().unwrap().recv().unwrap();
        }
        map.data.iter().flat_map(|data| data.values().cloned()).collect::<Vec<String>>()
    });
    let reader = store.reader::<ConfigMap>();
    let guard = std::thread::scope(|scope| {
        let building = scope.spawn(|| reader.declare(&slow).unwrap());
        begins.recv().unwrap();
        let upserts = (2..200).map(|n| entry(&store, "n", &format!("m{n}"), n, "y"));
        upserts.for_each(|upsert| store.apply([Delta::Upsert(upsert)]));
        store.apply([
            Delta::Delete(entry(&store, "n", "m2", 201, "y")),
            Delta::Upsert(entry(&store, "n", "a", 202, "z")),
        ]);
        assert_eq!(store.len(), 198, "the watch went on");
        go_on.send(()).unwrap();
        building.join().unwrap()
    });
    let count = |value: &str| reader.by(&slow, &value.to_owned()).unwrap().len();
    assert_eq!((count("x"), count("y"), count("z")), (0, 197, 1), "and the index caught up");
    drop(guard);
}

#[test]
fn objects_are_read_as_they_were_found() {
    use crate::cache::index::{self, IndexId};
    let store = store();
    let _owners = store.declare_entries(IndexId::owners(), Arc::new(index::owners)).unwrap();
    let reader = store.reader::<ConfigMap>();
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..5000 {
                let owner = if version % 2 == 0 { "x" } else { "y" };
                store.apply([Delta::Upsert(entry(&store, "n", "a", version, owner))]);
            }
            ended.store(true, Ordering::Relaxed);
        });
        while !ended.load(Ordering::Relaxed) {
            let found = index::find::<Arc<str>>(&store.state(), &IndexId::owners(), &"o-x".into());
            for map in reader.decode(found.unwrap(), None) {
                assert_eq!(map.data.as_ref().unwrap()["v"], "x", "it belongs to somebody else");
            }
        }
    });
}

#[test]
fn an_object_that_does_not_decode_is_counted_once_per_type_however_often_it_is_read() {
    let store = store();
    let odd = json("n", "odd", 1, "x").replace(r#""data":{"#, r#""data":[{"#).replace("}}}", "}]}");
    let odd = odd.replace(r#""x"}}"#, r#""x"}]}"#);
    store.apply([Delta::Upsert(store.read(odd.as_bytes()).unwrap())]);
    let reader = store.reader::<ConfigMap>();
    for _ in 0..3 {
        assert!(reader.list().is_empty());
    }
    assert_eq!((reader.undecodable(), store.undecodable()), (1, 1));
    assert_eq!(store.reader::<serde_json::Value>().list().len(), 1);
    store.apply([Delta::Upsert(store.read(odd.replace(r#""1""#, r#""2""#).as_bytes()).unwrap())]);
    assert!(reader.list().is_empty());
    assert_eq!(store.undecodable(), 2, "another version is another object");
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
    assert!(store.entry(&key).is_none(), "deleted here, whoever created it");
    let third = json("n", "a", 7, "x").replace("u-a", "u-third");
    store.apply([Delta::Upsert(store.read(third.as_bytes()).unwrap())]);
    assert_eq!(store.entry(&key).unwrap().uid(), "u-third", "and a later one is there");
}

#[test]
fn a_list_that_is_begun_anew_keeps_nothing_of_the_one_that_was_cut() {
    let store = store();
    let cut = entry(&store, "n", "a", 1, "x");
    let memory = Arc::downgrade(&cut);
    store.apply([Delta::Begin, Delta::Listed(cut)]);
    assert!(memory.upgrade().is_some() && store.is_empty());
    store.apply([Delta::Begin]);
    assert!(memory.upgrade().is_none(), "a streaming list that fell back left its objects behind");
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
    let scope = StoreScope { namespaces: vec![None], labels: Some(web), by_fields: false };
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
fn of_two_own_deletions_of_a_name_the_second_stays_when_the_watch_brings_the_first() {
    let (store, key) = (store(), Key::namespaced("n", "a"));
    let first = of_uid(&store, "first", 7);
    store.apply([Delta::Begin, Delta::Listed(first), Delta::Replace { version: 7 }]);
    // One hand deletes it, somebody creates another, a second hand writes and deletes that; the
    // second hand tells of its deeds first.
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

/// Counts how often an object is decoded.
struct Counted;

static DECODED: AtomicUsize = AtomicUsize::new(0);

impl<'de> serde::Deserialize<'de> for Counted {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED.fetch_add(1, Ordering::Relaxed);
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

#[test]
fn a_long_list_with_a_limit_does_not_push_out_what_is_read_all_the_time() {
    let kind = ApiResource::erase::<ConfigMap>(&());
    let options = StoreOptions { hot_max: 64, ..StoreOptions::default() };
    let scope = StoreScope { namespaces: vec![None], ..StoreScope::default() };
    let store = Store::new(kind, options, scope, None);
    let name = |n: u64| format!("m{n:03}");
    store.apply((0..500).map(|n| Delta::Upsert(entry(&store, "n", &name(n), n + 1, "x"))));
    let reader = store.reader::<Counted>();
    let read = || (400..464).for_each(|n| drop(reader.get(&Key::namespaced("n", &name(n)))));
    read();
    for _ in 0..3 {
        assert_eq!(reader.decode(store.entries(), Some(300)).len(), 300);
    }
    let before = DECODED.load(Ordering::Relaxed);
    read();
    assert_eq!(DECODED.load(Ordering::Relaxed), before, "nothing was decoded again");
}

#[test]
fn a_pinned_store_lets_go_of_decoded_objects_that_are_gone() {
    let kind = ApiResource::erase::<ConfigMap>(&());
    let options = StoreOptions { pinned: true, ..StoreOptions::default() };
    let scope = StoreScope { namespaces: vec![None], ..StoreScope::default() };
    let store = Store::new(kind, options, scope, None);
    let reader = store.reader::<ConfigMap>();
    let mailbox = Arc::new(Mailbox::new());
    store.apply([Delta::Upsert(entry(&store, "n", "a", 1, "x"))]);
    store.subscribe(mailbox.clone());
    while mailbox.take().is_some() {}
    store.apply([Delta::Delete(entry(&store, "n", "a", 2, "x"))]);
    let Some(Notice::Change(change)) = mailbox.take() else { panic!("a deletion") };
    // What a handler does that looks at the last state.
    let states = change.old.into_iter().chain([change.new]);
    let last: Vec<_> =
        states.map(|entry| Arc::downgrade(&reader.object_of(entry).get().unwrap())).collect();
    assert_eq!(store.len(), 0);
    assert!(last.iter().all(|object| object.upgrade().is_none()), "still kept");
}

#[test]
fn the_size_of_a_store_follows_its_objects() {
    let store = store();
    let sum = || store.entries().iter().map(|entry| entry.size()).sum::<usize>();
    for step in 0..4 {
        match step {
            0 => store.apply([Delta::Upsert(entry(&store, "n", "a", 1, "x"))]),
            1 => store.apply([Delta::Upsert(entry(&store, "n", "a", 2, "longer"))]),
            2 => store.observe_write(json("n", "b", 5, "own").as_bytes()).unwrap(),
            _ => store.observe_delete(&Key::namespaced("n", "a"), "u-a"),
        }
        assert_eq!(store.size(), sum(), "after step {step}");
    }
    store.observe_delete(&Key::namespaced("n", "b"), "u-b");
    assert_eq!(store.size(), 0);
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
