//! How fast an operator is explored under faults.

use std::time::Duration;

use bench_harness::{Args, Meter};
use k8s_openapi::api::core::v1::Pod;
use memcached_operator::{Memcached, MemcachedSpec};
use serde_json::{Value, json};
use windlass::{Manager, Result};
use windlass_sim::{Explore, Sim};

/// Explores the Memcached operator for `--seconds` on one thread.
pub fn memcached(args: &Args) -> Value {
    let budget = Duration::from_secs(args.number("seconds", 20) as u64);
    let meter = Meter::start();
    let report = Explore::of("bench-memcached", scenario).budget(budget).jobs(1).run();
    let (time, cpu) = meter.read();
    let plans = report.ran.max(1) as f64;
    json!({
        "plans_per_s": plans / time, "cpu_s_per_plan": cpu / plans, "plans": report.ran,
        "failures": report.failures.len(), "requests": report.requests, "time_s": time,
    })
}

async fn scenario(sim: &mut Sim) -> Result<()> {
    sim.install::<Memcached>().operator(|client| {
        Manager::new(client).name("memcached-operator").add(memcached_operator::controller())
    });
    sim.apply(&Memcached::new("sample", MemcachedSpec { size: 3 })).await?;
    sim.settle("three pods").await?;
    sim.delete_any::<Pod>().await?;
    sim.settle("healed").await?;
    sim.merge::<Memcached>("sample", json!({"spec": {"size": 5}})).await?;
    sim.settle("five pods").await
}
