//! Finds objects that a controller writes again and again to no end.
//!
//! Two writers that undo each other's work, a wanted state that the server changes (`1000m`
//! becomes `1`), a status with the time of its writing in it: each leads to a write on every pass,
//! for ever, and nothing fails. The clients of a controller look at what they write:
//!
//! 1. Writes are counted per object and subresource. Those of an object that is written seldom
//!    cost one look into a table; once it had more than [`FEW`] in a row, with less than a minute
//!    between them, each is looked at.
//! 2. A write had an *effect* if the resource version of the answer is not the one before, which is
//!    that in the body of an update or that of the cached object, and if the cached object did not
//!    show already what was written. Of an object that is not cached only the answers to own
//!    writes are known: its version, and its generation if it has one, has to have moved between
//!    them.
//! 3. A write is *idle* if
//!    - it says what the last one said, and the answer shows something else;
//!    - or it had an effect, and makes the very change that the one before it made, which somebody
//!      must have undone in between;
//!    - or it had an effect, and leads to one of the last [`STATES_MAX`] states that writes led to.
//!
//!    In all of this timestamps are alike, and what only the server says is left out.
//! 4. More than [`IDLE_MAX`] idle writes within a minute are a loop.
//!
//! The writes of an object begin anew when the generation of the reconciled object moves, which is
//! its author's will. That is the controlling owner of the written object, or the object itself
//! when its status is written. So a status that follows the world is no loop, for it does not
//! return to where it was, nor is an object that follows its author.
//!
//! A loop is told in one line of the log and one count, at most once in ten minutes per object. It
//! names the fields, never their values. Leases are left out: to be written again and again is what
//! they are for. What is written through [`Client::kube`](super::Client::kube) is not seen.
//!
//! **Invariant:** both tables are bounded; forgetting costs a warning, never a write.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::change::{Change, digest, part_of};
use super::{Api, Call};
use crate::cache::{Entry, Key};
use crate::cache::Cache;
use crate::kind::{Kind, Object};
use crate::metrics::ControllerMetrics;

/// Writes in a row that are only counted.
const FEW: u32 = 5;
/// The time within which idle writes make a loop, and without a write ends a row.
const WINDOW: Duration = Duration::from_secs(60);
/// Most idle writes within that time that are no loop.
const IDLE_MAX: usize = 20;
/// Most states that are remembered per object.
const STATES_MAX: usize = 4;
/// Most objects whose writes are counted.
const OBJECTS_MAX: usize = 4096;
/// Most loops that are remembered.
const TOLD_MAX: usize = 100;
/// The least time between two lines about one object.
const AGAIN: Duration = Duration::from_secs(600);

/// Looks after the writes of one controller.
pub(crate) struct Loops {
    controller: Arc<str>,
    reconciled: Kind,
    metrics: ControllerMetrics,
    tables: Mutex<Tables>,
}

/// What is written: an object, and which subresource of it; empty if none.
type Slot = (Kind, Key, String);

#[derive(Default)]
struct Tables {
    rows: HashMap<Slot, Row>,
    told: BTreeMap<Slot, Told>,
}

/// The writes of an object without a pause.
struct Row {
    last: Instant,
    writes: u32,
    seen: Option<Box<Seen>>,
}

/// What is remembered of the writes that were looked at.
#[derive(Default)]
struct Seen {
    will: i64,
    body: u64,
    change: Option<u64>,
    version: u64,
    generation: i64,
    states: VecDeque<u64>,
    idle: VecDeque<Instant>,
}

/// A loop that was found.
struct Told {
    since: Instant,
    /// When it was in the log.
    at: Instant,
    /// When there was an idle write.
    last: Instant,
    cause: Cause,
    fields: String,
}

/// Why writes do not come to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Altered,
    Times,
    Undone,
    Returns,
}

/// A write that is looked at, on its way.
pub(super) struct Look {
    loops: Arc<Loops>,
    slot: Slot,
    cache: Cache,
    form: Form,
    body: Vec<u8>,
    before: Option<Arc<Entry>>,
}

/// How much of an object a body speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    Fields,
    Operations,
}

/// A write that was answered, in numbers.
struct Write {
    will: i64,
    body: u64,
    state: u64,
    version: u64,
    generation: i64,
    /// Whether the object changed, if that can be told.
    moved: Option<bool>,
    /// What was written beyond what was there, if that is known.
    change: Option<Change>,
    /// What was written and is not shown by the answer.
    altered: Change,
    /// Whether the object itself was written, no subresource.
    object: bool,
}

