//! The embedded cluster from outside: objects in, objects out, in virtual time.

mod autoscaler_scaling;
mod batch_world;
mod budget_eviction;
mod common;
mod core_collector;
mod core_deployment;
mod core_namespace;
mod core_replica_set;
mod cronjob_time;
mod daemonset_nodes;
mod endpoints_slices;
mod ephemeral_claims;
mod job_ends;
mod many_clusters;
mod node_pods;
mod node_taint;
mod podgc_orphans;
mod policy_types;
mod quota_usage;
mod role_aggregation;
mod statefulset_claims;
mod statefulset_order;
mod support_world;
mod switched_off;
mod volume_binding;
mod walk;
