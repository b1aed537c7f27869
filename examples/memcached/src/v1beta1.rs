//! The next version: the memory of the servers is a field.
//!
//! In `v1alpha1` it is an annotation, as it happens with what people need before an API has a place
//! for it. Objects are stored as `v1alpha1`, and [`conversion`] turns one form into the other.

use std::collections::BTreeMap;

use windlass::conversion::Conversion;
use windlass::{Result, api};

use crate::MemcachedStatus;

/// The annotation of `v1alpha1` with the memory of each server, in megabytes.
pub const MEMORY: &str = "cache.example.com/memory-megabytes";
/// The memory of a server if nothing else is asked for, in megabytes.
pub const DEFAULT_MEMORY: i32 = 64;

/// A cluster of memcached servers.
#[api(
    group = "cache.example.com",
    version = "v1beta1",
    kind = "Memcached",
    short = "mc",
    storage = false,
    status = MemcachedStatus,
    column("Size", ".spec.size"),
    column("Available", ".status.conditions[?(@.type==\"Available\")].status"),
    column("Age", ".metadata.creationTimestamp")
)]
pub struct MemcachedSpec {
    /// How many pods run memcached.
    #[k8s(min = 1, max = 5)]
    pub size: i32,
    /// How much memory each server uses for its items, in megabytes; 64 by default.
    #[k8s(min = 1, max = 65536)]
    pub memory_megabytes: Option<i32>,
}

/// Returns the memory that the annotation asks for; `None` if it is not there or not a number that
/// the field accepts.
pub fn memory(annotations: &BTreeMap<String, String>) -> Option<i32> {
    let megabytes = annotations.get(MEMORY)?.parse().ok()?;
    (1..=65536).contains(&megabytes).then_some(megabytes)
}

/// Converts between the versions: an annotation here is a field there.
pub fn conversion() -> Conversion<crate::Memcached> {
    Conversion::new().version_with(to_stored, from_stored)
}

fn to_stored(memcached: Memcached) -> Result<crate::Memcached> {
    let Memcached { mut metadata, spec, status } = memcached;
    if let Some(megabytes) = spec.memory_megabytes {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(MEMORY.into(), megabytes.to_string());
    }
    Ok(crate::Memcached { metadata, spec: crate::MemcachedSpec { size: spec.size }, status })
}

fn from_stored(memcached: crate::Memcached) -> Result<Memcached> {
    let crate::Memcached { mut metadata, spec, status } = memcached;
    let memory_megabytes = metadata.annotations.as_ref().and_then(memory);
    if let (Some(_), Some(annotations)) = (memory_megabytes, &mut metadata.annotations) {
        annotations.remove(MEMORY);
    }
    Ok(Memcached { metadata, spec: MemcachedSpec { size: spec.size, memory_megabytes }, status })
}

#[cfg(test)]
mod tests {
    #[test]
    fn generated_objects_of_both_versions_survive_the_way_to_the_other_and_back() {
        super::conversion().assert_round_trip();
    }
}
