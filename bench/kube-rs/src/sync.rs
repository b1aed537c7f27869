//! Reflectors: the first sync, the stream of changes, the list after a lost watch, reads.

use std::future::ready as now;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench_harness::{
    Args, Jumps, Lags, Meter, NAMESPACE, NODES, STAMP, command, memory, name, ready, reset_peak,
};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::Outcome;

/// Brings all pods into the store; `--strip 1` drops managedFields as its documentation advises.
pub async fn sync(client: Client, args: &Args) -> Outcome {
    let meter = args.meter();
    let strip = args.number("strip", 0) == 1;
    let store = follow(client, strip, args.number("streaming", 0) == 1, |_| {});
    store.wait_until_ready().await?;
    settled(&meter, args, store.len()).await
}

/// Brings the metadata of all pods into the store.
pub async fn sync_metadata(client: Client, args: &Args) -> Outcome {
    let meter = args.meter();
    let (store, writer) = reflector::store::<PartialObjectMeta<Pod>>();
    let pods = Api::<PartialObjectMeta<Pod>>::all(client);
    let events = watch(pods, watcher::Config::default());
    let running = events.default_backoff().reflect(writer).for_each(|_| now(()));
    tokio::spawn(running);
    store.wait_until_ready().await?;
    settled(&meter, args, store.len()).await
}

async fn settled(meter: &Meter, args: &Args, count: usize) -> Outcome {
    let (time, cpu) = meter.read();
    sleep(Duration::from_millis(args.number("settle-ms", 1000) as u64)).await;
    let (rss, peak) = memory();
    Ok(json!({
        "time_s": time, "cpu_s": cpu, "rss_kb": rss, "peak_kb": peak, "count": count,
    }))
}

/// Follows a stream of changes and notes how old each one is when it is seen.
pub async fn stream(client: Client, _args: &Args) -> Outcome {
    let lags = Arc::new(Mutex::new(Lags::default()));
    let noted = lags.clone();
    let store = follow(client, false, false, move |event| {
        if let (Event::Apply(pod), Ok(mut lags)) = (event, noted.lock()) {
            lags.stamp(pod.labels().get(STAMP).map(String::as_str));
        }
    });
    store.wait_until_ready().await?;
    ready();
    spawn_blocking(command).await?;
    let meter = Meter::start();
    if let Ok(mut lags) = lags.lock() {
        *lags = Lags::default();
    }
    spawn_blocking(command).await?;
    let (time, cpu) = meter.read();
    let mut lags = lags.lock().map_err(|_| "the handler panicked")?;
    let events = lags.len();
    Ok(json!({
        "time_s": time, "cpu_s": cpu, "events": events, "lag": lags.summary(),
        "cpu_us_per_event": cpu * 1e6 / events.max(1) as f64,
    }))
}

/// Lists again after the server has forgotten where the watch was.
pub async fn relist(client: Client) -> Outcome {
    let store = follow(client, false, false, |_| {});
    store.wait_until_ready().await?;
    sleep(Duration::from_secs(1)).await;
    let before = memory().0;
    reset_peak();
    ready();
    let meter = Meter::start();
    spawn_blocking(command).await?;
    let (_, cpu) = meter.read();
    let peak = memory().1;
    Ok(json!({
        "cpu_s": cpu, "before_kb": before, "peak_kb": peak, "rss_kb": memory().0,
        "spike_kb": peak.saturating_sub(before), "count": store.len(),
    }))
}

/// Reads objects by key: a thousand of them again and again, and any of them.
pub async fn get(client: Client, args: &Args) -> Outcome {
    let store = follow(client, false, false, |_| {});
    store.wait_until_ready().await?;
    let keys: Vec<ObjectRef<Pod>> =
        (0..store.len()).map(|n| ObjectRef::new(&name(n)).within(NAMESPACE)).collect();
    let rounds = args.number("rounds", 200_000);
    let hot = timed(&store, &keys[..keys.len().min(1000)], rounds);
    let any = timed(&store, &keys, rounds);
    Ok(json!({
        "hot_ns": hot.0, "any_ns": any.0, "hot_cpu_ns": hot.1, "any_cpu_ns": any.1, "count": keys.len(), "rss_kb": memory().0,
    }))
}

fn timed(store: &Store<Pod>, keys: &[ObjectRef<Pod>], rounds: usize) -> (f64, f64) {
    let mut jumps = Jumps::new(3);
    let meter = Meter::start();
    let mut named = 0;
    for _ in 0..rounds {
        let pod = store.get(&keys[jumps.below(keys.len())]);
        named += usize::from(pod.is_some_and(|pod| pod.metadata.name.is_some()));
    }
    assert_eq!(named, rounds);
    let (time, cpu) = meter.read();
    (time * 1e9 / rounds as f64, cpu * 1e9 / rounds as f64)
}

/// Lists the pods of a node; there is no index, so all are looked at.
pub async fn index(client: Client, args: &Args) -> Outcome {
    let store = follow(client, false, false, |_| {});
    store.wait_until_ready().await?;
    let rounds = args.number("rounds", 2_000) / 10;
    let (mut jumps, meter) = (Jumps::new(5), Meter::start());
    let (mut took, mut listed) = (Duration::ZERO, 0);
    for _ in 0..rounds {
        let node = format!("node-{}", jumps.below(NODES));
        let began = Instant::now();
        let on_node = |pod: &Pod| {
            pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(&node))
        };
        listed += store.state_filter(on_node).len();
        took += began.elapsed();
    }
    Ok(json!({
        "list_cpu_us": meter.read().1 * 1e6 / rounds as f64,
        "list_us": took.as_secs_f64() * 1e6 / rounds as f64,
        "each": listed as f64 / rounds as f64,
    }))
}

fn follow(
    client: Client,
    strip: bool,
    streaming: bool,
    mut seen: impl FnMut(&Event<Pod>) + Send + 'static,
) -> Store<Pod> {
    let (store, writer) = reflector::store::<Pod>();
    let config = match streaming {
        true => watcher::Config::default().streaming_lists(),
        false => watcher::Config::default(),
    };
    let events = watch(Api::<Pod>::all(client), config).default_backoff();
    let events = events.map_ok(move |event| match strip {
        true => event.modify(|pod| pod.managed_fields_mut().clear()),
        false => event,
    });
    let running = reflector::reflector(writer, events).for_each(move |event| {
        if let Ok(event) = &event {
            seen(event);
        }
        now(())
    });
    tokio::spawn(running);
    store
}
