//! The operator scaffold: its kinds and their controllers.

pub mod auditor;
pub mod cron_route;
pub mod deployment;
pub mod fleet_memcached;
pub mod memcached;
pub mod pod_webhook;

use windlass::Operator;

/// The operator. `windlass create` adds kinds, controllers and webhooks to this expression.
pub fn operator() -> Operator {
    Operator::new("scaffold") // the names of its objects in a cluster start with this
        .version(env!("CARGO_PKG_VERSION"))
        .api::<memcached::Memcached>()
        .controller(memcached::controller())
        .api::<memcached::v1beta1::Memcached>()
        .api::<fleet_memcached::Memcached>()
        .controller(fleet_memcached::controller())
        .api::<cron_route::CronRoute>()
        .controller(deployment::controller())
        .controller(auditor::controller())
        .webhook(memcached::webhook::webhook())
        .conversion(memcached::conversion::conversion())
        .webhook(pod_webhook::webhook())
}
