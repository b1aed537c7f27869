//! How often each oracle has looked, as lines of a report.

use std::collections::BTreeMap;

use super::number;
use crate::oracle::Oracle;

/// The most characters of a line.
const WIDTH: usize = 100;

/// The oracles with their counts, and those that have looked at nothing.
pub(super) fn lines(looked: &BTreeMap<Oracle, u64>) -> Vec<String> {
    if looked.is_empty() {
        return Vec::new(); // the exploration has not begun
    }
    let count = |oracle: &Oracle| looked.get(oracle).copied().unwrap_or_default();
    let (seen, unseen): (Vec<_>, Vec<_>) =
        Oracle::ALL.into_iter().partition(|oracle| count(oracle) > 0);
    let number = |n: u64| number(usize::try_from(n).unwrap_or(usize::MAX));
    let seen = seen.iter().map(|oracle| format!("{oracle} {}", number(count(oracle))));
    let unseen = unseen.iter().map(|oracle| match why(*oracle) {
        "" => oracle.to_string(),
        why => format!("{oracle} ({why})"),
    });
    let mut lines = wrapped("  Looked: ", seen);
    lines.extend(wrapped("  Never looked: ", unseen));
    lines
}

/// Why an oracle has looked at nothing, if the scenario can change that.
fn why(oracle: Oracle) -> &'static str {
    match oracle {
        Oracle::Rbac => "no role: see `sim.runs`",
        Oracle::Rollback => "no field of a spec was changed and changed back",
        Oracle::SameFromZero => "left out",
        Oracle::Always | Oracle::Eventually | Oracle::Sometimes => "nothing is stated",
        _ => "",
    }
}

/// Words with commas between them, in lines that begin with a heading or as much space.
fn wrapped(heading: &str, words: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut words = words.peekable();
    while let Some(mut word) = words.next() {
        if words.peek().is_some() {
            word.push(',');
        }
        match lines.last_mut() {
            None => lines.push(format!("{heading}{word}")),
            Some(line) if line.len() + word.len() < WIDTH => {
                line.push(' ');
                line.push_str(&word);
            }
            Some(_) => lines.push(format!("{}{word}", " ".repeat(heading.len()))),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracles_are_listed_with_what_they_have_looked_at() {
        let looked = Oracle::ALL.map(|oracle| (oracle, 12_345)).into_iter();
        let some = |(oracle, _): &(Oracle, u64)| !matches!(oracle, Oracle::Rbac | Oracle::Quiet);
        let lines = lines(&looked.filter(some).collect());
        let text = lines.join("\n");
        assert!(text.starts_with("  Looked: Completes 12,345, Converges 12,345, "), "{text}");
        assert!(lines.iter().all(|line| line.len() <= WIDTH + 1), "{text}");
        assert!(
            text.ends_with("\n  Never looked: Quiet, Rbac (no role: see `sim.runs`)"),
            "{text}"
        );
        assert!(super::lines(&BTreeMap::new()).is_empty());
    }
}
