//! The queue compared with a model of plain lists, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::advance;

use super::ms;
use crate::queue::{Add, QueueOptions, Work};

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
pub(super) struct Model {
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
    pub(super) fn add(&mut self, key: u8, priority: i32) {
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

    pub(super) fn get(&mut self) -> Option<(u8, i32)> {
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

    pub(super) fn done(&mut self, key: u8) {
        self.working.remove(&key);
        if let Some(priority) = self.dirty.remove(&key) {
            self.enqueue(key, priority);
        }
    }

    pub(super) fn shutdown(&mut self) {
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
