//! The store: entries, relists, decoded objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, Expression, Selector};

use crate::cache::batch::Delta;
use crate::cache::mailbox::Mailbox;
use crate::cache::store::{StoreOptions, StoreScope};
use crate::cache::{Entry, Key, Store, select};

pub(super) fn store() -> Store {
    Store::detached(&ApiResource::erase::<ConfigMap>(&()))
}

pub(super) fn entry(
    store: &Store,
    namespace: &str,
    name: &str,
    version: u64,
    value: &str,
) -> Arc<Entry> {
    let json = json(namespace, name, version, value);
    store.read(json.as_bytes()).unwrap()
}

pub(super) fn json(namespace: &str, name: &str, version: u64, value: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u-{name}",
        "resourceVersion":"{version}","labels":{{"app":"{value}"}},
        "ownerReferences":[{{"apiVersion":"v1","kind":"X","name":"o","uid":"o-{value}"}}]}},
        "data":{{"v":"{value}"}}}}"#
    )
}

#[test]
fn labels_and_namespaces_select_without_decoding() {
    let store = store();
    store.apply([
        Delta::Upsert(entry(&store, "n", "a", 1, "x")),
        Delta::Upsert(entry(&store, "n", "b", 2, "y")),
        Delta::Upsert(entry(&store, "o", "c", 3, "x")),
    ]);
    let state = store.state();
    let count = |namespace, expression: Option<Expression>| {
        let selector: Selector = expression.into_iter().collect();
        let wanted = select::expressions(&selector);
        let matches = |entry: &&Arc<Entry>| select::matches_all(&wanted, entry.label_set());
        state.within(namespace).filter(matches).count()
    };
    assert_eq!(count(Some("n"), None), 2);
    assert_eq!(count(Some("nn"), None), 0);
    assert_eq!(count(None, Some(Expression::Equal("app".into(), "x".into()))), 2);
    assert_eq!(count(Some("n"), Some(Expression::NotEqual("app".into(), "x".into()))), 1);
    assert_eq!(count(None, Some(Expression::Exists("zone".into()))), 0);
    assert_eq!(count(None, Some(Expression::NotIn("zone".into(), ["a".into()].into()))), 3);
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
    assert_eq!(store.undecodable(), 1);
    assert_eq!(store.reader::<serde_json::Value>().list().len(), 1);
    store.apply([Delta::Upsert(store.read(odd.replace(r#""1""#, r#""2""#).as_bytes()).unwrap())]);
    assert!(reader.list().is_empty());
    assert_eq!(store.undecodable(), 2, "another version is another object");
}

#[test]
fn a_list_that_is_begun_anew_keeps_nothing_of_the_one_that_was_cut() {
    let store = store();
    let cut = entry(&store, "n", "a", 1, "x");
    let memory = Arc::downgrade(&cut);
    store.apply([Delta::Begin, Delta::Listed(cut)]);
    assert!(memory.upgrade().is_some() && store.len() == 0);
    store.apply([Delta::Begin]);
    assert!(memory.upgrade().is_none(), "a streaming list that fell back left its objects behind");
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
fn a_long_list_with_a_limit_does_not_evict_what_is_read_often() {
    let kind = ApiResource::erase::<ConfigMap>(&());
    let options = StoreOptions { decoded_max: 64, ..StoreOptions::default() };
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
fn decoded_objects_are_dropped_when_they_are_deleted_however_many_are_kept() {
    let kind = ApiResource::erase::<ConfigMap>(&());
    let options = StoreOptions { decoded_max: usize::MAX, ..StoreOptions::default() };
    let scope = StoreScope { namespaces: vec![None], ..StoreScope::default() };
    let store = Store::new(kind, options, scope, None);
    let mailbox = Arc::new(Mailbox::new());
    store.apply([Delta::Upsert(entry(&store, "n", "a", 1, "x"))]);
    store.subscribe(mailbox.clone());
    while mailbox.take().is_some() {}
    store.apply([Delta::Delete(entry(&store, "n", "a", 2, "x"))]);
    let change = mailbox.take().unwrap();
    // As a handler does that reads the last state.
    let last = Arc::downgrade(&change.object::<ConfigMap>().unwrap());
    assert_eq!(store.len(), 0);
    assert!(last.upgrade().is_none(), "still kept");
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
