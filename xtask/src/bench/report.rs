//! The page: ratios first, then what they are made of.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::figures::{self, Verdict};
use super::metrics::{Metric, SECTIONS, Section, digits};
use super::record::Record;
use super::stats::{Spread, Standing, standing};

/// Contestants in the order of columns; ours comes first.
const ORDER: &[&str] = &[
    "windlass",
    "windlass, the same calls",
    "kube-rs",
    "kube-rs, stripped",
    "controller-runtime",
    "controller-runtime (JSON)",
    "controller-runtime, stripped",
    "client-go",
    "client-go, no metrics",
    "controller-runtime priority queue",
    "ours",
    "real",
    "wire",
];

/// Makes the page.
pub fn page(record: &Record, notes: &str) -> String {
    let mut out = String::from("# Benchmarks\n\n");
    out.push_str(
        "Written by `cargo xtask bench`; how it works is in [bench/README.md](../bench/README.md), \
         the raw results are in [bench/results](../bench/results).\n\n",
    );
    about(record, &mut out);
    out.push_str("\n![The main figures](benchmarks.svg)\n\n## Figures\n\n");
    figures_table(record, &mut out);
    if !notes.trim().is_empty() {
        let _ = write!(out, "\n{}\n", notes.trim());
    }
    out.push_str(
        "\n## Tables\n\nMedians, with the least and the most of all rounds in brackets. A ratio \
         says how many times better windlass is (below 1: worse); `=` is a difference within \
         noise.\n",
    );
    for section in SECTIONS {
        table(record, section, &mut out);
    }
    failures(record, &mut out);
    out
}

fn about(record: &Record, out: &mut String) {
    let text = |pointer: &str| {
        let value = record.about.pointer(pointer);
        value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let shown = |pointer: &str| text(pointer).unwrap_or_else(|| "?".to_owned());
    let _ = writeln!(
        out,
        "- Date: {}; rounds: {}\n- Machine: {} ({} cores, {} GB), {}",
        shown("/date"),
        shown("/rounds"),
        shown("/machine/cpu"),
        shown("/machine/cores"),
        shown("/machine/memory_gb"),
        shown("/machine/kernel"),
    );
    let versions = record.about["versions"].as_object();
    let listed: Vec<String> = versions
        .into_iter()
        .flatten()
        .map(|(name, version)| format!("{name} {}", version.as_str().unwrap_or("?")))
        .collect();
    let _ = writeln!(out, "- Versions: {}", listed.join(", "));
    for missing in record.about["missing"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "- **Missing:** {}", missing.as_str().unwrap_or_default());
    }
}

fn figures_table(record: &Record, out: &mut String) {
    out.push_str("| | figure | wanted | measured |\n|---|---|---|---|\n");
    for figure in figures::all(record) {
        let mark = match figure.verdict {
            Verdict::Holds => "holds",
            Verdict::Misses => "**does not hold**",
            Verdict::Unknown => "not measured",
        };
        let _ =
            writeln!(out, "| {mark} | {} | {} | {} |", figure.what, figure.wanted, figure.measured);
    }
}

fn table(record: &Record, section: &Section, out: &mut String) {
    let scenarios: BTreeSet<&str> = section.metrics.iter().map(|metric| metric.scenario).collect();
    let runs = || record.runs.iter().filter(|run| scenarios.contains(run.scenario.as_str()));
    if runs().next().is_none() {
        return;
    }
    let _ = write!(out, "\n### {}\n\n{}\n\n", section.title, section.about);
    // Servers measured by themselves are contestants, not places.
    let itself = runs().all(|run| run.contestant == run.server);
    let names: Vec<&str> =
        ORDER.iter().copied().filter(|name| runs().any(|run| run.contestant == *name)).collect();
    let _ = writeln!(out, "| | {} |", names.join(" | "));
    let _ = writeln!(out, "|---|{}", "---|".repeat(names.len()));
    for metric in section.metrics {
        let places: BTreeSet<(&str, usize)> = runs()
            .filter(|run| run.scenario == metric.scenario && run.number(metric.pointer).is_some())
            .map(|run| (if itself { "" } else { run.server.as_str() }, run.size))
            .collect();
        for (place, size) in places {
            row(record, section, metric, (place, size), &names, out);
        }
    }
    if section.title == "Initial sync" {
        floors(record, out);
    }
}

