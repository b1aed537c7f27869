//! The diagnostics page: the current state of every part.

use serde_json::{Value, json};

use super::State;
use crate::cache::WatchReport;
use crate::controller::ControllerHandle;

/// The state of every watch, index, queue and lease of a manager, and the jumps of its clock.
pub(super) fn report(state: &State) -> Value {
    let clusters: Vec<Value> = state
        .clients
        .iter()
        .map(|(name, client)| {
            let watches: Vec<Value> = client.cached().reports().iter().map(watch).collect();
            json!({"name": name, "watches": watches})
        })
        .collect();
    let controllers: Vec<Value> =
        state.controllers.lock().iter().map(|(cluster, c)| controller(cluster, c)).collect();
    let lease = state.lease.as_ref().map(|(name, status)| {
        let status = status.borrow();
        json!({
            "name": name,
            "held": status.held,
            "holder": status.holder,
            "transitions": status.transitions,
        })
    });
    let (jumps, last) = *state.jumps.lock();
    let last =
        last.map(|jump| json!({"at": jump.at.to_string(), "seconds": jump.by.as_secs_f64()}));
    #[cfg(feature = "operator")]
    let settings = state.settings.as_ref().map(super::settings_file::SettingsFile::report);
    #[cfg(not(feature = "operator"))]
    let settings = Value::Null;
    json!({
        "ready": *state.ready.borrow(),
        "behind": state.behind(),
        "stopping": state.stopping.is_cancelled(),
        "clusters": clusters,
        "controllers": controllers,
        "lease": lease,
        "settings": settings,
        "clock": {"jumps": jumps, "lastJump": last},
    })
}

fn watch(report: &WatchReport) -> Value {
    let stats = &report.stats;
    json!({
        "kind": report.kind.to_string(),
        "state": report.state.to_string(),
        "synced": report.state.synced(),
        "version": report.version,
        "objects": stats.objects,
        "bytes": stats.bytes,
        "lists": stats.lists,
        "watches": stats.watches,
        "events": stats.events,
        "bookmarks": stats.bookmarks,
        "failures": stats.failures,
        "breaks": stats.breaks,
        "skipped": stats.skipped,
        "fallbacks": stats.fallbacks,
        "undecodable": stats.undecodable,
        "indexPanics": stats.index_panics,
        "lag": stats.lag,
        "indexes": report
            .indexes
            .iter()
            .map(|(name, filings)| json!({"name": name, "filings": filings}))
            .collect::<Vec<_>>(),
    })
}

fn controller(cluster: &str, controller: &ControllerHandle) -> Value {
    let queue = controller.queue();
    let watches: Vec<Value> = controller
        .watches()
        .into_iter()
        .map(|(kind, lag)| json!({"kind": kind.to_string(), "lag": lag}))
        .collect();
    json!({
        "name": controller.name(),
        "kind": controller.kind().to_string(),
        "cluster": cluster,
        "watches": watches,
        "workers": controller.workers(),
        "handlerPanics": controller.handler_panics(),
        "reconciles": controller.outcomes(),
        "updateLoops": controller.loops(),
        "runs": controller.runs(),
        "queue": {
            "depth": queue.depth,
            "waiting": queue.waiting,
            "processing": queue.processing,
            "adds": queue.adds,
            "retries": queue.retries,
            "longestSeconds": queue.longest.as_secs_f64(),
        },
    })
}
