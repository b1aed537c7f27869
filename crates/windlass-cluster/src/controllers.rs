//! The controllers, by name; each can be switched off.

use std::sync::Arc;

use windlass::Manager;
use windlass_apiserver::ApiServer;

mod amount;
pub mod batch;
pub mod core;
mod orphans;
pub(crate) mod pod;
pub mod support;

/// What controllers share beyond the manager.
#[derive(Clone)]
pub struct Shared {
    /// The API server, for its clock and keys; objects are read and written through the client.
    pub server: ApiServer,
    /// Settings of single controllers.
    pub settings: Arc<Settings>,
}

/// Settings of single controllers.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The certificate every namespace gets, as PEM; empty for one that nobody has the key of.
    pub root_ca: Arc<str>,
    /// Where autoscalers get their numbers from; without it they find no metrics API.
    pub metrics: Option<Arc<dyn support::Metrics>>,
}

/// Adds one controller to a manager.
pub type Add = fn(Manager, &Shared) -> Manager;

/// All controllers: the name that switches one off, and how it is added.
pub fn all() -> Vec<(&'static str, Add)> {
    [core::LIST, batch::LIST, support::LIST, core::LAST].concat()
}
