//! The work queue by itself.

use std::time::Duration;

use bench_harness::{Args, Meter, NAMESPACE, name};
use serde_json::json;
use windlass::Key;
use windlass::queue::WorkQueue;

use crate::Outcome;

/// Adds, gets and finishes keys: alone, in duplicate, delayed, and with several hands.
///
/// These make the calls that the others have as well. What our own worker does beyond them, it
/// adds by reference and gives a key back with taking the next, is measured under names of its own.
pub async fn queue(args: &Args) -> Outcome {
    let size = args.number("size", 10_000);
    let rounds = (args.number("total", 1_000_000) / size).max(1);
    let keys: Vec<Key> = (0..size).map(|n| Key::namespaced(NAMESPACE, &name(n))).collect();
    let ops = (rounds * size) as f64;
    let alone = alone(&keys, rounds).await;
    let merged = merged(&keys, rounds);
    let delayed = delayed(&keys, rounds).await;
    let shared = shared(&keys, rounds).await;
    let (stepped, borrowed) = (stepped(&keys, rounds), borrowed(&keys, rounds));
    let per_s = |(took, _): (f64, f64)| ops / took;
    let cpu = |(_, cpu): (f64, f64)| cpu * 1e9 / ops;
    Ok(json!({
        "alone_per_s": per_s(alone), "merged_per_s": per_s(merged),
        "delayed_per_s": per_s(delayed), "shared_per_s": per_s(shared),
        "alone_cpu_ns": cpu(alone), "merged_cpu_ns": cpu(merged),
        "delayed_cpu_ns": cpu(delayed), "shared_cpu_ns": cpu(shared),
        "stepped_cpu_ns": cpu(stepped), "borrowed_cpu_ns": cpu(borrowed),
    }))
}

async fn alone(keys: &[Key], rounds: usize) -> (f64, f64) {
    let queue = WorkQueue::new();
    let meter = Meter::start();
    for _ in 0..rounds {
        for key in keys {
            queue.add(key.clone());
        }
        for _ in keys {
            drop(queue.get().await);
        }
    }
    meter.read()
}

fn merged(keys: &[Key], rounds: usize) -> (f64, f64) {
    let queue = WorkQueue::new();
    let meter = Meter::start();
    for _ in 0..rounds {
        for key in keys {
            queue.add(key.clone());
        }
    }
    meter.read()
}

/// As `alone`, in steps from one key to the next.
fn stepped(keys: &[Key], rounds: usize) -> (f64, f64) {
    let queue = WorkQueue::<Key>::new();
    let meter = Meter::start();
    for _ in 0..rounds {
        keys.iter().for_each(|key| queue.add(key));
        let mut work = queue.try_get();
        while let Some(done) = work {
            work = done.next();
        }
    }
    meter.read()
}

/// As `merged`, by reference.
fn borrowed(keys: &[Key], rounds: usize) -> (f64, f64) {
    let queue = WorkQueue::<Key>::new();
    let meter = Meter::start();
    for _ in 0..rounds {
        keys.iter().for_each(|key| queue.add(key));
    }
    meter.read()
}

async fn delayed(keys: &[Key], rounds: usize) -> (f64, f64) {
    let queue = WorkQueue::new();
    let meter = Meter::start();
    for _ in 0..rounds {
        for key in keys {
            queue.add_after(key.clone(), Duration::from_millis(1));
        }
        for _ in keys {
            drop(queue.get().await);
        }
    }
    meter.read()
}

/// Four tasks add, four work.
async fn shared(keys: &[Key], rounds: usize) -> (f64, f64) {
    const HANDS: usize = 4;
    let queue = WorkQueue::new();
    let meter = Meter::start();
    for _ in 0..rounds {
        let workers: Vec<_> = (0..HANDS)
            .map(|_| {
                let (queue, share) = (queue.clone(), keys.len() / HANDS);
                tokio::spawn(async move {
                    for _ in 0..share {
                        drop(queue.get().await);
                        tokio::task::consume_budget().await;
                    }
                })
            })
            .collect();
        let adders: Vec<_> = keys
            .chunks(keys.len() / HANDS)
            .take(HANDS)
            .map(|share| {
                let (queue, share) = (queue.clone(), share.to_vec());
                tokio::spawn(async move {
                    for key in share {
                        queue.add(key);
                        tokio::task::consume_budget().await;
                    }
                })
            })
            .collect();
        for task in adders.into_iter().chain(workers) {
            task.await.expect("no hand panics");
        }
    }
    meter.read()
}
