//! Times and durations as Go reads and writes them.

use jiff::Timestamp;
use jiff::civil::DateTime;

/// The layout of `metav1.Time`.
const RFC3339: &str = "2006-01-02T15:04:05Z07:00";
/// The layout of `metav1.MicroTime`.
const RFC3339_MICRO: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Reads a `metav1.Time` and gives its normal form: UTC, whole seconds.
///
/// # Errors
/// The text of Go's `time.ParseError`.
pub fn time(text: &str) -> Result<String, String> {
    let at = parse(text, RFC3339, false)?;
    Ok(format!("{}Z", at.strftime("%Y-%m-%dT%H:%M:%S")))
}

/// Reads a `metav1.MicroTime` and gives its normal form: UTC, six digits.
///
/// # Errors
/// The text of Go's `time.ParseError`.
pub fn micro_time(text: &str) -> Result<String, String> {
    let at = parse(text, RFC3339_MICRO, true)?;
    Ok(format!("{}Z", at.strftime("%Y-%m-%dT%H:%M:%S.%6f")))
}

struct Cursor<'a> {
    all: &'a str,
    rest: &'a str,
    layout: &'static str,
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    fn failed(&self, element: &str) -> String {
        let quote = crate::quote;
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.all),
            quote(self.layout),
            quote(self.rest),
            quote(element)
        )
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", crate::quote(self.all))
    }

    /// A number of exactly so many digits.
    fn digits(&mut self, len: usize, element: &str) -> Result<i32, String> {
        let head = self.rest.get(..len).filter(|h| h.bytes().all(|b| b.is_ascii_digit()));
        match head {
            Some(head) => {
                self.rest = &self.rest[len..];
                head.parse().map_err(|_| self.failed(element))
            }
            None => Err(self.failed(element)),
        }
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.failed(text)),
        }
    }

    /// The fraction of a second, in nanoseconds.
    fn fraction(&mut self, exact: bool) -> Result<i32, String> {
        let Some(digits) = self.rest.strip_prefix(['.', ',']) else {
            return if exact { Err(self.failed(".000000")) } else { Ok(0) };
        };
        let len = digits.bytes().take_while(u8::is_ascii_digit).count();
        if exact && len < 6 {
            return Err(self.failed(".000000"));
        }
        if len == 0 {
            return Ok(0);
        }
        let len = if exact { 6 } else { len };
        let text: String = digits.bytes().take(len.min(9)).map(char::from).collect();
        self.rest = &digits[len..];
        Ok(format!("{text:0<9}").parse().unwrap_or(0))
    }

    /// The offset from UTC, in seconds.
    fn offset(&mut self) -> Result<i32, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let shape = self.rest.get(..6).filter(|t| {
            let b = t.as_bytes();
            matches!(b[0], b'+' | b'-')
                && b[3] == b':'
                && [1, 2, 4, 5].iter().all(|i| b[*i].is_ascii_digit())
        });
        let Some(text) = shape else { return Err(self.failed("Z07:00")) };
        let part = |from: usize| text[from..from + 2].parse::<i32>().unwrap_or(0);
        let (hours, minutes) = (part(1), part(4));
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.rest = &self.rest[6..];
        let seconds = hours * 3600 + minutes * 60;
        Ok(if text.starts_with('-') { -seconds } else { seconds })
    }
}

fn parse(text: &str, layout: &'static str, micro: bool) -> Result<DateTime, String> {
    let mut at = Cursor { all: text, rest: text, layout };
    let year = at.digits(4, "2006")?;
    at.literal("-")?;
    let month = at.digits(2, "01")?;
    if !(1..=12).contains(&month) {
        return Err(at.out_of_range("month"));
    }
    at.literal("-")?;
    let day = at.digits(2, "02")?;
    at.literal("T")?;
    let hour = at.digits(2, "15")?;
    if hour > 23 {
        return Err(at.out_of_range("hour"));
    }
    at.literal(":")?;
    let minute = at.digits(2, "04")?;
    if minute > 59 {
        return Err(at.out_of_range("minute"));
    }
    at.literal(":")?;
    let second = at.digits(2, "05")?;
    if second > 59 {
        return Err(at.out_of_range("second"));
    }
    let nanos = at.fraction(micro)?;
    let offset = at.offset()?;
    if !at.rest.is_empty() {
        let (all, rest) = (crate::quote(text), crate::quote(at.rest));
        return Err(format!("parsing time {all}: extra text: {rest}"));
    }
    let civil = DateTime::new(
        year as i16,
        month as i8,
        day as i8,
        hour as i8,
        minute as i8,
        second as i8,
        nanos,
    )
    .map_err(|_| at.out_of_range("day"))?;
    civil
        .checked_sub(jiff::SignedDuration::from_secs(i64::from(offset)))
        .map_err(|_| at.out_of_range("year"))
}

