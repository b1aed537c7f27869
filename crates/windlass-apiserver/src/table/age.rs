//! Spans of time as people read them.

use jiff::Timestamp;
use serde_json::Value;

/// Returns a span of seconds in at most two units: `5m3s`, `2d4h`, `3y`.
pub fn human_duration(seconds: i64) -> String {
    let two = |big: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{small_unit}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if days < 365 * 8 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// The time since a moment.
pub(super) fn since(then: Timestamp, now: Timestamp) -> String {
    human_duration(between(then, now))
}

/// Whole seconds between two moments.
pub(super) fn between(then: Timestamp, now: Timestamp) -> i64 {
    now.duration_since(then).as_secs()
}

/// The moment in a field, if it is one.
pub(super) fn moment(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The time since the moment in a field; `<unknown>` if the field is missing.
pub(super) fn since_field(value: &Value, now: Timestamp) -> String {
    moment(value).map_or_else(|| "<unknown>".to_owned(), |then| since(then, now))
}

/// The age of an object.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since_field(&object["metadata"]["creationTimestamp"], now).into()
}