impl<K: Object> Api<K> {
    /// Begins to look at a write, if a controller writes the object often.
    pub(super) fn look(&self, call: &Call, key: &Key, sub: Option<&str>) -> Option<Box<Look>> {
        let options = &self.client.options;
        let loops = options.loops.as_ref().filter(|_| !options.dry_run)?;
        let slot = (self.kind.clone(), key.clone(), sub.unwrap_or_default().to_string());
        if !loops.counts(&slot) {
            return None;
        }
        let form = match (&call.method, call.content_type) {
            (&Method::PUT, _) => Form::Whole,
            (_, "application/apply-patch+yaml" | "application/merge-patch+json") => Form::Fields,
            _ => Form::Operations,
        };
        let (loops, cache) = (loops.clone(), self.client.shared.cache.clone());
        let before = cache.entry(&self.kind, key);
        let body = call.body.clone();
        Some(Box::new(Look { loops, slot, cache, form, body, before }))
    }
}

// === impl Look ===

impl Look {
    /// Ends with the answer to the write.
    pub(super) fn answered(self, answer: &[u8]) {
        let body = serde_json::from_slice(&self.body);
        if let (Ok(body), Ok(answer)) = (body, serde_json::from_slice(answer)) {
            let write = self.write(body, answer);
            self.loops.file(self.slot, write);
        }
    }

    fn write(&self, body: Value, answer: Value) -> Write {
        let part = self.slot.2.as_str();
        let will = self.loops.will(&self.slot, &answer, &self.cache);
        let generation = answer["metadata"]["generation"].as_i64().unwrap_or(0);
        let (asked, version) = (version(&body), version(&answer).unwrap_or(0));
        let before = asked.or(self.before.as_ref().map(|entry| entry.version()));
        let mut body = part_of(body, part);
        let change = self.change(&body);
        let mut state = part_of(answer, part);
        let body_hash = digest(&body);
        let status = match &change {
            Some(change) => change.touches_status(),
            None => body.get("status").is_some(),
        };
        if part.is_empty() {
            // Where it is a subresource it is stored by writes of that alone.
            body.as_object_mut().and_then(|members| members.remove("status"));
        }
        let altered = match self.form {
            Form::Operations => Change::default(),
            Form::Whole | Form::Fields => Change::between(&state, &body, false),
        };
        if part.is_empty() && !status {
            state.as_object_mut().and_then(|members| members.remove("status"));
        }
        let moved = before.map(|before| before != version && !self.is_beside(&change, generation));
        let (state, object) = (digest(&state), part.is_empty());
        Write { will, body: body_hash, state, version, generation, moved, change, altered, object }
    }

    /// What the body says beyond the object as the cache had it.
    fn change(&self, body: &Value) -> Option<Change> {
        if self.form == Form::Operations || !matches!(self.slot.2.as_str(), "" | "status") {
            return None;
        }
        let before = serde_json::from_slice(&self.before.as_ref()?.json()).ok()?;
        let before = part_of(before, &self.slot.2);
        // Of some kinds the cache has metadata only.
        let known = |value: &Value| value.as_object().is_some_and(|of| of.keys().ne(["metadata"]));
        if known(body) && !known(&before) {
            return None;
        }
        Some(Change::between(&before, body, self.form == Form::Whole))
    }

    /// Tells whether the object moved by another's write only: it showed all of this one already,
    /// or this one is about its content, whose generation stayed.
    fn is_beside(&self, change: &Option<Change>, generation: i64) -> bool {
        let (Some(change), Some(before)) = (change, &self.before) else { return false };
        let content = self.slot.2.is_empty() && !change.touches_metadata();
        change.is_empty() || content && generation > 0 && before.generation() == generation
    }
}

fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

// === impl Loops ===

impl Loops {
    pub(crate) fn new(controller: Arc<str>, reconciled: Kind, metrics: ControllerMetrics) -> Self {
        Self { controller, reconciled, metrics, tables: Mutex::default() }
    }

    /// Counts a write, and tells whether there were enough to look at them.
    fn counts(&self, slot: &Slot) -> bool {
        if slot.0.group() == "coordination.k8s.io" {
            return false;
        }
        let now = Instant::now();
        let rows = &mut self.tables.lock().rows;
        if let Some(row) = rows.get_mut(slot) {
            if now.duration_since(row.last) >= WINDOW {
                (row.writes, row.seen) = (0, None);
            }
            row.last = now;
            row.writes = row.writes.saturating_add(1);
            return row.writes > FEW;
        }
        if rows.len() >= OBJECTS_MAX {
            rows.retain(|_, row| row.seen.is_some() && now.duration_since(row.last) < WINDOW);
        }
        if rows.len() < OBJECTS_MAX {
            rows.insert(slot.clone(), Row { last: now, writes: 1, seen: None });
        }
        false
    }

