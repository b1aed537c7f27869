//! One scenario, all contestants, on one server with so many pods.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::build::Tools;
use super::super::record::Record;
use super::super::server::Server;
use super::{Plan, ServerKind};
use crate::peers::process::Process;

/// How long anything may take.
pub const LONG: Duration = Duration::from_secs(300);

/// How long the loading of objects may take: the real server needs minutes for the most.
const LOAD: Duration = Duration::from_secs(900);

/// Statuses that are patched, of however many objects.
const PATCHES: usize = 2000;

/// One who is measured.
#[derive(Clone)]
pub struct Contestant<'a> {
    pub name: &'static str,
    pub program: &'a Path,
    wire: Option<&'static str>,
    strip: bool,
}

/// Where and with how much.
#[derive(Clone, Copy)]
pub struct Contest<'a> {
    pub plan: &'a Plan<'a>,
    pub server: &'a Server,
    pub kind: ServerKind,
    pub size: usize,
}

/// Those who are there, ours first.
pub fn contestants(tools: &Tools) -> Vec<Contestant<'_>> {
    let one = |name, program, wire| Contestant { name, program, wire, strip: false };
    let mut found = vec![one("windlass", tools.windlass.as_path(), None)];
    found.extend(tools.kube_rs.iter().map(|program| one("kube-rs", program.as_path(), None)));
    if let Some(program) = &tools.controller_runtime {
        found.push(one("controller-runtime", program, Some("protobuf")));
        found.push(one("controller-runtime (JSON)", program, Some("json")));
    }
    found
}

/// Runs a program that prints one line of JSON.
pub fn result_of(program: &Path, arguments: &[(&str, String)]) -> Result<Value, String> {
    Process::start(program, arguments)?.json(LONG)
}

// === impl Contest ===

