//! The figures of a work queue, as plain values for whoever exports them.

use std::collections::BTreeMap;
use std::time::Duration;

/// All figures of a queue at one moment.
///
/// # Examples
///
/// ```
/// use windlass::queue::WorkQueue;
///
/// let queue = WorkQueue::new();
/// queue.add("a");
/// queue.add("b");
/// let work = queue.try_get();
/// let figures = queue.stats();
/// assert_eq!((figures.depth, figures.processing, figures.adds), (1, 1, 2));
/// assert_eq!(figures.depth_by_priority[&0], 1);
/// assert_eq!(queue.longest().expect("one is in work").0, "a");
/// # drop(work);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueStats {
    /// Keys ready for a worker.
    pub depth: usize,
    /// The same by priority.
    pub depth_by_priority: BTreeMap<i32, usize>,
    /// Keys that wait for their time.
    pub waiting: usize,
    /// Keys in the hands of workers.
    pub processing: usize,
    /// Adds that changed anything.
    pub adds: u64,
    /// Adds that had to wait.
    pub retries: u64,
    /// How long keys were ready before a worker took them.
    pub queue_latency: Histogram,
    /// How long workers held keys.
    pub work_duration: Histogram,
    /// The sum of the times that keys now in work have been there.
    pub unfinished: Duration,
    /// The longest of those times.
    pub longest: Duration,
}

/// A histogram with upper bounds of 10 ns, 100 ns, … 1000 s and one bucket above.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::Histogram;
///
/// let mut histogram = Histogram::default();
/// histogram.record(Duration::from_millis(500));
/// let bucket = histogram.buckets.iter().position(|count| *count == 1).expect("was counted");
/// assert_eq!(Histogram::BOUNDS[bucket], 1.0, "at most a second");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Observations per bucket, not cumulated.
    pub buckets: [u64; 13],
    /// All observations.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) adds: u64,
    pub(super) retries: u64,
    pub(super) queue_latency: Tally,
    pub(super) work_duration: Tally,
}

/// A histogram while it is counted. What most observations touch is one line of the cache.
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
    /// Two are a bit less than a power of ten: so Go's libraries compute them, and dashboards know
    /// buckets by the text of their bounds.
    pub const BOUNDS: [f64; 12] = [
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

    /// Counts one observation.
    pub fn record(&mut self, value: Duration) {
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

/// Tells in which bucket an observation falls: the first ends with 10 ns.
fn bucket(nanos: u64) -> usize {
    let (bucket, most) = BY_BITS[(u64::BITS - nanos.leading_zeros()) as usize];
    bucket as usize + usize::from(nanos > most)
}

/// The bucket of the least number of so many bits, and its bound. Numbers of one length are
/// less than twice each other, so those above the bound are all in the next bucket.
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
