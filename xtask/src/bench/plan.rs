//! The order of things: servers, sizes, rounds, contestants.
//!
//! Contestants take turns within a round and the one that begins changes with every round, so
//! that what else the machine does falls on all of them.

mod admission;
mod changes;
mod contest;
mod servers;

use serde_json::{Value, json};

use super::build::Tools;
use super::options::Options;
use super::record::{Record, SERVER};
use super::server::Server;
use crate::peers::process::Process;

use contest::{Contest, Contestant};

/// What contestants do by themselves, or with a server of its own.
const ALONE: &[&str] = &[
    "binary",
    "queue",
    "embedded",
    "children",
    "fair",
    "explore",
    "start",
    "inflight",
    "inflight-queued",
    "secrets",
    "admission",
];

/// What contestants do with pods.
const CONTESTS: &[&str] = &[
    "list",
    "sync",
    "sync-meta",
    "get",
    "index",
    "stream",
    "stream-typed",
    "relist",
    "reconcile",
    "reconcile-key",
    "status",
    "latency",
];

/// Returns `true` if kube-rs takes part in a scenario.
pub fn has_kube_rs(scenario: &str) -> bool {
    let alone = ["binary", "queue", "start", "inflight", "inflight-queued"];
    alone.contains(&scenario) || CONTESTS.contains(&scenario)
}

/// Returns `true` if a scenario measures our server alone.
pub fn is_ours_alone(scenario: &str) -> bool {
    servers::OURS.contains(&scenario)
}

/// All that there is to measure.
pub fn scenarios() -> Vec<&'static str> {
    [ALONE, servers::SERVERS, servers::DURABLE, servers::CLUSTER, CONTESTS].concat()
}

/// Runs everything that is asked for; failures are recorded, and the rest continues.
pub fn run(options: &Options, tools: &Tools, record: &mut Record) {
    let plan = Plan { options, tools };
    plan.binaries(record);
    plan.queues(record);
    plan.embedded(record);
    admission::run(&plan, record);
    plan.finished(record);
    servers::run(&plan, record);
    for kind in plan.kinds() {
        plan.starts(kind, record);
    }
    plan.in_flight(record);
    plan.secrets(record);
    for kind in plan.kinds() {
        plan.contests(kind, record);
    }
}

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServerKind {
    Real,
    Ours,
}

/// What is asked for and what there is.
pub struct Plan<'a> {
    pub options: &'a Options,
    pub tools: &'a Tools,
}

// === impl ServerKind ===

impl ServerKind {
    /// The name in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Ours => "ours",
        }
    }
}

// === impl Plan ===

