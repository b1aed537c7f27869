//! Looks numbers up and puts them beside each other.

use super::super::metrics::place;
use super::super::record::Record;
use super::super::stats::{Spread, Standing, standing};

/// Figures are of this many pods, or of the largest size up to it that both sides have; what is
/// larger serves to see growth.
const SIZE_MAX: usize = 20_000;

/// Looks numbers up.
pub struct Look<'a>(pub &'a Record);

/// One number over another.
#[derive(Debug)]
pub struct Ratio {
    pub value: f64,
    /// The difference is more than noise.
    pub apart: bool,
    /// The server and the size.
    pub place: String,
}

// === impl Ratio ===

impl Ratio {
    /// One over the other.
    pub fn of(one: Spread, other: Spread, place: String) -> Self {
        let apart = standing(one, other, true) != Standing::Equal;
        Self { value: one.median / other.median.max(1e-12), apart, place }
    }

    /// The other over the one.
    pub fn turned(self) -> Self {
        Self { value: 1.0 / self.value.max(1e-12), ..self }
    }
}

// === impl Look ===

impl Look<'_> {
    /// A number at a size.
    pub fn at(&self, key: (&str, &str, &str), size: usize, pointer: &str) -> Option<Spread> {
        Spread::find(self.0, key, size, pointer)
    }

    /// The real server if it was measured in this scenario, else ours.
    pub fn server(&self, scenario: &str) -> &'static str {
        let real = |run: &super::super::record::Run| run.server == "real" && run.result.is_ok();
        match self.0.runs.iter().any(|run| run.scenario == scenario && real(run)) {
            true => "real",
            false => "ours",
        }
    }

    /// The sizes at which all of these have the number, the largest last.
    pub fn sizes(&self, scenario: &str, sides: &[(&str, &str)], pointer: &str) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.0.runs.iter().map(|run| run.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.retain(|size| {
            let has = |(server, one): &(&str, &str)| {
                self.at((scenario, server, one), *size, pointer).is_some()
            };
            sides.iter().all(has)
        });
        sizes
    }

    /// The size that figures are of.
    pub fn size(&self, scenario: &str, sides: &[(&str, &str)], pointer: &str) -> Option<usize> {
        self.sizes(scenario, sides, pointer).into_iter().rfind(|size| *size <= SIZE_MAX)
    }

    /// Returns how many times the number of a peer ours is.
    pub fn ratio(&self, scenario: &str, server: &str, peer: &str, pointer: &str) -> Option<Ratio> {
        self.floored(scenario, server, peer, pointer, 0.0)
    }

    /// Compares numbers that mean nothing below a floor.
    pub fn floored(
        &self,
        scenario: &str,
        server: &str,
        peer: &str,
        pointer: &str,
        floor: f64,
    ) -> Option<Ratio> {
        self.beside(scenario, server, ["windlass", peer], pointer, floor)
    }

    /// The same of any two.
    pub fn beside(
        &self,
        scenario: &str,
        server: &str,
        [one, other]: [&str; 2],
        pointer: &str,
        floor: f64,
    ) -> Option<Ratio> {
        let size = self.size(scenario, &[(server, one), (server, other)], pointer)?;
        let of = |who: &str| Some(self.at((scenario, server, who), size, pointer)?.floored(floor));
        Some(Ratio::of(of(one)?, of(other)?, place(scenario, server, size)))
    }

    /// The real server's number over ours.
    pub fn servers(&self, scenario: &str, pointer: &str) -> Option<Ratio> {
        let size = self.size(scenario, &[("real", "real"), ("ours", "ours")], pointer)?;
        let of = |one: &str| self.at((scenario, one, one), size, pointer);
        Some(Ratio::of(of("real")?, of("ours")?, place(scenario, "both", size)))
    }

    /// A number of our server, in other units, with its place.
    pub fn own(&self, scenario: &str, pointer: &str, by: f64) -> Option<(f64, String)> {
        let size = self.size(scenario, &[("ours", "ours")], pointer)?;
        let found = self.at((scenario, "ours", "ours"), size, pointer)?;
        Some((found.median * by, place(scenario, "ours", size)))
    }

    /// A number of the server in a process.
    pub fn embedded(&self, pointer: &str, by: f64) -> Option<(f64, String)> {
        let found = self.at(("embedded", "none", "windlass"), 0, pointer)?;
        Some((found.median * by, "in one process".to_owned()))
    }
}
