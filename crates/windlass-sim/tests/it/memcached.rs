//! The Memcached example under every single fault.

use k8s_openapi::api::core::v1::Pod;
use memcached_operator::{Memcached, MemcachedSpec, operator};
use serde_json::json;
use windlass::Result;
use windlass_sim::{Explore, Oracle, Sim};

async fn memcached(sim: &mut Sim) -> Result<()> {
    sim.runs(operator);
    sim.apply(&Memcached::new("sample", MemcachedSpec { size: 3 })).await?;
    sim.settle("three pods").await?;
    sim.delete_any::<Pod>().await?;
    sim.settle("healed").await?;
    sim.merge::<Memcached>("sample", json!({"spec": {"size": 5}})).await?;
    sim.settle("five pods").await?;
    sim.always("never more than six pods", |world| world.count::<Pod>() <= 6);
    sim.sometimes("five pods at once", |world| world.count::<Pod>() == 5);
    Ok(())
}

#[test]
fn memcached_survives_every_single_fault() {
    let report = Explore::of("memcached", memcached).stateless().all_singles().jobs(2).run();
    println!("{report}");
    println!("{:.1} plans per second", report.ran as f64 / report.elapsed.as_secs_f64());
    assert!(report.is_ok(), "\n{report}");
    assert_eq!((report.ran, report.plans), (report.singles, report.singles), "\n{report}");
    assert!(report.rejoined * 2 > report.ran, "few runs ended early\n{report}");
    assert!(report.unused.is_empty() && report.looked[&Oracle::Rbac] > 0, "\n{report}");
}
