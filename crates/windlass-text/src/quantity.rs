//! `resource.Quantity`: exact amounts with SI and binary suffixes.
//!
//! **Invariant:** an amount is a whole number of billionths; nothing is ever a float.

use std::cmp::Ordering;
use std::fmt;

/// An amount such as `500m`, `1Gi` or `2e3`.
///
/// ```
/// use windlass_text::Quantity;
///
/// let half: Quantity = "0.5".parse().unwrap();
/// assert_eq!(half.to_string(), "500m");
/// assert_eq!("1024Mi".parse::<Quantity>().unwrap().to_string(), "1Gi");
/// ```
#[derive(Clone, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    /// The text it came from, if that is canonical enough to be kept.
    text: Option<String>,
}

/// How an amount is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `Ki`, `Mi`, `Gi`.
    BinarySi,
    /// `e3`.
    DecimalExponent,
    /// `m`, `k`, `M`.
    DecimalSi,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It has another form.
    #[error(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The digits are no number.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i128 = 1_000_000_000;
const NANO_DIGITS: i32 = 9;
/// Amounts beyond this are capped: a round number, so that writing and reading keep it.
const NANOS_MAX: i128 = 10i128.pow(38);
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

// === impl Quantity ===

impl Quantity {
    /// A whole amount in the given format.
    pub fn from_units(units: i64, format: Format) -> Self {
        Self { nanos: i128::from(units) * NANO, format, text: None }
    }

    /// An amount of thousandths.
    pub fn from_millis(millis: i64) -> Self {
        Self { nanos: i128::from(millis) * 1_000_000, format: Format::DecimalSi, text: None }
    }

    /// Zero.
    pub fn zero() -> Self {
        Self::from_units(0, Format::DecimalSi)
    }

    /// Returns `true` if it is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.nanos.signum() as i32
    }

    /// The whole units, rounded up (away from zero).
    pub fn value(&self) -> i64 {
        saturate(div_up(self.nanos, NANO))
    }

    /// The thousandths, rounded up (away from zero).
    pub fn milli_value(&self) -> i64 {
        saturate(div_up(self.nanos, 1_000_000))
    }

    /// Returns `true` if it is a whole number of units.
    pub fn is_whole(&self) -> bool {
        self.nanos % NANO == 0
    }

    /// Returns how it is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The sum; it is written as this amount is, unless this one is zero.
    pub fn add(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: cap(self.nanos.saturating_add(other.nanos)), format, text: None }
    }

    /// The difference; it is written as this amount is, unless this one is zero.
    pub fn sub(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: cap(self.nanos.saturating_sub(other.nanos)), format, text: None }
    }

    fn write_decimal(&self, f: &mut fmt::Formatter<'_>, format: Format) -> fmt::Result {
        let (mut mantissa, mut exponent) = (self.nanos, -NANO_DIGITS);
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        while exponent.rem_euclid(3) != 0 {
            mantissa = mantissa.saturating_mul(10);
            exponent -= 1;
        }
        if format == Format::DecimalSi {
            // Beyond the largest suffix the digits take over.
            while exponent > 18 {
                mantissa = mantissa.saturating_mul(1000);
                exponent -= 3;
            }
            let suffix = DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| s);
            return write!(f, "{mantissa}{suffix}");
        }
        match exponent {
            0 => write!(f, "{mantissa}"),
            _ => write!(f, "{mantissa}e{exponent}"),
        }
    }

    fn write_binary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut mantissa = self.nanos / NANO;
        let mut suffix = "";
        for (name, _) in BINARY {
            if mantissa % 1024 != 0 {
                break;
            }
            mantissa /= 1024;
            suffix = name;
        }
        write!(f, "{mantissa}{suffix}")
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = Parts::split(text)?;
        let (scale, format) = parts.suffix_scale().ok_or(QuantityError::Suffix)?;
        let mut nanos = parts.amount(scale)?;
        let kept = is_canonical(&parts, scale, format, nanos);
        let mut format = format;
        if format == Format::BinarySi {
            nanos = nanos.min(i128::from(i64::MAX) * NANO);
            if nanos > 0 && nanos < NANO {
                format = Format::DecimalSi;
            }
        }
        if parts.negative {
            nanos = -nanos;
        }
        let text = (kept && text != "0").then(|| text.to_owned());
        Ok(Self { nanos, format, text })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        match self.format {
            Format::BinarySi => {
                let small = self.nanos.abs() < 1024 * NANO;
                match small || !self.is_whole() {
                    true => self.write_decimal(f, Format::DecimalSi),
                    false => self.write_binary(f),
                }
            }
            format => self.write_decimal(f, format),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The pieces of a quantity's text.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

#[derive(Clone, Copy)]
enum ScaleBy {
    Ten(i32),
    Two(u32),
}

// === impl Parts ===

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        let negative = text.starts_with('-');
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = digits.trim_start_matches('0');
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let (whole, rest) = digits.split_at(end);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => {
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                rest.split_at(end)
            }
            None => ("", rest),
        };
        let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let tail = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        match tail.bytes().all(|b| b.is_ascii_digit()) {
            true => Ok(Self { negative, whole, fraction, suffix }),
            false => Err(QuantityError::Format),
        }
    }

    fn suffix_scale(&self) -> Option<(ScaleBy, Format)> {
        if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == self.suffix) {
            return Some((ScaleBy::Ten(*exponent), Format::DecimalSi));
        }
        if let Some((_, exponent)) = BINARY.iter().find(|(name, _)| *name == self.suffix) {
            return Some((ScaleBy::Two(*exponent), Format::BinarySi));
        }
        let exponent = self.suffix.strip_prefix(['e', 'E'])?.parse::<i64>().ok()?;
        let exponent = exponent.clamp(-1000, 1000) as i32;
        Some((ScaleBy::Ten(exponent), Format::DecimalExponent))
    }

    /// The amount without its sign, in billionths, rounded up.
    fn amount(&self, scale: ScaleBy) -> Result<i128, QuantityError> {
        // More digits than this decide nothing but whether to round up.
        const DIGITS_MAX: usize = 37;
        let mut digits: String = [self.whole, self.fraction].concat();
        let mut ten = match scale {
            ScaleBy::Ten(exponent) => exponent,
            ScaleBy::Two(_) => 0,
        } + NANO_DIGITS
            - i32::try_from(self.fraction.len()).map_err(|_| QuantityError::Numeric)?;
        let mut inexact = false;
        if digits.len() > DIGITS_MAX {
            let cut = digits.split_off(DIGITS_MAX);
            ten = ten.saturating_add(i32::try_from(cut.len()).unwrap_or(i32::MAX));
            inexact = cut.bytes().any(|b| b != b'0');
        }
        let mut value: i128 = match digits.as_str() {
            "" => 0,
            text => text.parse().map_err(|_| QuantityError::Numeric)?,
        };
        if let ScaleBy::Two(exponent) = scale {
            value = value.saturating_mul(1i128 << exponent);
        }
        while ten > 0 && value > 0 && value < NANOS_MAX {
            value = value.saturating_mul(10);
            ten -= 1;
        }
        while ten < 0 && value > 0 {
            inexact |= value % 10 != 0;
            value /= 10;
            ten += 1;
        }
        Ok(value.saturating_add(i128::from(inexact)).min(NANOS_MAX))
    }
}

