//! The controllers, by name; each can be switched off.

use std::sync::Arc;

use windlass::manager::Builder;
use windlass_apiserver::ApiServer;
use windlass_apiserver::store::ResourceKey;

mod amount;
pub mod batch;
mod claim;
pub mod core;
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
pub type Add = fn(Builder, &Shared) -> Builder;

/// A controller in the list of all.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name that switches it off.
    pub name: &'static str,
    /// How it is added.
    pub add: Add,
    /// The resources, as `plural.group` or `plural`, that give it something to do; always if empty.
    pub serves: &'static [&'static str],
}

/// All controllers.
pub fn all() -> Vec<Entry> {
    [core::LIST, batch::LIST, support::LIST, core::LAST].concat()
}

// === impl Entry ===

impl Entry {
    const fn new(name: &'static str, add: Add, serves: &'static [&'static str]) -> Self {
        Self { name, add, serves }
    }

    /// Returns `true` if writes of these resources may give the controller something to do.
    pub(crate) fn is_needed_for(&self, resources: &[ResourceKey]) -> bool {
        let name = |resource: &ResourceKey| match &*resource.group {
            "" => resource.plural.to_string(),
            group => format!("{}.{group}", resource.plural),
        };
        self.serves.is_empty() || resources.iter().any(|r| self.serves.contains(&name(r).as_str()))
    }
}
