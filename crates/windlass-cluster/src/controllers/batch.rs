//! StatefulSets, DaemonSets, Jobs and CronJobs.

mod cronjob;
mod daemonset;
mod history;
mod job;
mod statefulset;

use super::Entry;

/// The controllers of this group.
pub const LIST: &[Entry] = &[
    Entry::new("statefulset", statefulset::add, &["statefulsets.apps"]),
    Entry::new("daemonset", daemonset::add, &["daemonsets.apps"]),
    Entry::new("job", job::add, &["jobs.batch"]),
    Entry::new("ttl-after-finished", job::add_ttl, &["jobs.batch"]),
    Entry::new("cronjob", cronjob::add, &["cronjobs.batch"]),
];
