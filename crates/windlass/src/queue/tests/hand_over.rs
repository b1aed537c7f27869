//! Any number of workers that begin to wait, are woken, stop waiting and finish, in any order.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use proptest::prelude::*;
use tokio::time::advance;

use super::ms;
use crate::queue::{Work, WorkQueue};

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    AddAfter(u8, u64),
    /// A worker begins to wait, or one that is only to be given what no other takes.
    Wait(bool),
    /// The future of a worker is dropped, woken or not.
    Drop(usize),
    /// Only one of the workers that were woken runs.
    RunOne(usize),
    /// All workers that were woken run.
    Run,
    Done(usize),
    Advance(u64),
    Retire,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..6_u8).prop_map(Step::Add),
        4 => (0..6_u8, 1..20_u64).prop_map(|(key, delay)| Step::AddAfter(key, delay)),
        8 => prop::bool::weighted(0.2).prop_map(Step::Wait),
        3 => (0..5_usize).prop_map(Step::Drop),
        4 => (0..5_usize).prop_map(Step::RunOne),
        2 => Just(Step::Run),
        5 => (0..5_usize).prop_map(Step::Done),
        3 => (1..15_u64).prop_map(Step::Advance),
        1 => Just(Step::Retire),
    ]
}

/// Remembers that a worker was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Option<Work<u8>>> + 'a>>;

/// An executor that polls a worker only if it was woken.
struct Workers<'a> {
    queue: &'a WorkQueue<u8>,
    waiting: Vec<(Waiting<'a>, Arc<Woken>)>,
    held: Vec<Work<u8>>,
}

impl<'a> Workers<'a> {
    fn wait(&mut self, last_choice: bool) {
        let worker: Waiting<'a> = if last_choice {
            Box::pin(self.queue.get_unclaimed())
        } else {
            Box::pin(self.queue.get())
        };
        self.waiting.push((worker, Arc::new(Woken(AtomicBool::new(true)))));
        self.poll(self.waiting.len() - 1);
    }

    fn poll(&mut self, at: usize) {
        let (worker, woken) = &mut self.waiting[at];
        woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(woken.clone());
        if let Poll::Ready(work) = worker.as_mut().poll(&mut Context::from_waker(&waker)) {
            drop(self.waiting.remove(at));
            self.held.extend(work);
        }
    }

    fn next_woken(&self) -> Option<usize> {
        self.waiting.iter().position(|(_, woken)| woken.0.load(Ordering::SeqCst))
    }

    fn run(&mut self) {
        while let Some(at) = self.next_woken() {
            self.poll(at);
        }
    }

    fn check(&self) {
        let keys: BTreeSet<_> = self.held.iter().map(|work| *work.key()).collect();
        assert_eq!(keys.len(), self.held.len(), "no key is with two workers");
        if self.next_woken().is_none() {
            assert!(self.waiting.is_empty() || self.queue.is_empty(), "no wake-up is lost");
            assert_eq!(self.queue.stats().processing, self.held.len());
        }
    }
}

async fn play(steps: Vec<Step>) {
    let queue = WorkQueue::default();
    let mut workers = Workers { queue: &queue, waiting: Vec::new(), held: Vec::new() };
    for step in steps {
        match step {
            Step::Add(key) => queue.add(key),
            Step::AddAfter(key, delay) => queue.add_after(key, ms(delay)),
            Step::Wait(last_choice) => workers.wait(last_choice),
            Step::Drop(at) if at < workers.waiting.len() => drop(workers.waiting.remove(at)),
            Step::RunOne(at) if at < workers.waiting.len() => workers.poll(at),
            Step::Run => workers.run(),
            Step::Done(at) if at < workers.held.len() => drop(workers.held.remove(at)),
            Step::Advance(time) => {
                // The workers that watch the timers have to run for keys to become ready.
                workers.run();
                advance(ms(time)).await;
            }
            Step::Retire => queue.retire_unneeded(),
            Step::Drop(_) | Step::RunOne(_) | Step::Done(_) => {}
        }
        workers.check();
    }
    workers.run();
    workers.check();
    // All keys that are left reach one more worker.
    workers.held.clear();
    advance(ms(100)).await;
    workers.run();
    workers.held.clear();
    workers.waiting.clear();
    let left = queue.stats();
    let taken = std::iter::from_fn(|| queue.try_get().map(|work| *work.key()));
    assert_eq!(taken.collect::<BTreeSet<_>>().len(), left.depth);
    assert_eq!((queue.len(), queue.waiting(), queue.stats().processing), (0, 0, 0));
}

proptest! {
    #[test]
    fn a_ready_key_reaches_a_waiting_worker_in_any_order_of_events(
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(steps));
    }
}