fn row(
    record: &Record,
    section: &Section,
    metric: &Metric,
    (place, size): (&str, usize),
    names: &[&str],
    out: &mut String,
) {
    let find = |name: &str| {
        let server = if place.is_empty() { name } else { place };
        Spread::find(record, (metric.scenario, server, name), size, metric.pointer)
    };
    let mut label = metric.title.to_owned();
    if size > 0 && !section.axis.is_empty() {
        let _ = write!(label, ", {size} {}", section.axis);
    }
    match place {
        "real" => label.push_str(" (real server)"),
        "ours" => label.push_str(" (our server)"),
        _ => {}
    }
    let first = names.first().copied().unwrap_or_default();
    let ours = find(first);
    let cells: Vec<String> = names
        .iter()
        .map(|name| match find(name) {
            None => "–".to_owned(),
            Some(spread) => {
                cell(metric, spread, ours.filter(|_| *name != first && *name != "wire"))
            }
        })
        .collect();
    let _ = writeln!(out, "| {label} | {} |", cells.join(" | "));
}

fn cell(metric: &Metric, spread: Spread, ours: Option<Spread>) -> String {
    let show = |value: f64| metric.unit.show(value);
    let mut text = String::new();
    match ours.map(|ours| standing(ours, spread, metric.lower_is_better)) {
        None => {}
        Some(Standing::Equal) => text.push_str("**=** "),
        Some(Standing::Ratio(ratio)) => {
            let _ = write!(text, "**{} ×** ", digits(ratio));
        }
    }
    text.push_str(&show(spread.median));
    if spread.least < spread.most {
        let _ = write!(text, " ({} … {})", show(spread.least), show(spread.most));
    }
    text
}

/// What the wire takes, below the table of the first sync.
fn floors(record: &Record, out: &mut String) {
    let places: BTreeSet<(&str, usize)> = record
        .runs
        .iter()
        .filter(|run| run.scenario == "list")
        .map(|run| (run.server.as_str(), run.size))
        .collect();
    if places.is_empty() {
        return;
    }
    out.push_str(
        "\nThe wire alone:\n\n| | list | streaming list | protobuf list | metadata list |\n",
    );
    out.push_str("|---|---|---|---|---|\n");
    for (server, size) in places {
        let cells: Vec<String> = ["list", "stream", "protobuf", "metadata"]
            .iter()
            .map(|wire| {
                let find = |field: &str| {
                    let pointer = format!("/{wire}_{field}");
                    Spread::find(record, ("list", server, server), size, &pointer)
                };
                match (find("s"), find("bytes")) {
                    (Some(time), Some(bytes)) => format!(
                        "{} ms, {} MB",
                        digits(time.median * 1e3),
                        digits(bytes.median / 1e6)
                    ),
                    _ => "–".to_owned(),
                }
            })
            .collect();
        let _ = writeln!(out, "| {size} pods, {server} server | {} |", cells.join(" | "));
    }
}

fn failures(record: &Record, out: &mut String) {
    let failed: BTreeSet<String> = record
        .runs
        .iter()
        .filter_map(|run| {
            let why = run.result.as_ref().err()?;
            let (scenario, contestant) = (&run.scenario, &run.contestant);
            Some(format!("- {scenario}, {contestant}, {} server, {}: {why}", run.server, run.size))
        })
        .collect();
    if !failed.is_empty() {
        out.push_str("\n### Runs that failed\n\n");
        for line in failed {
            let _ = writeln!(out, "{line}");
        }
    }
}
