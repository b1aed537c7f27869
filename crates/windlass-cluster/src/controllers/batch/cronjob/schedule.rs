//! Cron schedules: five fields, names, steps, macros, in a time zone.
//!
//! Clock changes: a time that is skipped starts no job, and a time that occurs twice starts two.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Unit, Zoned};

/// The names and bounds of the five fields.
const FIELDS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
/// The moment of a schedule is sought this far ahead.
const YEARS_MAX: i16 = 5;
/// How many missed moments are many.
const MANY: i64 = 100;

/// When things happen.
#[derive(Debug, Clone)]
pub enum Schedule {
    /// At times the fields allow.
    Fields(Box<Fields>),
    /// At equal distances.
    Every(SignedDuration),
}

/// The times of a schedule as sets of numbers.
#[derive(Debug, Clone)]
pub struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Days of month and of week restrict together if one of them is not restricted.
    any_day: bool,
    zone: TimeZone,
}

/// How many moments passed unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// None but perhaps the last.
    None,
    /// Some.
    Few,
    /// More than a hundred.
    Many,
}

/// The last moment of a span.
#[derive(Debug, Clone, Copy)]
pub struct Latest {
    /// The moment, if there was one.
    pub moment: Option<Timestamp>,
    /// What passed before it.
    pub missed: Missed,
}

// === impl Schedule ===

impl Schedule {
    /// Reads a schedule; a zone in front of it wins.
    pub fn parse(text: &str, zone: TimeZone) -> Result<Self, String> {
        let (text, zone) = match text.strip_prefix("CRON_TZ=").or(text.strip_prefix("TZ=")) {
            None => (text, zone),
            Some(rest) => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let zone = TimeZone::get(name).map_err(|_| {
                    format!("provided bad location {name}: unknown time zone {name}")
                })?;
                (rest.trim(), zone)
            }
        };
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => match other.strip_prefix("@every ") {
                Some(every) => return duration(every).map(Self::Every),
                None if other.starts_with('@') => {
                    return Err(format!("unrecognized descriptor: {other}"));
                }
                None => other,
            },
        };
        Fields::parse(fields, zone).map(|fields| Self::Fields(Box::new(fields)))
    }

    /// The first scheduled time after `after`; `None` if there is no such time for years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Fields(fields) => fields.next(after),
            Self::Every(every) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                whole.checked_add(*every).ok()
            }
        }
    }

    /// The last moment after `since` that is not after `now`.
    pub fn latest(&self, since: Timestamp, now: Timestamp) -> Latest {
        let none = Latest { moment: None, missed: Missed::None };
        let Some(first) = self.next(since).filter(|first| *first <= now) else { return none };
        let Some(second) = self.next(first).filter(|second| *second <= now) else {
            return Latest { moment: Some(first), missed: Missed::None };
        };
        let step = second.duration_since(first).as_secs();
        if step < 1 {
            return none;
        }
        let passed = now.duration_since(first).as_secs() / step + 1;
        // Steps need not be equal: a few of them back and on from there, further if need be.
        let mut moment = None;
        let mut back = 2_i64;
        while moment.is_none() {
            let near = SignedDuration::from_secs(passed.saturating_sub(back).saturating_mul(step));
            let near = if back < passed { first.checked_add(near).unwrap_or(since) } else { since };
            let mut at = self.next(near);
            while let Some(found) = at.filter(|found| *found <= now) {
                moment = Some(found);
                at = self.next(found);
            }
            back = back.saturating_mul(2);
        }
        let missed = if passed > MANY { Missed::Many } else { Missed::Few };
        Latest { moment, missed }
    }
}

// === impl Fields ===

impl Fields {
    fn parse(text: &str, zone: TimeZone) -> Result<Self, String> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let &[minute, hour, day, month, weekday] = parts.as_slice() else {
            let list = parts.join(" ");
            return Err(format!("expected exactly 5 fields, found {}: [{list}]", parts.len()));
        };
        let (minutes, _) = field(minute, FIELDS[0])?;
        let (hours, _) = field(hour, FIELDS[1])?;
        let (days, free_day) = field(day, FIELDS[2])?;
        let (months, _) = field(month, FIELDS[3])?;
        let (weekdays, free_weekday) = field(weekday, FIELDS[4])?;
        let any_day = free_day || free_weekday;
        Ok(Self { minutes, hours, days, months, weekdays, any_day, zone })
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.to_zoned(self.zone.clone());
        let mut at = start
            .round(jiff::ZonedRound::new().smallest(Unit::Minute).mode(jiff::RoundMode::Floor))
            .ok()?
            .checked_add(1.minute())
            .ok()?;
        let last = start.year().saturating_add(YEARS_MAX);
        while at.year() <= last {
            at = if !has(self.months, at.month()) {
                let first = at.first_of_month().ok()?;
                first.checked_add(1.month()).ok()?.start_of_day().ok()?
            } else if !self.day_fits(&at) {
                at.tomorrow().ok()?.start_of_day().ok()?
            } else if !has(self.hours, at.hour()) {
                // By the clock on the wall this may be the same hour once more.
                let into = i64::from(at.minute());
                at.checked_add((60 - into).minutes()).ok()?
            } else if !has(self.minutes, at.minute()) {
                at.checked_add(1.minute()).ok()?
            } else {
                return Some(at.timestamp());
            };
        }
        None
    }

    fn day_fits(&self, at: &Zoned) -> bool {
        let day = has(self.days, at.day());
        let weekday = has(self.weekdays, at.weekday().to_sunday_zero_offset());
        if self.any_day { day && weekday } else { day || weekday }
    }
}

