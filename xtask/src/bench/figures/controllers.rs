//! Controllers.

use super::super::metrics::thousands;
use super::look::{Look, Ratio};
use super::{Figure, Wanted, limit, ratio};

const PEERS: [&str; 2] = ["controller-runtime", "kube-rs"];

/// Below 20 µs the clock of another process is not to be trusted.
const CLOCK_US: f64 = 20.0;

pub fn add(look: &Look<'_>, found: &mut Vec<Figure>) {
    let twice = Wanted::Least(2.0);
    let server = look.server("reconcile-key");
    for (what, scenario) in [
        ("no-op reconciles/s", "reconcile-key"),
        ("reconciles/s that read their object", "reconcile"),
    ] {
        for peer in PEERS {
            let beside = look.ratio(scenario, server, peer, "/per_s");
            found.push(ratio(format!("{what} beside {peer}"), server, twice, beside));
        }
    }
    let server = look.server("latency");
    for (what, pointer) in [
        ("event-to-reconcile p99", "/lag/p99_us"),
        ("event-to-reconcile p99 beyond the wire", "/beyond/p99_us"),
    ] {
        for peer in PEERS {
            let beside = look.floored("latency", server, peer, pointer, CLOCK_US);
            let what = format!("{what} beside {peer}");
            found.push(ratio(what, server, twice, beside.map(Ratio::turned)));
        }
    }
    let what = "CPU of a reconcile with the most in flight over the least";
    // A tenth is what the same run differs from itself.
    found.push(ratio(what, "ours", Wanted::Most(1.1), flight(look)));
    let cold = look.embedded("/reconcile_s", 1e3);
    found.push(limit("process start to first reconcile, embedded", "ms", 100.0, cold));
}

fn flight(look: &Look<'_>) -> Option<Ratio> {
    let pointer = "/cpu_us_each";
    let sizes = look.sizes("inflight", &[("ours", "windlass")], pointer);
    let (least, most) = (*sizes.first()?, *sizes.last()?);
    let each = |size: usize| look.at(("inflight", "ours", "windlass"), size, pointer);
    let place = format!("our server, {} over {}", thousands(most), thousands(least));
    Some(Ratio::of(each(most)?, each(least)?, place))
}
