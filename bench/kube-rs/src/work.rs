//! The scheduler, which is what kube-rs has for a work queue.

use std::time::Duration;

use bench_harness::{Args, Meter, NAMESPACE, name};
use futures::StreamExt;
use futures::channel::mpsc;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use serde_json::json;
use tokio::time::Instant;

use crate::Outcome;

/// Adds and takes keys; the scheduler has one owner, so there are no several hands.
pub async fn queue(args: &Args) -> Outcome {
    let size = args.number("size", 10_000);
    let rounds = (args.number("total", 1_000_000) / size).max(1);
    let keys: Vec<ObjectRef<Pod>> =
        (0..size).map(|n| ObjectRef::new(&name(n)).within(NAMESPACE)).collect();
    let ops = (rounds * size) as f64;
    let alone = pass(&keys, rounds, Duration::ZERO).await;
    let delayed = pass(&keys, rounds, Duration::from_millis(1)).await;
    let per_s = |(took, _): (f64, f64)| ops / took;
    let cpu = |(_, cpu): (f64, f64)| cpu * 1e9 / ops;
    Ok(json!({
        "alone_per_s": per_s(alone), "delayed_per_s": per_s(delayed),
        "alone_cpu_ns": cpu(alone), "delayed_cpu_ns": cpu(delayed),
    }))
}

async fn pass(keys: &[ObjectRef<Pod>], rounds: usize, delay: Duration) -> (f64, f64) {
    let (sender, requests) = mpsc::unbounded();
    let mut queue = Box::pin(scheduler(requests));
    let meter = Meter::start();
    for _ in 0..rounds {
        for key in keys {
            let request = ScheduleRequest { message: key.clone(), run_at: Instant::now() + delay };
            sender.unbounded_send(request).expect("the scheduler lives");
        }
        for _ in keys {
            queue.next().await.expect("the sender lives");
        }
    }
    meter.read()
}
