//! A look at the wall clock from time to time: where it jumped, people want to know.
//!
//! Nothing depends on this; queues and backoffs count tokio's time, and the fence looks itself.

use std::sync::Arc;
use std::time::Duration;

use super::State;
use crate::clock::Jumps;

/// Rare enough to cost nothing.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Tells every jump in the log, the metrics and the state of the manager; never ends.
pub(super) async fn watch(state: Arc<State>, mut jumps: Jumps) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(jump) = jumps.look() else { continue };
        let (direction, seconds) = (jump.direction(), jump.by.as_secs_f64());
        state.metrics.clock_jumped(direction);
        let mut told = state.jumps.lock();
        *told = (told.0 + 1, Some(jump));
        drop(told);
        match direction {
            "ahead" => {
                let text = "the wall clock jumped ahead: it was set, or the machine was suspended";
                tracing::warn!(direction, seconds, "{text}");
            }
            _ => tracing::warn!(direction, seconds, "the wall clock jumped back: it was set"),
        }
    }
}
