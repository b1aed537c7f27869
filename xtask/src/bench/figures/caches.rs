//! Caches and the work queue.

use super::super::metrics::place;
use super::super::stats::Spread;
use super::look::{Look, Ratio};
use super::{Figure, Wanted, ratio};

/// The peers that hold caches.
const PEERS: [&str; 2] = ["controller-runtime", "kube-rs"];

pub fn add(look: &Look<'_>, found: &mut Vec<Figure>) {
    floors(look, found);
    let server = look.server("sync");
    for (what, peer, pointer, wanted) in [
        ("initial sync time beside controller-runtime", "controller-runtime", "/time_s", 1.0),
        ("settled memory beside controller-runtime", "controller-runtime", "/rss_kb", 0.2),
        (
            "settled memory beside controller-runtime with managedFields dropped by hand",
            "controller-runtime, stripped",
            "/rss_kb",
            0.2,
        ),
        ("settled memory beside kube-rs", "kube-rs", "/rss_kb", 0.1),
    ] {
        let beside = look.ratio("sync", server, peer, pointer);
        found.push(ratio(what, server, Wanted::Most(wanted), beside));
    }
    streams(look, found);
    let spike = || {
        let server = look.server("relist");
        let size = look.size("relist", &[(server, "windlass")], "/spike_kb")?;
        let of = |pointer: &str| look.at(("relist", server, "windlass"), size, pointer);
        Some(Ratio::of(of("/spike_kb")?, of("/before_kb")?, place("relist", server, size)))
    };
    let what = "relist: spike over what was resident (no second copy)";
    found.push(ratio(what, server, Wanted::Most(0.5), spike()));
    queues(look, found);
}

/// The first sync beside what the wire alone takes. The promise is of the real server and of
/// JSON, which every client can read; the others show how much there is left to gain.
fn floors(look: &Look<'_>, found: &mut Vec<Figure>) {
    for (what, ways) in [
        ("fastest of the JSON lists", &["/list_s", "/fresh_s", "/stream_s"][..]),
        ("protobuf list", &["/protobuf_s"][..]),
    ] {
        for server in ["real", "ours"] {
            let wanted = match (server, ways.len()) {
                ("real", 2..) => Wanted::Most(1.3),
                _ => Wanted::Nothing,
            };
            let what = format!("initial sync over the wire floor ({what}, read and dropped)");
            found.push(ratio(what, server, wanted, floor(look, server, ways)));
        }
    }
}

fn floor(look: &Look<'_>, server: &str, ways: &[&str]) -> Option<Ratio> {
    let size = look.size("sync", &[(server, "windlass")], "/time_s")?;
    let ours = look.at(("sync", server, "windlass"), size, "/time_s")?;
    let wire = |pointer: &&str| look.at(("list", server, server), size, pointer);
    let faster = |one: &Spread, other: &Spread| one.median.total_cmp(&other.median);
    let fastest = ways.iter().filter_map(wire).min_by(faster)?;
    Some(Ratio::of(ours, fastest, place("sync", server, size)))
}

/// Events per CPU-second at the largest rate of each server. The promise is of handlers that
/// look at what changed; those that read the whole object are shown beside them.
fn streams(look: &Look<'_>, found: &mut Vec<Figure>) {
    for (scenario, what, wanted) in [
        ("stream", "events per CPU-second", Wanted::Least(2.0)),
        ("stream-typed", "events per CPU-second, whole pod read,", Wanted::Nothing),
    ] {
        for (peer, server) in PEERS.into_iter().flat_map(|peer| [(peer, "real"), (peer, "ours")]) {
            let beside = look.ratio(scenario, server, peer, "/cpu_us_per_event");
            let beside = beside.map(|beside| reached(look, scenario, server, beside.turned()));
            found.push(ratio(format!("{what} beside {peer}"), server, wanted, beside));
        }
    }
}

/// Names the rate that was reached where it is not the one that was asked for.
fn reached(look: &Look<'_>, scenario: &str, server: &str, mut ratio: Ratio) -> Ratio {
    let pointer = "/sent_rate";
    let Some(rate) = look.size(scenario, &[(server, "windlass")], pointer) else { return ratio };
    let sent = look.at((scenario, server, "windlass"), rate, pointer).map(|sent| sent.median);
    if let Some(sent) = sent.filter(|sent| *sent < rate as f64 * 0.95) {
        ratio.place.push_str(&format!(" asked for, {sent:.0} reached"));
    }
    ratio
}

fn queues(look: &Look<'_>, found: &mut Vec<Figure>) {
    for (what, name) in [
        ("one task", "alone"),
        ("duplicates", "merged"),
        ("delayed", "delayed"),
        ("eight tasks", "shared"),
    ] {
        let beside =
            |field: &str| look.ratio("queue", "none", "client-go", &format!("/{name}_{field}"));
        for (by, times) in [("CPU", beside("cpu_ns").map(Ratio::turned)), ("rate", beside("per_s"))]
        {
            let what = format!("work queue beside client-go: {what}, by {by}");
            found.push(ratio(what, "none", Wanted::Least(3.0), times));
        }
    }
}
