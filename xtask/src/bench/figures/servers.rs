//! The API server and the cluster.

use super::look::{Look, Ratio};
use super::{Figure, Wanted, limit, ratio};

pub fn add(look: &Look<'_>, found: &mut Vec<Figure>) {
    let start = look.own("server-start", "/start_s", 1e3);
    found.push(limit("API server: process start to ready", "ms", 50.0, start));
    found.push(limit("API server in process", "ms", 5.0, look.embedded("/server_s", 1e3)));
    let idle = look.own("server-start", "/rss_kb", 1.0 / 1024.0);
    found.push(limit("API server: idle memory", "MB", 25.0, idle));
    let start = look.servers("server-start", "/start_s");
    found.push(ratio("start beside the real server", "", Wanted::Least(100.0), start));
    for (what, unit, wanted, scenario, pointer, by) in [
        ("any body of 3 MiB, CPU", "s", 2.0, "bodies", "/cpu_s", 1.0),
        ("another request beside any body of 3 MiB", "ms", 100.0, "bodies", "/wait_s", 1e3),
        (
            "memory of 10,000 connections of strangers",
            "MB",
            100.0,
            "strangers",
            "/added_kb",
            1.0 / 1024.0,
        ),
        ("restart with 100,000 objects", "s", 2.0, "restart", "/start_s", 1.0),
        (
            "data directory after a change of every object, over before",
            "×",
            3.0,
            "restart",
            "/data_over_first",
            1.0,
        ),
    ] {
        found.push(limit(
            &format!("API server: {what}"),
            unit,
            wanted,
            look.own(scenario, pointer, by),
        ));
    }
    for (what, scenario, pointer, wanted) in [
        ("creates/s beside the real server", "writes", "/create_per_s", 10.0),
        ("updates/s beside the real server", "writes", "/update_per_s", 10.0),
        ("watch fan-out beside the real server", "fanout", "/events_per_s", 5.0),
    ] {
        let times = look.servers(scenario, pointer).map(Ratio::turned);
        found.push(ratio(what, "", Wanted::Least(wanted), times));
    }
    let list = look.servers("list", "/list_s");
    found.push(ratio("list of pods beside the real server", "", Wanted::Least(3.0), list));
    for (what, unit, wanted, scenario, pointer, by) in [
        ("process start to ready", "ms", 150.0, "cluster-start", "/start_s", 1e3),
        ("Deployment of 3 ready", "ms", 50.0, "deployment", "/ready_s", 1e3),
        ("100 Deployments of 10 ready", "s", 3.0, "deployments", "/ready_s", 1.0),
        ("idle memory", "MB", 60.0, "cluster-start", "/rss_kb", 1.0 / 1024.0),
        ("idle CPU per second", "ms", 10.0, "cluster-start", "/idle_cpu", 1e3),
        ("namespace deleted", "ms", 100.0, "namespace", "/gone_s", 1e3),
    ] {
        let found_here = look.own(scenario, pointer, by);
        found.push(limit(&format!("cluster: {what}"), unit, wanted, found_here));
    }
}
