//! The low level without controllers: a table of all autoscalers, kept up to date.
//!
//! An informer fills a store and delivers changes, a task queues the keys of what changed, and a
//! worker looks each object up, converts it to the newest version and puts its row into a table
//! that is written as a whole after every change. Runs on the embedded API server and ends by
//! itself: `cargo run -p windlass --example informer`.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler as OldScaler;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler as NewScaler, HorizontalPodAutoscalerSpec as NewSpec,
};
use parking_lot::Mutex;
use serde_json::json;
use windlass::cache::{Cache, FullStateStore, Index, Reader, Scope};
use windlass::queue::{Bucket, Exponential, WorkQueue};
use windlass::scheme::Scheme;
use windlass::{Client, Error, Key, Result};
use windlass_apiserver::ApiServer;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<()> {
    for table in run().await? {
        println!("{}", table.join(", "));
    }
    Ok(())
}

/// Returns every state that the table has had.
pub async fn run() -> Result<Vec<Vec<String>>> {
    let server = ApiServer::start();
    let client = Client::new(server.client());

    // The shared informer: a reflector lists and watches, a store holds what it finds.
    let cache = Cache::new(server.client());
    let by_target =
        Index::new("target", |scaler: &OldScaler| vec![scaler.spec.scale_target_ref.name.clone()]);
    cache.declare(&by_target)?;
    let scalers = cache.informer::<OldScaler>(&Scope::default().namespace("default"));
    let lister = scalers.reader();

    // A queue holds each key once, and delays those that fail: each key by itself, and all keys
    // together once more than 100 have failed at about the same time.
    let limiter = (Exponential::default(), Bucket::new(10.0, 100));
    let queue = Arc::new(WorkQueue::<Key>::with_limiter(limiter));
    let (adds, mut changes) = (queue.clone(), scalers.subscribe());
    tokio::spawn(async move {
        while let Some(change) = changes.recv().await {
            adds.add(change.key().clone());
        }
    });

    // Everything in one piece after every change.
    let tables = Arc::new(Mutex::new(Vec::new()));
    let written = tables.clone();
    let table = FullStateStore::new(move |rows: Vec<(Key, String)>| {
        written.lock().push(rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>());
    });

    let rows = || tables.lock().last().map_or(0, Vec::len);

    let scheme = scheme();
    for (name, max) in [("shop", 5), ("web", 3)] {
        client.api().create(&scaler(name, max)?).await?;
    }
    while rows() < 2 {
        work(&queue, &lister, &scheme, &table).await;
    }
    let found = lister.by(&by_target, &"web".to_string())?;
    assert_eq!(found.iter().map(Key::of).collect::<Vec<_>>(), [Key::namespaced("default", "web")]);

    client.api::<OldScaler>().delete(&Key::namespaced("default", "shop")).await?;
    while rows() > 1 {
        work(&queue, &lister, &scheme, &table).await;
    }
    Ok(std::mem::take(&mut *tables.lock()))
}

/// Brings one object that changed into the table.
async fn work(
    queue: &WorkQueue<Key>,
    lister: &Reader<OldScaler>,
    scheme: &Scheme,
    table: &FullStateStore<Key, String>,
) {
    let Some(work) = queue.get().await else { return };
    let key = Key::clone(&work);
    match row(queue, lister, scheme, &key) {
        Ok(Some(row)) => {
            table.insert(key.clone(), row);
            queue.forget(&key);
        }
        Ok(None) => table.remove(&key),
        Err(_) => {
            queue.add_rate_limited(key);
        }
    }
}

/// Returns the row of an object; `None` if it is deleted.
fn row(
    queue: &WorkQueue<Key>,
    lister: &Reader<OldScaler>,
    scheme: &Scheme,
    key: &Key,
) -> Result<Option<String>> {
    let Some(old) = lister.get(key) else { return Ok(None) };
    if queue.failures(key) == 0 {
        return Err(Error::other("the table is busy, as it always is at first"));
    }
    let new: NewScaler = scheme.decode(serde_json::to_value(&*old)?)?;
    let (min, max) = (new.spec.min_replicas.unwrap_or_default(), new.spec.max_replicas);
    Ok(Some(format!("{}: {min} to {max}", key.name())))
}

/// Knows both versions of an autoscaler, how one becomes the other, and the defaults.
fn scheme() -> Scheme {
    Scheme::default()
        .convert_with(|old: OldScaler| {
            let spec = NewSpec {
                min_replicas: old.spec.min_replicas,
                max_replicas: old.spec.max_replicas,
                ..NewSpec::default()
            };
            Ok(NewScaler { metadata: old.metadata, spec, status: None })
        })
        .default_with(|new: &mut NewScaler| {
            new.spec.min_replicas.get_or_insert(1);
        })
}

fn scaler(name: &str, max: u32) -> Result<OldScaler> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "maxReplicas": max,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        },
    }))?)
}