    /// The generation of the object for whose sake another is written; 0 if none is known.
    fn will(&self, slot: &Slot, answer: &Value, cache: &Cache) -> i64 {
        let (kind, key, part) = slot;
        let metadata = &answer["metadata"];
        if *kind == self.reconciled && part == "status" {
            return metadata["generation"].as_i64().unwrap_or(0);
        }
        let group = |version: &str| {
            version.split_once('/').map_or("", |(group, _)| group) == self.reconciled.group()
        };
        let owner = metadata["ownerReferences"].as_array().into_iter().flatten().find(|owner| {
            owner["controller"] == json!(true)
                && owner["kind"] == json!(self.reconciled.kind())
                && owner["apiVersion"].as_str().is_some_and(group)
        });
        let Some(name) = owner.and_then(|owner| owner["name"].as_str()) else { return 0 };
        let namespace = key.namespace().filter(|_| self.reconciled.namespaced());
        let owner = cache.entry(&self.reconciled, &Key::new(namespace, name));
        owner.map_or(0, |owner| owner.generation())
    }

    /// Files a write, and tells of the loop that it makes.
    fn file(&self, slot: Slot, write: Write) {
        let now = Instant::now();
        let mut tables = self.tables.lock();
        let Tables { rows, told } = &mut *tables;
        let Some(row) = rows.get_mut(&slot) else { return };
        let seen = row.seen.get_or_insert_default();
        let Some((cause, fields)) = seen.judge(&write) else { return };
        if let Some(told) = told.get_mut(&slot) {
            (told.last, told.cause, told.fields) = (now, cause, fields.clone());
        }
        if !seen.is_loop(now) {
            return;
        }
        let tell = match told.get_mut(&slot) {
            Some(told) if now.duration_since(told.at) < AGAIN => return,
            Some(told) => {
                told.at = now;
                true
            }
            None => {
                if told.len() >= TOLD_MAX {
                    told.retain(|_, told| now.duration_since(told.at) < AGAIN);
                }
                let room = told.len() < TOLD_MAX;
                if room {
                    let fields = fields.clone();
                    let news = Told { since: now, at: now, last: now, cause, fields };
                    told.insert(slot.clone(), news);
                }
                room
            }
        };
        drop(tables);
        self.metrics.looped();
        if tell {
            let (kind, object, subresource) = slot;
            tracing::warn!(
                controller = %self.controller,
                %kind,
                %object,
                subresource,
                fields,
                "update loop: {cause}"
            );
        }
    }

    /// The loops that last, for the diagnostics page.
    pub(crate) fn report(&self) -> Vec<Value> {
        let now = Instant::now();
        let tables = self.tables.lock();
        let lasting = tables.told.iter().filter(|(_, told)| now.duration_since(told.last) < WINDOW);
        let shown = |((kind, key, part), told): (&Slot, &Told)| {
            json!({
                "kind": kind.to_string(),
                "object": key.to_string(),
                "subresource": part,
                "cause": told.cause.to_string(),
                "fields": told.fields,
                "seconds": now.duration_since(told.since).as_secs(),
            })
        };
        lasting.map(shown).collect()
    }
}

impl fmt::Debug for Loops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loops").field("controller", &self.controller).finish_non_exhaustive()
    }
}

// === impl Seen ===

impl Seen {
    /// Tells why a write is idle and which fields it is about, if it is, and remembers it.
    fn judge(&mut self, write: &Write) -> Option<(Cause, String)> {
        if self.will != write.will {
            *self = Self { will: write.will, ..Self::default() };
        }
        let effect = self.has_effect(write);
        let made = write.change.as_ref().map(Change::hash);
        let (again, known) = (self.body == write.body, self.states.contains(&write.state));
        let times = write.change.as_ref().is_some_and(Change::only_times);
        let cause = if again && !write.altered.is_empty() {
            Some(Cause::Altered)
        } else if !effect {
            None
        } else if known && times {
            Some(Cause::Times)
        } else if made.is_some() && self.change == made {
            Some(Cause::Undone)
        } else {
            known.then_some(Cause::Returns)
        };
        if effect {
            self.change = made;
        }
        (self.body, self.version) = (write.body, write.version);
        self.generation = write.generation;
        self.states.retain(|state| *state != write.state);
        self.states.push_back(write.state);
        if self.states.len() > STATES_MAX {
            self.states.pop_front();
        }
        let fields = match cause? {
            Cause::Altered => write.altered.paths(),
            _ => write.change.as_ref().map(Change::paths).unwrap_or_default(),
        };
        cause.map(|cause| (cause, fields))
    }

    fn has_effect(&self, write: &Write) -> bool {
        write.moved.unwrap_or_else(|| {
            let moved = self.version != 0 && self.version != write.version;
            moved && write.object && (write.generation == 0 || self.generation != write.generation)
        })
    }

    /// Counts an idle write, and tells whether there were too many; they are counted anew then.
    fn is_loop(&mut self, now: Instant) -> bool {
        self.idle.retain(|at| now.duration_since(*at) < WINDOW);
        self.idle.push_back(now);
        let found = self.idle.len() > IDLE_MAX;
        if found {
            self.idle.clear();
        }
        found
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Altered => "the server stores something else than what is written",
            Self::Times => "only timestamps change from one write to the next",
            Self::Undone => "somebody else undoes what is written",
            Self::Returns => "the same states are written again and again",
        })
    }
}
