//! Values by their hashes, so that a search among many does not compare with each.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use windlass_text::work;

use super::{Map, Val};

/// The places of values by their hashes.
///
/// **Invariant:** values that are equal have the same hash, or one of them has none. Once a value
/// without a hash is among them, every place is a candidate for every value.
#[derive(Debug, Default)]
pub struct Buckets {
    places: HashMap<u64, Vec<usize>>,
    count: usize,
    unknown: bool,
}

/// The places at which a value may be.
pub enum Candidates<'b> {
    Few(std::slice::Iter<'b, usize>),
    All(std::ops::Range<usize>),
}

// === impl Buckets ===

impl Buckets {
    /// Adds the next value, by its hash.
    pub fn push(&mut self, hash: Option<u64>) {
        match hash {
            Some(hash) => self.places.entry(hash).or_default().push(self.count),
            None => self.unknown = true,
        }
        self.count += 1;
    }

    /// Returns the places at which a value of a hash may be, the first one first.
    pub fn candidates(&self, hash: Option<u64>) -> Candidates<'_> {
        match hash {
            Some(hash) if !self.unknown => {
                Candidates::Few(self.places.get(&hash).map_or(&[][..], Vec::as_slice).iter())
            }
            _ => Candidates::All(0..self.count),
        }
    }
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        // A run whose limit is exceeded ends with its next step, whatever is found here.
        if work::is_over() {
            return None;
        }
        work::spent(1);
        match self {
            Self::Few(places) => places.next().copied(),
            Self::All(range) => range.next(),
        }
    }
}

/// Returns the hash of a value; `None` for one that can be equal to a value of another form.
pub fn hash(value: &Val<'_>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    feed(value, &mut hasher)?;
    Some(hasher.finish())
}

/// Returns the hash of the values of some keys of a map.
pub fn hash_keys(keys: &[String], value: &Val<'_>) -> Option<u64> {
    let Val::Map(map) = value else { return None };
    let mut hasher = DefaultHasher::new();
    for key in keys {
        match map.raw(key) {
            Some(value) => feed(&value.ok()?, &mut hasher)?,
            None => 0_u8.hash(&mut hasher),
        }
    }
    Some(hasher.finish())
}

fn feed(value: &Val<'_>, hasher: &mut DefaultHasher) -> Option<()> {
    work::spent(1);
    match value {
        Val::Null => 1_u8.hash(hasher),
        Val::Bool(value) => (2_u8, value).hash(hasher),
        Val::Int(number) => (3_u8, i128::from(*number)).hash(hasher),
        Val::Uint(number) => (3_u8, i128::from(*number)).hash(hasher),
        Val::Double(number) if number.fract() == 0.0 && number.abs() < 1e20 => {
            (3_u8, *number as i128).hash(hasher);
        }
        Val::Double(number) => (4_u8, number.to_bits()).hash(hasher),
        Val::Str(text) => {
            work::scanned(text.len());
            (5_u8, &**text).hash(hasher);
        }
        Val::Bytes(bytes) => {
            work::scanned(bytes.len());
            (6_u8, &**bytes).hash(hasher);
        }
        // The order of items does not matter if either list is a set.
        Val::List(list) => (7_u8, list.len()).hash(hasher),
        Val::Map(map) => feed_map(map, hasher)?,
        _ => return None,
    }
    Some(())
}

/// Maps may have their keys in different orders, so each key counts by itself.
fn feed_map(map: &Map<'_>, hasher: &mut DefaultHasher) -> Option<()> {
    (8_u8, map.len()).hash(hasher);
    let mut sum = 0_u64;
    for key in map.keys() {
        let Val::Str(name) = &key else { return None };
        sum = sum.wrapping_add(hash(&key)?.rotate_left(1) ^ hash(&map.raw(name)?.ok()?)?);
    }
    sum.hash(hasher);
    Some(())
}
