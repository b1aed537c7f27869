//! What becomes of an object that is deleted.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::clock::stamp;
use crate::object;

/// How a deletion continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// A deletion is under way already: nothing to do.
    Pending,
    /// The object stays, marked as deleted.
    Mark,
    /// The object is removed.
    Remove,
    /// The object is marked as deleted for watchers, then removed.
    MarkAndRemove,
}

/// The grace period of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// There is none.
    None,
    /// One is running, and is not shortened.
    Pending,
    /// The object is marked with so many seconds.
    Seconds(i64),
}

/// Marks an object as being deleted, unless it is already.
pub fn mark(object: &mut Value, now: Timestamp, grace_seconds: i64) {
    if object::is_deleting(object) {
        return;
    }
    let metadata = object::meta_mut(object);
    metadata.insert("deletionTimestamp".into(), stamp(later(now, grace_seconds)).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace_seconds.into());
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
        && generation > 0
    {
        metadata.insert("generation".into(), (generation + 1).into());
    }
}

/// Returns a time so many seconds later, within the calendar.
pub fn later(time: Timestamp, seconds: i64) -> Timestamp {
    let whole = SignedDuration::from_secs(seconds);
    time.checked_add(whole).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX })
}
