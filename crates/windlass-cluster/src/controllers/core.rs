//! The garbage collector, namespaces, service accounts, Deployments and ReplicaSets.

pub mod collector;
pub mod deployment;
pub mod namespace;
pub mod replica_set;
pub mod service_account;

use super::Entry;

/// The controllers of this group.
pub const LIST: &[Entry] = &[
    Entry::new("deployment", deployment::add, &["deployments.apps"]),
    Entry::new("replicaset", replica_set::add, &["replicasets.apps"]),
    Entry::new(
        "replicationcontroller",
        replica_set::add_replication_controller,
        &["replicationcontrollers"],
    ),
    Entry::new("namespace", namespace::add, &[]),
    Entry::new("serviceaccount", service_account::add_accounts, &[]),
    Entry::new(
        "serviceaccount-token",
        service_account::add_tokens,
        &["secrets", "serviceaccounts"],
    ),
    Entry::new("root-ca-certificate-publisher", service_account::add_root_ca, &[]),
];

/// Added after all others, so that it joins their watches instead of opening its own.
pub const LAST: &[Entry] = &[Entry::new("garbagecollector", collector::add, &[])];
