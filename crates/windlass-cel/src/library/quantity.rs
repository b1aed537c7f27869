//! Quantities such as `1.5Gi`.

use std::cmp::Ordering;

use super::super::value::{Res, Val, fault};
use super::no_overload;

const FORMAT: &str = "quantities must match the regular expression \
                      '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";
const NUMERIC: &str = "unable to parse numeric part of quantity";

/// One in the scale of amounts.
const ONE: i128 = 1_000_000_000;

/// An amount, in billionths, and the power of ten it is kept with (none if it takes more than a
/// 64-bit number).
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    scale: Option<i32>,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

// === impl Quantity ===

impl Quantity {
    /// Reads a quantity. Fails with the error text of the reference.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (number, suffix) = split(text)?;
        let (negative, digits) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let (base, exponent) = suffix_of(suffix).ok_or(SUFFIX)?;
        let count = |text: &str| i32::try_from(text.len()).unwrap_or(i32::MAX);
        let (scale, power, shift) = match base {
            2 => (0, 0, exponent),
            _ => (exponent.saturating_sub(count(part)), exponent, 0),
        };
        let whole = whole.trim_start_matches('0');
        let mut mantissa = 0_i128;
        for digit in whole.bytes().chain(part.bytes()) {
            mantissa = mantissa.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
        }
        let mut nanos = mantissa.saturating_mul(1 << shift.clamp(0, 60));
        nanos = scaled(nanos, power.saturating_sub(count(part)).saturating_add(9));
        let nanos = nanos.min(i128::from(i64::MAX) * ONE);
        let short = count(whole).saturating_add(count(part)) <= if base == 2 { 15 } else { 18 };
        let plain = short && scale >= -9 && (base != 2 || part.is_empty());
        let exact = i64::try_from(nanos / ONE).is_ok();
        Ok(Self {
            nanos: if negative { -nanos } else { nanos },
            scale: (plain && exact).then_some(scale),
        })
    }

    /// Returns the order of two amounts.
    pub fn compare(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }

    /// The amount as a whole number, if it is kept as one.
    fn whole(self) -> Option<i64> {
        self.scale.filter(|scale| *scale >= 0)?;
        i64::try_from(self.nanos / ONE).ok()
    }

    fn plus(self, other: Self, sign: i128) -> Self {
        let nanos = self.nanos.saturating_add(other.nanos.saturating_mul(sign));
        let scale = match (self.scale, other.scale) {
            (Some(_), Some(scale)) if self.nanos == 0 => Some(scale),
            (Some(scale), Some(_)) if other.nanos == 0 => Some(scale),
            (Some(a), Some(b)) => Some(a.min(b)),
            _ => None,
        };
        Self { nanos, scale }
    }

    fn of_int(number: i64) -> Self {
        Self { nanos: i128::from(number) * ONE, scale: Some(0) }
    }
}

/// Times a power of ten; what is below a billionth is rounded up.
fn scaled(value: i128, power: i32) -> i128 {
    match u32::try_from(power) {
        Ok(power) => 10_i128.checked_pow(power).map_or_else(
            || if value == 0 { 0 } else { i128::MAX },
            |factor| value.saturating_mul(factor),
        ),
        Err(_) => match 10_i128.checked_pow(power.unsigned_abs()) {
            Some(factor) => value / factor + i128::from(value % factor != 0),
            None => i128::from(value != 0),
        },
    }
}

fn split(text: &str) -> Result<(&str, &str), &'static str> {
    if text.is_empty() {
        return Err(FORMAT);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number = text.len() - unsigned.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = &text[number..];
    let after = match rest.strip_prefix('.') {
        Some(part) => part.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let (number, suffix) = text.split_at(text.len() - after.len());
    let tail = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let tail = tail.strip_prefix(['+', '-']).unwrap_or(tail);
    if !tail.bytes().all(|b| b.is_ascii_digit()) {
        return Err(FORMAT);
    }
    if number.trim_start_matches(['+', '-']).trim_matches('.').is_empty() && suffix.is_empty() {
        return Err(NUMERIC);
    }
    Ok((number, suffix))
}

fn suffix_of(suffix: &str) -> Option<(u8, i32)> {
    Some(match suffix {
        "" => (10, 0),
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        other => (10, other.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// Calls a function of this library.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    let new = |quantity| Ok(Val::Quantity(std::sync::Arc::new(quantity)));
    match (name, args) {
        ("quantity", [Val::Str(text)]) => match Quantity::parse(text) {
            Ok(quantity) => new(quantity),
            Err(error) => fault(error),
        },
        ("isQuantity", [Val::Str(text)]) => Ok(Val::Bool(Quantity::parse(text).is_ok())),
        ("sign", [Val::Quantity(quantity)]) => Ok(Val::Int(quantity.nanos.signum() as i64)),
        ("asApproximateFloat", [Val::Quantity(quantity)]) => {
            Ok(Val::Double(quantity.nanos as f64 / ONE as f64))
        }
        ("asInteger", [Val::Quantity(quantity)]) => match quantity.whole() {
            Some(number) => Ok(Val::Int(number)),
            None => fault("cannot convert value to integer"),
        },
        ("isInteger", [Val::Quantity(quantity)]) => Ok(Val::Bool(quantity.whole().is_some())),
        ("add", [Val::Quantity(a), Val::Quantity(b)]) => new(a.plus(**b, 1)),
        ("add", [Val::Quantity(a), Val::Int(b)]) => new(a.plus(Quantity::of_int(*b), 1)),
        ("sub", [Val::Quantity(a), Val::Quantity(b)]) => new(a.plus(**b, -1)),
        ("sub", [Val::Quantity(a), Val::Int(b)]) => new(a.plus(Quantity::of_int(*b), -1)),
        _ => no_overload(name, args),
    }
}
