//! Identifiers of reconciles, for the log.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::splitmix::mix;

/// Creates identifiers that are unique in a process and the same in every run with the same seed.
#[derive(Debug, Default)]
pub(crate) struct AttemptIds {
    seed: u64,
    count: AtomicU64,
}

// === impl AttemptIds ===

impl AttemptIds {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> uuid::Uuid {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let high = mix(self.seed ^ mix(count));
        let bits = (u128::from(high) << 64) | u128::from(mix(high ^ count));
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }
}
