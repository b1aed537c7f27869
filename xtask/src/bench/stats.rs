//! Medians, spread, and ratios that know what noise is.

use super::record::Record;

/// Several measurements of the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

/// How ours stands beside a peer; above 1 ours is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    Equal,
    Ratio(f64),
}

// === impl Spread ===

impl Spread {
    /// Sums up measurements; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, least, most })
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

/// Compares; a difference that is within 5 % or within the spread of either is none.
pub fn standing(ours: Spread, peer: Spread, lower_is_better: bool) -> Standing {
    let ratio = match lower_is_better {
        true => peer.median / ours.median.max(1e-12),
        false => ours.median / peer.median.max(1e-12),
    };
    let overlap = ours.least <= peer.most && peer.least <= ours.most;
    match overlap || (0.95..=1.05).contains(&ratio) {
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
        assert_eq!(spread, Spread { median: 2.5, least: 1.0, most: 4.0 });
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn what_overlaps_is_equal() {
        let one = |least, median, most| Spread { median, least, most };
        let (a, b) = (one(1.0, 1.1, 1.2), one(2.0, 2.2, 2.4));
        assert_eq!(standing(a, b, true), Standing::Ratio(2.0));
        assert_eq!(standing(a, b, false), Standing::Ratio(0.5));
        assert_eq!(standing(a, one(1.15, 1.5, 2.0), true), Standing::Equal);
    }
}
