//! Caches: the first sync, the stream of changes, the list after a lost watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bench_harness::{Args, Lags, Meter, STAMP, command, memory, ready, reset_peak};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use windlass::cache::{Cache, Scope};

use crate::Outcome;

const LONG: Duration = Duration::from_secs(600);

/// Brings all pods into the cache.
pub async fn sync(client: Client, args: &Args, metadata_only: bool) -> Outcome {
    let meter = args.meter();
    let scope = if metadata_only { Scope::default().metadata_only() } else { Scope::default() };
    let cache = Cache::new(client);
    let informer = cache.informer::<Pod>(&scope);
    informer.synced(LONG).await.map_err(|state| format!("not synced: {state:?}"))?;
    let (time, cpu) = meter.read();
    sleep(Duration::from_millis(args.number("settle-ms", 1000) as u64)).await;
    let (rss, peak) = memory();
    let stats = informer.stats();
    Ok(json!({
        "time_s": time, "cpu_s": cpu, "rss_kb": rss, "peak_kb": peak, "count": stats.objects,
        "store_bytes": stats.bytes, "fallbacks": stats.fallbacks,
    }))
}

/// Follows a stream of changes and notes how old each one is when its handler sees it.
pub async fn stream(client: Client, _args: &Args, typed: bool) -> Outcome {
    let cache = Cache::new(client);
    let informer = cache.informer::<Pod>(&Scope::default());
    let lags = Arc::new(std::sync::Mutex::new(Lags::default()));
    let (noted, undecoded) = (lags.clone(), Arc::new(AtomicU64::new(0)));
    let failed = undecoded.clone();
    let mut changes = informer.subscribe();
    let handled = changes.synced();
    tokio::spawn(async move {
        while let Some(change) = changes.recv().await {
            let (Some(_), Some(new)) = (&change.old, &change.new) else { continue };
            let stamp = new.labels().find(|(name, _)| *name == STAMP).map(|(_, value)| value);
            if typed && change.object::<Pod>().is_some_and(|pod| pod.spec.is_none()) {
                failed.fetch_add(1, Ordering::Relaxed);
            }
            if let Ok(mut lags) = noted.lock() {
                lags.stamp(stamp);
            }
            tokio::task::consume_budget().await;
        }
    });
    informer.synced(LONG).await.map_err(|state| format!("not synced: {state:?}"))?;
    handled.await;
    ready();
    spawn_blocking(command).await?;
    let meter = Meter::start();
    if let Ok(mut lags) = lags.lock() {
        *lags = Lags::default();
    }
    spawn_blocking(command).await?;
    let (time, cpu) = meter.read();
    let mut lags = lags.lock().map_err(|_| "a handler panicked")?;
    let events = lags.len();
    Ok(json!({
        "time_s": time, "cpu_s": cpu, "events": events, "lag": lags.summary(),
        "undecoded": undecoded.load(Ordering::Relaxed),
        "cpu_us_per_event": cpu * 1e6 / events.max(1) as f64,
    }))
}

/// Lists again after the server has forgotten where the watch was.
pub async fn relist(client: Client) -> Outcome {
    let cache = Cache::new(client);
    let informer = cache.informer::<Pod>(&Scope::default());
    informer.synced(LONG).await.map_err(|state| format!("not synced: {state:?}"))?;
    sleep(Duration::from_secs(1)).await;
    let before = memory().0;
    reset_peak();
    ready();
    let meter = Meter::start();
    spawn_blocking(command).await?;
    let (_, cpu) = meter.read();
    let peak = memory().1;
    let stats = informer.stats();
    Ok(json!({
        "cpu_s": cpu, "before_kb": before, "peak_kb": peak, "rss_kb": memory().0,
        "spike_kb": peak.saturating_sub(before),
        "count": stats.objects, "failures": stats.failures,
    }))
}
