//! Caches: the state of a cluster, kept up to date by watches, read without requests.
//!
//! The way of an object: a reflector lists and watches one kind and cuts the answers into entries;
//! entries go to the store in batches, in the order of the wire; the store holds them, compact, with
//! its indexes; each handler has a mailbox with at most one pending change per object; readers see
//! the store as Rust types. A [`Cache`] shares all that between everyone who asks for the same kind
//! and scope.
//!
//! **Invariant:** whatever happens between two looks at the server, a handler learns the last
//! state of every object, and of every object that is deleted.
//! **Invariant:** readers never wait for the watch, and the watch never for readers.
//!
//! # For readers of client-go
//!
//! | client-go | windlass |
//! |---|---|
//! | `ListerWatcher` | a [`Kind`](crate::Kind) and a [`Scope`]: what to list and watch |
//! | `Reflector` | started by [`Cache::informer`], one per kind and namespace; its state is a [`SyncState`] |
//! | `FIFO`, `DeltaFIFO` | batches of [`Delta`]s on the way into the store, and a mailbox per handler |
//! | `Store`, `ThreadSafeStore` | [`Store`]: readers take a snapshot, which is a pointer |
//! | `Indexer` | [`Index`], kept by [`Reader::declare`] or [`Cache::declare`] |
//! | `SharedInformer` | [`Informer`], with [`handle`](Informer::handle) and [`subscribe`](Informer::subscribe) |
//! | `SharedInformerFactory` | [`Cache`] |
//! | `Lister` | [`Reader`] of one informer, [`List`](crate::List) of a cache |
//! | `ExpirationCache` | [`ExpiringStore`] |
//! | `UndeltaStore` | [`FullStateStore`] |
//! | `Heap`, priority queue | the priorities of [`WorkQueue::add_with`](crate::queue::WorkQueue::add_with) |
//! | `workqueue`, plain | [`WorkQueue::add`](crate::queue::WorkQueue::add) |
//! | `workqueue`, delaying | [`WorkQueue::add_after`](crate::queue::WorkQueue::add_after) |
//! | `workqueue`, rate limited | [`WorkQueue::add_rate_limited`](crate::queue::WorkQueue::add_rate_limited) |
//! | `runtime.Scheme` | [`Scheme`](crate::scheme::Scheme) |
//! | `RESTMapper` | [`Client::kind_of`](crate::Client::kind_of) |
//!
//! `examples/informer.rs` uses them without a controller.

mod backoff;
mod decoded;
mod entry;
mod event;
mod expiring;
mod failure;
mod fifo;
mod full_state;
mod index;
mod informer;
mod key;
mod listing;
mod mailbox;
mod options;
mod overlay;
mod protobuf;
mod reader;
mod reads;
mod reflector;
mod registry;
mod select;
mod skim;
mod state;
mod store;
mod stream;
mod target;
#[cfg(test)]
mod tests;
mod tombstones;
mod transform;
mod wire;
mod writer;

pub(crate) use self::entry::discreet;
pub use self::entry::{Entry, Labels, Malformed, Owner};
pub use self::event::Event;
pub use self::expiring::ExpiringStore;
pub use self::fifo::Delta;
pub use self::full_state::FullStateStore;
pub(crate) use self::index::IndexId;
pub use self::index::{Index, IndexGuard};
pub use self::informer::{HandlerGuard, HandlerOptions, Informer, InformerStats, Subscription};
pub use self::key::Key;
pub(crate) use self::listing::{IndexLookup, OwnerFilter};
pub use self::options::{CacheOptions, Scope};
pub(crate) use self::protobuf::as_json;
pub use self::reader::{Cached, Reader};
pub use self::reflector::Observe;
pub use self::registry::Cache;
pub(crate) use self::registry::{Declared, WatchReport};
pub use self::state::SyncState;
pub use self::store::{Behind, Store, StoreOptions};
pub use self::transform::Transform;
