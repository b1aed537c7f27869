//! A section: its table, and what belongs below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::super::metrics::{Better, Metric, Section, Unit, digits};
use super::super::record::{Record, Run};
use super::super::stats::{Spread, Standing, standing};
use super::about::origin;

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

pub fn write(record: &Record, section: &Section, out: &mut String) {
    let scenarios: BTreeSet<&str> = section.metrics.iter().map(|metric| metric.scenario).collect();
    let runs = || {
        let good = record.runs.iter().filter(|run| run.result.is_ok());
        good.filter(|run| scenarios.contains(run.scenario.as_str()))
    };
    if runs().next().is_none() {
        return;
    }
    let _ = write!(out, "\n### {}\n\n{}", section.title, section.about);
    if section.title == "Cluster" && runs().any(|run| run.server == "real") {
        out.push_str(
            " The real one is kube-apiserver, etcd and kube-controller-manager; it has no kubelet, \
             so nothing becomes ready there.",
        );
    }
    out.push_str("\n\n");
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
    kept(section, &runs().collect::<Vec<_>>(), out);
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
    let key = |name| (metric.scenario, if place.is_empty() { name } else { place }, name);
    let find = |name| Spread::find(record, key(name), size, metric.pointer);
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
        .map(|name| {
            let Some(spread) = find(name) else { return "–".to_owned() };
            let mut text = cell(metric, spread, ours.filter(|_| *name != first && *name != "wire"));
            if metric.pointer == "/sent_rate" {
                text.push_str(&unseen(record, key(name), size));
            }
            text
        })
        .collect();
    let _ = writeln!(out, "| {label} | {} |", cells.join(" | "));
}

fn cell(metric: &Metric, spread: Spread, ours: Option<Spread>) -> String {
    let show = |value: f64| metric.unit.show(value);
    let mut text = String::new();
    let compared = ours.filter(|_| metric.better != Better::Neither);
    let compare = |ours: Spread| match metric.unit {
        // The size of a file has no noise.
        Unit::Bytes => Standing::Ratio(spread.median / ours.median),
        _ => standing(ours, spread, metric.better == Better::Less),
    };
    match compared.map(compare) {
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

/// Names the runs that ended before all changes had been seen: their values are of fewer changes.
fn unseen(record: &Record, key: (&str, &str, &str), size: usize) -> String {
    let mut text = String::new();
    for run in record.runs.iter().filter(|run| {
        (run.scenario.as_str(), run.server.as_str(), run.contestant.as_str()) == key
            && run.size == size
    }) {
        match (run.number("/events"), run.number("/sent")) {
            (Some(seen), Some(sent)) if seen < sent => {
                let _ = write!(text, "; **{seen} of {sent} seen**");
            }
            _ => {}
        }
    }
    text
}

/// Says which rows are not of this run.
fn kept(section: &Section, runs: &[&Run], out: &mut String) {
    let mut origins: BTreeMap<_, BTreeMap<(&str, &str), BTreeSet<usize>>> = BTreeMap::new();
    for run in runs {
        if let Some(kept) = &run.kept {
            let rows = origins.entry(kept).or_default();
            rows.entry((&run.scenario, &run.server)).or_default().insert(run.size);
        }
    }
    for (kept, rows) in origins {
        let all = runs.iter().all(|run| run.kept.as_ref() == Some(kept));
        let named: Vec<String> = rows
            .into_iter()
            .map(|((scenario, server), sizes)| {
                let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
                let server = if server == "none" { "" } else { server };
                match section.axis {
                    "" => format!("`{scenario}` {server}").trim_end().to_owned(),
                    axis => format!("`{scenario}` {server} {} {axis}", sizes.join(", ")),
                }
            })
            .collect();
        let which =
            if all { "All rows".to_owned() } else { format!("Rows of {}", named.join("; ")) };
        let _ = writeln!(out, "\n*{which} are {}.*", origin(kept));
    }
}

/// What the wire takes, below the table of the first sync.
fn floors(record: &Record, out: &mut String) {
    let good = record.runs.iter().filter(|run| run.scenario == "list" && run.result.is_ok());
    let places: BTreeSet<(&str, usize)> = good.map(|run| (run.server.as_str(), run.size)).collect();
    if places.is_empty() {
        return;
    }
    out.push_str(
        "\nThe wire alone:\n\n| | list | fresh list | streaming list | protobuf list | metadata list |\n",
    );
    out.push_str("|---|---|---|---|---|---|\n");
    for (server, size) in places {
        let cells: Vec<String> = ["list", "fresh", "stream", "protobuf", "metadata"]
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
        let server = if server == "ours" { "our" } else { server };
        let _ = writeln!(out, "| {size} pods, {server} server | {} |", cells.join(" | "));
    }
}
