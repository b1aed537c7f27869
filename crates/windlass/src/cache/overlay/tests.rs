//! The state machine against a plain model, in all orders of what may happen.
//!
//! The model is one line: readers see the newest own write beyond what the source has reached,
//! otherwise the watched object, and nothing if an own deletion of that object was observed. It
//! does not depend on the order of observations.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::cache::entry_reader::EntryReader;

/// One write on the server; its version is its place in the history, plus one.
struct Op {
    own: bool,
    deleted: bool,
    entry: Arc<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// The process observes its own operation.
    Observe(usize),
    /// The source sends the next event.
    Event,
    Bookmark,
    /// The source lists the state after so many operations.
    List(usize),
}

/// The history of one name: operations that are own or not, and deletions or not.
fn history(ops: &[(bool, bool)]) -> Vec<Op> {
    let mut reader = EntryReader::new(false, true);
    let mut alive: Option<usize> = None;
    let mut read = |uid: usize, version: usize| {
        let json =
            format!(r#"{{"metadata":{{"name":"a","uid":"{uid}","resourceVersion":"{version}"}}}}"#);
        Arc::new(reader.read(json.as_bytes()).unwrap())
    };
    let op = |(at, (own, delete)): (usize, &(bool, bool))| {
        let version = at + 1;
        let (uid, deleted) = match alive {
            Some(uid) => (uid, *delete),
            None => (version, false),
        };
        alive = (!deleted).then_some(uid);
        Op { own: *own, deleted, entry: read(uid, version) }
    };
    ops.iter().enumerate().map(op).collect()
}

struct World<'a> {
    ops: &'a [Op],
    overlays: Overlays,
    shown: Option<Arc<Entry>>,
    /// How many operations the source has sent.
    cursor: usize,
    observed: BTreeSet<usize>,
    /// The newest version that was read.
    seen: u64,
}

impl<'a> World<'a> {
    fn new(ops: &'a [Op]) -> Self {
        let (overlays, observed) = (Overlays::new(1, false), BTreeSet::new());
        Self { ops, overlays, shown: None, cursor: 0, observed, seen: 0 }
    }

    /// Returns the object after so many operations.
    fn state(&self, cursor: usize) -> Option<&Arc<Entry>> {
        let last = cursor.checked_sub(1).map(|last| &self.ops[last])?;
        (!last.deleted).then_some(&last.entry)
    }

    fn expected(&self) -> Option<&Arc<Entry>> {
        let mut beyond = self.observed.range(self.cursor..).map(|at| &self.ops[*at]);
        let newest = beyond.rfind(|op| !op.deleted).map(|op| &op.entry);
        let deleted = |entry: &&Arc<Entry>| {
            let mut observed = self.observed.iter().map(|at| &self.ops[*at]);
            observed.any(|op| op.deleted && op.entry.uid() == entry.uid())
        };
        newest.or(self.state(self.cursor)).filter(|entry| !deleted(entry))
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Observe(at) => {
                let Op { deleted, entry, .. } = &self.ops[at];
                let shown = self.shown.as_ref();
                match deleted {
                    true => self.overlays.observe_delete(0, entry.key(), entry.uid(), shown),
                    false => self.overlays.observe_write(0, entry, true, shown),
                }
                self.observed.insert(at);
            }
            Step::Event => {
                let op = &self.ops[self.cursor];
                self.cursor += 1;
                self.watched(op.deleted, &op.entry);
                self.overlays.advance(0, op.entry.version());
            }
            Step::Bookmark => self.overlays.bookmark(0, self.cursor as u64),
            Step::List(to) => {
                let known = self.overlays.watched_of(&Key::cluster("a"), self.shown.as_ref());
                let known = known.cloned();
                match (self.state(to).cloned(), known) {
                    (Some(listed), _) => self.watched(false, &listed),
                    (None, Some(known)) => {
                        if let Target::Readers = self.overlays.swept(&known, to as u64) {
                            self.shown = None;
                        }
                    }
                    (None, None) => {}
                }
                self.cursor = to;
                self.overlays.listed(0, to as u64);
            }
        }
        self.look(step);
    }

    fn watched(&mut self, deleted: bool, entry: &Arc<Entry>) {
        let target = match deleted {
            true => self.overlays.watched_deleted(entry.key(), entry.uid(), entry.version()),
            false => self.overlays.watched(0, entry, self.shown.as_ref()),
        };
        if let Target::Readers = target {
            self.shown = (!deleted).then(|| entry.clone());
        }
    }

    /// Compares what readers see with the model.
    fn look(&mut self, step: Step) {
        for (_, entry) in self.overlays.take_views() {
            self.shown = entry;
        }
        let version = |entry: Option<&Arc<Entry>>| entry.map(|entry| entry.version());
        assert_eq!(version(self.shown.as_ref()), version(self.expected()), "after {step:?}");
        let read = version(self.shown.as_ref()).unwrap_or(self.seen);
        assert!(self.seen <= read, "a read went back from {} to {read} at {step:?}", self.seen);
        self.seen = read;
    }

    /// Lets the source catch up and the process observe everything.
    fn end(&mut self) {
        for at in (0..self.ops.len()).filter(|at| self.ops[*at].own) {
            if !self.observed.contains(&at) {
                self.step(Step::Observe(at));
            }
        }
        while self.cursor < self.ops.len() {
            self.step(Step::Event);
        }
        self.step(Step::Bookmark);
        let last = self.state(self.ops.len()).map(|entry| entry.version());
        assert_eq!(self.shown.as_ref().map(|entry| entry.version()), last);
        assert_eq!((self.overlays.len(), self.overlays.by_version.len()), (0, 0));
    }
}

