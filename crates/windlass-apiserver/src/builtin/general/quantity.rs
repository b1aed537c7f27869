//! Amounts, as far as rules compare them.

/// One unit in the scale of [`parse`].
pub(super) const ONE: i128 = 1_000_000_000;

/// An amount in billionths; `None` if the text is not a quantity. Extremes saturate.
pub(super) fn parse(text: &str) -> Option<i128> {
    let digits_end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || (*at == 0 && matches!(c, '+' | '-'))))
        .map_or(text.len(), |(at, _)| at);
    let (number, suffix) = text.split_at(digits_end);
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let scale = factor(suffix)?;
    let digits = |text: &str| {
        text.bytes()
            .fold(0i128, |sum, b| sum.saturating_mul(10).saturating_add(i128::from(b - b'0')))
    };
    let mut value = digits(whole).saturating_mul(scale);
    // More digits than the scale has cannot change a comparison.
    let fraction = &fraction[..fraction.len().min(18)];
    let power = 10i128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    value = value.saturating_add(digits(fraction).saturating_mul(scale) / power);
    Some(if negative { -value } else { value })
}

/// Returns `true` if an amount has no fraction.
pub(super) fn is_whole(amount: i128) -> bool {
    amount % ONE == 0
}

fn factor(suffix: &str) -> Option<i128> {
    let binary = |power: u32| 1i128.checked_shl(10 * power)?.checked_mul(ONE);
    Some(match suffix {
        "" => ONE,
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "k" => ONE * 1_000,
        "M" => ONE * 1_000_000,
        "G" => ONE * 1_000_000_000,
        "T" => ONE * 1_000_000_000_000,
        "P" => ONE * 1_000_000_000_000_000,
        "E" => ONE * 1_000_000_000_000_000_000,
        "Ki" => binary(1)?,
        "Mi" => binary(2)?,
        "Gi" => binary(3)?,
        "Ti" => binary(4)?,
        "Pi" => binary(5)?,
        "Ei" => binary(6)?,
        other => {
            let exponent: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = u32::try_from(exponent.clamp(-9, 18) + 9).ok()?;
            10i128.checked_pow(power)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_compare_across_notations() {
        assert_eq!(parse("1Gi"), parse("1024Mi"));
        assert_eq!(parse("1500m"), parse("1.5"));
        assert_eq!(parse("1e3"), parse("1k"));
        assert_eq!(parse("-1"), Some(-ONE));
        assert_eq!(parse("x"), None);
        assert!(!is_whole(parse("1.5").unwrap()) && is_whole(parse("2").unwrap()));
    }
}
