//! The API server as its clients see it: in process and over loopback.

#![allow(
    clippy::disallowed_methods,
    reason = "certificates and files of real servers belong to real time"
)]

mod admission;
mod admission_plugins;
mod admission_policy;
mod allocation;
mod apply_body;
mod apply_crd;
mod apply_scale;
mod asked;
mod auth;
mod bad_bytes;
mod bad_peers;
mod builtin;
mod certificates;
mod compared;
mod conversion;
mod crd_life;
mod crd_objects;
mod crd_versions;
mod delete;
mod discovery;
mod event_expiry;
mod faults;
mod generated;
mod https;
mod instances;
mod kubectl;
mod limits;
mod list;
mod object_size;
mod objects;
mod patch;
mod paths;
mod protobuf;
mod random;
mod real_programs;
mod subresources;
mod support;
mod tools;
mod watch;
mod webhook_client;