/// Calls `check` with every order of observations, events and at most `lists` lists.
fn orders(ops: &[Op], lists: usize, path: &mut Vec<Step>, check: &mut impl FnMut(&[Step])) {
    let sent = path.iter().fold(0, |sent, step| match step {
        Step::Event => sent + 1,
        Step::List(to) => *to,
        _ => sent,
    });
    let own = (0..ops.len()).filter(|at| ops[*at].own).map(Step::Observe);
    let mut next: Vec<Step> = own.filter(|step| !path.contains(step)).collect();
    if sent < ops.len() {
        next.push(Step::Event);
    }
    if lists > 0 {
        next.extend((sent..=ops.len()).map(Step::List));
    }
    if next.is_empty() {
        return check(path);
    }
    for step in next {
        let left = lists - usize::from(matches!(step, Step::List(_)));
        path.push(step);
        orders(ops, left, path, check);
        path.pop();
    }
}

/// Runs every order of every history of that length; returns how many there are.
fn run_all(length: u32, lists: usize) -> usize {
    let mut runs = 0;
    for shape in 0..4_usize.pow(length) {
        let op = |at: u32| (shape >> (2 * at) & 1 == 1, shape >> (2 * at) & 2 == 2);
        let ops = history(&(0..length).map(op).collect::<Vec<_>>());
        orders(&ops, lists, &mut Vec::new(), &mut |path| {
            runs += 1;
            let mut world = World::new(&ops);
            path.iter().for_each(|step| world.step(*step));
            world.end();
        });
    }
    runs
}

#[test]
fn readers_see_what_the_model_says_in_every_order_of_writes_deletions_and_events() {
    assert!(run_all(4, 0) > 40_000);
}

#[test]
fn readers_see_what_the_model_says_in_every_order_with_a_list_in_between() {
    assert!(run_all(3, 1) > 5_000);
}

proptest! {
    #[test]
    fn readers_see_what_the_model_says_over_long_histories(
        ops in prop::collection::vec(any::<(bool, bool)>(), 1..16),
        choices in prop::collection::vec((0..8_u8, any::<prop::sample::Index>()), 0..60),
    ) {
        let ops = history(&ops);
        let mut world = World::new(&ops);
        for (choice, at) in choices {
            let own: Vec<usize> = (0..ops.len()).filter(|at| ops[*at].own).collect();
            match choice {
                // The same operation may be observed twice.
                0..4 if !own.is_empty() => world.step(Step::Observe(own[at.index(own.len())])),
                4 => world.step(Step::Bookmark),
                5 => {
                    let to = world.cursor + at.index(ops.len() - world.cursor + 1);
                    world.step(Step::List(to));
                }
                _ if world.cursor < ops.len() => world.step(Step::Event),
                _ => {}
            }
        }
        world.end();
    }
}

fn entry(name: &str, version: u64) -> Arc<Entry> {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#
    );
    Arc::new(EntryReader::new(false, true).read(json.as_bytes()).unwrap())
}

#[test]
fn a_source_ends_its_own_overlays_only() {
    let mut overlays = Overlays::new(2, true);
    for (source, name, version) in [(0, "a", 5), (0, "b", 7), (1, "c", 3), (1, "d", 9)] {
        overlays.observe_write(source, &entry(name, version), false, None);
    }
    assert_eq!(overlays.len(), 4);
    overlays.advance(0, 5);
    assert_eq!(overlays.len(), 4, "the event of that version may be of another object");
    overlays.advance(0, 6);
    assert!(overlays.is_plain(&Key::cluster("a")) && !overlays.is_plain(&Key::cluster("b")));
    overlays.bookmark(1, 3);
    assert!(overlays.is_plain(&Key::cluster("c")) && !overlays.is_plain(&Key::cluster("d")));
    overlays.listed(0, 8);
    assert_eq!(overlays.len(), 1);
}

#[test]
fn a_write_that_the_source_sends_in_a_form_that_cannot_be_read_stays_visible() {
    let mut overlays = Overlays::new(1, false);
    let (old, written) = (entry("a", 3), entry("a", 5));
    overlays.observe_write(0, &written, true, Some(&old));
    assert!(overlays.take_views().pop().unwrap().1.is_some());
    // The event of version 5 is skipped, then other objects change.
    overlays.advance(0, 9);
    assert!(overlays.take_views().is_empty() && overlays.len() == 1);
    let Target::Overlay(watched) = overlays.watched(0, &entry("a", 11), Some(&written)) else {
        panic!("it was covered");
    };
    assert_eq!(watched.unwrap().version(), 3);
    assert_eq!(overlays.take_views().pop().unwrap().1.unwrap().version(), 11);
    assert_eq!(overlays.len(), 0);
}
