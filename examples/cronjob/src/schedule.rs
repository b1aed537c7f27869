//! When a job is due.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use windlass::{Error, Result};

/// A cron expression of five fields, or `@hourly` and the like, in UTC.
#[derive(Debug, Clone)]
pub struct Schedule(Cron);

// === impl Schedule ===

impl Schedule {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// Fails if the expression is invalid.
    pub fn new(expression: &str) -> Result<Self> {
        let parser =
            CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(expression);
        let wrong = |error| Error::Invalid(format!("schedule {expression:?} is invalid: {error}"));
        cron.map(Self).map_err(wrong)
    }

    /// Returns the first time after `time`; `None` if there is none.
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        let start = time.to_zoned(TimeZone::UTC);
        let found = self.0.find_next_occurrence(&start, false).ok()?.timestamp();
        (found > time).then_some(found)
    }

    /// Returns the latest time after `last` and until `now`; `None` if there was none.
    pub fn missed(&self, last: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let end = now.to_zoned(TimeZone::UTC);
        let latest = self.0.find_previous_occurrence(&end, true).ok()?.timestamp();
        (latest > last && latest <= now).then_some(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("is a time")
    }

    #[test]
    fn of_several_missed_times_only_the_latest_counts() {
        let hourly = Schedule::new("0 * * * *").expect("is valid");
        let (last, now) = (time("2026-01-01T00:00:00Z"), time("2026-01-01T05:10:00Z"));
        assert_eq!(hourly.missed(last, now), Some(time("2026-01-01T05:00:00Z")));
        assert_eq!(hourly.missed(time("2026-01-01T05:00:00Z"), now), None);
        assert_eq!(
            hourly.missed(last, time("2026-01-01T01:00:00Z")),
            Some(time("2026-01-01T01:00:00Z"))
        );
        assert_eq!(hourly.after(now), Some(time("2026-01-01T06:00:00Z")));
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for wrong in ["", "never", "61 * * * *", "0 0 * * * *"] {
            let error = Schedule::new(wrong).expect_err("is invalid").to_string();
            assert!(error.starts_with("schedule \""), "{error}");
        }
    }
}
