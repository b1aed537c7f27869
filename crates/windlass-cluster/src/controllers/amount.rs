//! Numbers and moments as objects carry them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A moment as objects carry it.
pub fn time(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap_or(moment))
}

/// A count as statuses carry it: `None` for zero.
pub fn counted(count: usize) -> Option<i32> {
    non_zero(number(count))
}

/// A number as statuses carry it: `None` for zero.
pub fn non_zero(number: i32) -> Option<i32> {
    Some(number).filter(|number| *number != 0)
}

/// A count as objects carry it.
pub fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A number of pods given as such or in per cent of `total`.
pub fn scaled(value: &IntOrString, total: i32, round_up: bool) -> i32 {
    let text = match value {
        IntOrString::Int(number) => return *number,
        IntOrString::String(text) => text,
    };
    let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
    let scaled = percent.saturating_mul(i64::from(total));
    let rounded = if round_up { scaled.saturating_add(99) / 100 } else { scaled / 100 };
    i32::try_from(rounded).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        let third = IntOrString::String("34%".into());
        assert_eq!((scaled(&third, 3, true), scaled(&third, 3, false)), (2, 1));
        assert_eq!(scaled(&IntOrString::Int(5), 3, false), 5);
    }
}
