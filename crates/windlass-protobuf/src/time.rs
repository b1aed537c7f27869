//! Times: seconds since 1970 on the wire, RFC 3339 in JSON.

use crate::error::{Error, Reason};
use crate::wire::{Reader, VARINT, put_tag, put_varint};

const DAY: i64 = 86_400;
/// The first second of year 0 and of year 10000, between which RFC 3339 has a text.
const SECONDS: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;
/// The zero time of Go, year 1, which counts as unset.
const ZERO: i64 = -62_135_596_800;

/// Reads seconds and nanoseconds and gives the text; `None` for a time that is not set.
pub(crate) fn read(bytes: &[u8], micro: bool) -> Result<Option<String>, Error> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader::new(bytes, "Timestamp");
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    while !reader.is_empty() {
        match reader.tag()? {
            (1, VARINT) => seconds = reader.varint()? as i64,
            (2, VARINT) => nanos = reader.varint()? as i32,
            (number @ 1..=2, wire) => {
                let field = if number == 1 { "Seconds" } else { "Nanos" }.to_owned();
                return Err(Reason::WireType { wire, field }.into());
            }
            (_, wire) => reader.skip(wire)?,
        }
    }
    if seconds == ZERO && (!micro || nanos == 0) {
        return Ok(None);
    }
    if !SECONDS.contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
        return Err(Error::value("a time of years 0 to 9999", format!("{seconds}s {nanos}ns")));
    }
    Ok(Some(text(seconds, micro.then_some(nanos / 1000))))
}

fn text(seconds: i64, micros: Option<i32>) -> String {
    let (days, clock) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let mut text = String::with_capacity(27);
    let parts = [
        (year, 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (hour, 2, ':'),
        (minute, 2, ':'),
        (second, 2, if micros.is_some() { '.' } else { 'Z' }),
    ];
    let micros = micros.map(|micros| (i64::from(micros), 6, 'Z'));
    for (number, digits, after) in parts.into_iter().chain(micros) {
        for place in (0..digits).rev() {
            text.push(char::from(b'0' + (number / 10_i64.pow(place) % 10) as u8));
        }
        text.push(after);
    }
    text
}

/// Writes the fields of a time.
pub(crate) fn write(text: &str, micro: bool, out: &mut Vec<u8>) -> Result<(), Error> {
    let (seconds, nanos) =
        parse(text).ok_or_else(|| Error::value("a time such as 2006-01-02T15:04:05Z", text))?;
    if seconds == ZERO && nanos == 0 {
        return Ok(());
    }
    let nanos = if micro { nanos / 1000 * 1000 } else { 0 };
    put_tag(out, 1, VARINT);
    put_varint(out, seconds as u64);
    put_tag(out, 2, VARINT);
    put_varint(out, u64::from(nanos));
    Ok(())
}

/// Seconds and nanoseconds of an RFC 3339 text.
fn parse(text: &str) -> Option<(i64, u32)> {
    let (date, rest) = text.split_at_checked(10)?;
    let (clock, mut rest) = rest.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let (year, month, day) =
        (part(date, 0..4, 9999)?, part(date, 5..7, 12)?, part(date, 8..10, 31)?);
    let (hour, minute, second) =
        (part(clock, 0..2, 23)?, part(clock, 3..5, 59)?, part(clock, 6..8, 59)?);
    let (date, clock) = (date.as_bytes(), clock.as_bytes());
    let separated = [date[4], date[7]] == *b"--" && [clock[2], clock[5]] == *b"::";
    if !separated || month == 0 || day == 0 {
        return None;
    }
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        for (at, digit) in fraction.bytes().take(digits.min(9)).enumerate() {
            nanos += u32::from(digit - b'0') * 10_u32.pow(8 - at as u32);
        }
        rest = &fraction[digits..];
    }
    let offset = match rest.as_bytes() {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let seconds = part(rest, 1..3, 23)? * 3600 + part(rest, 4..6, 59)? * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
    Some((seconds, nanos))
}

fn part(text: &str, range: std::ops::Range<usize>, max: i64) -> Option<i64> {
    let digits = text.get(range)?;
    let number = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    (number <= max).then_some(number)
}

/// Year, month and day of a day since 1970, by the calendar that repeats every 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years are counted from March, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The day since 1970 of a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year * 365 + year / 4 - year / 100 + day - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_with_offsets_and_fractions_are_read() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some((0, 0)));
        assert_eq!(parse("2026-11-16T05:30:00+01:30"), Some((1_794_801_600, 0)));
        assert_eq!(parse("2026-11-16T04:00:00.123456789Z"), Some((1_794_801_600, 123_456_789)));
        for wrong in ["", "now", "2026-11-16", "2026-13-16T04:00:00Z", "2026-11-16T04:00:00"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_unset_time_has_no_bytes_and_no_text() {
        let mut out = Vec::new();
        write("0001-01-01T00:00:00Z", false, &mut out).unwrap();
        assert!(out.is_empty());
        assert_eq!(read(&out, false).unwrap(), None);
    }

    proptest! {
        #[test]
        fn a_time_comes_back(seconds in SECONDS, micros in 0_i32..1_000_000) {
            let text = text(seconds, Some(micros));
            prop_assert_eq!(parse(&text), Some((seconds, micros as u32 * 1000)));
            if seconds != ZERO {
                let mut out = Vec::new();
                write(&text, true, &mut out).unwrap();
                prop_assert_eq!(read(&out, true).unwrap(), Some(text));
            }
        }
    }
}
