//! Reads from the cache.

use std::time::{Duration, Instant};

use bench_harness::{Args, Jumps, Meter, NAMESPACE, NODES, memory, name};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::json;
use windlass::Key;
use windlass::cache::{Cache, Index, Informer, Reader, Scope};

use crate::Outcome;

/// Reads objects by key: a thousand of them again and again, and any of them.
pub async fn get(client: Client, args: &Args) -> Outcome {
    let informer = synced(&Cache::new(client)).await?;
    let (pods, store) = (informer.reader(), informer.store());
    let keys: Vec<Key> =
        (0..informer.stats().objects).map(|n| Key::namespaced(NAMESPACE, &name(n))).collect();
    let rounds = args.number("rounds", 200_000);
    let hot = timed(&pods, &keys[..keys.len().min(1000)], rounds);
    let any = timed(&pods, &keys, rounds / 4);
    let mut jumps = Jumps::new(7);
    let began = Instant::now();
    let mut found = 0;
    for _ in 0..rounds {
        found += usize::from(store.entry(&keys[jumps.below(keys.len())]).is_some());
    }
    let bare = began.elapsed().as_nanos() as f64 / rounds as f64;
    Ok(json!({
        "hot_ns": hot.0, "any_ns": any.0, "hot_cpu_ns": hot.1, "any_cpu_ns": any.1, "undecoded_ns": bare, "found": found,
        "count": keys.len(), "rss_kb": memory().0,
    }))
}

fn timed(pods: &Reader<Pod>, keys: &[Key], rounds: usize) -> (f64, f64) {
    let mut jumps = Jumps::new(3);
    // The first round warms up.
    for key in keys.iter().take(rounds) {
        assert!(pods.get(key).is_some(), "{key} is there");
    }
    let meter = Meter::start();
    let mut named = 0;
    for _ in 0..rounds {
        let pod = pods.get(&keys[jumps.below(keys.len())]);
        named += usize::from(pod.is_some_and(|pod| pod.metadata.name.is_some()));
    }
    assert_eq!(named, rounds);
    let (time, cpu) = meter.read();
    (time * 1e9 / rounds as f64, cpu * 1e9 / rounds as f64)
}

/// Lists the pods of a node through an index.
pub async fn index(client: Client, args: &Args) -> Outcome {
    let cache = Cache::new(client);
    let informer = synced(&cache).await?;
    let pods = informer.reader();
    let began = Instant::now();
    let by_node = Index::new("node", |pod: &Pod| {
        pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).into_iter().collect()
    });
    cache.declare(&by_node)?;
    let build = began.elapsed().as_secs_f64();
    let rounds = args.number("rounds", 2_000);
    let (mut jumps, meter) = (Jumps::new(5), Meter::start());
    let (mut typed, mut bare, mut listed) = (Duration::ZERO, Duration::ZERO, 0);
    for _ in 0..rounds {
        let node = format!("node-{}", jumps.below(NODES));
        let began = Instant::now();
        listed += pods.by(&by_node, &node)?.len();
        typed += began.elapsed();
        let began = Instant::now();
        cache.list::<Pod>().by(&by_node, node).keys()?;
        bare += began.elapsed();
    }
    let cpu = meter.read().1 * 1e6 / rounds as f64;
    let each = |took: Duration| took.as_secs_f64() * 1e6 / rounds as f64;
    Ok(json!({
        "list_us": each(typed), "list_cpu_us": cpu, "undecoded_us": each(bare), "build_s": build,
        "each": listed as f64 / rounds as f64,
    }))
}

async fn synced(cache: &Cache) -> Result<Informer<Pod>, String> {
    let informer = cache.informer::<Pod>(&Scope::default());
    let long = Duration::from_secs(600);
    informer.synced(long).await.map_err(|state| format!("not synced: {state:?}"))?;
    Ok(informer)
}