/// A timestamp in the normal form of `metav1.Time`.
pub fn format_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A timestamp in the normal form of `metav1.MicroTime`.
pub fn format_micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads a Go duration, `1h30m`, into nanoseconds.
///
/// # Errors
/// The text of Go's `time.ParseDuration`.
pub fn duration(text: &str) -> Result<i64, String> {
    let quoted = crate::quote(text);
    let invalid = || format!("time: invalid duration {quoted}");
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (whole, tail) = rest.split_at(end);
        let (fraction, tail) = match tail.strip_prefix('.') {
            Some(tail) => {
                let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
                tail.split_at(end)
            }
            None => ("", tail),
        };
        if whole.is_empty() && fraction.is_empty() || whole.len() > 19 {
            return Err(invalid());
        }
        let end = tail.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => return Err(format!("time: missing unit in duration {quoted}")),
            other => {
                let unit = crate::quote(other);
                return Err(format!("time: unknown unit {unit} in duration {quoted}"));
            }
        };
        let mut part =
            if whole.is_empty() { 0 } else { whole.parse::<i128>().unwrap_or(0) * scale };
        let mut by = scale;
        for digit in fraction.bytes().take(18) {
            part += i128::from(digit - b'0') * by / 10;
            by /= 10;
        }
        total = total.saturating_add(part);
        if total > i128::from(i64::MAX) {
            return Err(invalid());
        }
        rest = tail;
    }
    Ok(if negative { -total as i64 } else { total as i64 })
}

/// Nanoseconds in the form of Go's `Duration.String`.
pub fn format_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let total = nanos.unsigned_abs();
    let small = |unit: u64, name: &str| format!("{sign}{}{name}", trimmed(total, unit));
    match total {
        0 => return "0s".into(),
        1..1_000 => return format!("{sign}{total}ns"),
        1_000..1_000_000 => return small(1_000, "\u{b5}s"),
        1_000_000..1_000_000_000 => return small(1_000_000, "ms"),
        _ => {}
    }
    let (seconds, minutes) = (total % 60_000_000_000, total / 60_000_000_000);
    let seconds = trimmed(seconds, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, m) => format!("{sign}{m}m{seconds}s"),
        (h, m) => format!("{sign}{h}h{m}m{seconds}s"),
    }
}

/// `total / unit` with as many decimals as it needs.
fn trimmed(total: u64, unit: u64) -> String {
    let (whole, rest) = (total / unit, total % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.to_string().len() - 1;
    let digits = format!("{rest:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_normalised_to_utc() {
        assert_eq!(time("2024-01-02T03:04:05Z").unwrap(), "2024-01-02T03:04:05Z");
        assert_eq!(time("2024-01-02T03:04:05.999+02:00").unwrap(), "2024-01-02T01:04:05Z");
        assert_eq!(
            micro_time("2024-01-02T03:04:05.000001Z").unwrap(),
            "2024-01-02T03:04:05.000001Z"
        );
    }

    #[test]
    fn bad_times_are_reported_as_go_reports_them() {
        assert_eq!(
            time("").unwrap_err(),
            r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#
        );
        assert_eq!(
            time("2024-13-01T00:00:00Z").unwrap_err(),
            r#"parsing time "2024-13-01T00:00:00Z": month out of range"#
        );
        assert_eq!(
            time("2024-02-30T00:00:00Z").unwrap_err(),
            r#"parsing time "2024-02-30T00:00:00Z": day out of range"#
        );
        assert_eq!(
            time("2024-02-01 00:00:00Z").unwrap_err(),
            r#"parsing time "2024-02-01 00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 00:00:00Z" as "T""#
        );
        assert_eq!(
            micro_time("2024-01-02T03:04:05.5Z").unwrap_err(),
            r#"parsing time "2024-01-02T03:04:05.5Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse ".5Z" as ".000000""#
        );
        assert_eq!(
            time("2024-01-02T03:04:05Zx").unwrap_err(),
            r#"parsing time "2024-01-02T03:04:05Zx": extra text: "x""#
        );
    }

    #[test]
    fn durations_are_read_and_written() {
        for (text, want) in [
            ("90s", "1m30s"),
            ("1.5h", "1h30m0s"),
            ("1500ms", "1.5s"),
            ("0", "0s"),
            ("-2m", "-2m0s"),
        ] {
            assert_eq!(format_duration(duration(text).unwrap()), want);
        }
        assert_eq!(duration("5").unwrap_err(), "time: missing unit in duration \"5\"");
        assert_eq!(duration("5x").unwrap_err(), "time: unknown unit \"x\" in duration \"5x\"");
        assert_eq!(duration("x").unwrap_err(), "time: invalid duration \"x\"");
    }
}
