//! The work queue by itself.

use std::time::Duration;

use bench_harness::{Args, Meter, NAMESPACE, name};
use serde_json::{Map, Value, json};
use windlass::Key;
use windlass::queue::{Work, WorkQueue};

use crate::Outcome;

/// The number of tasks that add, and of those that take, when there are several.
const TASKS: usize = 4;

/// Keys that a task takes before it lets others run, as the workers of controllers do.
const TURNS: usize = 32;

/// Which calls are made.
#[derive(Clone, Copy, PartialEq)]
enum Calls {
    /// Those of our controllers: keys are added by reference, and one is given back with taking
    /// the next.
    Own,
    /// Those that every queue has: a key of its own is added, one is taken, one is given back.
    Same,
}

/// Adds, gets and finishes keys: alone, in duplicate, delayed, and with several tasks. As our
/// controllers do it, and under names that begin with `same` by the calls of the others.
pub async fn queue(args: &Args) -> Outcome {
    let size = args.number("size", 10_000);
    let rounds = (args.number("total", 1_000_000) / size).max(1);
    let keys: Vec<Key> = (0..size).map(|n| Key::namespaced(NAMESPACE, &name(n))).collect();
    let ops = (rounds * size) as f64;
    let mut found = Map::new();
    for (calls, prefix) in [(Calls::Own, ""), (Calls::Same, "same_")] {
        let measured = [
            ("alone", alone(&keys, rounds, calls).await),
            ("merged", merged(&keys, rounds, calls)),
            ("delayed", delayed(&keys, rounds, calls).await),
            ("shared", shared(&keys, rounds, calls).await),
        ];
        for (what, (took, cpu)) in measured {
            found.insert(format!("{prefix}{what}_per_s"), json!(ops / took));
            found.insert(format!("{prefix}{what}_cpu_ns"), json!(cpu * 1e9 / ops));
        }
    }
    Ok(Value::Object(found))
}

async fn alone(keys: &[Key], rounds: usize, calls: Calls) -> (f64, f64) {
    let queue = WorkQueue::default();
    let meter = Meter::start();
    for _ in 0..rounds {
        add(&queue, keys, calls);
        take(&queue, keys.len(), calls).await;
    }
    meter.read()
}

fn merged(keys: &[Key], rounds: usize, calls: Calls) -> (f64, f64) {
    let queue = WorkQueue::default();
    let meter = Meter::start();
    for _ in 0..rounds {
        add(&queue, keys, calls);
    }
    meter.read()
}

async fn delayed(keys: &[Key], rounds: usize, calls: Calls) -> (f64, f64) {
    let queue = WorkQueue::default();
    let wait = Duration::from_millis(1);
    let meter = Meter::start();
    for _ in 0..rounds {
        for key in keys {
            match calls {
                Calls::Own => queue.add_after(key, wait),
                Calls::Same => queue.add_after(key.clone(), wait),
            }
        }
        take(&queue, keys.len(), calls).await;
    }
    meter.read()
}

/// Four tasks add, four work.
async fn shared(keys: &[Key], rounds: usize, calls: Calls) -> (f64, f64) {
    let queue = WorkQueue::default();
    let meter = Meter::start();
    for _ in 0..rounds {
        let share = keys.len() / TASKS;
        let workers: Vec<_> = (0..TASKS)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut left = share;
                    while left > 0 {
                        take(&queue, left.min(TURNS), calls).await;
                        left = left.saturating_sub(TURNS);
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        let adders: Vec<_> = keys
            .chunks(share)
            .take(TASKS)
            .map(|share| {
                let (queue, share) = (queue.clone(), share.to_vec());
                tokio::spawn(async move {
                    for key in &share {
                        add(&queue, std::slice::from_ref(key), calls);
                        tokio::task::consume_budget().await;
                    }
                })
            })
            .collect();
        for task in adders.into_iter().chain(workers) {
            task.await.expect("no task panics");
        }
    }
    meter.read()
}

fn add(queue: &WorkQueue<Key>, keys: &[Key], calls: Calls) {
    match calls {
        Calls::Own => keys.iter().for_each(|key| queue.add(key)),
        Calls::Same => keys.iter().for_each(|key| queue.add(key.clone())),
    }
}

/// Works off so many keys.
async fn take(queue: &WorkQueue<Key>, count: usize, calls: Calls) {
    let mut held: Option<Work<Key>> = None;
    for _ in 0..count {
        held = match calls {
            Calls::Own => held.and_then(Work::next),
            Calls::Same => {
                drop(held);
                None
            }
        };
        if held.is_none() {
            held = queue.get().await;
        }
    }
}
