//! Controllers: throughput, latency, many at once, the first reconcile.

use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench_harness::{
    Args, Lags, Meter, NAMESPACE, STAMP, command, memory, name, now_micros, ready, say,
};
use futures::StreamExt;
use futures::channel::mpsc;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::Outcome;

/// Counts up and wakes the task that waits for a number.
#[derive(Default)]
struct Tally {
    count: AtomicUsize,
    wanted: AtomicUsize,
    reached: Notify,
}

impl Tally {
    fn add(&self) {
        if self.count.fetch_add(1, Ordering::AcqRel) + 1 == self.wanted.load(Ordering::Acquire) {
            self.reached.notify_one();
        }
    }

    async fn reach(&self, wanted: usize) {
        self.wanted.store(wanted, Ordering::Release);
        while self.count.load(Ordering::Acquire) < wanted {
            self.reached.notified().await;
        }
    }
}

type Keys<K> = mpsc::UnboundedSender<ObjectRef<K>>;

/// Reconciles that do nothing but look at their object, again and again.
pub async fn throughput(client: Client, args: &Args) -> Outcome {
    let tally = Arc::new(Tally::default());
    let counted = tally.clone();
    let keys = run(client, args.number("workers", 4), move |pod: Arc<Pod>| {
        if pod.metadata.name.is_some() {
            counted.add();
        }
        async { Ok::<_, Infallible>(Action::await_change()) }
    });
    let size = args.number("size", 1000);
    tally.reach(size).await;
    let rounds = (args.number("total", 200_000) / size).max(1);
    let all = refs::<Pod>(size);
    let meter = Meter::start();
    for round in 1..=rounds {
        for key in &all {
            keys.unbounded_send(key.clone())?;
        }
        tally.reach(size * (round + 1)).await;
    }
    Ok(rate(&meter, rounds * size))
}

/// Reconciles that patch the status of their object once each.
pub async fn status(client: Client, args: &Args) -> Outcome {
    let (first, tally) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
    let token: Arc<Mutex<String>> = Arc::default();
    let (seen, counted, wanted) = (first.clone(), tally.clone(), token.clone());
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let keys = run(client, args.number("workers", 4), move |pod: Arc<Pod>| {
        let (first, tally, pods) = (seen.clone(), counted.clone(), pods.clone());
        let token = wanted.lock().map(|token| token.clone()).unwrap_or_default();
        async move {
            first.add();
            let message = pod.status.as_ref().and_then(|status| status.message.as_deref());
            if token.is_empty() || message == Some(&token) {
                return Ok::<_, kube::Error>(Action::await_change());
            }
            let patch = json!({ "status": { "message": token } });
            let params = PatchParams::default();
            pods.patch_status(&pod.name_any(), &params, &Patch::Merge(patch)).await?;
            tally.add();
            Ok(Action::await_change())
        }
    });
    let size = args.number("size", 1000);
    first.reach(size).await;
    if let Ok(mut token) = token.lock() {
        *token = format!("t{}", now_micros());
    }
    let meter = Meter::start();
    let patches = args.number("patches", size).min(size);
    for key in refs::<Pod>(patches) {
        keys.unbounded_send(key)?;
    }
    tally.reach(patches).await;
    Ok(rate(&meter, patches))
}

/// Returns how old a change is when its reconcile begins, and when that has read its object.
pub async fn latency(client: Client, args: &Args) -> Outcome {
    let lags = Arc::new(Mutex::new([Lags::default(), Lags::default()]));
    let (tally, noted) = (Arc::new(Tally::default()), lags.clone());
    let counted = tally.clone();
    let _keys = run(client, args.number("workers", 4), move |pod: Arc<Pod>| {
        // It is handed the object, and so has read it when it begins.
        let begun = now_micros();
        if let Ok(mut lags) = noted.lock() {
            let stamp = pod.labels().get(STAMP).map(String::as_str);
            for lags in lags.iter_mut() {
                lags.stamp_at(stamp, begun);
            }
        }
        counted.add();
        async { Ok::<_, Infallible>(Action::await_change()) }
    });
    tally.reach(args.number("size", 1000)).await;
    ready();
    spawn_blocking(command).await?;
    let meter = Meter::start();
    if let Ok(mut lags) = lags.lock() {
        *lags = Default::default();
    }
    spawn_blocking(command).await?;
    let (time, cpu) = meter.read();
    let mut lags = lags.lock().map_err(|_| "a reconcile panicked")?;
    let [begun, read] = &mut *lags;
    Ok(json!({
        "time_s": time, "cpu_s": cpu, "events": begun.len(),
        "lag": begun.summary(), "seen": begun.seen(), "seen_read": read.seen(),
    }))
}

