//! Timestamps and durations.

use std::cmp::Ordering;
use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

use super::value::{Fault, Res, Val, fault};

/// The first and last second a timestamp can be.
const MIN: i64 = -62_135_596_800;
const MAX: i64 = 253_402_300_799;

/// A point in time, and the offset it was written with.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    seconds: i64,
    nanos: i32,
    offset: i32,
}

// === impl Time ===

impl Time {
    /// Returns the time so many seconds after 1970.
    pub fn of_seconds(seconds: i64) -> Result<Self, Fault> {
        Self::new(i128::from(seconds) * 1_000_000_000, 0)
    }

    fn new(nanos: i128, offset: i32) -> Result<Self, Fault> {
        let seconds = nanos.div_euclid(1_000_000_000);
        let rest = nanos.rem_euclid(1_000_000_000);
        match (i64::try_from(seconds), i32::try_from(rest)) {
            (Ok(seconds @ MIN..=MAX), Ok(nanos)) => Ok(Self { seconds, nanos, offset }),
            _ => fault("timestamp overflow"),
        }
    }

    fn total(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos)
    }

    /// Seconds after 1970.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Returns the time so many nanoseconds later.
    pub fn plus(self, span: i64) -> Result<Self, Fault> {
        Self::new(self.total() + i128::from(span), self.offset)
    }

    /// Returns the time so many nanoseconds earlier.
    pub fn minus(self, span: i64) -> Result<Self, Fault> {
        Self::new(self.total() - i128::from(span), self.offset)
    }

    /// Returns the nanoseconds between two times.
    pub fn since(self, other: Self) -> Result<i64, Fault> {
        i64::try_from(self.total() - other.total()).or_else(|_| fault("duration overflow"))
    }

    fn zoned(self, zone: TimeZone) -> Option<Zoned> {
        Timestamp::new(self.seconds, self.nanos).ok().map(|time| time.to_zoned(zone))
    }
}

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.total().cmp(&other.total())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = Offset::from_seconds(self.offset).unwrap_or(Offset::UTC);
        let Some(zoned) = self.zoned(offset.to_time_zone()) else { return Ok(()) };
        let (date, time) = (zoned.date(), zoned.time());
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            date.year(),
            date.month(),
            date.day(),
            time.hour(),
            time.minute(),
            time.second()
        )?;
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        match self.offset {
            0 => f.write_str("Z"),
            offset => {
                let sign = if offset < 0 { '-' } else { '+' };
                let minutes = offset.abs() / 60;
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

/// Reads an RFC 3339 time.
pub fn rfc3339(text: &str) -> Option<Time> {
    let (date, rest) = split_date(text)?;
    let rest = rest.strip_prefix('T')?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let clock = clock.as_bytes();
    if clock[2] != b':' || clock[5] != b':' {
        return None;
    }
    let two = |at: usize| digits(&clock[at..at + 2]);
    let (hour, minute, second) = (two(0)?, two(3)?, two(6)?);
    let (nanos, rest) = fraction(rest)?;
    let offset = match rest {
        "Z" => 0,
        _ => offset(rest, true)?,
    };
    build(date, (hour, minute, second), nanos, offset)
}

/// Reads a time as schemas allow it: offsets may miss or lack their colon.
pub fn loose_date_time(text: &str) -> Option<Time> {
    if let Some(time) = rfc3339(text) {
        return Some(time);
    }
    let (date, rest) = split_date(text)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let end = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(end);
    let (clock, nanos) = match clock.find(['.', ',']) {
        Some(at) => (&clock[..at], fraction(&clock[at..])?.0),
        None => (clock, 0),
    };
    let mut parts = clock.split(':').map(|part| digits(part.as_bytes()));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    let offset = match zone {
        "" | "Z" | "z" => 0,
        zone => offset(zone, true).or_else(|| offset(zone, false))?,
    };
    build(date, (hour, minute, second), nanos, offset)
}

/// Reads a date.
pub fn date(text: &str) -> Option<Time> {
    let (date, rest) = split_date(text)?;
    if rest.is_empty() { build(date, (0, 0, 0), 0, 0) } else { None }
}

type Date = (i16, i8, i8);

fn split_date(text: &str) -> Option<(Date, &str)> {
    let (date, rest) = text.split_at_checked(10)?;
    let bytes = date.as_bytes();
    if bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = i16::try_from(digits(&bytes[..4])?).ok()?;
    let month = i8::try_from(digits(&bytes[5..7])?).ok()?;
    let day = i8::try_from(digits(&bytes[8..10])?).ok()?;
    Some(((year, month, day), rest))
}

fn digits(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 9 || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(bytes.iter().fold(0, |sum, b| sum * 10 + i64::from(b - b'0')))
}

fn fraction(text: &str) -> Option<(i32, &str)> {
    let Some(rest) = text.strip_prefix(['.', ',']) else { return Some((0, text)) };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    if end == 0 {
        return None;
    }
    let mut nanos = rest[..end.min(9)].to_owned();
    while nanos.len() < 9 {
        nanos.push('0');
    }
    Some((nanos.parse().ok()?, &rest[end..]))
}

fn offset(text: &str, colon: bool) -> Option<i32> {
    let sign = match text.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, minutes) = match colon {
        true => text.get(1..)?.split_once(':')?,
        false => text.get(1..)?.split_at_checked(2)?,
    };
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (digits(hours.as_bytes())?, digits(minutes.as_bytes())?);
    if hours > 24 || minutes > 60 {
        return None;
    }
    i32::try_from(sign * (hours * 3600 + minutes * 60)).ok()
}

fn build(date: Date, clock: (i64, i64, i64), nanos: i32, offset: i32) -> Option<Time> {
    let small = |number: i64| i8::try_from(number).ok();
    let (hour, minute, second) = (small(clock.0)?, small(clock.1)?, small(clock.2)?);
    let civil = DateTime::new(date.0, date.1, date.2, hour, minute, second, nanos).ok()?;
    let zone = Offset::from_seconds(offset).ok()?;
    let time = zone.to_timestamp(civil).ok()?;
    Time::new(time.as_nanosecond(), offset).ok()
}

/// Reads a duration such as `1h30m`.
pub fn duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_i128;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && part.is_empty() || part.contains('.') || whole.len() > 19 {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        if !part.is_empty() {
            let part = &part[..part.len().min(18)];
            let scale = 10_i128.pow(u32::try_from(part.len()).ok()?);
            total += part.parse::<i128>().ok()? * unit / scale;
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Reads a duration as schemas allow it: `5 minutes` counts too.
pub fn loose_duration(text: &str) -> Option<i64> {
    if let Some(span) = duration(text) {
        return Some(span);
    }
    let (mut total, mut found) = (0_i64, false);
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = &rest[start..];
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let after = number[end..].trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let unit = after[..letters].to_lowercase();
        let units: [(&[&str], i64); 8] = [
            (&["ns", "nano"], 1),
            (&["us", "µs", "micro"], 1_000),
            (&["ms", "milli"], 1_000_000),
            (&["s", "sec"], 1_000_000_000),
            (&["m", "min"], 60_000_000_000),
            (&["h", "hr", "hour"], 3_600_000_000_000),
            (&["d", "day"], 86_400_000_000_000),
            (&["w", "wk", "week"], 604_800_000_000_000),
        ];
        let factor: i64 = number[..end].parse().ok()?;
        let matching = units
            .iter()
            .find(|(names, _)| names.iter().any(|name| !unit.is_empty() && unit.starts_with(name)));
        if let Some((_, unit)) = matching {
            total = total.checked_add(factor.checked_mul(*unit)?)?;
            found = true;
        }
        rest = &after[letters..];
    }
    found.then_some(total)
}

/// Returns a duration as text.
pub fn span_text(span: i64) -> String {
    let seconds = (span / 1_000_000_000) as f64 + (span % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}s")
}

/// Returns a part of a time or duration by the name of its function.
pub fn part<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    if let [Val::Span(span)] = args {
        let unit = match name {
            "getHours" => 3_600_000_000_000,
            "getMinutes" => 60_000_000_000,
            "getSeconds" => 1_000_000_000,
            "getMilliseconds" => 1_000_000,
            _ => return super::library::no_overload(name, args),
        };
        return Ok(Val::Int(span / unit));
    }
    let (time, zone) = match args {
        [Val::Time(time)] => (time, TimeZone::UTC),
        [Val::Time(time), Val::Str(zone)] => (time, self::zone(zone)?),
        _ => return super::library::no_overload(name, args),
    };
    let Some(zoned) = time.zoned(zone) else { return fault("timestamp overflow") };
    Ok(Val::Int(match name {
        "getFullYear" => i64::from(zoned.year()),
        "getMonth" => i64::from(zoned.month()) - 1,
        "getDayOfYear" => i64::from(zoned.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(zoned.day()) - 1,
        "getDate" => i64::from(zoned.day()),
        "getDayOfWeek" => i64::from(zoned.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(zoned.hour()),
        "getMinutes" => i64::from(zoned.minute()),
        "getSeconds" => i64::from(zoned.second()),
        _ => i64::from(zoned.subsec_nanosecond() / 1_000_000),
    }))
}

fn zone(name: &str) -> Result<TimeZone, Fault> {
    let Some((hours, minutes)) = name.split_once(':') else {
        if name.is_empty() || name == "UTC" {
            return Ok(TimeZone::UTC);
        }
        return TimeZone::get(name).or_else(|_| fault(format!("unknown time zone {name}")));
    };
    let number = |text: &str| {
        let bad = format!("strconv.Atoi: parsing {}: invalid syntax", windlass_text::quote(text));
        text.parse::<i32>().or_else(|_| fault(bad))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let signed = if name.starts_with('-') { -i64::from(minutes) } else { i64::from(minutes) };
    let seconds = (i64::from(hours) * 60 + signed) * 60;
    let offset = i32::try_from(seconds).ok().and_then(|s| Offset::from_seconds(s).ok());
    match offset {
        Some(offset) => Ok(offset.to_time_zone()),
        None => fault(format!("unknown time zone {name}")),
    }
}
