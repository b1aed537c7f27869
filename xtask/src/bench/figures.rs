//! The figures that the project has promised itself, judged by the results.

mod caches;
mod controllers;
mod look;
mod servers;

use super::metrics::digits;
use super::record::Record;

use look::{Look, Ratio};

/// Whether a figure holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    Holds,
    Misses,
    /// The median meets it, but the difference is within noise.
    NotShown,
    /// Nothing was promised; it is shown for comparison.
    Compared,
    Unknown,
}

/// One figure.
#[derive(Debug)]
pub struct Figure {
    pub what: String,
    /// The server and the size.
    pub place: String,
    pub wanted: String,
    pub measured: String,
    pub verdict: Verdict,
}

/// What was promised of a ratio.
#[derive(Clone, Copy)]
enum Wanted {
    Least(f64),
    Most(f64),
    Nothing,
}

/// All figures.
pub fn all(record: &Record) -> Vec<Figure> {
    let look = Look(record);
    let mut found = Vec::new();
    caches::add(&look, &mut found);
    controllers::add(&look, &mut found);
    servers::add(&look, &mut found);
    found
}

// === impl Wanted ===

impl Wanted {
    fn show(self) -> String {
        match self {
            Self::Least(ratio) => format!("≥ {ratio} ×"),
            Self::Most(ratio) => format!("≤ {ratio} ×"),
            Self::Nothing => "–".to_owned(),
        }
    }

    /// To be better than equal, the two have to be apart.
    fn judge(self, ratio: &Ratio) -> Verdict {
        let (met, better) = match self {
            Self::Nothing => return Verdict::Compared,
            Self::Least(least) => (ratio.value >= least, least > 1.0),
            Self::Most(most) => (ratio.value <= most, most < 1.0),
        };
        match met {
            false => Verdict::Misses,
            true if better && !ratio.apart => Verdict::NotShown,
            true => Verdict::Holds,
        }
    }
}

/// A figure that is a ratio; `server` is the place if nothing was measured.
fn ratio(what: impl Into<String>, server: &str, wanted: Wanted, found: Option<Ratio>) -> Figure {
    let (what, wanted_text) = (what.into(), wanted.show());
    match found {
        None => unknown(what, super::metrics::place("", server, 0), wanted_text),
        Some(found) => Figure {
            what,
            wanted: wanted_text,
            measured: format!("{} ×", short(found.value)),
            verdict: wanted.judge(&found),
            place: found.place,
        },
    }
}

/// A figure that is a number with a limit.
fn limit(what: &str, unit: &str, wanted: f64, found: Option<(f64, String)>) -> Figure {
    let (what, wanted_text) = (what.to_owned(), format!("≤ {wanted} {unit}"));
    let Some((value, place)) = found else { return unknown(what, String::new(), wanted_text) };
    let verdict = if value <= wanted { Verdict::Holds } else { Verdict::Misses };
    Figure {
        what,
        place,
        wanted: wanted_text,
        measured: format!("{} {unit}", digits(value)),
        verdict,
    }
}

fn unknown(what: String, place: String, wanted: String) -> Figure {
    Figure { what, place, wanted, measured: "–".to_owned(), verdict: Verdict::Unknown }
}

/// Below 1 a third digit, so that nobody takes 0.202 for 0.2.
fn short(value: f64) -> String {
    if value < 1.0 { format!("{value:.3}") } else { digits(value) }
}

#[cfg(test)]
mod tests;