impl Contest<'_> {
    /// Loads objects up to a number. Returns `true` if they are there.
    pub fn load(&self, kind: &str, from: usize, to: usize, record: &mut Record) -> bool {
        let words = [("kind", kind.to_owned()), ("from", from.to_string()), ("to", to.to_string())];
        let arguments = load_arguments(self.server, "load", &words);
        let process = Process::start(&self.plan.tools.load, &arguments);
        let result = process.and_then(|process| process.json(LOAD));
        let loaded = result.is_ok();
        record.add(("load", self.kind.name(), "load"), to, result);
        loaded
    }

    /// One round of all scenarios at this size.
    pub fn round(&self, round: usize, record: &mut Record) {
        let server = self.kind.name();
        if self.plan.wants("list") || self.plan.wants("sync") {
            record.add(("list", server, server), self.size, self.floors(round == 0));
        }
        if self.plan.wants("sync") {
            self.in_time("sync", round, record, |one| self.plain("sync", one, &[]));
            for contestant in self.stripped() {
                let result = self.plain("sync", &contestant, &[]);
                record.add(("sync", server, contestant.name), self.size, result);
            }
        }
        // So many take the real server minutes; the other scenarios have three sizes without.
        if self.large() && self.kind == ServerKind::Real {
            return;
        }
        if self.plan.wants("sync-meta") {
            self.each("sync-meta", round, record, |one| self.plain("sync-meta", one, &[]));
        }
        for scenario in ["get", "index"] {
            if self.plan.wants(scenario) {
                self.peers(scenario, round, record, |one| self.plain(scenario, one, &[]));
            }
        }
        if self.plan.wants("relist") {
            self.peers("relist", round, record, |one| self.relist(one));
        }
        let total = if self.plan.options.quick { 20_000 } else { 200_000 };
        let extra = [("total", total.to_string())];
        for scenario in ["reconcile", "reconcile-key"] {
            if self.plan.wants(scenario) {
                self.peers(scenario, round, record, |one| self.plain(scenario, one, &extra));
            }
        }
        let extra = [("patches", PATCHES.to_string())];
        if self.plan.wants("status") {
            self.peers("status", round, record, |one| self.plain("status", one, &extra));
        }
        if self.plan.wants("latency") {
            self.latencies(round, record);
        }
    }

    fn large(&self) -> bool {
        self.size > 20_000
    }

    /// Measures all contestants once; the first of a round is another one each time.
    pub fn each(
        &self,
        scenario: &str,
        round: usize,
        record: &mut Record,
        measure: impl Fn(&Contestant<'_>) -> Result<Value, String>,
    ) {
        self.in_turn(contestants(self.plan.tools), scenario, round, record, measure);
    }

    /// Does the same as [`each`](Self::each), where the wire makes no difference: each peer once.
    pub fn peers(
        &self,
        scenario: &str,
        round: usize,
        record: &mut Record,
        measure: impl Fn(&Contestant<'_>) -> Result<Value, String>,
    ) {
        let mut order = contestants(self.plan.tools);
        order.retain(|contestant| contestant.wire != Some("json"));
        self.in_turn(order, scenario, round, record, measure);
    }

    /// As [`each`](Self::each); of a large number JSON takes minutes and shows little.
    fn in_time(
        &self,
        scenario: &str,
        round: usize,
        record: &mut Record,
        measure: impl Fn(&Contestant<'_>) -> Result<Value, String>,
    ) {
        match self.large() {
            true => self.peers(scenario, round, record, measure),
            false => self.each(scenario, round, record, measure),
        }
    }

    fn in_turn(
        &self,
        mut order: Vec<Contestant<'_>>,
        scenario: &str,
        round: usize,
        record: &mut Record,
        measure: impl Fn(&Contestant<'_>) -> Result<Value, String>,
    ) {
        let begin = round % order.len();
        order.rotate_left(begin);
        for contestant in order {
            let result = measure(&contestant);
            record.add((scenario, self.kind.name(), contestant.name), self.size, result);
        }
    }

    /// A scenario that needs no other process.
    pub fn plain(
        &self,
        scenario: &str,
        contestant: &Contestant<'_>,
        extra: &[(&'static str, String)],
    ) -> Result<Value, String> {
        result_of(contestant.program, &self.arguments(scenario, contestant, extra))
    }

    /// Ours and controller-runtime, once, as it is and with managedFields dropped by hand.
    pub fn secrets(&self, record: &mut Record) {
        let mut order = contestants(self.plan.tools);
        order.extend(self.stripped());
        order.retain(|one| !one.name.starts_with("kube-rs") && one.wire != Some("json"));
        self.in_turn(order, "secrets", 0, record, |one| self.plain("secrets", one, &[]));
    }

    /// Measures the time from the start of the process to the first reconcile.
    pub fn start(&self, contestant: &Contestant<'_>) -> Result<Value, String> {
        let arguments = self.arguments("start", contestant, &[]);
        let process = Process::start(contestant.program, &arguments)?;
        let (_, at) = process.line(LONG)?;
        let mut result = process.json(LONG)?;
        result["time_s"] = json!(at.duration_since(process.began).as_secs_f64());
        Ok(result)
    }

    /// Reads and drops all pods in every way there is; the first time twice, to warm up.
    fn floors(&self, warm_up: bool) -> Result<Value, String> {
        let mut found = json!({});
        for wire in ["list", "fresh", "stream", "protobuf", "metadata"] {
            if warm_up {
                self.load_tool("floor", &[("wire", wire.to_owned())])?;
            }
            let one = self.load_tool("floor", &[("wire", wire.to_owned())])?;
            found[format!("{wire}_s")] = one["time_s"].clone();
            found[format!("{wire}_bytes")] = one["bytes"].clone();
            found[format!("{wire}_cpu_s")] = one["cpu_s"].clone();
        }
        Ok(found)
    }

    /// The peers again, with managedFields dropped by hand as their documentation advises.
    fn stripped(&self) -> Vec<Contestant<'_>> {
        let all = contestants(self.plan.tools).into_iter();
        let named = all.filter_map(|contestant| {
            let name = match contestant.name {
                "kube-rs" => "kube-rs, stripped",
                "controller-runtime" => "controller-runtime, stripped",
                _ => return None,
            };
            Some(Contestant { name, strip: true, ..contestant })
        });
        named.collect()
    }

    pub fn arguments(
        &self,
        scenario: &str,
        contestant: &Contestant<'_>,
        extra: &[(&'static str, String)],
    ) -> Vec<(&'static str, String)> {
        let mut found = vec![
            ("scenario", scenario.to_owned()),
            ("kubeconfig", self.server.kubeconfig.display().to_string()),
        ];
        if !extra.iter().any(|(name, _)| *name == "size") {
            found.push(("size", self.size.to_string()));
        }
        found.extend(contestant.wire.map(|wire| ("wire", wire.to_owned())));
        if contestant.strip {
            found.push(("strip", "1".to_owned()));
        }
        found.extend(extra.iter().cloned());
        found
    }

    pub fn load_tool(&self, scenario: &str, extra: &[(&str, String)]) -> Result<Value, String> {
        load_tool(self.plan, self.server, scenario, extra)
    }
}

/// Runs the process that loads and measures servers.
pub fn load_tool(
    plan: &Plan<'_>,
    server: &Server,
    scenario: &str,
    extra: &[(&str, String)],
) -> Result<Value, String> {
    result_of(&plan.tools.load, &load_arguments(server, scenario, extra))
}

fn load_arguments<'a>(
    server: &Server,
    scenario: &str,
    extra: &[(&'a str, String)],
) -> Vec<(&'a str, String)> {
    let mut arguments = vec![
        ("scenario", scenario.to_owned()),
        ("kubeconfig", server.kubeconfig.display().to_string()),
    ];
    arguments.extend(extra.iter().cloned());
    arguments
}
