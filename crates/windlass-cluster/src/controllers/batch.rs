//! StatefulSets, DaemonSets, Jobs and CronJobs.

mod cronjob;
mod daemonset;
mod history;
mod job;
mod statefulset;

use super::Add;

/// The controllers of this group.
pub const LIST: &[(&str, Add)] = &[
    ("statefulset", statefulset::add),
    ("daemonset", daemonset::add),
    ("job", job::add),
    ("ttl-after-finished", job::add_ttl),
    ("cronjob", cronjob::add),
];