impl Plan<'_> {
    /// Returns `true` if a scenario is asked for.
    pub fn wants(&self, scenario: &str) -> bool {
        self.options.wants(scenario)
    }

    fn wants_any(&self, scenarios: &[&str]) -> bool {
        scenarios.iter().any(|scenario| self.wants(scenario))
    }

    /// The servers there are, the real one first.
    pub fn kinds(&self) -> Vec<ServerKind> {
        let real = self.tools.real.is_some().then_some(ServerKind::Real);
        real.into_iter().chain([ServerKind::Ours]).collect()
    }

    /// Starts a server; if it does not start, all that was to be measured on it has failed.
    pub fn server(
        &self,
        kind: ServerKind,
        controllers: bool,
        scenarios: &[&str],
        record: &mut Record,
    ) -> Option<Server> {
        let started = match (kind, &self.tools.real) {
            (ServerKind::Ours, _) => Server::ours(self.tools, controllers),
            (ServerKind::Real, Some(real)) => Server::real(self.tools, real, controllers),
            (ServerKind::Real, None) => Err("there is no real server".into()),
        };
        let failed = |why| {
            let result: Result<Value, String> = Err(format!("the server did not start: {why}"));
            for scenario in scenarios.iter().filter(|scenario| self.wants(scenario)) {
                record.add((scenario, kind.name(), SERVER), 0, result.clone());
            }
        };
        started.map_err(failed).ok()
    }

    /// Everything that contestants do with pods, at growing numbers of them.
    fn contests(&self, kind: ServerKind, record: &mut Record) {
        if !self.wants_any(CONTESTS) {
            return;
        }
        let sizes: &[usize] = match (self.options.quick, kind) {
            _ if !self.options.sizes.is_empty() => &self.options.sizes,
            (true, _) => &[200, 1000],
            (false, ServerKind::Real) => &[1000, 5000, 20_000, 100_000],
            (false, ServerKind::Ours) => &[1000, 20_000, 100_000],
        };
        let Some(server) = self.server(kind, false, CONTESTS, record) else { return };
        let mut there = 0;
        for &size in sizes {
            let contest = Contest { plan: self, server: &server, kind, size };
            if !contest.load("pods", there, size, record) {
                return;
            }
            there = size;
            // The larger, the longer; and the largest serves to see growth.
            let rounds = match size {
                ..20_000 => self.options.rounds,
                20_000 => self.options.rounds.min(2),
                _ => 1,
            };
            for round in 0..rounds {
                contest.round(round, record);
            }
            // The rates are what grows in the streams, so one size is enough for them, and two
            // rounds of five seconds at each rate.
            if size == sizes[sizes.len().min(2) - 1] {
                (0..rounds.min(2)).for_each(|round| contest.streams(round, record));
            }
        }
    }

    fn starts(&self, kind: ServerKind, record: &mut Record) {
        if !self.wants("start") {
            return;
        }
        let Some(server) = self.server(kind, false, &["start"], record) else { return };
        let contest = Contest { plan: self, server: &server, kind, size: 1 };
        if !contest.load("configmaps", 0, 1, record) {
            return;
        }
        for round in 0..self.options.rounds * 3 {
            contest.each("start", round, record, |contestant| contest.start(contestant));
        }
    }

    fn in_flight(&self, record: &mut Record) {
        let scenarios = ["inflight", "inflight-queued"];
        if !self.wants_any(&scenarios) {
            return;
        }
        let (kind, size) = (ServerKind::Ours, if self.options.quick { 2000 } else { 32_000 });
        let Some(server) = self.server(kind, false, &scenarios, record) else { return };
        let contest = Contest { plan: self, server: &server, kind, size };
        if !contest.load("configmaps", 0, size, record) {
            return;
        }
        for round in 0..self.options.rounds {
            for workers in [size / 32, size / 4, size] {
                let contest = Contest { size: workers, ..contest };
                let measure = |contestant: &Contestant<'_>, keys: usize| {
                    let extra = [
                        ("size", keys.to_string()),
                        ("workers", workers.to_string()),
                        ("objects", size.to_string()),
                    ];
                    contest.plain("inflight", contestant, &extra)
                };
                if self.wants("inflight") {
                    contest.peers("inflight", round, record, |one| measure(one, workers));
                }
                // With as many workers as there are keys, none is queued.
                if self.wants("inflight-queued") && workers < size {
                    contest.peers("inflight-queued", round, record, |one| measure(one, size));
                }
            }
        }
    }

    fn queues(&self, record: &mut Record) {
        if !self.wants("queue") {
            return;
        }
        let total = if self.options.quick { 100_000 } else { 1_000_000 };
        for round in 0..self.options.rounds {
            for size in [1000, 10_000, 100_000] {
                let mut order = contest::contestants(self.tools);
                order.retain(|contestant| contestant.name != "controller-runtime (JSON)");
                let begin = round % order.len();
                order.rotate_left(begin);
                for contestant in order {
                    let arguments = [
                        ("scenario", "queue".to_owned()),
                        ("size", size.to_string()),
                        ("total", total.to_string()),
                    ];
                    let result = contest::result_of(contestant.program, &arguments);
                    let name = match contestant.name {
                        "controller-runtime" => "client-go",
                        name => name,
                    };
                    file_queue(record, name, size, result);
                }
            }
        }
    }

    fn binaries(&self, record: &mut Record) {
        if !self.wants("binary") {
            return;
        }
        let mut found = vec![("windlass", &self.tools.windlass)];
        found.extend(self.tools.kube_rs.as_ref().map(|path| ("kube-rs", path)));
        found.extend(self.tools.controller_runtime.as_ref().map(|p| ("controller-runtime", p)));
        for (name, path) in found {
            let size = std::fs::metadata(path).map_err(|error| error.to_string());
            let result = size.map(|file| json!({ "bytes": file.len() }));
            record.add(("binary", "none", name), 0, result);
        }
    }

    fn embedded(&self, record: &mut Record) {
        let program = self.tools.load.with_file_name("bench-embedded");
        let measure = || {
            let process = Process::start(&program, &[])?;
            let (line, at) = process.line(contest::LONG)?;
            let mut value: Value =
                serde_json::from_str(&line).map_err(|error| error.to_string())?;
            value["reconcile_s"] = json!(at.duration_since(process.began).as_secs_f64());
            Ok(value)
        };
        for _ in (0..self.options.rounds * 3).filter(|_| self.wants("embedded")) {
            record.add(("embedded", "none", "windlass"), 0, measure());
        }
    }

    /// What a finished operator costs, with the server in its process.
    fn finished(&self, record: &mut Record) {
        let program = self.tools.load.with_file_name("bench-embedded");
        for (scenario, size) in [("children", 20), ("fair", 10_000)] {
            for _ in (0..self.options.rounds).filter(|_| self.wants(scenario)) {
                let arguments = [("scenario", scenario.to_owned()), ("size", size.to_string())];
                let result = contest::result_of(&program, &arguments);
                record.add((scenario, "none", "windlass"), size, result);
            }
        }
        if self.wants("explore") {
            let seconds = if self.options.quick { 5 } else { 20 };
            let arguments = [("scenario", "explore".to_owned()), ("seconds", seconds.to_string())];
            let result = contest::result_of(&program, &arguments);
            record.add(("explore", "none", "windlass"), 0, result);
        }
    }

    /// Ten of very many secrets are referred to; who has no references caches them all.
    fn secrets(&self, record: &mut Record) {
        if !self.wants("secrets") {
            return;
        }
        let (kind, size) = (ServerKind::Ours, if self.options.quick { 1000 } else { 100_000 });
        let Some(server) = self.server(kind, false, &["secrets"], record) else { return };
        let contest = Contest { plan: self, server: &server, kind, size };
        if contest.load("secrets", 0, size, record) {
            contest.secrets(record);
        }
    }
}