/// Returns `true` if the real server keeps the text as it is instead of formatting the amount
/// again.
fn is_canonical(parts: &Parts<'_>, scale: ScaleBy, format: Format, nanos: i128) -> bool {
    let whole = if parts.whole.is_empty() { "0" } else { parts.whole };
    let digits = [whole, parts.fraction].concat();
    let Ok(value) = digits.parse::<i64>() else { return false };
    match scale {
        ScaleBy::Two(exponent) => {
            let digits_left = 15 - whole.len() as i32 - (exponent as f32 * 3.0 / 10.0) as i32 - 1;
            parts.fraction.is_empty() && digits_left >= 0 && value & 7 != 0
        }
        ScaleBy::Ten(exponent) => {
            let scale = exponent - parts.fraction.len() as i32;
            digits.len() <= 18
                && scale >= -NANO_DIGITS
                && scale % 3 == 0
                && !digits.ends_with("000")
                && !digits.starts_with('0')
                && format != Format::BinarySi
                && nanos < NANOS_MAX
        }
    }
}

fn div_up(n: i128, by: i128) -> i128 {
    let (quotient, rest) = (n / by, n % by);
    quotient + rest.signum()
}

fn cap(nanos: i128) -> i128 {
    nanos.clamp(-NANOS_MAX, NANOS_MAX)
}

fn saturate(n: i128) -> i64 {
    n.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        text.parse::<Quantity>().unwrap().to_string()
    }

    #[test]
    fn quantities_are_written_in_their_canonical_form() {
        for (text, want) in [
            ("0", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("100m", "100m"),
            ("1e3", "1e3"),
            ("1000", "1k"),
            ("1000000", "1M"),
            ("1500", "1500"),
            ("0.1m", "100u"),
            ("0.1n", "1n"),
            ("1023", "1023"),
            ("0.5Mi", "512Ki"),
            ("0.5Ki", "512"),
            ("-1.5", "-1500m"),
            ("12Ei", "9223372036854775807"),
            ("8Mi", "8Mi"),
            ("2048Ki", "2Mi"),
            ("100000Ki", "100000Ki"),
            ("1E", "1E"),
            ("010", "010"),
            ("5.", "5."),
        ] {
            assert_eq!(canonical(text), want, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_says_why() {
        let error = |text: &str| text.parse::<Quantity>().unwrap_err();
        assert_eq!(error(""), QuantityError::Format);
        assert_eq!(error("abc"), QuantityError::Format);
        assert_eq!(error("1Gi!"), QuantityError::Format);
        assert_eq!(error("1Mm"), QuantityError::Suffix);
        assert!(error("x").to_string().starts_with("quantities must match"));
    }

    #[test]
    fn amounts_add_and_compare_exactly() {
        let (a, b): (Quantity, Quantity) = ("100m".parse().unwrap(), "0.2".parse().unwrap());
        assert_eq!(a.add(&b).to_string(), "300m");
        assert!(a < b && b.sub(&a) == a);
        assert_eq!("1Gi".parse::<Quantity>().unwrap().value(), 1 << 30);
        assert_eq!("1.1".parse::<Quantity>().unwrap().value(), 2);
        assert_eq!("1.1".parse::<Quantity>().unwrap().milli_value(), 1100);
        assert_eq!(Quantity::zero().add(&"1Gi".parse().unwrap()).to_string(), "1Gi");
    }

    proptest! {
        #[test]
        fn writing_a_quantity_keeps_its_amount(text in "[-+]?[0-9]{0,20}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]|e-[0-9])?") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let written = quantity.to_string();
                let again: Quantity = written.parse().unwrap();
                prop_assert_eq!(&again, &quantity, "{} {}", text, written);
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Quantity>().map(|q| q.to_string());
        }
    }
}
