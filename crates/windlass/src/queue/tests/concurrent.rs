//! The queue in several hands at once, against the same plain lists.
//!
//! Each hand works off a short program on a thread of its own, and notes when every call began and
//! ended. What came out is right if the calls can be put into one order, each somewhere between
//! its beginning and its end, in which plain lists give the same answers.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::Model;
use crate::queue::{Add, QueueOptions, Work, WorkQueue};

#[derive(Clone, Copy, Debug)]
enum Order {
    Add(u8, i32),
    Get,
    /// Gives back the key that this hand has held longest.
    Done,
    Shutdown,
}

/// A call and what came of it.
#[derive(Clone, Copy, Debug)]
enum Did {
    Added(u8, i32),
    Got(Option<(u8, i32)>),
    GaveBack(u8),
    ShutDown,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    did: Did,
    began: u64,
    ended: u64,
}

/// One who uses the queue.
struct Hand<'a> {
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

// === impl Hand ===

impl<'a> Hand<'a> {
    fn new(queue: &'a WorkQueue<u8>, clock: &'a AtomicU64) -> Self {
        Self { queue, clock, held: VecDeque::new(), calls: Vec::new() }
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Add(key, priority) => self.note(|hand| {
                hand.queue.add_with(key, Add { priority, ..Add::default() });
                Did::Added(key, priority)
            }),
            Order::Get => self.note(|hand| {
                let work = hand.queue.try_get();
                let got = work.as_ref().map(|work| (*work.key(), work.priority()));
                hand.held.extend(work);
                Did::Got(got)
            }),
            Order::Done => {
                let Some(work) = self.held.pop_front() else { return };
                self.note(|_| {
                    let key = *work.key();
                    drop(work);
                    Did::GaveBack(key)
                });
            }
            Order::Shutdown => self.note(|hand| {
                hand.queue.shutdown();
                Did::ShutDown
            }),
        }
    }

    fn note(&mut self, call: impl FnOnce(&mut Self) -> Did) {
        let began = self.clock.fetch_add(1, Ordering::SeqCst);
        let did = call(self);
        let ended = self.clock.fetch_add(1, Ordering::SeqCst);
        self.calls.push(Call { did, began, ended });
    }

    /// Gives everything back, and works off what is left in the queue.
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

/// Plays the programs at the same time and returns what each hand did.
fn play(programs: &[Vec<Order>]) -> Vec<Vec<Call>> {
    let queue = QueueOptions::new().aging(None).build();
    let clock = AtomicU64::new(0);
    let start = Barrier::new(programs.len());
    let (queue, clock, start) = (&queue, &clock, &start);
    let mut histories: Vec<Vec<Call>> = std::thread::scope(|scope| {
        let hands: Vec<_> = programs
            .iter()
            .map(|program| {
                scope.spawn(move || {
                    let mut hand = Hand::new(queue, clock);
                    start.wait();
                    for order in program {
                        hand.follow(*order);
                        std::thread::yield_now();
                    }
                    hand.finish(false)
                })
            })
            .collect();
        hands.into_iter().map(|hand| hand.join().expect("a hand does not fail")).collect()
    });
    histories.push(Hand::new(queue, clock).finish(true));
    histories
}

/// Tells whether some order of the calls is one of plain lists.
fn explained(
    histories: &[Vec<Call>],
    at: &mut [usize],
    model: &Model,
    tried: &mut BTreeSet<(Vec<usize>, Model)>,
) -> bool {
    let next = |at: &[usize], hand: usize| histories[hand].get(at[hand]).copied();
    let Some(first_end) = (0..at.len()).filter_map(|hand| next(at, hand)).map(|c| c.ended).min()
    else {
        return true;
    };
    if !tried.insert((at.to_vec(), model.clone())) {
        return false;
    }
    for hand in 0..at.len() {
        // A call that began after another had ended comes after that.
        let Some(call) = next(at, hand).filter(|call| call.began < first_end) else { continue };
        let mut after = model.clone();
        let same = match call.did {
            Did::Added(key, priority) => {
                after.add(key, priority);
                true
            }
            Did::Got(got) => after.get() == got,
            Did::GaveBack(key) => {
                after.done(key);
                true
            }
            Did::ShutDown => {
                after.shutdown();
                true
            }
        };
        if !same {
            continue;
        }
        at[hand] += 1;
        if explained(histories, at, &after, tried) {
            return true;
        }
        at[hand] -= 1;
    }
    false
}

fn check(histories: &[Vec<Call>]) -> bool {
    let mut at = vec![0; histories.len()];
    explained(histories, &mut at, &Model::default(), &mut BTreeSet::new())
}

proptest! {
    #[test]
    fn the_queue_in_several_hands_does_what_plain_lists_do(
        programs in prop::collection::vec(prop::collection::vec(order(), 0..10), 2..4),
    ) {
        let histories = play(&programs);
        prop_assert!(check(&histories), "no order of plain lists explains {histories:#?}");
    }
}

/// The check would notice: histories that no queue may produce.
#[test]
fn a_lost_key_a_key_in_two_hands_and_a_wrong_order_are_noticed() {
    let call = |did, began| Call { did, began, ended: began + 1 };
    let add = |key, began| call(Did::Added(key, 0), began);
    let get = |got: Option<u8>, began| call(Did::Got(got.map(|key| (key, 0))), began);
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
