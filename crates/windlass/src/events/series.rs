//! Which events are the same, and how often they came.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Published;

/// Most series followed at once; the one silent longest makes room.
const SERIES_MAX: usize = 4096;
/// A series that was silent for so long has ended.
const ENDS_AFTER: Duration = Duration::from_secs(6 * 60);

/// The series under way.
#[derive(Debug, Default)]
pub(super) struct Series(BTreeMap<Published, Running>);

#[derive(Debug)]
struct Running {
    name: String,
    seen: i32,
    /// The count the server knows.
    told: i32,
    last: Instant,
}

/// What is to be done with an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is new.
    Create,
    /// It came again: the server should know at once.
    Count { name: String, count: i32 },
    /// It came again: the server is told with the next flush.
    Later,
}

// === impl Series ===

impl Series {
    pub(super) fn step(&mut self, event: &Published, now: Instant) -> Step {
        let Some(running) = self.0.get_mut(event) else { return Step::Create };
        if now.duration_since(running.last) >= ENDS_AFTER {
            self.0.remove(event);
            return Step::Create;
        }
        running.seen = running.seen.saturating_add(1);
        running.last = now;
        // The second one makes it a series; after that, counting here is enough.
        if running.seen == 2 {
            return Step::Count { name: running.name.clone(), count: 2 };
        }
        Step::Later
    }

    pub(super) fn created(&mut self, event: Published, name: String, now: Instant) {
        if self.0.len() >= SERIES_MAX {
            let oldest = self.0.iter().min_by_key(|(_, running)| running.last);
            if let Some(oldest) = oldest.map(|(event, _)| event.clone()) {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(event, Running { name, seen: 1, told: 1, last: now });
    }

    pub(super) fn counted(&mut self, event: &Published, count: i32) {
        if let Some(running) = self.0.get_mut(event) {
            running.told = running.told.max(count);
        }
    }

    pub(super) fn forget(&mut self, event: &Published) {
        self.0.remove(event);
    }

    /// Tells whether the server lags behind.
    pub(super) fn pending(&self) -> bool {
        self.0.values().any(|running| running.seen > running.told)
    }

    /// The series whose count the server does not know yet.
    pub(super) fn due(&self) -> Vec<(Published, String, i32)> {
        let behind = self.0.iter().filter(|(_, running)| running.seen > running.told);
        behind.map(|(event, r)| (event.clone(), r.name.clone(), r.seen)).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::super::{EventForm, EventType};
    use super::*;

    fn event(note: &str) -> Published {
        Published {
            event_type: EventType::Normal,
            reason: "R".into(),
            action: "A".into(),
            note: note.into(),
            controller: "c".into(),
            instance: "i".into(),
            form: EventForm::default(),
            regarding: ObjectReference::default().into(),
        }
    }

    #[test]
    fn another_text_is_another_event() {
        let now = Instant::now();
        let mut series = Series::default();
        assert_eq!(series.step(&event("a"), now), Step::Create);
        series.created(event("a"), "one".into(), now);
        assert_eq!(series.step(&event("b"), now), Step::Create);
        assert_eq!(series.step(&event("a"), now), Step::Count { name: "one".into(), count: 2 });
        series.counted(&event("a"), 2);
        assert_eq!(series.step(&event("a"), now), Step::Later);
        assert_eq!(series.due(), vec![(event("a"), "one".into(), 3)]);
    }

    #[test]
    fn a_silent_series_ends() {
        let now = Instant::now();
        let mut series = Series::default();
        series.created(event("a"), "one".into(), now);
        assert_eq!(series.step(&event("a"), now + ENDS_AFTER), Step::Create);
    }

    #[test]
    fn the_table_is_bounded() {
        let now = Instant::now();
        let mut series = Series::default();
        for at in 0..=SERIES_MAX {
            let later = now + Duration::from_millis(at as u64);
            series.created(event(&at.to_string()), "x".into(), later);
        }
        assert_eq!(series.0.len(), SERIES_MAX);
        assert!(!series.0.contains_key(&event("0")));
    }
}
