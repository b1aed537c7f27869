//! Caches: the state of a cluster, kept up to date by watches, read without requests.
//!
//! A reflector lists and watches one kind and reads the answers into entries. It applies them to the
//! store in batches, in the order in which they arrive. The store holds them in compact form, with
//! its indexes. Each handler has a mailbox with at most one pending [`Change`] per object, and
//! readers see the store as Rust values. A [`Cache`] shares all of this between those who ask for
//! the same kind and scope.
//!
//! **Invariant:** whatever happens while the watch is interrupted, a handler receives the last
//! state of every object, and the deletion of every object that is gone.
//! **Invariant:** readers never wait for the watch, and the watch never waits for readers.
//!
//! # For readers of client-go
//!
//! | client-go | windlass |
//! |---|---|
//! | `ListerWatcher` | a [`Kind`](crate::Kind) and a [`Scope`]: what to list and watch |
//! | `Reflector` | started by [`Cache::informer`], one per kind and namespace; its state is a [`SyncState`] |
//! | `FIFO`, `DeltaFIFO` | a batch of deltas before the store, and a mailbox of merged changes per handler: both internal |
//! | `Store`, `ThreadSafeStore` | [`Store`]: readers take a snapshot, which is a pointer |
//! | `Indexer` | [`Index`], kept by [`Cache::declare`] and read by [`Reader::by`] |
//! | `SharedInformer` | [`Informer`] |
//! | `ResourceEventHandler`, `OnAdd`, `OnUpdate`, `OnDelete` | [`Subscription`], which receives [`Change`]s |
//! | `DeletedFinalStateUnknown` | [`Change::last_state_unknown`] |
//! | `SharedInformerFactory` | [`Cache`] |
//! | `Lister` | [`Reader`] of one informer, [`List`](crate::List) of a cache |
//! | `TransformFunc` | [`CacheOptions::transform`] |
//! | `ExpirationCache` | [`ExpiringStore`] |
//! | `UndeltaStore` | [`FullStateStore`] |
//! | `Heap`, priority queue | the priorities of [`WorkQueue::add_with_priority`](crate::queue::WorkQueue::add_with_priority) |
//! | `workqueue`, plain | [`WorkQueue::add`](crate::queue::WorkQueue::add) |
//! | `workqueue`, delaying | [`WorkQueue::add_after`](crate::queue::WorkQueue::add_after) |
//! | `workqueue`, rate limited | [`WorkQueue::add_rate_limited`](crate::queue::WorkQueue::add_rate_limited) |
//! | `runtime.Scheme` | [`Scheme`](crate::scheme::Scheme) |
//! | `RESTMapper` | [`Client::kind_of`](crate::Client::kind_of) |
//!
//! `examples/informer.rs` uses them without a controller.

mod backoff;
mod batch;
mod body;
mod change;
mod decoded;
mod entry;
mod entry_reader;
mod expiring;
mod failure;
mod field_manager;
mod full_state;
mod handler;
mod index;
mod informer;
mod key;
mod labels;
mod listing;
mod mailbox;
mod malformed;
mod namespaces;
mod options;
mod outline;
mod overlay;
mod protobuf;
mod reader;
mod reads;
mod reflector;
mod registry;
mod select;
mod selection;
mod state;
mod stats;
mod store;
mod stream;
mod subscription;
mod switched;
mod target;
#[cfg(test)]
mod tests;
mod tombstones;
mod transform;
mod wire;
#[cfg(test)]
mod work;
mod writer;

pub use self::change::{Change, Origin};
pub use self::entry::{Entry, Owner};
pub use self::expiring::ExpiringStore;
pub use self::full_state::FullStateStore;
pub(crate) use self::handler::HandlerGuard;
pub use self::index::Index;
pub(crate) use self::index::IndexId;
pub use self::informer::Informer;
pub use self::key::Key;
pub(crate) use self::listing::{IndexLookup, OwnerFilter};
pub(crate) use self::malformed::{Malformed, redacted};
pub(crate) use self::namespaces::{Choice, Namespaces};
pub use self::options::{CacheOptions, Scope};
pub(crate) use self::protobuf::as_json;
pub(crate) use self::reader::Cached;
pub use self::reader::Reader;
pub(crate) use self::reflector::Observe;
pub use self::registry::Cache;
pub(crate) use self::registry::{Declared, WatchReport};
pub use self::selection::Selection;
pub use self::state::SyncState;
pub use self::stats::InformerStats;
pub use self::store::Store;
pub use self::subscription::Subscription;
#[cfg(test)]
pub(crate) use self::work::Work;
