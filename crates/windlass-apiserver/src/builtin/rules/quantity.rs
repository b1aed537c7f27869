//! Quantities (`500m`, `1Gi`): comparing and rounding them.

use std::cmp::Ordering;

/// A quantity in billionths, wide enough for every value the API keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    nanos: i128,
}

const ONE: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;

impl Quantity {
    /// Parses a quantity; `None` if the text is not a quantity or far too large.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (multiplier, divisor) = scale(suffix)?;
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let mantissa: i128 = match digits {
            "" => 0,
            digits if digits.len() > 30 => return None,
            digits => digits.parse().ok()?,
        };
        let divisor = 10i128.checked_pow(fraction.len().try_into().ok()?)?.checked_mul(divisor)?;
        let scaled = mantissa.checked_mul(multiplier)?.checked_mul(ONE)?;
        // What is finer than a billionth is rounded up.
        let nanos = scaled.checked_add(divisor - 1)?.checked_div(divisor)?;
        Some(Self { nanos: if negative { -nanos } else { nanos } })
    }

    /// Returns zero.
    pub fn zero() -> Self {
        Self { nanos: 0 }
    }

    /// Returns its sign against zero.
    pub fn sign(self) -> Ordering {
        self.nanos.cmp(&0)
    }

    /// Returns `true` if it has no fraction.
    pub fn is_integer(self) -> bool {
        self.nanos % ONE == 0
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }

    /// Returns thousandths, rounded up.
    pub fn millis(self) -> i128 {
        self.nanos.div_euclid(MILLI) + i128::from(self.nanos.rem_euclid(MILLI) != 0)
    }

    /// Returns `true` if it is finer than thousandths.
    pub fn is_finer_than_milli(self) -> bool {
        self.nanos % MILLI != 0
    }

    /// Returns the decimal form of its thousandths (rounded up): `103m`, `2`, `5k`.
    pub fn to_decimal(self) -> String {
        let millis = self.millis();
        if millis % 1000 != 0 {
            return format!("{millis}m");
        }
        let mut whole = millis / 1000;
        let mut suffix = 0;
        while whole != 0 && whole % 1000 == 0 && suffix < 6 {
            whole /= 1000;
            suffix += 1;
        }
        format!("{whole}{}", ["", "k", "M", "G", "T", "P", "E"][suffix])
    }
}

fn scale(suffix: &str) -> Option<(i128, i128)> {
    let up = |power: u32| 10i128.checked_pow(power).map(|n| (n, 1));
    let binary = |power: u32| Some((1i128 << (10 * power), 1));
    match suffix {
        "n" => Some((1, ONE)),
        "u" => Some((1, MILLI)),
        "m" => Some((1, 1000)),
        "" => Some((1, 1)),
        "k" => up(3),
        "M" => up(6),
        "G" => up(9),
        "T" => up(12),
        "P" => up(15),
        "E" => up(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        other => {
            let power: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            match power {
                0..=18 => up(power.unsigned_abs()),
                -18..=-1 => Some((1, 10i128.checked_pow(power.unsigned_abs())?)),
                _ => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn q(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn suffixes_scale() {
        assert_eq!(q("1Ki"), q("1024"));
        assert_eq!(q("1.5"), q("1500m"));
        assert_eq!(q("2e3"), q("2k"));
        assert_eq!(q("0.5Gi"), q("512Mi"));
        assert!(q("-1") < q("0") && q("1M") < q("1Mi"));
        assert_eq!(Quantity::parse("1x"), None);
        assert_eq!(Quantity::parse(""), None);
        assert_eq!(Quantity::parse("."), None);
    }

    #[test]
    fn amounts_are_rounded_up_to_thousandths() {
        assert_eq!(q("100u").to_decimal(), "1m");
        assert_eq!(q("1999999n").to_decimal(), "2m");
        assert_eq!(q("2000").to_decimal(), "2k");
        assert!(q("3u").is_finer_than_milli() && !q("3m").is_finer_than_milli());
    }

    proptest! {
        #[test]
        fn order_is_that_of_the_thousandths(a in 0u32..5_000_000, b in 0u32..5_000_000) {
            let (qa, qb) = (q(&format!("{a}m")), q(&format!("{b}m")));
            prop_assert_eq!(qa.cmp(&qb), a.cmp(&b));
            prop_assert_eq!(q(&qa.to_decimal()), qa);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+]?[0-9.]{0,40}[a-zA-Z0-9-]{0,4}") {
            let _ = Quantity::parse(&text);
        }
    }
}
