//! Time, names and numbers from one seam, so that a paused runtime and a seed replay a run.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tokio::time::Instant;

/// The alphabet of generated names: no vowels, nothing that looks like something else.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The server's clock: wall time at start, advanced by `tokio::time`.
#[derive(Debug)]
pub struct Clock {
    epoch: Timestamp,
    start: Instant,
}

/// The server's source of randomness.
#[derive(Debug)]
pub struct Chance(Mutex<StdRng>);

// === impl Clock ===

impl Default for Clock {
    fn default() -> Self {
        Self::starting_at(Timestamp::now())
    }
}

impl Clock {
    /// A clock that shows `epoch` now.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.start.elapsed()).unwrap_or_default();
        self.epoch.checked_add(passed).unwrap_or(self.epoch)
    }

    /// The time now as objects carry it: RFC 3339, whole seconds.
    pub fn stamp(&self) -> String {
        stamp(self.now())
    }
}

/// A time as objects carry it: RFC 3339, whole seconds.
pub fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

// === impl Chance ===

impl Chance {
    /// From a seed, or from the operating system.
    pub fn new(seed: Option<u64>) -> Self {
        let rng = match seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => StdRng::seed_from_u64(rand::rng().next_u64()),
        };
        Self(Mutex::new(rng))
    }

    /// A version 4 UUID.
    pub fn uuid(&self) -> String {
        let mut bytes = [0; 16];
        self.0.lock().fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Five letters for the end of a generated name.
    pub fn suffix(&self) -> String {
        let mut rng = self.0.lock();
        (0..5).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect()
    }

    /// A number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        self.0.lock().random_range(0..end.max(1))
    }
}
