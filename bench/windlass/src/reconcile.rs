//! Controllers: throughput, latency, many at once, the first reconcile.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bench_harness::{
    Args, Lags, Meter, NAMESPACE, STAMP, command, memory, name, now_micros, ready, say,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Client;
use serde_json::json;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use windlass::client::Patch;
use windlass::manager::Running;
use windlass::{Context, Controller, Key, Manager, Next, Object};

use crate::Outcome;

const CONTROLLER: &str = "bench";

/// Keys that wait in the channel of a controller; controller-runtime's has as much room.
const CHANNEL_MAX: usize = 1024;

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

/// Reconciles that do nothing, or nothing but look at their object, again and again.
pub async fn throughput(client: Client, args: &Args, read: bool) -> Outcome {
    let tally = Arc::new(Tally::default());
    let counted = tally.clone();
    let (sender, mut channel) = mpsc::channel(CHANNEL_MAX);
    let controller = Controller::<Pod>::builder(CONTROLLER)
        .workers(args.number("workers", 4))
        .source(futures::stream::poll_fn(move |cx| channel.poll_recv(cx)))
        .build(move |cx: Context<Pod>| {
            let tally = counted.clone();
            async move {
                if !read || cx.object().is_some() {
                    tally.add();
                }
                Ok(Next::Done)
            }
        });
    let _running = run(client, controller).await?;
    let size = args.number("size", 1000);
    tally.reach(size).await;
    let keys = keys(size);
    let rounds = (args.number("total", 200_000) / size).max(1);
    let meter = Meter::start();
    for round in 1..=rounds {
        for key in &keys {
            sender.send(key.clone()).await?;
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
    let (sender, mut channel) = mpsc::channel(CHANNEL_MAX);
    let controller = Controller::<Pod>::builder(CONTROLLER)
        .workers(args.number("workers", 4))
        .source(futures::stream::poll_fn(move |cx| channel.poll_recv(cx)))
        .build(move |cx: Context<Pod>| {
            let (first, tally) = (seen.clone(), counted.clone());
            let token = wanted.lock().map(|token| token.clone()).unwrap_or_default();
            async move {
                first.add();
                let Some(pod) = cx.object() else { return Ok(Next::Done) };
                let message = pod.status.as_ref().and_then(|status| status.message.as_deref());
                if token.is_empty() || message == Some(&token) {
                    return Ok(Next::Done);
                }
                let patch = Patch::Merge(json!({ "status": { "message": token } }));
                cx.client().api::<Pod>().subresource("status").patch(cx.key(), &patch).await?;
                tally.add();
                Ok(Next::Done)
            }
        });
    let _running = run(client, controller).await?;
    let size = args.number("size", 1000);
    first.reach(size).await;
    if let Ok(mut token) = token.lock() {
        *token = format!("t{}", now_micros());
    }
    let meter = Meter::start();
    let patches = args.number("patches", size).min(size);
    for key in keys(patches) {
        sender.send(key).await?;
    }
    tally.reach(patches).await;
    Ok(rate(&meter, patches))
}

/// Returns how old a change is when its reconcile begins, and when that has read its object.
pub async fn latency(client: Client, args: &Args) -> Outcome {
    let lags = Arc::new(Mutex::new([Lags::default(), Lags::default()]));
    let (tally, noted) = (Arc::new(Tally::default()), lags.clone());
    let counted = tally.clone();
    let controller = Controller::<Pod>::builder(CONTROLLER)
        .workers(args.number("workers", 4))
        .build(move |cx: Context<Pod>| {
            let begun = now_micros();
            let pod = cx.object();
            let read = now_micros();
            if let (Some(pod), Ok(mut lags)) = (pod, noted.lock()) {
                let labels = pod.metadata.labels.as_ref();
                let stamp = labels.and_then(|labels| labels.get(STAMP)).map(String::as_str);
                lags[0].stamp_at(stamp, begun);
                lags[1].stamp_at(stamp, read);
            }
            counted.add();
            async { Ok(Next::Done) }
        });
    let _running = run(client, controller).await?;
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
    let waiting = Arc::new(Semaphore::new(0));
    let (counted, gate) = (tally.clone(), waiting.clone());
    let pause = Duration::from_millis(args.number("pause-ms", 100) as u64);
    let (sender, mut channel) = mpsc::channel(CHANNEL_MAX);
    let controller = Controller::<ConfigMap>::builder(CONTROLLER)
        .workers(args.number("workers", size))
        .source(futures::stream::poll_fn(move |cx| channel.poll_recv(cx)))
        .build(move |cx: Context<ConfigMap>| {
            let (tally, gate) = (counted.clone(), gate.clone());
            async move {
                if cx.namespace() == Some(NAMESPACE) {
                    if gate.is_closed() {
                        sleep(pause).await;
                    }
                    tally.add();
                }
                Ok(Next::Done)
            }
        });
    let _running = run(client, controller).await?;
    let objects = args.number("objects", 32_000);
    tally.reach(objects).await;
    waiting.close();
    let keys = keys(size);
    let passes = (2 * objects / size).max(8);
    let mut meter = Meter::start();
    // Half of the passes warm up.
    for pass in 0..2 * passes {
        if pass == passes {
            meter = Meter::start();
        }
        for key in &keys {
            sender.send(key.clone()).await?;
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
    let controller = Controller::<ConfigMap>::builder(CONTROLLER).build(move |_| {
        first.notify_one();
        async { Ok(Next::Done) }
    });
    let running = Manager::new(client).add(controller).spawn()?;
    done.notified().await;
    say(&json!({ "reconciled": true }));
    let (_, cpu) = began.read();
    let (rss, peak) = memory();
    drop(running);
    Ok(json!({ "cpu_s": cpu, "rss_kb": rss, "peak_kb": peak }))
}

async fn run<K: Object>(client: Client, controller: Controller<K>) -> Result<Running, String> {
    let running = Manager::new(client).add(controller).spawn().map_err(|e| e.to_string())?;
    running.ready().await;
    Ok(running)
}

fn keys(size: usize) -> Vec<Key> {
    (0..size).map(|n| Key::namespaced(NAMESPACE, &name(n))).collect()
}

fn rate(meter: &Meter, done: usize) -> serde_json::Value {
    let (time, cpu) = meter.read();
    let (rss, peak) = memory();
    json!({
        "time_s": time, "cpu_s": cpu, "per_s": done as f64 / time, "done": done,
        "cpu_us_each": cpu * 1e6 / done as f64, "rss_kb": rss, "peak_kb": peak,
    })
}
