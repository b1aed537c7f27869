//! Lines of how memory and time grow with the number of pods.

use std::fmt::Write as _;

use super::super::metrics::{Unit, thousands};
use super::super::record::Record;
use super::super::stats::Spread;
use super::{COLOURS, HALF, colour, heading};

const WIDE: f64 = (HALF - 120) as f64;
const HIGH: f64 = 170.0;
const LEGEND: usize = 22;

/// One plot.
struct Plot {
    title: &'static str,
    /// What is drawn upwards.
    upwards: &'static str,
    pointer: &'static str,
    unit: Unit,
}

/// A contestant with its points: pods and number.
struct Line {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

/// The least and the most of a number, as logarithms.
struct Bounds(f64, f64);

const PLOTS: [Plot; 2] = [
    Plot {
        title: "Growth: settled memory by pods",
        upwards: "memory",
        pointer: "/rss_kb",
        unit: Unit::Kib,
    },
    Plot {
        title: "Growth: initial sync by pods",
        upwards: "time",
        pointer: "/time_s",
        unit: Unit::Seconds,
    },
];

/// Draws both plots with one legend and returns how high they are.
pub fn draw(record: &Record, top: usize, out: &mut String) -> usize {
    let (server, shown) = match sizes(record, "real").len() {
        3.. => ("real", "real server"),
        _ => ("ours", "our server"),
    };
    let sizes = sizes(record, server);
    let mut names = Vec::new();
    for (n, plot) in PLOTS.iter().enumerate() {
        let lines = lines(record, server, &sizes, plot.pointer);
        if lines.is_empty() {
            continue;
        }
        names = lines.iter().map(|line| line.name).collect();
        let title = format!("{}, {shown}", plot.title);
        heading(&title, "both axes logarithmic", n * HALF, top + LEGEND, out);
        plot.draw(&sizes, &lines, n * HALF, top + LEGEND + 14, out);
    }
    if names.is_empty() {
        return 0;
    }
    legend(&names, top, out);
    LEGEND + 280
}

fn sizes(record: &Record, server: &str) -> Vec<usize> {
    let runs = record.runs.iter().filter(|run| run.scenario == "sync" && run.server == server);
    let mut sizes: Vec<usize> = runs.filter(|run| run.result.is_ok()).map(|run| run.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn lines(record: &Record, server: &str, sizes: &[usize], pointer: &str) -> Vec<Line> {
    let of = |name: &'static str| {
        let points = sizes.iter().filter_map(|size| {
            let found = Spread::find(record, ("sync", server, name), *size, pointer)?;
            Some((*size as f64, found.median))
        });
        Line { name, points: points.collect() }
    };
    let all = COLOURS.iter().map(|(name, _)| of(name));
    all.filter(|line| line.points.len() > 1).collect()
}

/// The names in their colours.
fn legend(names: &[&str], top: usize, out: &mut String) {
    let mut left = 16;
    for name in names {
        let _ = writeln!(
            out,
            "<rect x=\"{left}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{name}</text>",
            top + 4,
            left + 20,
            top + 11,
            colour = colour(name),
        );
        left += 48 + 7 * name.len();
    }
}

// === impl Plot ===

impl Plot {
    fn draw(&self, sizes: &[usize], lines: &[Line], left: usize, top: usize, out: &mut String) {
        let points = || lines.iter().flat_map(|line| &line.points);
        let (across, upwards) =
            (Bounds::of(points().map(|point| point.0)), Bounds::of(points().map(|point| point.1)));
        let place = |(x, y): (f64, f64)| {
            let right = left as f64 + 70.0 + across.part(x) * WIDE;
            (right, top as f64 + 30.0 + (1.0 - upwards.part(y)) * HIGH)
        };
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{WIDE}\" height=\"{HIGH}\" fill=\"none\" \
             stroke=\"#cccccc\"/>",
            left + 70,
            top + 30
        );
        let mut text = |x: f64, y: usize, anchor: &str, text: &str| {
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"#333333\">{text}</text>"
            );
        };
        let edge = left as f64 + 64.0;
        text(edge, top + 38, "end", &self.unit.show(upwards.1.exp()));
        text(edge, top + 118, "end", self.upwards);
        text(edge, top + 200, "end", &self.unit.show(upwards.0.exp()));
        for size in sizes {
            let (x, _) = place((*size as f64, upwards.0.exp()));
            text(x, top + 216, "middle", &thousands(*size));
        }
        text(left as f64 + 70.0 + WIDE / 2.0, top + 234, "middle", "pods");
        for line in lines {
            let path: Vec<String> = line
                .points
                .iter()
                .map(|point| place(*point))
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
                path.join(" "),
                colour(line.name)
            );
        }
    }
}

// === impl Bounds ===

impl Bounds {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
        Self(least.max(1e-9).ln(), most.max(1e-9).ln())
    }

    /// How far a number is on its way from the least to the most.
    fn part(&self, value: f64) -> f64 {
        (value.max(1e-9).ln() - self.0) / (self.1 - self.0).max(1e-9)
    }
}
