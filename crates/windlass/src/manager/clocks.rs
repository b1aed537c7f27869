//! Reports jumps of the wall clock.
//!
//! Nothing depends on this: queues and backoffs use tokio's time, and the fence checks the wall
//! clock itself.

use std::sync::Arc;
use std::time::Duration;

use super::State;
use crate::clock::Jumps;

/// Rare enough to cost nothing.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// Records every jump in the log, the metrics and the state of the manager; never completes.
pub(super) async fn watch(state: Arc<State>, mut jumps: Jumps) {
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        let Some(jump) = jumps.check() else { continue };
        let (direction, seconds) = (jump.direction(), jump.by.as_secs_f64());
        state.metrics.clock_jumped(direction);
        let mut jumps = state.jumps.lock();
        *jumps = (jumps.0 + 1, Some(jump));
        drop(jumps);
        match direction {
            "ahead" => {
                let text = "the wall clock jumped ahead: it was set, or the machine was suspended";
                tracing::warn!(direction, seconds, "{text}");
            }
            _ => tracing::warn!(direction, seconds, "the wall clock jumped back: it was set"),
        }
    }
}
