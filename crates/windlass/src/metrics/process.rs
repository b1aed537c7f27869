//! Metrics of the process under the names that all Prometheus client libraries use.
//!
//! They are read from `/proc` at scrape time, and missing on systems without it.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The process itself.
#[derive(Debug)]
pub(super) struct Process;

/// Ticks per second in `/proc/self/stat`, which are 100 on every Linux.
const TICKS: f64 = 100.0;

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    start_ticks: f64,
    virtual_bytes: f64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let Some(stat) = Stat::read(&text) else { return Ok(()) };
        let (name, help) = ("process_cpu_seconds", "User and system CPU time spent in seconds");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&stat.cpu_seconds, None)?;
        let fds = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let uptime = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let boot = uptime.lines().find_map(|line| line.strip_prefix("btime ")?.parse().ok());
        let rows = [
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes",
                resident_bytes(&status),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes",
                Some(stat.virtual_bytes),
            ),
            ("process_open_fds", "Number of open file descriptors", Some(fds as f64)),
            ("process_max_fds", "Maximum number of open file descriptors", fds_max(&limits)),
            (
                "process_start_time_seconds",
                "Start time of the process since the Unix epoch in seconds",
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
        // The command is in parentheses and may contain anything, even parentheses.
        let rest = text.rsplit_once(") ")?.1;
        let fields: Vec<f64> = rest.split(' ').map(|f| f.trim().parse().unwrap_or(0.0)).collect();
        Some(Self {
            cpu_seconds: (fields.get(11)? + fields.get(12)?) / TICKS,
            start_ticks: *fields.get(19)?,
            virtual_bytes: *fields.get(20)?,
        })
    }
}

/// Reads the resident memory from `/proc/self/status`, where it is in kB whatever the page size is.
fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
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
        let wanted = Stat { cpu_seconds: 3.0, start_ticks: 4200.0, virtual_bytes: 8192.0 };
        assert_eq!(Stat::read(text), Some(wanted));
        assert_eq!(Stat::read("garbage"), None);
        assert_eq!(fds_max("Max open files            1024     4096     files\n"), Some(1024.0));
    }

    #[test]
    fn resident_memory_does_not_depend_on_the_page_size() {
        let status = "Name:\ta\nVmHWM:\t    900 kB\nVmRSS:\t    640 kB\nRssAnon:\t 64 kB\n";
        assert_eq!(resident_bytes(status), Some(655_360.0));
        assert_eq!(resident_bytes("Name:\ta\n"), None);
    }
}
