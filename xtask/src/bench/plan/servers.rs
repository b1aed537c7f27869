//! The servers themselves, and the cluster.

use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::record::Record;
use super::super::server::Server;
use super::contest::load_tool;
use super::{Plan, ServerKind};
use crate::peers::scratch::Scratch;

/// What servers are measured by.
pub const SERVERS: &[&str] =
    &["server-start", "writes", "fanout", "cel", "bodies", "strangers", "crds"];

/// What a server with a data directory is measured by; ours alone.
pub const DURABLE: &[&str] = &["restart"];

/// Of all these, what is asked of our server alone.
pub const OURS: &[&str] = &["bodies", "strangers", "restart"];

/// What clusters are measured by.
pub const CLUSTER: &[&str] = &["cluster-start", "deployment", "deployments", "namespace"];

/// Of these, what the real one can do: it has no kubelet, so nothing becomes ready there.
const REAL_CLUSTER: &[&str] = &["namespace"];

/// Measures servers, round by round, each on a fresh one.
pub fn run(plan: &Plan<'_>, record: &mut Record) {
    for _ in 0..plan.options.rounds {
        for kind in plan.kinds() {
            plan_server(plan, kind, record);
        }
        for kind in plan.kinds() {
            cluster(plan, kind, record);
        }
        if plan.wants("restart") {
            let size = if plan.options.quick { 1000 } else { 100_000 };
            record.add(("restart", "ours", "ours"), 0, restart(plan, size));
        }
    }
}

/// Fills a data directory, changes every object once, and starts again on it.
fn restart(plan: &Plan<'_>, size: usize) -> Result<Value, String> {
    let folder = Scratch::new()?;
    let data = folder.join("data");
    let first = Server::durable(plan.tools, &data)?;
    let range =
        [("kind", "configmaps".to_owned()), ("from", "0".to_owned()), ("to", size.to_string())];
    load_tool(plan, &first, "load", &range)?;
    let live = folder_size(&data);
    load_tool(plan, &first, "touch", &[("size", size.to_string())])?;
    let written = folder_size(&data);
    drop(first);
    let second = Server::durable(plan.tools, &data)?;
    let check = [("size", size.to_string())];
    load_tool(plan, &second, "count", &check)?;
    Ok(json!({
        "objects": size, "start_s": second.start_s, "rss_kb": second.usage().0,
        "data_bytes": written, "data_over_first": written as f64 / live.max(1) as f64,
    }))
}

/// The bytes of all files of a folder.
fn folder_size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
}

fn plan_server(plan: &Plan<'_>, kind: ServerKind, record: &mut Record) {
    if !plan.wants_any(SERVERS) {
        return;
    }
    let (name, quick) = (kind.name(), plan.options.quick);
    let Some(server) = plan.server(kind, false, SERVERS, record) else { return };
    if plan.wants("server-start") {
        record.add(("server-start", name, name), 0, Ok(rest(&server)));
    }
    let mut measure = |scenario: &str, size: usize, extra: &[(&str, String)]| {
        if plan.wants(scenario) {
            let (_, before) = server.usage();
            let result = load_tool(plan, &server, scenario, extra).map(|mut result| {
                result["server_cpu_s"] = json!(server.usage().1 - before);
                result
            });
            record.add((scenario, name, name), size, result);
        }
    };
    let count = if quick { 200 } else { 2000 };
    for connections in [1, 4, 16] {
        let count = if connections == 1 { count / 4 } else { count };
        let extra = [("size", count.to_string()), ("connections", connections.to_string())];
        measure("writes", connections, &extra);
    }
    for watchers in if quick { [2, 5, 10] } else { [10, 30, 100] } {
        let changes = if quick { 50 } else { 500 };
        let extra = [("watchers", watchers.to_string()), ("size", changes.to_string())];
        measure("fanout", watchers, &extra);
    }
    for parts in [1, 10, 50] {
        measure("cel", parts, &[("size", count.to_string()), ("parts", parts.to_string())]);
    }
    // The real server has two processes, whose costs are not separated.
    if kind == ServerKind::Ours {
        let process = ("process", server.id().to_string());
        let connections = ("connections", if quick { 500 } else { 10_000 }.to_string());
        // First, because the memory that large bodies leave behind would serve the connections.
        measure("strangers", 0, &[process.clone(), connections]);
        measure("bodies", 0, &[process]);
    }
    let mut there = 0;
    for kinds in if quick { [5, 10, 20] } else { [10, 100, 1000] } {
        if plan.wants("crds") {
            // What is there stays, so that the memory is that of all.
            let extra = [("size", (kinds - there).to_string())];
            let result = load_tool(plan, &server, "crds", &extra).map(|mut result| {
                result["rss_kb"] = json!(server.usage().0);
                result
            });
            record.add(("crds", name, name), kinds, result);
            there = kinds;
        }
    }
}

fn cluster(plan: &Plan<'_>, kind: ServerKind, record: &mut Record) {
    let real = plan.tools.real.as_ref();
    let scenarios = match kind {
        ServerKind::Ours => CLUSTER,
        ServerKind::Real => REAL_CLUSTER,
    };
    // Without its controllers the real one deletes no namespace; the page says that they are
    // missing.
    let complete = real.is_some_and(|real| real.controller_manager.is_some());
    if !plan.wants_any(scenarios) || (kind == ServerKind::Real && !complete) {
        return;
    }
    let name = kind.name();
    let Some(server) = plan.server(kind, true, scenarios, record) else { return };
    if kind == ServerKind::Ours {
        if plan.wants("cluster-start") {
            record.add(("cluster-start", name, name), 0, Ok(rest(&server)));
        }
        let many = if plan.options.quick { 10 } else { 100 };
        // The first of a kind warms up what any cluster has done long ago.
        for (scenario, size, replicas) in [("deployment", 1, 3), ("deployments", many, 10)] {
            if plan.wants(scenario) {
                let extra = [("size", size.to_string()), ("replicas", replicas.to_string())];
                let result = load_tool(plan, &server, "deployments", &extra);
                record.add((scenario, name, name), size, result);
            }
        }
    }
    if plan.wants("namespace") {
        let result = load_tool(plan, &server, "namespace", &[]);
        record.add(("namespace", name, name), 0, result);
    }
}

/// What a server takes when nobody asks anything.
fn rest(server: &Server) -> Value {
    thread::sleep(Duration::from_secs(2));
    let (_, before) = server.usage();
    let pause = Duration::from_secs(3);
    thread::sleep(pause);
    let (resident, after) = server.usage();
    json!({
        "start_s": server.start_s, "rss_kb": resident,
        "idle_cpu": (after - before) / pause.as_secs_f64(),
    })
}
