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
    for (what, pointer, wanted) in [
        ("event-to-reconcile p99", "/beyond/p99_us", twice),
        ("event-to-reconcile p90", "/beyond/p90_us", Wanted::Nothing),
        ("event-to-reconcile p50", "/beyond/p50_us", Wanted::Nothing),
        ("event-to-object-read p99", "/beyond_read/p99_us", Wanted::Nothing),
        ("change-to-reconcile p99, server included", "/lag/p99_us", Wanted::Nothing),
    ] {
        for peer in PEERS {
            let (what, who) = (format!("{what} beside {peer}"), ("windlass", peer));
            latency(look, found, &what, who, pointer, wanted);
        }
    }
    let (what, who) = ("p99 of a watcher that reconciles nothing", ("wire", PEERS[0]));
    let what = format!("{what} beside {}", PEERS[0]);
    latency(look, found, &what, who, "/beyond/p99_us", Wanted::Nothing);
    // A tenth is what the same run differs from itself.
    for (what, few, wanted) in [
        (
            "CPU of a reconcile with the most in flight over the least",
            "inflight",
            Wanted::Most(1.1),
        ),
        ("the same over the least for as many keys", "inflight-queued", Wanted::Nothing),
    ] {
        found.push(ratio(what, "ours", wanted, flight(look, few)));
    }
    admission(look, found);
    let cold = look.embedded("/reconcile_s", 1e3);
    found.push(limit("process start to first reconcile, embedded", "ms", 100.0, cold));
    finished(look, found);
}

/// What a finished operator may cost.
fn finished(look: &Look<'_>, found: &mut Vec<Figure>) {
    let of = |scenario, size, pointer| {
        let spread = look.at((scenario, "none", "windlass"), size, pointer)?;
        Some((spread.median, "in one process".to_owned()))
    };
    let cpu = of("children", 20, "/cpu_us");
    found.push(limit("CPU of a reconcile with 20 unchanged children", "µs", 200.0, cpu));
    let sent = of("children", 20, "/requests");
    found.push(limit("requests of reconciles with 20 unchanged children", "requests", 0.0, sent));
    let fair = of("fair", 10_000, "/fair_over_alone");
    found.push(limit("fifty tenants behind one with 10,000 keys, over alone", "×", 2.0, fair));
    let plan = look.at(("explore", "none", "windlass"), 0, "/cpu_s_per_plan");
    let plan = plan.map(|spread| (spread.median * 1e3, "one thread".to_owned()));
    found.push(limit("CPU of exploring one fault of the Memcached operator", "ms", 10.0, plan));
    for peer in ["controller-runtime", "controller-runtime, stripped"] {
        let what = format!("settled memory with ten of many Secrets referred to, beside {peer}");
        let sides = [("ours", "windlass"), ("ours", peer)];
        let beside = look.sizes("secrets", &sides, "/rss_kb").last().and_then(|size| {
            let at = |who| look.at(("secrets", "ours", who), *size, "/rss_kb");
            let place = super::super::metrics::place("secrets", "ours", *size);
            Some(Ratio::of(at("windlass")?, at(peer)?, place))
        });
        found.push(ratio(what, "ours", Wanted::Most(0.2), beside));
    }
}

/// A latency on both servers: the work of the real one falls into it where there are few cores.
fn latency(
    look: &Look<'_>,
    found: &mut Vec<Figure>,
    what: &str,
    (who, peer): (&str, &str),
    pointer: &str,
    wanted: Wanted,
) {
    for server in ["real", "ours"] {
        let beside = look.beside("latency", server, [who, peer], pointer, CLOCK_US);
        found.push(ratio(what, server, wanted, beside.map(Ratio::turned)));
    }
}

/// The latency of a webhook, at every number of connections.
fn admission(look: &Look<'_>, found: &mut Vec<Figure>) {
    let sides = ["windlass", "controller-runtime"];
    for (what, pointer) in [
        // Every connection has one call at a time, so the mean is the inverse of the rate.
        ("mean", "/per_s"),
        ("p50", "/call/p50_us"),
        ("p90", "/call/p90_us"),
        ("p99", "/call/p99_us"),
    ] {
        let what = format!("admission latency, {what}, beside controller-runtime");
        for size in look.sizes("admission", &sides.map(|one| ("none", one)), pointer) {
            let of = |who| look.at(("admission", "none", who), size, pointer);
            let place = format!("{} connections", thousands(size));
            let beside = of(sides[0]).zip(of(sides[1]));
            let beside = beside.map(|(one, other)| Ratio::of(one, other, place));
            let beside =
                beside.map(|ratio| if what.contains("mean") { ratio.turned() } else { ratio });
            found.push(ratio(what.clone(), "none", Wanted::Most(0.5), beside));
        }
    }
}

fn flight(look: &Look<'_>, few: &str) -> Option<Ratio> {
    let pointer = "/cpu_us_each";
    let sizes = |scenario| look.sizes(scenario, &[("ours", "windlass")], pointer);
    let (least, most) = (*sizes(few).first()?, *sizes("inflight").last()?);
    let each = |scenario, size| look.at((scenario, "ours", "windlass"), size, pointer);
    let place = format!("our server, {} over {}", thousands(most), thousands(least));
    Some(Ratio::of(each("inflight", most)?, each(few, least)?, place))
}
