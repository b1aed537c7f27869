//! The server's one source of randomness: UIDs, generated names, timeouts.
//!
//! **Invariant:** with a seed, a value depends on what it is for (a create of this object, the end
//! of this generated name) and on how often that was asked before, and on nothing else: one more
//! request does not change the names and UIDs of all later objects.

use std::collections::HashMap;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// The alphabet of generated names: no vowels, and no characters that look alike.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Random values, reproducible if there is a seed.
///
/// Every value is drawn for a purpose: a list of words such as `["uid", "pods", "default", "web"]`.
#[derive(Debug)]
pub struct Randomness {
    source: Source,
}

#[derive(Debug)]
enum Source {
    System(Box<Mutex<StdRng>>),
    /// The seed, and how often each purpose was asked for, by its hash.
    Seeded(u64, Mutex<HashMap<u64, u64>>),
}

// === impl Randomness ===

impl Randomness {
    /// Creates a source from a seed, or from the operating system's randomness.
    pub fn new(seed: Option<u64>) -> Self {
        let source = match seed {
            Some(seed) => Source::Seeded(seed, Mutex::default()),
            None => {
                #[expect(clippy::disallowed_methods, reason = "there is no seed to repeat")]
                let rng = StdRng::seed_from_u64(rand::rng().next_u64());
                Source::System(Box::new(Mutex::new(rng)))
            }
        };
        Self { source }
    }

    /// Creates a source for a copy of the server: with a seed, it continues as this one would.
    pub fn fork(&self) -> Self {
        match &self.source {
            Source::System(_) => Self::new(None),
            Source::Seeded(seed, counts) => {
                Self { source: Source::Seeded(*seed, Mutex::new(counts.lock().clone())) }
            }
        }
    }

    /// Returns the seed, if there is one.
    pub fn seed(&self) -> Option<u64> {
        match &self.source {
            Source::System(_) => None,
            Source::Seeded(seed, _) => Some(*seed),
        }
    }

    /// Returns a version 4 UUID.
    pub fn uuid(&self, purpose: &[&str]) -> String {
        let mut bytes = [0; 16];
        self.draw(purpose, |rng| rng.fill_bytes(&mut bytes));
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Returns five characters for the end of a generated name.
    pub fn suffix(&self, purpose: &[&str]) -> String {
        let letter = |rng: &mut StdRng| ALPHABET[rng.random_range(0..ALPHABET.len())];
        self.draw(purpose, |rng| (0..5).map(|_| char::from(letter(rng))).collect())
    }

    /// Returns a number below `end`.
    pub fn below(&self, end: u64, purpose: &[&str]) -> u64 {
        self.draw(purpose, |rng| rng.random_range(0..end.max(1)))
    }

    fn draw<T>(&self, purpose: &[&str], value: impl FnOnce(&mut StdRng) -> T) -> T {
        match &self.source {
            Source::System(rng) => value(&mut rng.lock()),
            Source::Seeded(seed, counts) => {
                let purpose = hash(*seed, purpose);
                let mut counts = counts.lock();
                let count = counts.entry(purpose).or_default();
                *count += 1;
                value(&mut StdRng::seed_from_u64(purpose.wrapping_add(*count)))
            }
        }
    }
}

/// FNV-1a over the seed and the words, which must be equal on every machine and in every version.
fn hash(seed: u64, words: &[&str]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let start = seed.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, step);
    // A byte that no UTF-8 text contains ends each word.
    words.iter().fold(start, |hash, word| step(word.bytes().fold(hash, step), 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_requests_do_not_shift_a_seeded_value() {
        let (one, other) = (Randomness::new(Some(7)), Randomness::new(Some(7)));
        other.uuid(&["uid", "pods", "default", "other"]);
        other.suffix(&["name", "pods", "default", "other-"]);
        let purpose = ["uid", "pods", "default", "web"];
        assert_eq!(one.uuid(&purpose), other.uuid(&purpose));
        assert_ne!(
            one.uuid(&purpose),
            one.uuid(&purpose),
            "the second of a name is another object"
        );
    }

    #[test]
    fn a_fork_continues_as_its_origin_would() {
        let random = Randomness::new(Some(7));
        let first = random.suffix(&["a"]);
        let fork = random.fork();
        let second = random.suffix(&["a"]);
        assert_eq!(fork.suffix(&["a"]), second);
        assert_ne!(first, second);
        assert_eq!(fork.seed(), Some(7));
    }

    #[test]
    fn words_are_kept_apart() {
        assert_ne!(hash(1, &["ab", "c"]), hash(1, &["a", "bc"]));
        assert_ne!(hash(1, &["a"]), hash(2, &["a"]));
    }

    #[test]
    fn seeds_and_purposes_give_different_values() {
        let random = Randomness::new(Some(1));
        let all: std::collections::BTreeSet<_> =
            (0..1000).map(|n| random.suffix(&["name", &n.to_string()])).collect();
        assert!(all.len() > 995, "{}", all.len());
        assert!(random.below(3, &["a"]) < 3);
        assert_eq!(random.below(0, &["a"]), 0);
    }
}