/// Queues that a contestant has beside its first one, by what their results begin with; they have
/// columns of their own.
const FURTHER_QUEUES: [(&str, &str); 3] = [
    ("same_", "windlass, the same calls"),
    ("bare_", "client-go, no metrics"),
    ("priority_", "controller-runtime priority queue"),
];

fn file_queue(record: &mut Record, name: &str, size: usize, result: Result<Value, String>) {
    for (prefix, column) in FURTHER_QUEUES {
        let fields = result.as_ref().ok().and_then(Value::as_object).into_iter().flatten();
        let named = fields.filter_map(|(name, value)| {
            Some((name.strip_prefix(prefix)?.to_owned(), value.clone()))
        });
        let found: serde_json::Map<_, _> = named.collect();
        if !found.is_empty() {
            record.add(("queue", "none", column), size, Ok(Value::Object(found)));
        }
    }
    record.add(("queue", "none", name), size, result);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::metrics::SECTIONS;

    #[test]
    fn every_scenario_has_a_place_on_the_page_and_the_other_way_round() {
        let shown: Vec<&str> =
            SECTIONS.iter().flat_map(|section| section.metrics).map(|one| one.scenario).collect();
        for scenario in scenarios() {
            assert!(shown.contains(&scenario), "{scenario} is not shown");
        }
        for scenario in shown {
            assert!(scenarios().contains(&scenario), "{scenario} is not measured");
        }
    }
}
