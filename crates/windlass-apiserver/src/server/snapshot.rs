//! A state that servers start from.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::{ApiServer, Assembly, signer};
use crate::admission;
use crate::auth::{Authenticator, User};
use crate::clock::Clock;
use crate::random::Randomness;
use crate::store::{LogLimits, Store, World};

/// The state of a server at one moment, which any number of other servers start from.
///
/// It shares the objects with the server it was taken of, so it is cheap. The servers may run on
/// other threads and in other runtimes. If the server had a seed and a start time, they all draw the
/// values that it would have drawn next and start at the time that it showed, so equal requests are
/// answered equally, byte for byte.
///
/// ```
/// use windlass_apiserver::{ApiServer, Options};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let options = Options {
///     seed: Some(7),
///     start_time: Some("2026-01-01T00:00:00Z".parse().unwrap()),
///     ..Options::default()
/// };
/// let snapshot = ApiServer::with_options(options).unwrap().snapshot();
/// let (one, other) = (snapshot.start(), snapshot.start());
/// assert_eq!(one.revision(), other.revision());
/// assert_eq!(one.clock().now(), other.clock().now());
/// # }
/// ```
pub struct Snapshot {
    world: Arc<World>,
    history: LogLimits,
    random: Randomness,
    tokens: Vec<(String, User)>,
    /// The time that clocks start at, and whether they follow `tokio::time` alone.
    time: (Timestamp, bool),
    admission: admission::State,
    authorize: bool,
}

// === impl ApiServer ===

impl ApiServer {
    /// Returns the seed of the server, if it has one.
    pub fn seed(&self) -> Option<u64> {
        self.inner.random.seed()
    }

    /// Keeps the newest state, to start other servers from it.
    pub fn snapshot(&self) -> Snapshot {
        let Self { inner } = self;
        Snapshot {
            world: inner.store.world(),
            history: inner.store.limits(),
            random: inner.random.fork(),
            tokens: inner.authenticator.tokens().collect(),
            time: (inner.clock.now(), inner.clock.is_virtual()),
            admission: inner.admission.fork(),
            authorize: inner.authorize,
        }
    }

    /// Returns an independent copy of the newest state, in memory.
    pub fn fork(&self) -> Self {
        self.snapshot().start()
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Starts a server in memory that holds this state; its history starts here, too.
    pub fn start(&self) -> ApiServer {
        ApiServer::assemble(Assembly {
            store: Store::starting_from(&self.world, self.history),
            clock: Clock::resumed(self.time.0, self.time.1),
            random: self.random.fork(),
            authenticator: Authenticator::new(self.tokens.clone(), signer(self.random.seed())),
            admission: self.admission.fork(),
            authorize: self.authorize,
        })
    }

    /// Returns the state.
    pub fn world(&self) -> &World {
        &self.world
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("revision", &self.world.revision).finish_non_exhaustive()
    }
}
