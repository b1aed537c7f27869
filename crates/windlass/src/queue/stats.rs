//! The statistics of a work queue, as plain values.

use std::collections::BTreeMap;
use std::time::Duration;

/// The statistics of a queue at one moment.
///
/// # Examples
///
/// ```
/// use windlass::queue::{QueueStats, WorkQueue};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let queue = WorkQueue::default();
/// queue.add("a");
/// queue.add("b");
/// let work = queue.get().await;
/// let stats: QueueStats = queue.stats();
/// assert_eq!((stats.depth, stats.processing, stats.adds), (1, 1, 2));
/// assert_eq!(stats.depth_by_priority[&0], 1);
/// # drop(work);
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct QueueStats {
    /// The keys that are ready for a worker.
    pub depth: usize,
    /// The keys that are ready for a worker, by priority.
    pub depth_by_priority: BTreeMap<i32, usize>,
    /// The keys that are delayed.
    pub waiting: usize,
    /// The keys that are being worked on.
    pub processing: usize,
    /// The adds so far, without those of keys that were queued already.
    pub adds: u64,
    /// The adds with a delay so far.
    pub retries: u64,
    /// How long keys were ready before a worker took them.
    pub(crate) queue_latency: Histogram,
    /// How long keys were worked on.
    pub(crate) work_duration: Histogram,
    /// The time for which the keys in progress have been worked on, added up.
    pub unfinished: Duration,
    /// The longest of these times.
    pub longest: Duration,
}

/// A histogram with upper bounds of 10 ns, 100 ns, … 1000 s and one bucket above.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Histogram {
    /// The observations of each bucket, not cumulative.
    pub(crate) buckets: [u64; 13],
    /// The number of all observations.
    pub(crate) count: u64,
    /// The sum of all observations.
    pub(crate) sum: Duration,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) adds: u64,
    pub(super) retries: u64,
    pub(super) queue_latency: Tally,
    pub(super) work_duration: Tally,
}

/// A histogram in its compact form: most observations touch one cache line.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Tally {
    /// Nanoseconds.
    sum: u128,
    buckets: [u64; 13],
}

// === impl Histogram ===

impl Histogram {
    /// The upper bounds in seconds of all buckets but the last.
    ///
    /// Two are slightly less than a power of ten because Go's libraries compute them that way, and
    /// dashboards identify buckets by the text of their bounds.
    #[cfg(any(test, feature = "metrics"))]
    pub(crate) const BOUNDS: [f64; 12] = [
        1e-8,
        1e-7,
        1e-6,
        9.999999999999999e-6,
        9.999999999999999e-5,
        1e-3,
        1e-2,
        1e-1,
        1.0,
        10.0,
        100.0,
        1000.0,
    ];

    /// Adds one observation.
    #[cfg(test)]
    pub(crate) fn record(&mut self, value: Duration) {
        self.buckets[bucket(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
    }
}

// === impl Tally ===

impl Tally {
    pub(super) fn record(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.sum += u128::from(nanos);
    }

    pub(super) fn histogram(&self) -> Histogram {
        const SECOND: u128 = 1_000_000_000;
        let seconds = u64::try_from(self.sum / SECOND).unwrap_or(u64::MAX);
        Histogram {
            buckets: self.buckets,
            count: self.buckets.iter().sum(),
            sum: Duration::new(seconds, (self.sum % SECOND) as u32),
        }
    }
}

/// Returns the bucket of an observation. The first one ends at 10 ns.
fn bucket(nanos: u64) -> usize {
    let (bucket, most) = BY_BITS[(u64::BITS - nanos.leading_zeros()) as usize];
    bucket as usize + usize::from(nanos > most)
}

/// For each number of bits, the bucket of the smallest number with so many bits, and its bound.
/// The largest number of a length is less than twice the smallest, so those above the bound are all
/// in the next bucket.
static BY_BITS: [(u8, u64); 65] = {
    let mut table = [(0, 10); 65];
    let (mut bits, mut bucket, mut most) = (1, 0, 10_u64);
    while bits <= 64 {
        while bucket < 12 && (1_u64 << (bits - 1)) > most {
            bucket += 1;
            most = if bucket == 12 { u64::MAX } else { most * 10 };
        }
        table[bits] = (bucket, most);
        bits += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_falls_into_the_bucket_that_bounds_it() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::ZERO);
        histogram.record(Duration::from_nanos(10));
        histogram.record(Duration::from_nanos(11));
        histogram.record(Duration::from_secs(1000));
        histogram.record(Duration::from_secs(1001));
        assert_eq!(histogram.buckets[0], 2);
        assert_eq!(histogram.buckets[1], 1);
        assert_eq!(histogram.buckets[11], 1);
        assert_eq!(histogram.buckets[12], 1);
        assert_eq!(histogram.count, 5);
    }
    #[test]
    fn a_tally_counts_like_the_histogram() {
        let (mut histogram, mut tally) = (Histogram::default(), Tally::default());
        for nanos in [0, 1, 9, 10, 11, 100, 101, 999, 1_000, 1_001, 5 << 40, u64::MAX] {
            histogram.record(Duration::from_nanos(nanos));
            tally.record(nanos);
        }
        assert_eq!(tally.histogram(), histogram);
        assert_eq!(histogram.buckets[..4], [4, 2, 3, 1]);
    }

    #[test]
    fn the_bucket_of_every_length_of_number_is_the_first_that_is_not_exceeded() {
        let bounds = Histogram::BOUNDS.map(|seconds| (seconds * 1e9).round() as u64);
        for bits in 0..64 {
            let edge = 1_u64 << bits;
            for nanos in bounds.into_iter().chain([edge, u64::MAX]) {
                for nanos in [nanos - 1, nanos, nanos.saturating_add(1)] {
                    let searched = bounds.partition_point(|bound| *bound < nanos);
                    assert_eq!(bucket(nanos), searched, "{nanos}");
                }
            }
        }
    }
}
