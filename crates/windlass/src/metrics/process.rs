//! What the operating system knows of this process, under the names every exporter uses.
//!
//! Read from `/proc` when somebody scrapes; where there is none, nothing is shown.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The process itself.
#[derive(Debug)]
pub(super) struct Process;

/// Ticks per second of `/proc/self/stat`: 100 on every Linux there is.
const TICKS: f64 = 100.0;
const PAGE: f64 = 4096.0;

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    start_ticks: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let Some(stat) = Stat::read(&text) else { return Ok(()) };
        let (name, help) = ("process_cpu_seconds", "User and system CPU time spent in seconds");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&stat.cpu_seconds, None)?;
        let fds = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let uptime = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let boot = uptime.lines().find_map(|line| line.strip_prefix("btime ")?.parse().ok());
        let rows = [
            ("process_resident_memory_bytes", "Resident memory size", Some(stat.resident_bytes)),
            ("process_virtual_memory_bytes", "Virtual memory size", Some(stat.virtual_bytes)),
            ("process_open_fds", "Open file descriptors", Some(fds as f64)),
            ("process_max_fds", "Most open file descriptors", fds_max(&limits)),
            (
                "process_start_time_seconds",
                "Start time since the Unix epoch",
                boot.map(|boot: f64| boot + stat.start_ticks / TICKS),
            ),
        ];
        for (name, help, value) in rows {
            if let Some(value) = value {
                let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                metric.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

// === impl Stat ===

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // The command stands in parentheses and may hold anything, even parentheses.
        let rest = text.rsplit_once(") ")?.1;
        let fields: Vec<f64> = rest.split(' ').map(|f| f.trim().parse().unwrap_or(0.0)).collect();
        Some(Self {
            cpu_seconds: (fields.get(11)? + fields.get(12)?) / TICKS,
            start_ticks: *fields.get(19)?,
            virtual_bytes: *fields.get(20)?,
            resident_bytes: fields.get(21)? * PAGE,
        })
    }
}

fn fds_max(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_process_are_read_whatever_it_is_called() {
        let text = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 3 0 4200 8192 2 18446\n";
        let wanted = Stat {
            cpu_seconds: 3.0,
            start_ticks: 4200.0,
            virtual_bytes: 8192.0,
            resident_bytes: 8192.0,
        };
        assert_eq!(Stat::read(text), Some(wanted));
        assert_eq!(Stat::read("garbage"), None);
        assert_eq!(fds_max("Max open files            1024     4096     files\n"), Some(1024.0));
    }
}
