//! Transforms of objects.

use std::time::Duration;

use super::fake::{Fake, bookmark, event, list, object, watch};
use crate::cache::{Cache, CacheOptions, Key, Scope};
use k8s_openapi::api::core::v1::ConfigMap;

const LONG: Duration = Duration::from_secs(3600);

fn key(name: &str) -> Key {
    Key::namespaced("n", name)
}

#[tokio::test(start_paused = true)]
async fn a_transform_changes_objects_of_lists_and_events_before_they_are_stored() {
    let fake =
        Fake::new([list("10", &[object("a", 1)]), watch([event("ADDED", &object("b", 11))])]);
    let options = CacheOptions::default()
        .streaming(false)
        .transform(|value| value["data"] = serde_json::json!({"t": "yes"}));
    let informer = Cache::with(fake.client(), options).informer::<ConfigMap>(&Scope::default());
    informer.store().wait_for(11, LONG).await.unwrap();
    for object in informer.reader().list() {
        assert_eq!(object.data.as_ref().unwrap()["t"], "yes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_leaves_out_its_object_only() {
    let fake = Fake::new([list("10", &[object("a", 1), object("b", 2)]), watch([])]);
    let options = CacheOptions::default()
        .streaming(false)
        .transform(|value| assert!(value["metadata"]["name"] != "a", "refuses a"));
    let informer = Cache::with(fake.client(), options).informer::<ConfigMap>(&Scope::default());
    informer.synced(LONG).await.unwrap();
    assert_eq!(informer.store().keys(), [key("b")]);
    assert_eq!(informer.stats().skipped, 1);
}

#[tokio::test(start_paused = true)]
async fn an_own_write_is_transformed_like_everything_else() {
    let fake = Fake::new([list("10", &[]), watch([])]);
    let options = CacheOptions::default()
        .streaming(false)
        .transform(|value| value["data"] = serde_json::json!({"t": "yes"}));
    let informer = Cache::with(fake.client(), options).informer::<ConfigMap>(&Scope::default());
    informer.synced(LONG).await.unwrap();
    informer.store().observe_write(object("own", 11).as_bytes()).unwrap();
    let own = informer.reader().get(&key("own")).unwrap();
    assert_eq!(own.data.as_ref().unwrap()["t"], "yes");
}

#[tokio::test(start_paused = true)]
async fn a_transform_is_applied_within_a_streaming_list_too() {
    let fake = Fake::new([watch([
        event("ADDED", &object("a", 1)),
        event("MODIFIED", &object("a", 2)),
        bookmark(3, true),
    ])]);
    let options =
        CacheOptions::default().transform(|value| value["data"] = serde_json::json!({"t": "yes"}));
    let informer = Cache::with(fake.client(), options).informer::<ConfigMap>(&Scope::default());
    informer.synced(LONG).await.unwrap();
    assert_eq!(informer.reader().list()[0].data.as_ref().unwrap()["t"], "yes");
}
