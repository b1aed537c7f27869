//! Caches: what the cluster looks like, kept up to date, without asking again.
//!
//! The way of an object: a reflector lists and watches one kind and cuts the
//! answers into entries; a delta queue keeps their order; the store holds them,
//! compact, with its indexes; handlers are told of changes through
//! mailboxes; readers see the store as Rust types. A [`Cache`] shares all that
//! between everyone who asks for the same kind and scope.
//!
//! **Invariant:** whatever happens between two looks at the server, a handler learns the last
//! state of every object, and of every object that is gone.
//! **Invariant:** readers never wait for the watch, and the watch never for readers.

mod backoff;
mod buried;
mod entry;
mod event;
pub mod expiring;
mod factory;
mod failure;
mod fifo;
mod hot;
mod index;
mod informer;
mod key;
mod mailbox;
mod protobuf;
mod reader;
mod reflector;
mod select;
mod skim;
mod state;
mod store;
mod stream;
mod target;
#[cfg(test)]
mod tests;
mod transform;
pub mod undelta;
mod wire;
mod writer;

pub(crate) use self::entry::discreet;
pub use self::entry::{Entry, Labels, Malformed, Owner};
pub use self::event::Event;
pub use self::factory::{Cache, CacheOptions, Watch};
pub use self::fifo::Delta;
pub use self::index::{Index, IndexValue};
pub use self::informer::{HandlerGuard, HandlerOptions, Informer, InformerStats, Subscription};
pub use self::key::Key;
pub(crate) use self::protobuf::as_json;
pub use self::reader::{Object, Reader};
pub use self::reflector::Observe;
pub use self::state::SyncState;
pub use self::store::{Behind, Store, StoreOptions};
pub use self::transform::Transform;
