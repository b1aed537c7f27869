//! Sets of completion indexes, written as `0,2-4`.

use std::collections::BTreeSet;
use std::fmt;

/// A set of indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(BTreeSet<i32>);

// === impl Indexes ===

impl Indexes {
    /// Reads the written form; what is not below `end` is left out.
    pub fn parse(text: &str, end: i32) -> Self {
        let mut set = BTreeSet::new();
        for part in text.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (Ok(low), Ok(high)) = (low.parse::<i32>(), high.parse::<i32>()) else { continue };
            set.extend(low.max(0)..=high.min(end.saturating_sub(1)));
        }
        Self(set)
    }

    pub fn contains(&self, index: i32) -> bool {
        self.0.contains(&index)
    }

    pub fn insert(&mut self, index: i32) -> bool {
        self.0.insert(index)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = i32> {
        self.0.iter().copied()
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<T: IntoIterator<Item = i32>>(indexes: T) -> Self {
        Self(indexes.into_iter().collect())
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(i32, i32)> = Vec::new();
        for index in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == index => *last = index,
                _ => runs.push((index, index)),
            }
        }
        for (at, (first, last)) in runs.into_iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // Two neighbours are written one by one.
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_three_and_more_are_shortened() {
        let text = |set: &[i32]| set.iter().copied().collect::<Indexes>().to_string();
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[0, 2]), "0,2");
        assert_eq!(text(&[0, 1]), "0,1");
        assert_eq!(text(&[0, 1, 2, 5, 7, 8, 9]), "0-2,5,7-9");
    }

    #[test]
    fn what_is_written_is_read_and_what_is_too_high_is_dropped() {
        let set = Indexes::parse("0-2,5,7-9", 9);
        assert_eq!(set.to_string(), "0-2,5,7,8");
        assert!(Indexes::parse("", 5).is_empty() && Indexes::parse("x,-", 5).is_empty());
        assert_eq!(Indexes::parse("0-2147483647", 2).len(), 2);
    }
}
