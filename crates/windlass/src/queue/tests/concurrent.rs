//! Several threads that use the queue at once, compared with the model of plain lists.
//!
//! Each thread runs a short program and records when every call began and ended. The results are
//! correct if there is an order of all calls, each somewhere between its beginning and its end, in
//! which the model gives the same results.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::model::Model;
use crate::queue::{Add, QueueOptions, Work, WorkQueue};

#[derive(Clone, Copy, Debug)]
enum Order {
    Add(u8, i32),
    Get,
    /// Finishes the key that this thread has held for longest.
    Done,
    Shutdown,
}

/// A call and its result.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Added(u8, i32),
    Got(Option<(u8, i32)>),
    Finished(u8),
    ShutDown,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    outcome: Outcome,
    began: u64,
    ended: u64,
}

/// A thread that uses the queue.
struct Client<'a> {
    queue: &'a WorkQueue<u8>,
    clock: &'a AtomicU64,
    held: VecDeque<Work<u8>>,
    calls: Vec<Call>,
}

fn order() -> impl Strategy<Value = Order> {
    let priority = prop_oneof![Just(-100), Just(0), Just(50)];
    prop_oneof![
        8 => (0..3_u8, priority).prop_map(|(key, priority)| Order::Add(key, priority)),
        6 => Just(Order::Get),
        5 => Just(Order::Done),
        1 => Just(Order::Shutdown),
    ]
}

// === impl Client ===

impl<'a> Client<'a> {
    fn new(queue: &'a WorkQueue<u8>, clock: &'a AtomicU64) -> Self {
        Self { queue, clock, held: VecDeque::new(), calls: Vec::new() }
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Add(key, priority) => self.note(|client| {
                client.queue.add_with(key, Add::default().priority(priority));
                Outcome::Added(key, priority)
            }),
            Order::Get => self.note(|client| {
                let work = client.queue.try_get();
                let got = work.as_ref().map(|work| (*work.key(), work.priority()));
                client.held.extend(work);
                Outcome::Got(got)
            }),
            Order::Done => {
                let Some(work) = self.held.pop_front() else { return };
                self.note(|_| {
                    let key = *work.key();
                    drop(work);
                    Outcome::Finished(key)
                });
            }
            Order::Shutdown => self.note(|client| {
                client.queue.shutdown();
                Outcome::ShutDown
            }),
        }
    }

    fn note(&mut self, call: impl FnOnce(&mut Self) -> Outcome) {
        let began = self.clock.fetch_add(1, Ordering::SeqCst);
        let outcome = call(self);
        let ended = self.clock.fetch_add(1, Ordering::SeqCst);
        self.calls.push(Call { outcome, began, ended });
    }

    /// Finishes all keys that are held and, with `everything`, all keys of the queue.
    fn finish(mut self, everything: bool) -> Vec<Call> {
        while !self.held.is_empty() {
            self.follow(Order::Done);
        }
        if everything {
            self.follow(Order::Get);
            while !self.held.is_empty() {
                self.follow(Order::Done);
                self.follow(Order::Get);
            }
        }
        self.calls
    }
}

/// Runs the programs at the same time and returns the calls of each.
fn play(programs: &[Vec<Order>]) -> Vec<Vec<Call>> {
    let queue = QueueOptions::new().aging(None).build();
    let clock = AtomicU64::new(0);
    let start = Barrier::new(programs.len());
    let (queue, clock, start) = (&queue, &clock, &start);
    let mut histories: Vec<Vec<Call>> = std::thread::scope(|scope| {
        let clients: Vec<_> = programs
            .iter()
            .map(|program| {
                scope.spawn(move || {
                    let mut client = Client::new(queue, clock);
                    start.wait();
                    for order in program {
                        client.follow(*order);
                        std::thread::yield_now();
                    }
                    client.finish(false)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("a thread does not fail")).collect()
    });
    histories.push(Client::new(queue, clock).finish(true));
    histories
}

/// Returns `true` if some order of the calls is possible with plain lists.
fn explained(
    histories: &[Vec<Call>],
    at: &mut [usize],
    model: &Model,
    tried: &mut BTreeSet<(Vec<usize>, Model)>,
) -> bool {
    let next = |at: &[usize], client: usize| histories[client].get(at[client]).copied();
    let Some(first_end) =
        (0..at.len()).filter_map(|client| next(at, client)).map(|c| c.ended).min()
    else {
        return true;
    };
    if !tried.insert((at.to_vec(), model.clone())) {
        return false;
    }
    for client in 0..at.len() {
        // A call that began after another had ended comes after that.
        let Some(call) = next(at, client).filter(|call| call.began < first_end) else { continue };
        let mut after = model.clone();
        let same = match call.outcome {
            Outcome::Added(key, priority) => {
                after.add(key, priority);
                true
            }
            Outcome::Got(got) => after.get() == got,
            Outcome::Finished(key) => {
                after.done(key);
                true
            }
            Outcome::ShutDown => {
                after.shutdown();
                true
            }
        };
        if !same {
            continue;
        }
        at[client] += 1;
        if explained(histories, at, &after, tried) {
            return true;
        }
        at[client] -= 1;
    }
    false
}

fn check(histories: &[Vec<Call>]) -> bool {
    let mut at = vec![0; histories.len()];
    explained(histories, &mut at, &Model::default(), &mut BTreeSet::new())
}

proptest! {
    #[test]
    fn the_queue_behaves_like_plain_lists_when_several_threads_use_it(
        programs in prop::collection::vec(prop::collection::vec(order(), 0..10), 2..4),
    ) {
        let histories = play(&programs);
        prop_assert!(check(&histories), "no order of plain lists explains {histories:#?}");
    }
}

/// The check would notice: histories that no queue may produce.
#[test]
fn a_lost_key_a_key_taken_twice_and_a_wrong_order_are_noticed() {
    let call = |outcome, began| Call { outcome, began, ended: began + 1 };
    let add = |key, began| call(Outcome::Added(key, 0), began);
    let get = |got: Option<u8>, began| call(Outcome::Got(got.map(|key| (key, 0))), began);
    let lost = vec![vec![add(1, 0)], vec![get(None, 2)]];
    assert!(!check(&lost));
    let shared = vec![vec![add(1, 0), get(Some(1), 2), add(1, 4)], vec![get(Some(1), 6)]];
    assert!(!check(&shared));
    let wrong = vec![vec![add(1, 0), add(2, 2)], vec![get(Some(2), 4)]];
    assert!(!check(&wrong));
    // The same two adds at the same time may have come in either order.
    let either = vec![vec![Call { ended: 3, ..add(1, 0) }], vec![add(2, 1)], vec![get(Some(2), 4)]];
    assert!(check(&either));
}
