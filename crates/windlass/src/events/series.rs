//! Which events are repetitions, and how often they happened.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{EventsApi, Published};

/// How many series are tracked; a new one replaces the one that has been silent the longest.
const SERIES_MAX: usize = 4096;
/// How long after its last event a series ends.
const ENDS_AFTER: Duration = Duration::from_secs(6 * 60);

/// The current series.
#[derive(Debug, Default)]
pub(super) struct Series {
    running: BTreeMap<Published, Running>,
    /// Since when counts on the server may be out of date.
    behind_since: Option<Instant>,
}

#[derive(Debug)]
struct Running {
    written: Written,
    seen: i32,
    /// The count on the server.
    sent: i32,
    /// The server refuses to update the count.
    uncounted: bool,
    last: Instant,
}

/// Where an event is on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) api: EventsApi,
}

/// A count that is not on the server yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) event: Box<Published>,
    pub(super) written: Written,
    pub(super) count: i32,
}

/// How to process an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is new; an earlier series of the same event may have left a count.
    Create { left: Option<Left> },
    /// It is a repetition; the count is sent immediately.
    Count { written: Written, count: i32 },
    /// It is a repetition; the count is sent with the next flush.
    Later,
}

// === impl Series ===

impl Series {
    pub(super) fn step(&mut self, event: &Published, now: Instant) -> Step {
        let Some(running) = self.running.get_mut(event) else { return Step::Create { left: None } };
        if now.duration_since(running.last) >= ENDS_AFTER {
            return Step::Create { left: self.forget(event) };
        }
        running.seen = running.seen.saturating_add(1);
        running.last = now;
        if running.behind() {
            self.behind_since.get_or_insert(now);
        }
        // The second one makes it a series; after that, counting here is enough.
        if running.seen == 2 && running.behind() {
            return Step::Count { written: running.written.clone(), count: 2 };
        }
        Step::Later
    }

    /// Follows a new series; returns the count of the one that had to make room.
    pub(super) fn created(
        &mut self,
        event: Published,
        written: Written,
        now: Instant,
    ) -> Option<Left> {
        let mut left = None;
        if self.running.len() >= SERIES_MAX {
            let oldest = self.running.iter().min_by_key(|(_, running)| running.last);
            if let Some(oldest) = oldest.map(|(event, _)| event.clone()) {
                left = self.forget(&oldest);
            }
        }
        let running = Running { written, seen: 1, sent: 1, uncounted: false, last: now };
        self.running.insert(event, running);
        left
    }

    pub(super) fn counted(&mut self, event: &Published, count: i32) {
        if let Some(running) = self.running.get_mut(event) {
            running.sent = running.sent.max(count);
        }
    }

    /// The server refuses the counts of this series.
    pub(super) fn uncounted(&mut self, event: &Published) {
        if let Some(running) = self.running.get_mut(event) {
            running.uncounted = true;
        }
    }

    /// Follows a series no more; returns the count the server does not know.
    pub(super) fn forget(&mut self, event: &Published) -> Option<Left> {
        let (event, running) = self.running.remove_entry(event)?;
        running.behind().then(|| running.left(event))
    }

    /// Since when counts on the server may be out of date.
    pub(super) fn behind_since(&self) -> Option<Instant> {
        self.behind_since
    }

    /// All counts were sent, or tried to: what the server still does not know waits again.
    pub(super) fn flushed(&mut self, now: Instant) {
        self.behind_since = self.running.values().any(Running::behind).then_some(now);
    }

    /// The counts the server does not know yet.
    pub(super) fn due(&self) -> Vec<Left> {
        let behind = self.running.iter().filter(|(_, running)| running.behind());
        behind.map(|(event, running)| running.left(event.clone())).collect()
    }
}

// === impl Running ===

impl Running {
    fn behind(&self) -> bool {
        self.seen > self.sent && !self.uncounted
    }

    fn left(&self, event: Published) -> Left {
        Left { event: Box::new(event), written: self.written.clone(), count: self.seen }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::super::EventType;
    use super::*;

    fn event(note: &str) -> Published {
        Published {
            event_type: EventType::Normal,
            reason: "R".into(),
            action: "A".into(),
            note: note.into(),
            controller: "c".into(),
            instance: "i".into(),
            api: EventsApi::default(),
            regarding: ObjectReference::default().into(),
        }
    }

    fn written(name: &str) -> Written {
        Written { name: name.into(), api: EventsApi::default() }
    }

    const NEW: Step = Step::Create { left: None };

    #[test]
    fn another_text_is_another_event() {
        let now = Instant::now();
        let mut series = Series::default();
        assert_eq!(series.step(&event("a"), now), NEW);
        series.created(event("a"), written("one"), now);
        assert_eq!(series.step(&event("b"), now), NEW);
        let count = Step::Count { written: written("one"), count: 2 };
        assert_eq!(series.step(&event("a"), now), count);
        series.counted(&event("a"), 2);
        assert_eq!(series.step(&event("a"), now), Step::Later);
        let left = Left { event: event("a").into(), written: written("one"), count: 3 };
        assert_eq!(series.due(), vec![left]);
    }

    #[test]
    fn a_silent_series_ends_and_leaves_the_count_nobody_was_sent() {
        let now = Instant::now();
        let mut series = Series::default();
        series.created(event("a"), written("one"), now);
        assert_eq!(series.step(&event("a"), now + ENDS_AFTER), NEW);
        series.created(event("a"), written("two"), now);
        series.step(&event("a"), now);
        let left = Left { event: event("a").into(), written: written("two"), count: 2 };
        assert_eq!(series.step(&event("a"), now + ENDS_AFTER), Step::Create { left: Some(left) });
    }

    #[test]
    fn the_server_is_behind_since_the_first_count_it_was_not_sent() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut series = Series::default();
        series.created(event("a"), written("one"), now);
        assert_eq!(series.behind_since(), None);
        for at in 1..100 {
            series.step(&event("a"), now + at * second);
        }
        assert_eq!(series.behind_since(), Some(now + second));
        series.flushed(now + 100 * second);
        assert_eq!(series.behind_since(), Some(now + 100 * second), "nobody was sent");
        series.uncounted(&event("a"));
        series.flushed(now + 101 * second);
        series.step(&event("a"), now + 102 * second);
        assert_eq!(series.behind_since(), None, "what is refused is not waited for");
        assert_eq!(series.due(), vec![]);
    }

    #[test]
    fn the_table_is_bounded_and_who_makes_room_leaves_its_count() {
        let now = Instant::now();
        let mut series = Series::default();
        let mut left = None;
        for at in 0..=SERIES_MAX {
            let later = now + Duration::from_millis(at as u64);
            left = series.created(event(&at.to_string()), written("x"), later);
            if at == 0 {
                series.step(&event("0"), later);
            }
        }
        assert_eq!(series.running.len(), SERIES_MAX);
        assert!(!series.running.contains_key(&event("0")));
        assert_eq!(left, Some(Left { event: event("0").into(), written: written("x"), count: 2 }));
    }
}
