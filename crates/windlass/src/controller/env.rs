//! What a manager provides to its controllers.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::clock::Clock;
use crate::events::Recorder;
use crate::metrics::Metrics;

/// What a manager provides to the controllers of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct ControllerEnv {
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) stopping: CancellationToken,
    pub(crate) seed: u64,
    /// The prefix of the annotations that switch something for one object.
    pub(crate) switch_prefix: Arc<str>,
    /// The name of the cluster; empty for the home cluster.
    pub(crate) cluster: String,
}

// === impl ControllerEnv ===

impl ControllerEnv {
    /// Returns the name of a controller in logs and metrics. It contains the cluster, because
    /// controllers of two clusters may have the same name.
    pub(super) fn display_name(&self, name: &str) -> Arc<str> {
        match self.cluster.as_str() {
            "" => name.into(),
            cluster => format!("{cluster}/{name}").into(),
        }
    }

    /// Returns the seed of a controller.
    pub(super) fn seed_of(&self, name: &str) -> u64 {
        self.seed ^ name.bytes().fold(0, |h: u64, b| h.wrapping_mul(31) + u64::from(b))
    }
}
