//! Controllers: from changes of watched objects to reconciles.
//!
//! The flow is one way: [`Watch`] (a watched kind) → [`Predicate`] (does it matter) → keys →
//! the work queue → the worker pool → [`Reconciler`] with its [`Context`]. A [`Controller`] is a
//! plain description until a manager runs it, so it can be built before there is a cluster.
//!
//! A good reconcile ends with nothing left to do. One that writes on every pass never does, and
//! nothing fails: somebody else undoes what it writes, or the server stores something else, or it
//! writes the current time. So a controller observes what its client writes. If an object is written
//! more than twenty times within a minute without getting anywhere, a warning names the object and
//! the paths of the fields, never their values, at most once in ten minutes. The loop is counted in
//! `windlass_update_loops_total`, and shown on the diagnostics page under `updateLoops` while it
//! lasts. A status that follows the world is not a loop, nor is an object that follows the spec of
//! its owner. Leases and the writes of a plain `kube::Client` are not observed.
//!
//! **Invariant:** workers start only when every watch has delivered its first list, so the first
//! reconcile sees the whole state.

mod access;
mod attempt_id;
mod builder;
mod cause;
mod cause_table;
mod children;
mod claim;
mod component;
mod conflicts;
mod context;
mod env;
mod event_handler;
mod failures;
mod handle;
mod key_sink;
mod key_stream;
mod map_output;
mod map_retries;
mod memory;
mod owned;
mod pool;
mod predicate;
mod reconcile;
mod reference;
mod report;
mod rule;
mod running_watch;
mod runs;
mod settled;
mod source;
mod status;
mod switches;
mod watch_guard;
mod worker;
mod write_loop;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;

use crate::cache::{Declared, Key};
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};
use crate::queue::QueueOptions;

pub(crate) use access::Access;
pub use builder::Builder;
pub use cause::Cause;
pub use children::{Children, Step};
pub use context::Context;
pub use handle::ControllerHandle;
pub use predicate::Predicate;
pub use reconcile::{Next, Reconciler};
pub use source::Watch;
pub use watch_guard::WatchGuard;

pub(crate) use component::{Component, Prepared};
pub(crate) use env::ControllerEnv;
pub(crate) use switches::PREFIX as SWITCH_PREFIX;
pub(crate) use worker::panic_text;

use reference::References;
use worker::DynReconciler;

/// Most characters of a controller's name, which is also a field owner.
const NAME_MAX: usize = 128;

/// Reconciles objects of one kind; run by a manager.
///
/// # Examples
///
/// ```
/// use kube::core::DynamicObject;
/// use windlass::{Controller, Kind, Next};
///
/// // A kind that is known at run time only.
/// let drive = Kind::new("ships.example.com", "v1", "Drive", "drives");
/// let controller = Controller::<DynamicObject>::of_kind("drives", &drive)
///     .build(async |cx| {
///         cx.event("Seen", "hello");
///         Ok(Next::Done)
///     });
/// # let _: Controller<DynamicObject> = controller;
/// ```
pub struct Controller<K: Object> {
    options: Options,
    reconciler: Arc<dyn DynReconciler<K>>,
}

struct Options {
    name: String,
    kind: Kind,
    watches: Vec<Watch>,
    /// The declared writes.
    writes: Vec<Access>,
    indexes: Vec<Arc<dyn Declared>>,
    channels: Vec<BoxStream<'static, Key>>,
    reports_as: Option<String>,
    workers: usize,
    timeout: Option<Duration>,
    queue: QueueOptions<Key>,
    leader: bool,
    conditions: bool,
    references: Option<Arc<References>>,
}

// === impl Options ===

impl Options {
    /// Checks what a builder cannot refuse.
    fn check(&self) -> Result<()> {
        match self.name.len() {
            1..=NAME_MAX => Ok(()),
            _ => Err(Error::Invalid(format!(
                "the name of a controller has 1 to {NAME_MAX} characters, unlike {:?}",
                self.name
            ))),
        }
    }
}

// === impl Controller ===

impl<K: Object<DynamicType = ()>> Controller<K> {
    /// Starts a controller of a kind known at compile time.
    ///
    /// The name appears in logs and metrics, and owns the fields this controller applies. It has 1
    /// to 128 characters; the manager refuses any other.
    pub fn builder(name: &str) -> Builder<K> {
        Builder::new(name, Kind::of::<K>())
    }
}

impl<K: Object> Controller<K> {
    /// Starts a controller of a kind known at run time.
    ///
    /// Objects are decoded into any type that fits, such as `DynamicObject` or
    /// `PartialObjectMeta<DynamicObject>`.
    ///
    /// ```
    /// use kube::core::{DynamicObject, PartialObjectMeta};
    /// use windlass::{Controller, Kind, Next};
    ///
    /// // Only the metadata is cached.
    /// type Metadata = PartialObjectMeta<DynamicObject>;
    /// let drives = Kind::new("ships.example.com", "v1", "Drive", "drives");
    /// let controller = Controller::<Metadata>::of_kind("labels", &drives)
    ///     .build(async |_| Ok(Next::Done));
    /// # let _: Controller<Metadata> = controller;
    /// ```
    pub fn of_kind(name: &str, kind: &Kind) -> Builder<K> {
        Builder::new(name, kind.clone())
    }

    /// Returns the controller's name.
    pub(crate) fn name(&self) -> &str {
        &self.options.name
    }
}

impl<K: Object> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.options.name)
            .field("kind", &self.options.kind)
            .finish_non_exhaustive()
    }
}
