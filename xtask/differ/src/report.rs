//! What was compared, and the differences in groups.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};
use std::sync::LazyLock;

use regex::Regex;

use crate::run::shown;
use crate::sequence::Sequence;

static CHANGING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""[^"]*"|\d+|\{[^}]*\}"#).expect("the pattern is valid"));

/// The outcome of many sequences.
#[derive(Default)]
pub struct Report {
    /// Compared answers that the real server gave without an error.
    pub answers: usize,
    /// Compared answers in which the real server refused what was sent.
    pub refusals: usize,
    answers_differ: usize,
    refusals_differ: usize,
    groups: BTreeMap<String, Group>,
}

struct Group {
    count: usize,
    example: Sequence,
    differences: Vec<String>,
}

// === impl Report ===

impl Report {
    /// Counts an answer; `refused` if the real server answered with an error.
    pub fn count(&mut self, refused: bool, differs: bool) {
        let (all, differing) = if refused {
            (&mut self.refusals, &mut self.refusals_differ)
        } else {
            (&mut self.answers, &mut self.answers_differ)
        };
        *all += 1;
        *differing += usize::from(differs);
    }

    /// Adds a difference; returns `true` if none like it was seen before.
    pub fn add(&mut self, example: &Sequence, differences: &[String]) -> bool {
        let signature = signature(&example.about, differences);
        let known = self.groups.entry(signature);
        let fresh = matches!(known, std::collections::btree_map::Entry::Vacant(_));
        let group = known.or_insert_with(|| Group {
            count: 0,
            example: example.clone(),
            differences: differences.to_vec(),
        });
        group.count += 1;
        fresh
    }

    /// Replaces the example of a difference by a smaller one.
    pub fn shrunk(&mut self, signature_of: &[String], smaller: Sequence) {
        if let Some(group) = self.groups.get_mut(&signature(&smaller.about, signature_of)) {
            group.example = smaller;
        }
    }

    /// Returns the examples of all groups.
    pub fn examples(&self) -> impl Iterator<Item = &Sequence> {
        self.groups.values().map(|group| &group.example)
    }
}

/// Returns a text that differences of one cause share.
fn signature(about: &str, differences: &[String]) -> String {
    let first = differences.first().map(String::as_str).unwrap_or_default();
    let second = differences.get(1).map(String::as_str).unwrap_or_default();
    format!("{about}: {} {}", CHANGING.replace_all(first, "_"), CHANGING.replace_all(second, "_"))
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut groups: Vec<&Group> = self.groups.values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        for group in groups {
            writeln!(f, "\n{} × {}", group.count, group.example.about)?;
            for step in &group.example.steps {
                writeln!(f, "    {}", shown(step))?;
            }
            for difference in &group.differences {
                writeln!(f, "      {difference}")?;
            }
        }
        let percent = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
        writeln!(
            f,
            "\nanswers: {} of {} differ ({:.2} %); refusals: {} of {} differ ({:.2} %)",
            self.answers_differ,
            self.answers,
            percent(self.answers_differ, self.answers),
            self.refusals_differ,
            self.refusals,
            percent(self.refusals_differ, self.refusals),
        )
    }
}
