//! Metrics of the watches and their event handlers, read at scrape time.

use std::fmt;

use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::cache::SyncState;
use crate::cluster::WatchReport;

type Read = Box<dyn Fn() -> Vec<WatchReport> + Send + Sync>;
type ReadHandlers = Box<dyn Fn() -> Option<HandlerFigures> + Send + Sync>;

/// The watches of all clusters and the handlers of all controllers of a manager.
#[derive(Default)]
pub(super) struct Watches {
    clusters: RwLock<Vec<(String, Read)>>,
    controllers: RwLock<Vec<(String, ReadHandlers)>>,
}

/// The figures of the event handlers of one controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HandlerFigures {
    /// How often a predicate, a map function or a source panicked.
    pub(crate) panics: u64,
    /// Objects with events that wait to be handled.
    pub(crate) lag: u64,
}

/// Name, help, whether it is a counter, and where the value comes from.
type Row = (&'static str, &'static str, bool, fn(&WatchReport) -> f64);

const ROWS: [Row; 16] = [
    (
        "windlass_watch_synced",
        "Whether the watch is up to date: 1 if it is, 0 otherwise",
        false,
        synced,
    ),
    ("windlass_watch_stale_seconds", "How long the watch has been stale, in seconds", false, stale),
    ("windlass_watch_lists", "Total number of list requests, one per page", true, |r| {
        r.stats.lists as f64
    }),
    ("windlass_watch_watches", "Total number of watch requests", true, |r| r.stats.watches as f64),
    ("windlass_watch_events", "Total number of watch events received", true, |r| {
        r.stats.events as f64
    }),
    ("windlass_watch_bookmarks", "Total number of bookmarks received", true, |r| {
        r.stats.bookmarks as f64
    }),
    ("windlass_watch_failures", "Total number of failed lists and watches", true, |r| {
        r.stats.failures as f64
    }),
    (
        "windlass_watch_fallbacks",
        "Total number of streaming lists replaced by plain lists",
        true,
        |r| r.stats.fallbacks as f64,
    ),
    (
        "windlass_watch_observer_panics",
        "Total number of panics of the request observer",
        true,
        |r| r.stats.observer_panics as f64,
    ),
    ("windlass_watch_breaks", "Total number of broken watch connections", true, |r| {
        r.stats.breaks as f64
    }),
    (
        "windlass_watch_skipped_objects",
        "Total number of objects skipped because they could not be read",
        true,
        |r| r.stats.skipped as f64,
    ),
    (
        "windlass_cache_undecodable_objects",
        "Total number of cached objects that could not be decoded",
        true,
        |r| r.stats.undecodable as f64,
    ),
    ("windlass_cache_index_panics", "Total number of panics of index functions", true, |r| {
        r.stats.index_panics as f64
    }),
    ("windlass_cache_objects", "Number of objects in the cache", false, |r| r.stats.objects as f64),
    ("windlass_cache_bytes", "Size of the objects in the cache in bytes", false, |r| {
        r.stats.bytes as f64
    }),
    ("windlass_cache_indexes", "Number of indexes of the cache", false, |r| r.indexes.len() as f64),
];

/// The names that the informers of Kubernetes itself use.
const INFORMER_ROWS: [Row; 2] = [
    (
        "informer_queued_items",
        "Number of objects with events that a handler has not taken yet",
        false,
        |r| r.stats.lag as f64,
    ),
    (
        "informer_store_resource_version",
        "Resource version of the store, its last 15 digits",
        false,
        |r| (r.version % 1_000_000_000_000_000) as f64,
    ),
];

fn synced(report: &WatchReport) -> f64 {
    f64::from(u8::from(report.state.synced()))
}

fn stale(report: &WatchReport) -> f64 {
    match &report.state {
        SyncState::Stale { since, .. } => since.elapsed().as_secs_f64(),
        _ => 0.0,
    }
}

// === impl Watches ===

impl Watches {
    pub(super) fn add(&self, cluster: &str, read: Read) {
        let mut clusters = self.clusters.write();
        clusters.retain(|(known, _)| known != cluster);
        clusters.push((cluster.to_string(), read));
    }

    pub(super) fn add_handlers(&self, controller: &str, read: ReadHandlers) {
        let mut controllers = self.controllers.write();
        controllers.retain(|(known, _)| known != controller);
        controllers.push((controller.to_string(), read));
    }

    fn handlers(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let controllers = self.controllers.read();
        let now = controllers.iter().filter_map(|(name, read)| Some((name.as_str(), read()?)));
        let now: Vec<(&str, HandlerFigures)> = now.collect();
        if now.is_empty() {
            return Ok(());
        }
        let (name, help) = (
            "windlass_handler_panics",
            "Total number of panics of predicates, map functions and sources",
        );
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (controller, figures) in &now {
            let labels = [("controller", *controller)];
            let mut series = metric.encode_family(&labels)?;
            series.encode_counter::<NoLabelSet, _, u64>(&figures.panics, None)?;
        }
        let (name, help) =
            ("windlass_handler_lag", "Number of objects with events that wait for a handler");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (controller, figures) in &now {
            let labels = [("controller", *controller)];
            metric.encode_family(&labels)?.encode_gauge(&figures.lag)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches").finish_non_exhaustive()
    }
}

impl Collector for Watches {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.handlers(&mut encoder)?;
        let clusters = self.clusters.read();
        let now: Vec<(&str, Vec<WatchReport>)> =
            clusters.iter().map(|(name, read)| (name.as_str(), read())).collect();
        if now.iter().all(|(_, reports)| reports.is_empty()) {
            return Ok(());
        }
        for (row, informer) in
            ROWS.iter().map(|row| (row, false)).chain(INFORMER_ROWS.iter().map(|row| (row, true)))
        {
            let (name, help, counter, read) = row;
            let kind = if *counter { MetricType::Counter } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            let all = now.iter().flat_map(|(c, reports)| reports.iter().map(move |r| (*c, r)));
            for (cluster, report) in all {
                let (id, last) = match informer {
                    true => ("name", ("resource", report.kind.plural())),
                    false => ("cluster", ("kind", report.kind.kind())),
                };
                let (group, version) = (report.kind.group(), report.kind.version());
                let labels = [(id, cluster), ("group", group), ("version", version), last];
                let mut series = metric.encode_family(&labels)?;
                match counter {
                    true => {
                        let value = read(report) as u64;
                        series.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
                    }
                    false => series.encode_gauge(&read(report))?,
                }
            }
        }
        Ok(())
    }
}
