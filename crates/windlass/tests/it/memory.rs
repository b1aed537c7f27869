//! What a controller remembers about an object.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Predicate};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, eventually, key, manager};

/// How many values of [`Runs`] exist.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

/// Counts the runs of one object.
#[derive(Default)]
struct Runs {
    count: AtomicUsize,
    alive: Mutex<Option<Alive>>,
}

// === impl Runs ===

impl Runs {
    fn next(&self, alive: &Alive) -> usize {
        self.alive.lock().get_or_insert_with(|| {
            alive.0.fetch_add(1, Ordering::SeqCst);
            alive.clone()
        });
        self.count.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        if let Some(alive) = self.alive.lock().take() {
            alive.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Runs every second as long as the object exists.
fn counter(alive: &Alive, seen: &Arc<Mutex<Vec<String>>>) -> Controller<ConfigMap> {
    let (alive, seen) = (alive.clone(), seen.clone());
    Controller::<ConfigMap>::builder("counter")
        // No reconcile is queued for a deletion.
        .when(Predicate::new(|change| change.new.is_some()))
        .build(move |cx: Context<ConfigMap>| {
            let (alive, seen) = (alive.clone(), seen.clone());
            async move {
                let runs = cx.memory::<Runs>().next(&alive);
                seen.lock().push(format!("{} {runs}", cx.name()));
                Ok(if cx.object().is_some() { Next::After(SECOND) } else { Next::Done })
            }
        })
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn what_is_remembered_lasts_from_run_to_run_and_ends_with_its_object() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let (alive, seen) = (Alive::default(), Arc::default());
    let running = manager(&server).add(counter(&alive, &seen)).spawn().expect("starts");
    client.api().create(&config_map("a", &[])).await.expect("created");
    client.api().create(&config_map("b", &[])).await.expect("created");
    let has = |line: &str| seen.lock().iter().any(|seen| seen == line);
    eventually("three runs of each", || has("a 3") && has("b 3")).await;
    assert_eq!(alive.0.load(Ordering::SeqCst), 2);

    client.api::<ConfigMap>().delete(&key("a")).await.expect("deleted");
    eventually("the memory of a is dropped", || alive.0.load(Ordering::SeqCst) == 1).await;
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(alive.0.load(Ordering::SeqCst), 1, "the run that found no object left nothing");

    // Deleted and created between two runs: another object.
    seen.lock().clear();
    client.api::<ConfigMap>().delete(&key("b")).await.expect("deleted");
    client.api().create(&config_map("b", &[])).await.expect("created");
    eventually("the first run of the new object", || has("b 1")).await;
    eventually("its second run", || has("b 2")).await;
    assert_eq!(alive.0.load(Ordering::SeqCst), 1);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_during_its_reconcile_leaves_nothing_behind() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let (alive, deletes) = (Alive::default(), client.clone());
    let shown = alive.clone();
    let controller = Controller::<ConfigMap>::builder("deletes-itself")
        .when(Predicate::new(|change| change.new.is_some()))
        .build(move |cx: Context<ConfigMap>| {
            let (alive, client) = (shown.clone(), deletes.clone());
            async move {
                if cx.object().is_some() {
                    client.api::<ConfigMap>().delete(cx.key()).await?;
                    // Long enough for the deletion to be handled before anything is remembered.
                    tokio::time::sleep(SECOND).await;
                    cx.memory::<Runs>().next(&alive);
                }
                Ok(Next::Done)
            }
        });
    let running = manager(&server).add(controller).spawn().expect("starts");
    client.api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(client.api::<ConfigMap>().get(&key("a")).await.expect("read"), None);
    assert_eq!(alive.0.load(Ordering::SeqCst), 0);
    running.stop().await.expect("stops");
}
