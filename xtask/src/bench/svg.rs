//! The picture: bars of the main figures and lines of how they grow, drawn by hand.

mod growth;

use std::fmt::Write as _;

use super::metrics::{Unit, place};
use super::record::Record;
use super::stats::Spread;

const WIDTH: usize = 860;
const HALF: usize = WIDTH / 2;
const BAR: usize = 18;

const COLOURS: &[(&str, &str)] = &[
    ("windlass", "#1f6feb"),
    ("ours", "#1f6feb"),
    ("kube-rs", "#d2691e"),
    ("controller-runtime", "#2e8b57"),
    ("controller-runtime (JSON)", "#7fbf9f"),
    ("client-go", "#2e8b57"),
    ("real", "#6e7781"),
];

/// One panel of bars.
struct Panel {
    title: &'static str,
    scenario: &'static str,
    pointer: &'static str,
    unit: Unit,
}

/// What a panel shows, and where it was measured.
struct Bars {
    place: String,
    values: Vec<(&'static str, f64)>,
}

const PANELS: &[Panel] = &[
    panel("Settled memory of the cache (less is better)", "sync", "/rss_kb", Unit::Kib),
    panel("Initial sync (less is better)", "sync", "/time_s", Unit::Seconds),
    panel(
        "CPU per event of a stream (less is better)",
        "stream",
        "/cpu_us_per_event",
        Unit::Microseconds,
    ),
    panel(
        "No-op reconciles that read nothing (more is better)",
        "reconcile-key",
        "/per_s",
        Unit::PerSecond,
    ),
    panel("Start to first reconcile (less is better)", "start", "/time_s", Unit::Seconds),
    panel("Work queue, one task (more is better)", "queue", "/alone_per_s", Unit::PerSecond),
    panel("API server start (less is better)", "server-start", "/start_s", Unit::Seconds),
    panel("API server creates (more is better)", "writes", "/create_per_s", Unit::PerSecond),
];

const fn panel(
    title: &'static str,
    scenario: &'static str,
    pointer: &'static str,
    unit: Unit,
) -> Panel {
    Panel { title, scenario, pointer, unit }
}

/// Draws everything that was measured.
pub fn picture(record: &Record) -> String {
    let (mut body, mut heights) = (String::new(), [20, 20]);
    for panel in PANELS {
        let Some(bars) = bars(record, panel) else { continue };
        let column = usize::from(heights[1] < heights[0]);
        heights[column] = draw(panel, &bars, column * HALF, heights[column], &mut body);
    }
    let top = heights[0].max(heights[1]);
    let height = top + growth::draw(record, top, &mut body);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// The contestants of a panel with their numbers, of one server and at its largest size up to
/// 20,000; servers that are contestants themselves are each their own.
fn bars(record: &Record, panel: &Panel) -> Option<Bars> {
    let runs = || {
        record
            .runs
            .iter()
            .filter(|run| run.scenario == panel.scenario && run.number(panel.pointer).is_some())
    };
    let itself = runs().all(|run| run.contestant == run.server);
    let server =
        ["real", "ours", "none"].into_iter().find(|one| runs().any(|r| r.server == *one))?;
    let of_server = runs().filter(|run| itself || run.server == server);
    let size = of_server.map(|run| run.size).filter(|size| *size <= 20_000).max()?;
    let values: Vec<(&'static str, f64)> = COLOURS
        .iter()
        .filter_map(|(name, _)| {
            let server = if itself { *name } else { server };
            let key = (panel.scenario, server, *name);
            Some((*name, Spread::find(record, key, size, panel.pointer)?.median))
        })
        .collect();
    let place = place(panel.scenario, if itself { "" } else { server }, size);
    (values.len() > 1).then_some(Bars { place, values })
}

fn draw(panel: &Panel, bars: &Bars, left: usize, top: usize, out: &mut String) -> usize {
    let most = bars.values.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let (label, room) = (left + 175, HALF - 265);
    let mut y = heading(panel.title, &bars.place, left, top, out);
    for (name, value) in &bars.values {
        let length = (value / most * room as f64).max(1.0);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#333333\">{name}</text>\
             <rect x=\"{label}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{}\" fill=\"#333333\">{}</text>",
            label - 6,
            y + 12,
            BAR - 4,
            colour(name),
            label as f64 + length + 5.0,
            y + 12,
            panel.unit.show(*value),
        );
        y += BAR;
    }
    y + 18
}

/// A title, and below it where it was measured; returns where to go on.
fn heading(title: &str, place: &str, left: usize, top: usize, out: &mut String) -> usize {
    let left = left + 16;
    let _ = writeln!(
        out,
        "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\" fill=\"#111111\">{title}</text>",
        top + 12
    );
    if place.is_empty() {
        return top + 22;
    }
    let _ = writeln!(out, "<text x=\"{left}\" y=\"{}\" fill=\"#666666\">{place}</text>", top + 28);
    top + 38
}

fn colour(name: &str) -> &'static str {
    COLOURS.iter().find(|(one, _)| *one == name).map_or("#888888", |(_, colour)| colour)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::tests::made_up;
    use super::*;

    #[test]
    fn bars_are_of_one_server_and_say_which() {
        let mut runs = Vec::new();
        for (server, rate) in [("real", 150), ("ours", 1000)] {
            for name in ["windlass", "kube-rs"] {
                runs.push(("stream", server, name, rate, json!({ "cpu_us_per_event": 1.0 })));
            }
        }
        let drawn = picture(&made_up(&runs));
        assert!(drawn.contains(">real server, 150 changes/s</text>"), "{drawn}");
        assert!(!drawn.contains("our server"));
    }

    #[test]
    fn lines_are_of_the_real_server_if_it_has_three_sizes() {
        let runs = |real: &[usize]| {
            let mut runs = Vec::new();
            for (server, sizes) in [("real", real), ("ours", &[1000, 20_000, 100_000])] {
                for size in sizes {
                    let result = json!({ "rss_kb": size, "time_s": 1.0 });
                    runs.push(("sync", server, "windlass", *size, result));
                }
            }
            picture(&made_up(&runs))
        };
        assert!(runs(&[1000, 5000, 20_000]).contains("by pods, real server"));
        assert!(runs(&[1000, 5000]).contains("by pods, our server"));
    }
}
