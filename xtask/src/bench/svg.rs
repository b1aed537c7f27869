//! The picture: bars of the main figures and lines of how they grow, drawn by hand.

use std::fmt::Write as _;

use super::metrics::Unit;
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

const PANELS: &[Panel] = &[
    panel("Settled memory of the cache (less is better)", "sync", "/rss_kb", Unit::Kib),
    panel("Initial sync (less is better)", "sync", "/time_s", Unit::Seconds),
    panel(
        "CPU per event of a stream (less is better)",
        "stream",
        "/cpu_us_per_event",
        Unit::Microseconds,
    ),
    panel("No-op reconciles (more is better)", "reconcile", "/per_s", Unit::PerSecond),
    panel("Start to first reconcile (less is better)", "start", "/time_s", Unit::Seconds),
    panel("Work queue, one hand (more is better)", "queue", "/alone_per_s", Unit::PerSecond),
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
    let mut top = heights[0].max(heights[1]);
    for (n, (title, pointer, unit)) in [
        ("Growth: settled memory by pods", "/rss_kb", Unit::Kib),
        ("Growth: initial sync by pods", "/time_s", Unit::Seconds),
    ]
    .into_iter()
    .enumerate()
    {
        growth(record, (title, pointer, unit), n * HALF, top, &mut body);
    }
    top += 250;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{top}\" \
         viewBox=\"0 0 {WIDTH} {top}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{top}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// The contestants of a panel with their numbers, at the largest size up to 20,000 that most have.
fn bars(record: &Record, panel: &Panel) -> Option<Vec<(&'static str, f64)>> {
    let runs = || record.runs.iter().filter(|run| run.scenario == panel.scenario);
    let size = runs().map(|run| run.size).filter(|size| *size <= 20_000).max()?;
    let real = runs().any(|run| run.server == "real" && run.size == size);
    let found: Vec<(&'static str, f64)> = COLOURS
        .iter()
        .filter_map(|(name, _)| {
            let servers: &[&str] = match *name {
                "ours" | "real" => &[name],
                _ if real => &["real"],
                _ => &["ours", "none"],
            };
            let spread = servers.iter().find_map(|server| {
                Spread::find(record, (panel.scenario, server, name), size, panel.pointer)
            });
            spread.map(|spread| (*name, spread.median))
        })
        .collect();
    (found.len() > 1).then_some(found)
}

fn draw(
    panel: &Panel,
    bars: &[(&'static str, f64)],
    left: usize,
    top: usize,
    out: &mut String,
) -> usize {
    let most = bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let (label, room) = (left + 175, HALF - 265);
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" font-weight=\"bold\" fill=\"#111111\">{}</text>",
        left + 16,
        top + 12,
        panel.title
    );
    let mut y = top + 22;
    for (name, value) in bars {
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

/// Lines over sizes, both axes logarithmic.
fn growth(
    record: &Record,
    (title, pointer, unit): (&str, &str, Unit),
    left: usize,
    top: usize,
    out: &mut String,
) {
    let mut sizes: Vec<usize> =
        record.runs.iter().filter(|r| r.scenario == "sync").map(|run| run.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let lines: Vec<(&str, Vec<(f64, f64)>)> = COLOURS
        .iter()
        .map(|(name, _)| {
            let points = sizes.iter().filter_map(|size| {
                let find = |server| Spread::find(record, ("sync", server, name), *size, pointer);
                Some((*size as f64, find("ours").or_else(|| find("real"))?.median))
            });
            (*name, points.collect::<Vec<_>>())
        })
        .filter(|(_, points)| points.len() > 1)
        .collect();
    let all: Vec<(f64, f64)> = lines.iter().flat_map(|(_, points)| points.clone()).collect();
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let values = all.iter().map(of);
        let (least, most) = values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
        (least.max(1e-9).ln(), most.max(1e-9).ln())
    };
    if all.is_empty() {
        return;
    }
    let ((x0, x1), (y0, y1)) = (bounds(|p| p.0), bounds(|p| p.1));
    let (wide, high) = ((HALF - 120) as f64, 170.0);
    let place = |(x, y): (f64, f64)| {
        let part = |v: f64, a: f64, b: f64| (v.max(1e-9).ln() - a) / (b - a).max(1e-9);
        let across = left as f64 + 70.0 + part(x, x0, x1) * wide;
        (across, top as f64 + 30.0 + (1.0 - part(y, y0, y1)) * high)
    };
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" font-weight=\"bold\" fill=\"#111111\">{title}</text>\
         <rect x=\"{}\" y=\"{}\" width=\"{wide}\" height=\"{high}\" fill=\"none\" stroke=\"#cccccc\"/>",
        left + 16,
        top + 12,
        left + 70,
        top + 30
    );
    for (edge, value) in [(200, y0.exp()), (38, y1.exp())] {
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#333333\">{}</text>",
            left + 64,
            top + edge,
            unit.show(value)
        );
    }
    for size in &sizes {
        let (x, _) = place((*size as f64, y0.exp()));
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#333333\">{size}</text>",
            top + 216
        );
    }
    for (name, points) in &lines {
        let path: Vec<String> = points
            .iter()
            .map(|point| place(*point))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
            path.join(" "),
            colour(name)
        );
    }
}

fn colour(name: &str) -> &'static str {
    COLOURS.iter().find(|(one, _)| *one == name).map_or("#888888", |(_, colour)| colour)
}
