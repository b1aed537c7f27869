//! The name of a replica, and the random numbers that follow from it.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// One of the processes that run an operator.
pub(crate) struct Replica {
    name: String,
    seed: u64,
}

// === impl Replica ===

impl Replica {
    /// Creates the replica that this process is.
    pub(crate) fn new(seed: Option<u64>, name: Option<String>) -> Self {
        let seed = match (seed, &name) {
            (None, _) =>
            {
                #[expect(clippy::disallowed_methods, reason = "there is no seed to repeat")]
                rand::random()
            }
            (Some(seed), None) => seed,
            // Replicas that wait for equal times would meet again and again.
            (Some(seed), Some(name)) => name
                .bytes()
                .fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)),
        };
        let host = || std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".into());
        Self { name: name.unwrap_or_else(host), seed }
    }

    /// The name: that of the pod, unless another one was set.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The seed of all random decisions of this replica.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The identity that a lease is held under: no other process has it.
    pub(super) fn identity(&self) -> String {
        let mut bytes = [0; 16];
        StdRng::seed_from_u64(self.seed).fill_bytes(&mut bytes);
        format!("{}_{}", self.name, uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// The instance that reports events of `controller`.
    pub(crate) fn instance(&self, controller: &str) -> String {
        format!("{controller}-{}", self.name).chars().take(128).collect()
    }
}