/// Reconciles that wait: as many at once as there are keys, or fewer while the others are queued.
pub async fn inflight(client: Client, args: &Args) -> Outcome {
    let size = args.number("size", 32_000);
    let tally = Arc::new(Tally::default());
    let waiting = Arc::new(AtomicBool::new(false));
    let (counted, gate) = (tally.clone(), waiting.clone());
    let pause = Duration::from_millis(args.number("pause-ms", 100) as u64);
    let keys = run(client, args.number("workers", size), move |map: Arc<ConfigMap>| {
        let (tally, wait) = (counted.clone(), gate.load(Ordering::Acquire));
        async move {
            if map.metadata.namespace.as_deref() == Some(NAMESPACE) {
                if wait {
                    sleep(pause).await;
                }
                tally.add();
            }
            Ok::<_, Infallible>(Action::await_change())
        }
    });
    let objects = args.number("objects", 32_000);
    tally.reach(objects).await;
    waiting.store(true, Ordering::Release);
    let passes = (2 * objects / size).max(8);
    let mut meter = Meter::start();
    // Half of the passes warm up.
    for pass in 0..2 * passes {
        if pass == passes {
            meter = Meter::start();
        }
        for key in refs::<ConfigMap>(size) {
            keys.unbounded_send(key)?;
        }
        tally.reach(objects + (pass + 1) * size).await;
    }
    Ok(rate(&meter, passes * size))
}

/// Ends with the first reconcile; the time is measured by the parent process.
pub async fn first(client: Client, args: &Args) -> Outcome {
    let began = args.meter();
    let done = Arc::new(Notify::new());
    let first = done.clone();
    let _keys = run(client, 1, move |_: Arc<ConfigMap>| {
        first.notify_one();
        async { Ok::<_, Infallible>(Action::await_change()) }
    });
    done.notified().await;
    say(&json!({ "reconciled": true }));
    let (_, cpu) = began.read();
    let (rss, peak) = memory();
    Ok(json!({ "cpu_s": cpu, "rss_kb": rss, "peak_kb": peak }))
}

fn run<K, F, Fut, E>(client: Client, workers: usize, mut reconcile: F) -> Keys<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Debug + Unpin,
    F: FnMut(Arc<K>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Action, E>> + Send + 'static,
    E: std::error::Error + Send + 'static,
{
    let (sender, keys) = mpsc::unbounded();
    let workers = u16::try_from(workers).unwrap_or(u16::MAX);
    let controller = Controller::new(Api::<K>::all(client), watcher::Config::default())
        .with_config(Config::default().concurrency(workers))
        .reconcile_on(keys);
    let again = |_: Arc<K>, _: &E, _: Arc<()>| Action::requeue(Duration::from_secs(1));
    let running = controller.run(move |object, _| reconcile(object), again, Arc::new(()));
    tokio::spawn(running.for_each(|_| std::future::ready(())));
    sender
}

fn refs<K: Resource<DynamicType = ()>>(size: usize) -> Vec<ObjectRef<K>> {
    (0..size).map(|n| ObjectRef::new(&name(n)).within(NAMESPACE)).collect()
}

fn rate(meter: &Meter, done: usize) -> serde_json::Value {
    let (time, cpu) = meter.read();
    let (rss, peak) = memory();
    json!({
        "time_s": time, "cpu_s": cpu, "per_s": done as f64 / time, "done": done,
        "cpu_us_each": cpu * 1e6 / done as f64, "rss_kb": rss, "peak_kb": peak,
    })
}
