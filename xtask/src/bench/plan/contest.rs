//! One scenario, all contestants, on one server with so many pods.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::build::Tools;
use super::super::process::Process;
use super::super::record::Record;
use super::super::server::Server;
use super::{Plan, ServerKind};

/// How long anything may take.
pub const LONG: Duration = Duration::from_secs(300);

/// Changes per second while latencies are taken.
const LATENCY_RATE: usize = 100;

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
    /// Loads objects up to a number.
    pub fn load(&self, kind: &str, from: usize, to: usize) -> Result<Value, String> {
        let (from, to) = (from.to_string(), to.to_string());
        self.load_tool("load", &[("kind", kind.to_owned()), ("from", from), ("to", to)])
    }

    /// One round of all scenarios at this size.
    pub fn round(&self, round: usize, record: &mut Record) {
        let (server, large) = (self.kind.name(), self.size > 20_000);
        if self.plan.wants("list") || self.plan.wants("sync") {
            record.add(("list", server, server), self.size, self.floors(round == 0 && !large));
        }
        if self.plan.wants("sync") {
            let sync = |contestant: &Contestant<'_>| self.plain("sync", contestant, &[]);
            match large {
                true => self.peers("sync", round, record, sync),
                false => self.each("sync", round, record, sync),
            }
            for contestant in self.stripped() {
                let result = self.plain("sync", &contestant, &[]);
                record.add(("sync", server, contestant.name), self.size, result);
            }
        }
        // So many take the real server minutes; the other scenarios have three sizes without.
        if large && self.kind == ServerKind::Real {
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
            if self.plan.wants(scenario) && !large {
                self.peers(scenario, round, record, |one| self.plain(scenario, one, &extra));
            }
        }
        let extra = [("patches", PATCHES.to_string())];
        if self.plan.wants("status") && !large {
            self.each("status", round, record, |one| self.plain("status", one, &extra));
        }
        if self.plan.wants("latency") && !large {
            self.each("latency", round, record, |one| self.latency(one));
        }
    }

    /// One round of streams of changes at growing rates.
    pub fn streams(&self, round: usize, record: &mut Record) {
        let quick = self.plan.options.quick;
        let rates: &[usize] = if quick { &[100] } else { &[100, 300, 1000] };
        for scenario in ["stream", "stream-typed"] {
            for &rate in rates.iter().filter(|_| self.plan.wants(scenario)) {
                let by_rate = Self { size: rate, ..*self };
                by_rate.each(scenario, round, record, |one| {
                    self.driven(one.program, &self.arguments(scenario, one, &[]), rate)
                });
                self.wire(scenario, rate, rate, record);
            }
        }
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

    /// As [`each`](Self::each), where the wire makes no difference: each peer once.
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

    /// A scenario that needs no other hand.
    pub fn plain(
        &self,
        scenario: &str,
        contestant: &Contestant<'_>,
        extra: &[(&'static str, String)],
    ) -> Result<Value, String> {
        result_of(contestant.program, &self.arguments(scenario, contestant, extra))
    }

    /// From the start of the process to the first reconcile.
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

    /// Lets a contestant watch while pods change.
    fn driven(
        &self,
        program: &Path,
        arguments: &[(&str, String)],
        rate: usize,
    ) -> Result<Value, String> {
        let mut process = Process::start(program, arguments)?;
        process.json(LONG)?;
        process.tell("begin")?;
        let sent = self.changes(rate)?;
        process.tell("end")?;
        let mut result = process.json(LONG)?;
        result["sent"] = sent["sent"].clone();
        result["sent_rate"] = sent["rate"].clone();
        Ok(result)
    }

    /// Changes pods at a rate, for some seconds, and waits until everyone should have seen it.
    fn changes(&self, rate: usize) -> Result<Value, String> {
        let seconds = if self.plan.options.quick { 2 } else { 5 };
        let sent = self.load_tool(
            "updates",
            &[
                ("size", self.size.to_string()),
                ("rate", rate.to_string()),
                ("seconds", seconds.to_string()),
            ],
        )?;
        thread::sleep(Duration::from_millis(500));
        Ok(sent)
    }

    /// A watcher that does nothing but note when bytes come.
    fn wire(&self, scenario: &str, size: usize, rate: usize, record: &mut Record) {
        let arguments = self.wire_arguments();
        let mut result = self.driven(&self.plan.tools.load, &arguments, rate);
        if let Ok(result) = &mut result {
            // Nobody compares these one by one.
            seen(result);
        }
        record.add((scenario, self.kind.name(), "wire"), size, result);
    }

    fn wire_arguments(&self) -> [(&'static str, String); 2] {
        let kubeconfig = self.server.kubeconfig.display().to_string();
        [("scenario", "latency".to_owned()), ("kubeconfig", kubeconfig)]
    }

    /// Lets a contestant and a watcher of the wire see the same changes, and compares one by one:
    /// what else the machine does meanwhile falls on both.
    fn latency(&self, contestant: &Contestant<'_>) -> Result<Value, String> {
        let arguments = self.arguments("latency", contestant, &[]);
        let mut process = Process::start(contestant.program, &arguments)?;
        process.json(LONG)?;
        let mut wire = Process::start(&self.plan.tools.load, &self.wire_arguments())?;
        wire.json(LONG)?;
        process.tell("begin")?;
        wire.tell("begin")?;
        self.changes(LATENCY_RATE)?;
        process.tell("end")?;
        wire.tell("end")?;
        let (mut result, mut wire) = (process.json(LONG)?, wire.json(LONG)?);
        let arrived = seen(&mut wire);
        let mut beyond: Vec<_> = seen(&mut result)
            .into_iter()
            .filter_map(|(stamp, age)| Some(age - arrived.get(&stamp)?))
            .collect();
        beyond.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let last = beyond.len().saturating_sub(1);
            // Whose bytes came later than the other's is chance.
            beyond.get((last as f64 * part).round() as usize).map_or(0.0, |time| time.max(0.0))
        };
        result["beyond"] = json!({
            "p50_us": at(0.5), "p99_us": at(0.99), "max_us": at(1.0), "count": beyond.len(),
        });
        result["wire"] = wire["lag"].clone();
        Ok(result)
    }

    /// Through a proxy that makes the server forget.
    fn relist(&self, contestant: &Contestant<'_>) -> Result<Value, String> {
        let folder = super::super::server::scratch()?;
        let kubeconfig = folder.join("kubeconfig").display().to_string();
        let mut proxy = Process::start(
            &self.plan.tools.load,
            &[
                ("scenario", "proxy".to_owned()),
                ("kubeconfig", self.server.kubeconfig.display().to_string()),
                ("out", kubeconfig.clone()),
            ],
        )?;
        proxy.json(LONG)?;
        let mut arguments = self.arguments("relist", contestant, &[]);
        arguments.retain(|(name, _)| *name != "kubeconfig");
        arguments.push(("kubeconfig", kubeconfig));
        let mut process = Process::start(contestant.program, &arguments)?;
        process.json(LONG)?;
        proxy.tell("cut")?;
        let passed = proxy.json(LONG)?;
        process.tell("end")?;
        let mut result = process.json(LONG)?;
        result["time_s"] = passed["time_s"].clone();
        let _ = std::fs::remove_dir_all(folder);
        Ok(result)
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

    fn arguments(
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

    fn load_tool(&self, scenario: &str, extra: &[(&str, String)]) -> Result<Value, String> {
        load_tool(self.plan, self.server, scenario, extra)
    }
}

/// Takes every stamp with its age at a contestant out of its result; of a stamp that was seen
/// twice the first counts.
fn seen(result: &mut Value) -> BTreeMap<u64, f64> {
    let list = result.as_object_mut().and_then(|fields| fields.remove("seen"));
    let pairs = list.as_ref().and_then(Value::as_array).into_iter().flatten();
    let pairs = pairs.filter_map(|pair| Some((pair[0].as_u64()?, pair[1].as_f64()?)));
    let mut found = BTreeMap::new();
    for (stamp, age) in pairs {
        let first: &mut f64 = found.entry(stamp).or_insert(age);
        *first = first.min(age);
    }
    found
}

/// Runs the hand that loads and measures servers.
pub fn load_tool(
    plan: &Plan<'_>,
    server: &Server,
    scenario: &str,
    extra: &[(&str, String)],
) -> Result<Value, String> {
    let mut arguments = vec![
        ("scenario", scenario.to_owned()),
        ("kubeconfig", server.kubeconfig.display().to_string()),
    ];
    arguments.extend(extra.iter().cloned());
    result_of(&plan.tools.load, &arguments)
}
