//! Indexes of a store.

use k8s_openapi::api::core::v1::ConfigMap;

use super::stores::{entry, store};
use crate::cache::batch::Delta;
use crate::cache::{Index, Key, Store};

pub(super) fn by_value() -> Index<ConfigMap, String> {
    Index::new("by-value", |map: &ConfigMap| {
        map.data.iter().flat_map(|data| data.values().cloned()).collect()
    })
}

pub(super) fn names(store: &Store, index: &Index<ConfigMap, String>, value: &str) -> Vec<String> {
    let found = store.reader::<ConfigMap>().by(index, &value.to_owned()).unwrap();
    found.iter().map(|object| Key::of(object).to_string()).collect()
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
    assert_eq!(found.iter().map(|map| Key::of(map).name().to_owned()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(store.index_panics(), 1);
}

#[test]
fn an_index_may_be_over_several_parts() {
    let store = store();
    let index = Index::new("app-and-name", |map: &ConfigMap| {
        let app = map.metadata.labels.as_ref().and_then(|labels| labels.get("app").cloned());
        app.map(|app| (app, map.metadata.name.clone().unwrap_or_default())).into_iter().collect()
    });
    let reader = store.reader::<ConfigMap>();
    let _guard = store.declare(&index).unwrap();
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
    let guards: Vec<_> = (0..100).map(|_| store.declare(&by_value()).unwrap()).collect();
    assert_eq!(
        store.indexes(),
        [("by-value".to_owned(), 1)],
        "one index, however often it is made"
    );
    let other = Index::new("by-value", |_: &ConfigMap| vec!["other".to_owned()]);
    let error = store.declare(&other).expect_err("the same name with another function");
    assert_eq!(
        error.to_string(),
        "index by-value of ConfigMap is declared twice with different functions: give one of them \
         another name"
    );
    let number = Index::new("by-value", |_: &ConfigMap| vec![7]);
    let number_guard = store.declare(&number).expect("another type of value is another index");
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
    let (go_on, continues) = std::sync::mpsc::channel::<()>();
    let (begun, continues) = (std::sync::Mutex::new(begun), std::sync::Mutex::new(continues));
    // Files the first object only when the watch has brought others.
    let slow = Index::new("slow", move |map: &ConfigMap| {
        if map.metadata.resource_version.as_deref() == Some("1") {
            begun.lock().unwrap().send(()).unwrap();
            continues.lock().unwrap().recv().unwrap();
        }
        map.data.iter().flat_map(|data| data.values().cloned()).collect::<Vec<String>>()
    });
    let reader = store.reader::<ConfigMap>();
    let guard = std::thread::scope(|scope| {
        let building = scope.spawn(|| store.declare(&slow).unwrap());
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
