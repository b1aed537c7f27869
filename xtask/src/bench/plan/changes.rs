//! Scenarios with another process: streams of changes, latencies, the list after a lost watch.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::record::Record;
use super::ServerKind;
use super::contest::{Contest, Contestant, LONG};
use crate::peers::process::Process;
use crate::peers::scratch::Scratch;

/// How long streams are measured, and how long latencies: their 99th percentile is to be of more
/// than a few.
const STREAM_SECONDS: usize = 5;
const LATENCY_SECONDS: usize = 20;

impl Contest<'_> {
    /// One round of streams of changes at growing rates.
    pub fn streams(&self, round: usize, record: &mut Record) {
        // The real server takes some 190 changes per second on two cores; nobody should be
        // measured by what the server cannot take.
        let rates: &[usize] = match (self.plan.options.quick, self.kind) {
            (true, _) => &[100],
            (false, ServerKind::Real) => &[50, 100, 150],
            (false, ServerKind::Ours) => &[100, 300, 1000],
        };
        for scenario in ["stream", "stream-typed"] {
            for &rate in rates.iter().filter(|_| self.plan.wants(scenario)) {
                let by_rate = Self { size: rate, ..*self };
                let measure = |one: &Contestant<'_>| {
                    self.driven(one.program, &self.arguments(scenario, one, &[]), rate)
                };
                // The stream that is not read shows what JSON costs.
                match scenario {
                    "stream" => by_rate.each(scenario, round, record, measure),
                    _ => by_rate.peers(scenario, round, record, measure),
                }
                self.wire(scenario, rate, rate, record);
            }
        }
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
        process.send("begin")?;
        let sent = self.changes(rate, STREAM_SECONDS)?;
        process.send("end")?;
        let mut result = process.json(LONG)?;
        result["sent"] = sent["sent"].clone();
        result["sent_rate"] = sent["rate"].clone();
        result["pods"] = json!(self.size);
        Ok(result)
    }

    /// Changes pods at a rate, for some seconds, and waits until everyone should have seen it.
    fn changes(&self, rate: usize, seconds: usize) -> Result<Value, String> {
        let seconds = if self.plan.options.quick { 2 } else { seconds };
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
        let arguments = self.wire_arguments(false);
        let mut result = self.driven(&self.plan.tools.load, &arguments, rate);
        if let Ok(result) = &mut result {
            // Nobody compares these one by one.
            seen(result, "seen");
        }
        record.add((scenario, self.kind.name(), "wire"), size, result);
    }

    fn wire_arguments(&self, protobuf: bool) -> [(&'static str, String); 3] {
        let kubeconfig = self.server.kubeconfig.display().to_string();
        let wire = if protobuf { "protobuf" } else { "json" };
        [("scenario", "latency".to_owned()), ("kubeconfig", kubeconfig), ("wire", wire.to_owned())]
    }

    /// One round of latencies: of all contestants, and of a second watcher of the wire, which is
    /// what nobody can do better.
    pub fn latencies(&self, round: usize, record: &mut Record) {
        self.peers("latency", round, record, |one| {
            let arguments = self.arguments("latency", one, &[]);
            self.latency(one.program, &arguments, one.name != "kube-rs")
        });
        let floor = self.latency(&self.plan.tools.load, &self.wire_arguments(true), true);
        record.add(("latency", self.kind.name(), "wire"), self.size, floor);
    }

    /// Lets somebody and a watcher of the wire see the same changes in the same form, and compares
    /// one by one: what else the machine does meanwhile falls on both.
    fn latency(
        &self,
        program: &Path,
        arguments: &[(&str, String)],
        protobuf: bool,
    ) -> Result<Value, String> {
        let mut process = Process::start(program, arguments)?;
        process.json(LONG)?;
        let mut wire = Process::start(&self.plan.tools.load, &self.wire_arguments(protobuf))?;
        wire.json(LONG)?;
        process.send("begin")?;
        wire.send("begin")?;
        // A third of what the real server can take: its own work is not to be what is measured.
        let rate = if self.kind == ServerKind::Real { 50 } else { 100 };
        self.changes(rate, LATENCY_SECONDS)?;
        process.send("end")?;
        wire.send("end")?;
        let (mut result, mut wire) = (process.json(LONG)?, wire.json(LONG)?);
        let arrived = seen(&mut wire, "seen");
        for (ages, beyond) in [("seen", "beyond"), ("seen_read", "beyond_read")] {
            let ages = seen(&mut result, ages);
            if ages.is_empty() {
                continue;
            }
            let later =
                ages.into_iter().filter_map(|(stamp, age)| Some(age - arrived.get(&stamp)?));
            result[beyond] = percentiles(later.collect());
        }
        result["wire"] = wire["lag"].clone();
        Ok(result)
    }

    /// Through a proxy that makes the server forget.
    pub fn relist(&self, contestant: &Contestant<'_>) -> Result<Value, String> {
        let folder = Scratch::new()?;
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
        proxy.send("cut")?;
        let passed = proxy.json(LONG)?;
        process.send("end")?;
        let mut result = process.json(LONG)?;
        result["time_s"] = passed["time_s"].clone();
        Ok(result)
    }
}

/// Takes every stamp with its age at a contestant out of its result; of a stamp that was seen
/// twice the first counts.
fn seen(result: &mut Value, field: &str) -> BTreeMap<u64, f64> {
    let list = result.as_object_mut().and_then(|fields| fields.remove(field));
    let pairs = list.as_ref().and_then(Value::as_array).into_iter().flatten();
    let pairs = pairs.filter_map(|pair| Some((pair[0].as_u64()?, pair[1].as_f64()?)));
    let mut found = BTreeMap::new();
    for (stamp, age) in pairs {
        let first: &mut f64 = found.entry(stamp).or_insert(age);
        *first = first.min(age);
    }
    found
}

fn percentiles(mut times: Vec<f64>) -> Value {
    times.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let last = times.len().saturating_sub(1);
        // Whose bytes came later than the other's is chance.
        times.get((last as f64 * part).round() as usize).map_or(0.0, |time| time.max(0.0))
    };
    json!({
        "p50_us": at(0.5), "p90_us": at(0.9), "p99_us": at(0.99), "max_us": at(1.0),
        "count": times.len(),
    })
}
