//! Explores an operator under every single fault, in virtual time and with replay.
//!
//! A scenario declares the operator, acts as the user and waits for rest in between. [`explore`] runs
//! it without faults, then once for every fault that is possible at every request, watch event and
//! external call of the operator, and asks the [oracles](Oracle) whether the result is right.
//! [`Sim`] has an example; `docs/sim.md` of the repository is the guide.
//!
//! # How a run works
//!
//! 1. A [`Plan`] says which [`Fault`]s happen at which [`Site`]s.
//! 2. The scenario runs on a runtime of its own with paused time: an embedded API server, the
//!    embedded controllers that it needs, the replicas of the operator, and the user.
//! 3. A layer around the client of each replica names every request, adds a small latency and
//!    injects the faults. The server knows nothing of them.
//! 4. Then all faults end, crashed replicas restart, and the cluster has to come to rest.
//! 5. The oracles compare the end and the way to it with a run without faults.
//!
//! Equal seeds and plans give equal runs. A scenario that does not is reported with the first
//! difference.

use std::time::Duration;

mod canonical;
mod controllers;
mod diff;
mod enumerate;
mod explore;
mod external;
mod kept;
mod kernel;
mod layer;
mod oracle;
mod plan;
mod reconciles;
mod replica;
mod report;
mod role;
mod run;
mod sent;
mod shrink;
mod sim;
mod site;
mod trace;
mod watch;
mod webhooks;
mod world;

pub use explore::{Explore, explore};
pub use external::external;
pub use oracle::{Oracle, Violation};
pub use plan::{Fault, Plan};
pub use report::{Failure, Report};
pub use sim::{Sim, named};
pub use site::Site;
pub use world::World;

/// How long a slow response takes: just below the deadline of a client.
pub(crate) const SLOW: Duration = Duration::from_secs(58);
/// When a late request takes effect: just after the deadline of a client.
pub(crate) const LATE: Duration = Duration::from_secs(61);
/// How long a replica is cut off: longer than a lease.
pub(crate) const PAUSE: Duration = Duration::from_secs(60);
/// The longest hold that ends with a reconcile.
pub(crate) const HOLD_ONCE: Duration = Duration::from_secs(30);
/// How long events are held back.
pub(crate) const HOLD: Duration = Duration::from_secs(90);
/// How long a watch that expired has to wait for the next one.
pub(crate) const GAP: Duration = Duration::from_secs(5);
