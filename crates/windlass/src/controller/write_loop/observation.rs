//! A write of a controller that is looked at while it is on its way.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::difference::{Difference, digest, part_of};
use super::history::AnsweredWrite;
use super::{Slot, WriteLoopDetector};
use crate::cache::Entry;

/// A write, and the object as the cache showed it before.
pub(super) struct Observation {
    pub(super) detector: Arc<WriteLoopDetector>,
    pub(super) slot: Slot,
    pub(super) form: BodyForm,
    pub(super) body: Bytes,
    pub(super) before: Option<Arc<Entry>>,
    /// How long the write was held back because no time passed between the writes before it.
    pub(super) delay: Duration,
}

/// How much of an object the body of a write contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyForm {
    Whole,
    Fields,
    Operations,
}

// === impl BodyForm ===

impl BodyForm {
    pub(super) fn of(content_type: &str) -> Self {
        match content_type {
            "application/json" => Self::Whole,
            "application/apply-patch+yaml" | "application/merge-patch+json" => Self::Fields,
            _ => Self::Operations,
        }
    }
}

// === impl Observation ===

impl Observation {
    /// Ends the observation with the answer to the write.
    pub(super) fn answered(self, answer: &[u8]) {
        let body = serde_json::from_slice(&self.body);
        if let (Ok(body), Ok(answer)) = (body, serde_json::from_slice(answer)) {
            let write = self.measure(body, answer);
            self.detector.record(self.slot, &write, self.delay);
        }
    }

    fn measure(&self, body: Value, answer: Value) -> AnsweredWrite {
        let part = self.slot.2.as_str();
        let owner_generation = self.detector.owner_generation(&self.slot, &answer);
        let generation = answer["metadata"]["generation"].as_i64().unwrap_or(0);
        let (asked, version) = (version(&body), version(&answer).unwrap_or(0));
        let before = asked.or(self.before.as_ref().map(|entry| entry.version()));
        let mut body = part_of(body, part);
        let difference = self.difference(&body);
        let mut state = part_of(answer, part);
        let body_hash = digest(&body);
        let status = match &difference {
            Some(difference) => difference.touches_status(),
            None => body.get("status").is_some(),
        };
        if part.is_empty() {
            // Where the status is a subresource, only writes to that subresource store it.
            body.as_object_mut().and_then(|members| members.remove("status"));
        }
        let altered = match self.form {
            BodyForm::Operations => Difference::default(),
            BodyForm::Whole | BodyForm::Fields => Difference::between(&state, &body, false),
        };
        if part.is_empty() && !status {
            state.as_object_mut().and_then(|members| members.remove("status"));
        }
        let changed =
            before.map(|before| before != version && !self.by_another(&difference, generation));
        AnsweredWrite {
            owner_generation,
            body: body_hash,
            state: digest(&state),
            version,
            generation,
            changed,
            difference,
            altered,
            whole_object: part.is_empty(),
        }
    }

    /// Returns what the body says beyond the object as the cache had it, if that is known.
    fn difference(&self, body: &Value) -> Option<Difference> {
        if self.form == BodyForm::Operations || !matches!(self.slot.2.as_str(), "" | "status") {
            return None;
        }
        let before = serde_json::from_slice(&self.before.as_ref()?.json()).ok()?;
        let before = part_of(before, &self.slot.2);
        // Of some kinds the cache has the metadata only.
        let known = |value: &Value| value.as_object().is_some_and(|of| of.keys().ne(["metadata"]));
        if known(body) && !known(&before) {
            return None;
        }
        Some(Difference::between(&before, body, self.form == BodyForm::Whole))
    }

    /// Returns `true` if only somebody else's write changed the object: it showed everything of
    /// this write before, or this write is about its content and the generation did not change.
    fn by_another(&self, difference: &Option<Difference>, generation: i64) -> bool {
        let (Some(difference), Some(before)) = (difference, &self.before) else { return false };
        let content = self.slot.2.is_empty() && !difference.touches_metadata();
        difference.is_empty() || content && generation > 0 && before.generation() == generation
    }
}

fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
