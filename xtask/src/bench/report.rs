//! The page: ratios first, then what they are made of.

mod about;
mod table;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::figures::{self, Verdict};
use super::metrics::{SECTIONS, place};
use super::record::{Record, SERVER};

/// Makes the page.
pub fn page(record: &Record, notes: &str) -> String {
    let mut out = String::from("# Benchmarks\n\n");
    out.push_str(
        "Written by `cargo xtask bench`; how it works is in [bench/README.md](../bench/README.md), \
         the raw results are in [bench/results](../bench/results).\n\n",
    );
    about::write(record, &mut out);
    out.push_str("\n![The main figures](benchmarks.svg)\n\n## Figures\n\n");
    figures_table(record, &mut out);
    if !notes.trim().is_empty() {
        let stranger = other_run(record, notes).unwrap_or_default();
        let _ = write!(out, "\n{stranger}{}\n", notes.trim());
    }
    out.push_str(
        "\n## Tables\n\nMedians, with the least and the most of all rounds in brackets. A ratio \
         says how many times better windlass is (below 1: worse); `=` is a difference within \
         noise.\n",
    );
    for section in SECTIONS {
        table::write(record, section, &mut out);
    }
    failures(record, &mut out);
    out
}

fn figures_table(record: &Record, out: &mut String) {
    out.push_str("| | figure | where | wanted | measured |\n|---|---|---|---|---|\n");
    let figures = figures::all(record);
    for figure in &figures {
        let mark = match figure.verdict {
            Verdict::Holds => "holds",
            Verdict::Misses => "**does not hold**",
            Verdict::NotShown => "**not shown** (within noise)",
            Verdict::Compared => "for comparison",
            Verdict::Unknown => "not measured",
        };
        let figures::Figure { what, place, wanted, measured, .. } = figure;
        let _ = writeln!(out, "| {mark} | {what} | {place} | {wanted} | {measured} |");
    }
    if figures.iter().any(|figure| figure.verdict == Verdict::NotShown) {
        out.push_str(
            "\n*Not shown*: the median meets what is wanted, but the ranges of the two overlap or \
             nearly do.\n",
        );
    }
}

/// Says so if the notes do not name the commit that was measured: they are written by hand, and
/// a new run does not change them.
fn other_run(record: &Record, notes: &str) -> Option<String> {
    let commit = record.origin().windlass;
    let heading = notes.trim().lines().next().unwrap_or_default();
    (!heading.contains(&format!("windlass {commit}"))).then(|| {
        format!(
            "**The notes below are of another run than the results of this page (windlass \
             {commit}); their numbers are not those of the tables.**\n\n"
        )
    })
}

fn failures(record: &Record, out: &mut String) {
    let failed: BTreeSet<String> = record
        .runs
        .iter()
        .filter_map(|run| {
            let why = run.result.as_ref().err()?;
            let mut parts = vec![run.scenario.clone()];
            if ![SERVER, &run.scenario, &run.server].contains(&run.contestant.as_str()) {
                parts.push(run.contestant.clone());
            }
            parts.push(place(&run.scenario, &run.server, run.size));
            parts.retain(|part| !part.is_empty());
            let kept = run.kept.as_ref().map(|kept| format!(" ({})", about::origin(kept)));
            Some(format!("- {}{}: {why}", parts.join(", "), kept.unwrap_or_default()))
        })
        .collect();
    if !failed.is_empty() {
        out.push_str("\n### Runs that failed\n\n");
        for line in failed {
            let _ = writeln!(out, "{line}");
        }
    }
}

#[cfg(test)]
mod tests;
