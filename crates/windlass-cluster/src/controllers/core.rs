//! The garbage collector, namespaces, service accounts, Deployments and ReplicaSets.

pub mod collector;
pub mod deployment;
pub mod namespace;
pub mod replica_set;
pub mod service_account;

use super::Add;

/// The controllers of this group.
pub const LIST: &[(&str, Add)] = &[
    ("deployment", deployment::add),
    ("replicaset", replica_set::add),
    ("replicationcontroller", replica_set::add_replication_controller),
    ("namespace", namespace::add),
    ("serviceaccount", service_account::add_accounts),
    ("serviceaccount-token", service_account::add_tokens),
    ("root-ca-certificate-publisher", service_account::add_root_ca),
];

/// Added after all others, so that it joins their watches instead of opening its own.
pub const LAST: &[(&str, Add)] = &[("garbagecollector", collector::add)];
