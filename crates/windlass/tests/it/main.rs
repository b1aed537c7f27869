//! The toolkit on the embedded API server, in virtual time.

#![allow(
    clippy::disallowed_methods,
    reason = "certificates of real servers are valid in real time"
)]

mod cache;
mod causes;
mod children;
mod children_hostile;
mod children_rights;
mod children_upgrade;
mod children_world;
mod claims;
mod client_care;
mod client_faults;
mod client_garbage;
mod client_verbs;
mod clock_jumps;
mod common;
mod conditions;
mod contract;
mod controller_faults;
mod controller_flow;
mod controller_helpers;
mod controller_hostile;
mod controller_pool;
mod controller_scale;
mod controller_watches;
mod conversion_faults;
mod day_two;
mod events_series;
mod examples;
mod faults;
mod faults_requests;
mod finished_faults;
mod indexes;
mod lease_election;
mod manager_faults;
mod manager_life;
mod memory;
mod migration;
mod namespaces;
mod optional_kinds;
mod own_writes;
mod partial_types;
mod policies;
mod promises;
mod proxy;
mod references;
mod replicas;
mod request_paths;
mod request_selectors;
mod schedules;
mod selectors;
mod serve_access;
mod settings;
mod status;
mod steps;
mod update_loops;
mod webhook_server;
mod webhooks;
