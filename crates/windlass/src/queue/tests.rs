mod concurrent;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::{Instant, advance, sleep};

use super::{Add, Bucket, FastSlow, LOW_PRIORITY, Limiter, MaxOf, QueueOptions, Work, WorkQueue};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn low() -> Add {
    Add::default().priority(LOW_PRIORITY)
}

fn take<K: super::QueueKey>(queue: &WorkQueue<K>) -> Option<K> {
    queue.try_get().map(|work| work.key().clone())
}

#[tokio::test(start_paused = true)]
async fn a_key_added_during_its_work_is_handed_out_once_more_and_only_after_that() {
    let queue = WorkQueue::new();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add("a");
    queue.add("a");
    assert!(queue.try_get().is_none());
    assert_eq!((queue.len(), queue.stats().adds), (0, 2));
    drop(work);
    assert_eq!((take(&queue), take(&queue)), (Some("a"), None));
    assert_eq!(queue.stats().adds, 2);
}

#[test]
fn a_limiter_is_asked_unless_it_says_that_it_is_clear() {
    /// Does not implement `is_clear`.
    struct Silent(FastSlow<&'static str>);
    impl Limiter<&'static str> for Silent {
        fn when(&mut self, key: &&'static str) -> Duration {
            self.0.when(key)
        }
        fn forget(&mut self, key: &&'static str) {
            self.0.forget(key);
        }
        fn failures(&self, key: &&'static str) -> u32 {
            self.0.failures(key)
        }
    }
    let mut known = FastSlow::new(ms(1), ms(1), 1);
    known.when(&"a");
    let parts = || MaxOf::default().and(Bucket::new(1.0, 1)).and(known.clone());
    for (queue, before) in [
        (WorkQueue::new(), 0),
        (QueueOptions::new().limiter(known.clone()).build(), 1),
        (QueueOptions::new().limiter(parts()).build(), 1),
        (QueueOptions::new().limiter(Silent(known.clone())).build(), 1),
    ] {
        assert_eq!(queue.failures(&"a"), before);
        queue.add_rate_limited("a");
        queue.add_rate_limited("b");
        assert_eq!((queue.failures(&"a"), queue.failures(&"b")), (before + 1, 1));
        queue.forget(&"a");
        assert_eq!((queue.failures(&"a"), queue.failures(&"b")), (0, 1));
        queue.forget(&"b");
        assert_eq!(queue.failures(&"b"), 0);
        queue.add_rate_limited("a");
        assert_eq!(queue.failures(&"a"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_only_moves_a_key_earlier_and_a_ready_key_ignores_it() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("a", ms(50));
    queue.add_after("a", ms(20));
    queue.add_after("a", ms(90));
    assert_eq!((queue.len(), queue.waiting()), (0, 1));
    drop(queue.get().await.unwrap());
    assert_eq!(start.elapsed(), ms(20));
    queue.add("b");
    queue.add_after("b", ms(10));
    drop(queue.get().await.unwrap());
    advance(ms(100)).await;
    assert!(queue.try_get().is_none(), "one entry per key");
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_while_the_key_is_worked_on_marks_it_dirty() {
    let queue = WorkQueue::new();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add_after("a", ms(10));
    advance(ms(20)).await;
    assert!(queue.try_get().is_none());
    drop(work);
    assert_eq!(take(&queue), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_after_the_work_is_kept() {
    let queue = WorkQueue::new();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add_after("a", ms(10));
    drop(work);
    assert!(queue.try_get().is_none());
    advance(ms(10)).await;
    assert_eq!(take(&queue), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn every_rate_limited_add_counts_a_failure_and_the_shorter_delay_is_used() {
    let queue = QueueOptions::new().limiter(FastSlow::new(ms(5), ms(500), 1)).build();
    assert_eq!(queue.add_rate_limited("a"), ms(5));
    assert_eq!(queue.add_rate_limited("a"), ms(500));
    let both = Add::default().rate_limited().after(ms(30));
    assert_eq!(queue.add_with("a", both), ms(30));
    assert_eq!(queue.failures(&"a"), 3);
    queue.shutdown();
    queue.add_rate_limited("a");
    assert_eq!(queue.failures(&"a"), 4);
    queue.forget(&"a");
    assert_eq!(queue.failures(&"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn higher_priorities_come_first_and_a_raise_moves_to_the_end_of_its_level() {
    let queue = WorkQueue::new();
    queue.add_with("low", low());
    queue.add_with("raised", low());
    queue.add("one");
    queue.add("raised");
    queue.add_with("one", low());
    let order: Vec<_> = std::iter::from_fn(|| take(&queue)).collect();
    assert_eq!(order, ["one", "raised", "low"]);
}

#[tokio::test(start_paused = true)]
async fn an_add_during_the_work_has_its_own_priority() {
    let queue = WorkQueue::new();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add_with("a", low());
    drop(work);
    assert_eq!(queue.get().await.unwrap().priority(), LOW_PRIORITY);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_low_priority_does_not_starve() {
    let queue = WorkQueue::new();
    queue.add_with(0, low());
    let start = Instant::now();
    for key in 1.. {
        queue.add(key);
        queue.add(-key);
        if take(&queue) == Some(0) {
            break;
        }
        advance(ms(10)).await;
        assert!(start.elapsed() < Duration::from_secs(60), "starved");
    }
    assert!(start.elapsed() >= Duration::from_secs(9), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_aging_priorities_are_strict() {
    let queue = QueueOptions::new().aging(None).build();
    queue.add_with("low", low());
    advance(Duration::from_secs(3600)).await;
    queue.add("high");
    assert_eq!(take(&queue), Some("high"));
}

#[tokio::test(start_paused = true)]
async fn after_shutdown_ready_keys_are_still_handed_out_and_nothing_is_added() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add_after("late", ms(1));
    queue.shutdown();
    queue.shutdown();
    queue.add("b");
    assert_eq!(*queue.get().await.unwrap().key(), "a");
    assert!(queue.get().await.is_none());
    assert!(queue.closed());
}

#[tokio::test(start_paused = true)]
async fn shutdown_wakes_workers_that_wait() {
    let queue: WorkQueue<u8> = WorkQueue::new();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    sleep(ms(1)).await;
    queue.shutdown();
    for worker in waiting {
        assert!(worker.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_keys_in_work_and_dirty_ones_and_shutdown_ends_it() {
    let queue = WorkQueue::new();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add("a");
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    sleep(ms(1)).await;
    drop(work);
    sleep(ms(1)).await;
    assert!(!drained.is_finished(), "the dirty key has to be worked off");
    drop(queue.get().await.unwrap());
    drained.await.unwrap();

    let queue = WorkQueue::new();
    queue.add("a");
    let work = queue.get().await.unwrap();
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    sleep(ms(1)).await;
    queue.shutdown();
    drained.await.unwrap();
    drop(work);
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_takes_over_the_timer_of_one_that_is_dropped() {
    let queue = WorkQueue::new();
    queue.add_after("late", ms(500));
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|work| *work.key()) }
    });
    sleep(ms(1)).await;
    // This worker is woken for the earlier delay and then dropped.
    let gone = tokio::time::timeout(ms(5), queue.get());
    queue.add_after("early", ms(50));
    assert!(gone.await.is_err());
    assert_eq!(other.await.unwrap(), Some("early"));
}

#[tokio::test(start_paused = true)]
async fn keys_added_together_reach_as_many_waiting_workers() {
    let queue = WorkQueue::new();
    let held: Arc<Mutex<Vec<Work<u8>>>> = Arc::default();
    for _ in 0..3 {
        let (queue, held) = (queue.clone(), held.clone());
        tokio::spawn(async move {
            let work = queue.get().await;
            held.lock().extend(work);
        });
    }
    sleep(ms(1)).await;
    (0..3).for_each(|key| queue.add(key));
    sleep(ms(1)).await;
    assert_eq!(held.lock().len(), 3, "each holds its key, none waits for another to be done");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_woken_and_dropped_leaves_the_key_to_another() {
    let queue = WorkQueue::new();
    let mut gone = Box::pin(queue.get());
    assert!(futures::poll!(&mut gone).is_pending());
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|work| *work.key()) }
    });
    sleep(ms(1)).await;
    queue.add("a");
    drop(gone);
    assert_eq!(other.await.unwrap(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn taking_the_next_of_the_last_key_ends_a_drain() {
    let queue = WorkQueue::new();
    (0..2).for_each(|key| queue.add(key));
    let work = queue.try_get().unwrap();
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    sleep(ms(1)).await;
    let work = work.next().unwrap();
    assert!(work.next().is_none());
    drained.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stats_show_depth_latency_and_work() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add_with("b", low());
    queue.add_after("c", Duration::from_secs(60));
    advance(Duration::from_secs(2)).await;
    let work = queue.get().await.unwrap();
    advance(Duration::from_secs(3)).await;
    let stats = queue.stats();
    assert_eq!((stats.depth, stats.waiting, stats.processing), (1, 1, 1));
    assert_eq!((stats.adds, stats.retries), (2, 1));
    assert_eq!(stats.depth_by_priority, BTreeMap::from([(LOW_PRIORITY, 1)]));
    assert_eq!(stats.queue_latency.sum, Duration::from_secs(2));
    assert_eq!((stats.unfinished, stats.longest), (Duration::from_secs(3), Duration::from_secs(3)));
    drop(work);
    assert_eq!(queue.stats().work_duration.sum, Duration::from_secs(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_never_share_a_key_and_lose_none() {
    let queue: WorkQueue<usize> = WorkQueue::new();
    let active = Arc::new(Mutex::new(BTreeSet::new()));
    let last = Arc::new(Mutex::new(BTreeMap::new()));
    let wanted: Arc<Vec<AtomicUsize>> = Arc::new((0..20).map(|_| AtomicUsize::new(0)).collect());
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (queue, active, last, wanted) =
                (queue.clone(), active.clone(), last.clone(), wanted.clone());
            tokio::spawn(async move {
                while let Some(work) = queue.get().await {
                    assert!(active.lock().insert(*work.key()), "two workers on one key");
                    let seen = wanted[*work.key()].load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    last.lock().insert(*work.key(), seen);
                    active.lock().remove(work.key());
                }
            })
        })
        .collect();
    let adders: Vec<_> = (0..4)
        .map(|adder| {
            let (queue, wanted) = (queue.clone(), wanted.clone());
            tokio::spawn(async move {
                for round in 0..2000 {
                    let key = (round * 7 + adder) % 20;
                    wanted[key].fetch_add(1, Ordering::SeqCst);
                    match round % 5 {
                        0 => queue.add_after(key, Duration::from_micros(50)),
                        _ => queue.add(key),
                    }
                    if round % 50 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.unwrap();
    }
    while queue.waiting() > 0 {
        sleep(ms(1)).await;
    }
    queue.drain().await;
    for worker in workers {
        worker.await.unwrap();
    }
    for (key, count) in wanted.iter().enumerate() {
        let seen = last.lock().get(&key).copied();
        assert_eq!(seen, Some(count.load(Ordering::SeqCst)), "the last add of {key} was seen");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, i32),
    AddAfter(u8, i32, u64),
    AddRateLimited(u8, i32),
    Forget(u8),
    Get,
    Done(usize),
    Next(usize),
    Advance(u64),
    Shutdown,
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop_oneof![Just(-100), Just(0), Just(50)];
    prop_oneof![
        40 => (0..6_u8, priority.clone()).prop_map(|(k, p)| Step::Add(k, p)),
        20 => (0..6_u8, priority.clone(), 1..50_u64).prop_map(|(k, p, t)| Step::AddAfter(k, p, t)),
        20 => (0..6_u8, priority).prop_map(|(k, p)| Step::AddRateLimited(k, p)),
        10 => (0..6_u8).prop_map(Step::Forget),
        40 => Just(Step::Get),
        30 => (0..4_usize).prop_map(Step::Done),
        20 => (0..4_usize).prop_map(Step::Next),
        20 => (1..40_u64).prop_map(Step::Advance),
        1 => Just(Step::Shutdown),
    ]
}

/// A model of the queue: plain lists that are searched from end to end.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Model {
    now: u64,
    order: u64,
    /// The priority, order and time of each key.
    ready: BTreeMap<u8, (i32, u64, u64)>,
    waiting: BTreeMap<u8, (i32, u64, u64)>,
    working: BTreeSet<u8>,
    dirty: BTreeMap<u8, i32>,
    failures: BTreeMap<u8, u32>,
    closed: bool,
    /// The milliseconds of waiting that equal one point of priority.
    point: Option<i64>,
}

impl Model {
    fn add(&mut self, key: u8, priority: i32) {
        if !self.closed {
            self.enqueue(key, priority);
        }
    }

    fn enqueue(&mut self, key: u8, priority: i32) {
        self.order += 1;
        if self.working.contains(&key) {
            let known = self.dirty.entry(key).or_insert(priority);
            *known = (*known).max(priority);
            return;
        }
        let waited = self.waiting.remove(&key).map_or(i32::MIN, |(p, _, _)| p);
        let priority = priority.max(waited);
        match self.ready.get(&key) {
            Some((known, ..)) if *known >= priority => {}
            _ => {
                self.ready.insert(key, (priority, self.order, self.now));
            }
        }
    }

    fn add_after(&mut self, key: u8, priority: i32, after: u64) {
        if self.closed {
            return;
        }
        self.order += 1;
        if let Some((known, ..)) = self.ready.get(&key) {
            if *known < priority {
                self.enqueue(key, priority);
            }
            return;
        }
        let until = self.now + after;
        let order = self.order;
        let known = self.waiting.entry(key).or_insert((priority, until, order));
        known.0 = known.0.max(priority);
        if until < known.1 {
            known.1 = until;
            known.2 = order;
        }
    }

    fn add_rate_limited(&mut self, key: u8, priority: i32) {
        let failures = self.failures.entry(key).or_default();
        let after = 5 << *failures;
        *failures += 1;
        self.add_after(key, priority, after);
    }

    fn promote(&mut self) {
        loop {
            let due = self.waiting.iter().filter(|(_, w)| w.1 <= self.now);
            let Some((key, (priority, ..))) = due.min_by_key(|(_, w)| (w.1, w.2)) else { return };
            let (key, priority) = (*key, *priority);
            self.waiting.remove(&key);
            self.enqueue(key, priority);
        }
    }

    fn get(&mut self) -> Option<(u8, i32)> {
        self.promote();
        let rank = |(priority, order, since): (i32, u64, u64)| match self.point {
            None => (i64::from(-priority), -priority, order),
            Some(point) => (since as i64 - i64::from(priority) * point, -priority, order),
        };
        let first = self.ready.iter().min_by_key(|(_, ready)| rank(**ready));
        let (key, priority) = first.map(|(key, (priority, ..))| (*key, *priority))?;
        self.ready.remove(&key);
        self.working.insert(key);
        Some((key, priority))
    }

    fn done(&mut self, key: u8) {
        self.working.remove(&key);
        if let Some(priority) = self.dirty.remove(&key) {
            self.enqueue(key, priority);
        }
    }

    fn shutdown(&mut self) {
        self.closed = true;
        self.waiting.clear();
    }
}

/// Applies the steps to the queue and to the model and compares both after each.
async fn compare(steps: Vec<Step>, aging: Option<Duration>) {
    let queue = QueueOptions::new().aging(aging).build();
    let point = aging.map(|aging| (aging.as_millis() / 100) as i64);
    let mut model = Model { point, ..Model::default() };
    let mut held: Vec<Work<u8>> = Vec::new();
    for step in steps {
        model.promote();
        queue.len();
        match step {
            Step::Add(key, priority) => {
                queue.add_with(key, Add::default().priority(priority));
                model.add(key, priority);
            }
            Step::AddAfter(key, priority, after) => {
                queue.add_with(key, Add::default().priority(priority).after(ms(after)));
                model.add_after(key, priority, after);
            }
            Step::AddRateLimited(key, priority) => {
                queue.add_with(key, Add::default().priority(priority).rate_limited());
                model.add_rate_limited(key, priority);
            }
            Step::Forget(key) => {
                queue.forget(&key);
                model.failures.remove(&key);
            }
            Step::Get => {
                let work = queue.try_get();
                let got = work.as_ref().map(|work| (*work.key(), work.priority()));
                assert_eq!(got, model.get());
                held.extend(work);
            }
            Step::Done(at) if at < held.len() => {
                let work = held.remove(at);
                model.done(*work.key());
                drop(work);
            }
            Step::Next(at) if at < held.len() => {
                let work = held.remove(at);
                model.done(*work.key());
                let next = work.next();
                let got = next.as_ref().map(|work| (*work.key(), work.priority()));
                assert_eq!(got, model.get());
                held.extend(next);
            }
            Step::Done(_) | Step::Next(_) => {}
            Step::Advance(time) => {
                advance(ms(time)).await;
                model.now += time;
            }
            Step::Shutdown => {
                queue.shutdown();
                model.shutdown();
            }
        }
        model.promote();
        assert_eq!(queue.len(), model.ready.len());
        assert_eq!(queue.waiting(), model.waiting.len());
        for key in 0..6 {
            let known = model.failures.get(&key).copied().unwrap_or(0);
            assert_eq!(queue.failures(&key), known);
        }
    }
}

proptest! {
    #[test]
    fn the_queue_behaves_like_plain_lists(
        steps in prop::collection::vec(step(), 0..80),
        aging in prop_oneof![Just(None), Just(Some(ms(100))), Just(Some(ms(1000)))],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(compare(steps, aging));
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_the_maximum_duration_is_kept_and_can_be_shortened() {
    let queue = WorkQueue::new();
    queue.add_after("never", Duration::MAX);
    queue.add_after("soon", Duration::MAX);
    queue.add_after("soon", ms(5));
    assert_eq!(*queue.get().await.unwrap().key(), "soon");
    advance(Duration::from_secs(365 * 86_400)).await;
    assert_eq!((queue.len(), queue.waiting()), (0, 1));
    // A limiter may return any delay.
    let queue = QueueOptions::new().limiter(FastSlow::new(Duration::MAX, Duration::MAX, 1)).build();
    queue.add_rate_limited("a");
    assert_eq!(queue.waiting(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_hands_out_each_due_key_once() {
    let queue = WorkQueue::new();
    for key in 0..10_u64 {
        queue.add_after(key, Duration::from_secs(3600 * key + 1));
    }
    advance(Duration::from_secs(86_400)).await;
    let woken: Vec<_> = std::iter::from_fn(|| take(&queue)).collect();
    assert_eq!(woken, (0..10).collect::<Vec<_>>(), "in the order of their times");
    assert_eq!(queue.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_key_that_is_worked_on_for_longest_is_known() {
    let queue = WorkQueue::new();
    assert_eq!(queue.longest(), None);
    queue.add("b");
    let _first = queue.get().await.unwrap();
    advance(ms(20)).await;
    queue.add("a");
    let _second = queue.get().await.unwrap();
    assert_eq!(queue.longest(), Some(("b", ms(20))));
}
