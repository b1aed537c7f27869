//! Metrics of the work queues, read at scrape time.

use std::fmt;

use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::queue::{Histogram, QueueStats};

/// Distinct priorities shown before they are merged into one label value.
const PRIORITIES_MAX: usize = 25;

type Read = Box<dyn Fn() -> QueueStats + Send + Sync>;

/// All queues of a manager.
#[derive(Default)]
pub(super) struct Queues {
    entries: RwLock<Vec<(String, Read)>>,
}

// === impl Queues ===

impl Queues {
    pub(super) fn add(&self, name: &str, read: Read) {
        let mut entries = self.entries.write();
        entries.retain(|(known, _)| known != name);
        entries.push((name.to_string(), read));
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").finish_non_exhaustive()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let now: Vec<(String, QueueStats)> =
            self.entries.read().iter().map(|(name, read)| (name.clone(), read())).collect();
        if now.is_empty() {
            return Ok(());
        }
        depth(&mut encoder, &now)?;
        counter(&mut encoder, "workqueue_adds", "Total number of items added", &now, |s| s.adds)?;
        counter(
            &mut encoder,
            "workqueue_retries",
            "Total number of items added again",
            &now,
            |s| s.retries,
        )?;
        let (name, help) =
            ("workqueue_queue_duration_seconds", "Time from add to processing in seconds");
        histogram(&mut encoder, name, help, &now, |s| &s.queue_latency)?;
        let (name, help) =
            ("workqueue_work_duration_seconds", "Processing time of an item in seconds");
        histogram(&mut encoder, name, help, &now, |s| &s.work_duration)?;
        let (name, help) =
            ("workqueue_unfinished_work_seconds", "Total duration of work in progress");
        gauge(&mut encoder, name, help, &now, |s| s.unfinished.as_secs_f64())?;
        let name = "workqueue_longest_running_processor_seconds";
        gauge(&mut encoder, name, "Longest work in progress", &now, |s| s.longest.as_secs_f64())
    }
}

type Now = [(String, QueueStats)];

fn depth(encoder: &mut DescriptorEncoder, now: &Now) -> fmt::Result {
    let kind = MetricType::Gauge;
    let mut metric =
        encoder.encode_descriptor("workqueue_depth", "Number of waiting items", None, kind)?;
    for (name, stats) in now {
        let mut rest = 0;
        let mut shown = 0;
        let mut one = |priority: &str, depth: usize| {
            let labels = [("name", name.as_str()), ("controller", name), ("priority", priority)];
            metric.encode_family(&labels)?.encode_gauge(&(depth as u64))
        };
        if !stats.depth_by_priority.contains_key(&0) {
            one("0", 0)?;
        }
        for (priority, depth) in &stats.depth_by_priority {
            if shown < PRIORITIES_MAX {
                one(&priority.to_string(), *depth)?;
                shown += 1;
            } else {
                rest += depth;
            }
        }
        if rest > 0 {
            one("exceeded_cardinality_limit", rest)?;
        }
    }
    Ok(())
}

fn counter(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    now: &Now,
    read: impl Fn(&QueueStats) -> u64,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (queue, stats) in now {
        let labels = [("name", queue.as_str()), ("controller", queue)];
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&read(stats), None)?;
    }
    Ok(())
}

fn gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    now: &Now,
    read: impl Fn(&QueueStats) -> f64,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (queue, stats) in now {
        let labels = [("name", queue.as_str()), ("controller", queue)];
        metric.encode_family(&labels)?.encode_gauge(&read(stats))?;
    }
    Ok(())
}

fn histogram(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    now: &Now,
    read: impl Fn(&QueueStats) -> &Histogram,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (queue, stats) in now {
        let labels = [("name", queue.as_str()), ("controller", queue)];
        let histogram = read(stats);
        let bounds = Histogram::BOUNDS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(histogram.buckets).collect();
        let sum = histogram.sum.as_secs_f64();
        metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
            sum,
            histogram.count,
            &buckets,
            None,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Metrics;
    use super::*;

    #[test]
    fn queue_figures_carry_the_names_dashboards_use() {
        let metrics = Metrics::new();
        metrics.queue("web", || {
            let mut stats = QueueStats { adds: 4, ..QueueStats::default() };
            stats.depth_by_priority.insert(-100, 2);
            stats.queue_latency.record(Duration::from_millis(2));
            stats
        });
        let text = metrics.encode();
        for line in [
            r#"workqueue_depth{name="web",controller="web",priority="-100"} 2"#,
            r#"workqueue_adds_total{name="web",controller="web"} 4"#,
            r#"workqueue_retries_total{name="web",controller="web"} 0"#,
            r#"workqueue_queue_duration_seconds_count{name="web",controller="web"} 1"#,
            r#"workqueue_unfinished_work_seconds{name="web",controller="web"} 0.0"#,
            "# TYPE workqueue_adds_total counter",
        ] {
            assert!(text.contains(line), "missing {line} in\n{text}");
        }
        for bound in ["1e-08", "9.999999999999999e-06", "0.001", "0.01", "1", "10", "1000"] {
            let line = format!(r#"workqueue_queue_duration_seconds_bucket{{le="{bound}","#);
            assert!(text.contains(&line), "missing {line} in\n{text}");
        }
        let above = r#"queue_duration_seconds_bucket{le="+Inf",name="web",controller="web"} 1"#;
        assert!(text.contains(above), "{text}");
    }

    #[test]
    fn depth_priorities_are_bounded() {
        let metrics = Metrics::new();
        metrics.queue("web", || QueueStats {
            depth_by_priority: (0..40).map(|p| (p, 1)).collect(),
            ..QueueStats::default()
        });
        let text = metrics.encode();
        assert!(text.contains(r#"priority="exceeded_cardinality_limit"} 15"#), "{text}");
    }
}
