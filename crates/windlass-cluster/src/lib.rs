//! An embedded Kubernetes cluster: the API server, its controllers and simulated nodes, in one
//! process.
//!
//! The controllers are written with the public API of the crate `windlass`, as any operator is.

pub mod cluster;
pub mod controllers;
pub mod node;
mod operator_test;
mod role_test;
mod table;
mod webhook_fault;

pub use cluster::{Cluster, Options};
pub use operator_test::OperatorTest;
pub use role_test::{Right, RoleReport, RoleTest};
pub use webhook_fault::WebhookFault;
