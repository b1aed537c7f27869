//! Functions of the author that fail: only the object that they were called with is affected.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;

use super::fake::{Fake, Part, bookmark, error, event, list, object, take, watch};
use crate::cache::{Cache, CacheOptions, Informer, Key, Scope};

const LONG: Duration = Duration::from_secs(3600);

/// An informer whose transform does not take objects of these versions.
fn refusing(fake: &Fake, streaming: bool, versions: &'static [&str]) -> Informer<ConfigMap> {
    let options = CacheOptions::default().streaming(streaming).transform(move |value| {
        let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        assert!(!versions.contains(&version), "refuses {version}");
    });
    Cache::with(fake.client(), options).informer(&Scope::default())
}

#[tokio::test(start_paused = true)]
async fn a_deletion_counts_even_if_the_last_state_cannot_be_read() {
    let odd = object("c", 13).replace(r#""managedFields""#, r#""labels":[],"managedFields""#);
    let other = object("d", 14).replace("ConfigMap", "Table");
    let fake = Fake::new([
        list("10", &[object("a", 1), object("b", 2), object("c", 3), object("d", 4)]),
        watch([
            Part::Wait(Duration::from_secs(1)),
            event("DELETED", &object("a", 11)),
            event("MODIFIED", &object("b", 12)),
            event("DELETED", &odd),
            event("DELETED", &other),
            event("DELETED", &object("never-seen", 15)),
            bookmark(16, false),
        ]),
    ]);
    let informer = refusing(&fake, false, &["11", "12", "15"]);
    let mut events = informer.subscribe();
    take(&mut events, 4).await;
    informer.store().wait_for(16, LONG).await.unwrap();
    let kept: Vec<Key> = ["b", "d"].map(|name| Key::namespaced("n", name)).into();
    assert_eq!(informer.store().keys(), kept, "what is not deleted, or of another kind, stays");
    assert_eq!(take(&mut events, 2).await, ["deleted a 1 unseen", "deleted c 3 unseen"]);
    assert!(events.try_recv().is_none());
    assert_eq!(informer.stats().skipped, 5);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_cannot_be_read_counts_while_a_list_is_streamed() {
    let fake = Fake::new([watch([
        event("ADDED", &object("a", 1)),
        event("ADDED", &object("b", 2)),
        event("DELETED", &object("a", 3)),
        bookmark(4, true),
    ])]);
    let informer = refusing(&fake, true, &["3"]);
    informer.synced(LONG).await.unwrap();
    assert_eq!(informer.store().keys(), [Key::namespaced("n", "b")]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_ends_no_watch_and_is_counted() {
    let fake = Fake::new([
        error(500, "InternalError"),
        list("10", &[object("a", 1)]),
        watch([event("ADDED", &object("b", 11))]),
    ]);
    let options = CacheOptions {
        streaming: false,
        observe: Some(Arc::new(|_, _| panic!("looks away"))),
        ..CacheOptions::default()
    };
    let informer = Cache::with(fake.client(), options).informer::<ConfigMap>(&Scope::default());
    informer.store().wait_for(11, LONG).await.unwrap();
    assert_eq!(informer.store().len(), 2);
    assert_eq!(informer.stats().observer_panics, 3);
}
