//! Medians, spread, and ratios that know what noise is.

use super::record::Record;

/// Several measurements of the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
    /// How many measurements there are.
    pub count: usize,
}

/// How ours compares with a peer; above 1 ours is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    Equal,
    Ratio(f64),
}

// === impl Spread ===

impl Spread {
    /// Summarizes measurements; `None` if the list is empty.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, least, most, count: values.len() })
    }

    /// The same with nothing below a floor.
    pub fn floored(self, floor: f64) -> Self {
        let Self { median, least, most, count } = self;
        Self { median: median.max(floor), least: least.max(floor), most: most.max(floor), count }
    }

    /// Looks the measurements up.
    pub fn find(
        record: &Record,
        (scenario, server, contestant): (&str, &str, &str),
        size: usize,
        pointer: &str,
    ) -> Option<Self> {
        let runs = record.runs.iter().filter(|run| {
            run.scenario == scenario
                && run.server == server
                && run.contestant == contestant
                && run.size == size
        });
        Self::of(runs.filter_map(|run| run.number(pointer)).collect())
    }
}

/// By how much ranges have to be apart to differ.
const APART: f64 = 1.05;

/// Compares a single measurement, which has no range and may lie anywhere in it.
const APART_ALONE: f64 = 1.25;

/// Compares; ranges that overlap or have less than 5 % between them are equal, and where one of
/// the two was measured once, less than 25 %.
pub fn standing(ours: Spread, peer: Spread, lower_is_better: bool) -> Standing {
    let ratio = match lower_is_better {
        true => peer.median / ours.median.max(1e-12),
        false => ours.median / peer.median.max(1e-12),
    };
    let apart = if ours.count.min(peer.count) < 2 { APART_ALONE } else { APART };
    match ours.least <= peer.most * apart && peer.least <= ours.most * apart {
        true => Standing::Equal,
        false => Standing::Ratio(ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.5, least: 1.0, most: 4.0, count: 4 });
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn what_overlaps_is_equal() {
        let one = |least, median, most| Spread { median, least, most, count: 3 };
        let (a, b) = (one(1.0, 1.1, 1.2), one(2.0, 2.2, 2.4));
        assert_eq!(standing(a, b, true), Standing::Ratio(2.0));
        assert_eq!(standing(a, b, false), Standing::Ratio(0.5));
        assert_eq!(standing(a, one(1.15, 1.5, 2.0), true), Standing::Equal);
    }

    #[test]
    fn ranges_with_less_than_a_twentieth_between_them_are_equal() {
        let one = |least, median, most| Spread { median, least, most, count: 3 };
        let a = one(1.0, 1.5, 2.0);
        assert_eq!(standing(a, one(2.08, 3.0, 4.0), true), Standing::Equal);
        assert_eq!(standing(one(2.08, 3.0, 4.0), a, true), Standing::Equal);
        assert_eq!(standing(a, one(2.12, 3.0, 4.0), true), Standing::Ratio(2.0));
    }

    #[test]
    fn a_single_measurement_is_equal_within_a_quarter() {
        let once = |value| Spread::of(vec![value]).unwrap();
        assert_eq!(standing(once(1.0), once(1.2), true), Standing::Equal);
        assert_eq!(standing(once(1.2), once(1.0), false), Standing::Equal);
        assert_eq!(standing(once(1.0), once(1.5), true), Standing::Ratio(1.5));
        let several = Spread { median: 1.0, least: 1.0, most: 1.0, count: 3 };
        assert_eq!(standing(several, once(1.2), true), Standing::Equal);
    }
}