fn has(set: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| set & (1_u64 << number.min(63)) != 0)
}

/// The numbers a field allows, and whether it does not restrict at all.
fn field(text: &str, bounds: (u32, u32, &[&str])) -> Result<(u64, bool), String> {
    let (mut set, mut free) = (0, false);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (numbers, any) = range(part, bounds)?;
        set |= numbers;
        free |= any;
    }
    Ok((set, free))
}

fn range(text: &str, (min, max, names): (u32, u32, &[&str])) -> Result<(u64, bool), String> {
    let (span, step) = match text.split_once('/') {
        None => (text, None),
        Some((span, step)) => (span, Some(step)),
    };
    let step_by = match step {
        None => 1,
        Some(step) => step.parse::<u32>().map_err(|_| format!("failed to parse int: {text}"))?,
    };
    let read = |word: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(word));
        match named.and_then(|at| u32::try_from(at).ok()) {
            Some(at) => Ok(at + min),
            None => word.parse::<u32>().map_err(|_| format!("failed to parse int from {word}")),
        }
    };
    let any = matches!(span, "*" | "?");
    let (low, high) = match span.split_once('-') {
        _ if any => (min, max),
        Some((low, high)) => (read(low)?, read(high)?),
        // A start with a step continues to the end of the range.
        None if step.is_some() => (read(span)?, max),
        None => (read(span)?, read(span)?),
    };
    if low < min || high > max || low > high || step_by == 0 {
        return Err(format!("out of range ({min}-{max}): {text}"));
    }
    let step = usize::try_from(step_by).unwrap_or(usize::MAX);
    let set = (low..=high).step_by(step).fold(0_u64, |set, number| set | (1 << number));
    Ok((set, any && step_by == 1))
}

/// A duration such as `1h30m`, in whole seconds, one at least.
fn duration(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("failed to parse duration @every {text}");
    let mut rest = text.trim();
    let mut seconds = 0.0_f64;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(wrong()),
        };
        seconds += number * unit;
        rest = &rest[end..];
    }
    if !(0.0..1e12).contains(&seconds) {
        return Err(wrong());
    }
    Ok(SignedDuration::from_secs((seconds as i64).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(text: &str, zone: &str) -> Schedule {
        Schedule::parse(text, TimeZone::get(zone).unwrap()).unwrap()
    }

    fn times(text: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let schedule = schedule(text, zone);
        let mut at: Timestamp = from.parse().unwrap();
        (0..count)
            .map(|_| {
                at = schedule.next(at).unwrap();
                at.to_string()
            })
            .collect()
    }

    #[test]
    fn moments_follow_the_fields() {
        let from = "2024-01-31T23:58:30Z";
        let first = |text: &str| times(text, "UTC", from, 1).remove(0);
        assert_eq!(first("* * * * *"), "2024-01-31T23:59:00Z");
        assert_eq!(first("*/15 * * * *"), "2024-02-01T00:00:00Z");
        assert_eq!(first("5/20 1-3 * * *"), "2024-02-01T01:05:00Z");
        assert_eq!(first("0 0 29 2 *"), "2024-02-29T00:00:00Z");
        assert_eq!(first("0 12 * * MON-wed"), "2024-02-05T12:00:00Z");
        assert_eq!(first("0 0 1 JAN,jul *"), "2024-07-01T00:00:00Z");
        assert_eq!(first("@weekly"), "2024-02-04T00:00:00Z");
        assert_eq!(first("@every 1h30m"), "2024-02-01T01:28:30Z");
        // Two restricted kinds of days: one is enough.
        assert_eq!(first("0 0 13 * 5"), "2024-02-02T00:00:00Z");
    }

    #[test]
    fn clock_changes_skip_and_repeat() {
        let zone = "America/New_York";
        // 02:30 is left out on March 10.
        let spring = times("30 2 * * *", zone, "2024-03-09T12:00:00Z", 1);
        assert_eq!(spring, ["2024-03-11T06:30:00Z"]);
        // 01:30 occurs twice on November 3.
        let autumn = times("30 1 * * *", zone, "2024-11-03T00:00:00Z", 2);
        assert_eq!(autumn, ["2024-11-03T05:30:00Z", "2024-11-03T06:30:00Z"]);
    }

    #[test]
    fn a_day_that_never_comes_ends_the_search() {
        assert!(schedule("0 0 31 2 *", "UTC").next(Timestamp::UNIX_EPOCH).is_none());
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for wrong in [
            "",
            "* * * *",
            "60 * * * *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "@never",
            "@every x",
            "a * * * *",
        ] {
            assert!(Schedule::parse(wrong, TimeZone::UTC).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_latest_moment_is_found_over_long_gaps() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let hourly = schedule("0 * * * *", "UTC");
        let since = at("2024-01-01T00:30:00Z");
        let latest = hourly.latest(since, at("2024-01-01T00:59:00Z"));
        assert_eq!((latest.moment, latest.missed), (None, Missed::None));
        let latest = hourly.latest(since, at("2024-01-01T01:10:00Z"));
        assert_eq!(latest.moment, Some(at("2024-01-01T01:00:00Z")));
        let latest = hourly.latest(since, at("2024-03-01T10:10:00Z"));
        assert_eq!(latest.moment, Some(at("2024-03-01T10:00:00Z")));
        assert_eq!(latest.missed, Missed::Many);
        let uneven = schedule("30 6-16/4 * * 1-5", "UTC");
        let latest = uneven.latest(since, at("2024-01-08T06:00:00Z"));
        assert_eq!(latest.moment, Some(at("2024-01-05T14:30:00Z")));
    }
}
