//! The raw results.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::Options;
use super::build::Tools;

/// One run of one contestant.
#[derive(Clone, Debug)]
pub struct Run {
    pub scenario: String,
    /// `real`, `ours` or `none`.
    pub server: String,
    pub contestant: String,
    pub size: usize,
    /// What it measured, or why it did not.
    pub result: Result<Value, String>,
}

/// All runs, with where and when.
pub struct Record {
    /// Machine, versions, date, settings.
    pub about: Value,
    pub runs: Vec<Run>,
    /// Written after every run, so that nothing is lost when the machine is wanted back.
    pub file: Option<PathBuf>,
}

// === impl Run ===

impl Run {
    /// A number of the result.
    pub fn number(&self, pointer: &str) -> Option<f64> {
        self.result.as_ref().ok()?.pointer(pointer)?.as_f64()
    }
}

// === impl Record ===

impl Record {
    /// Begins with a look at the machine.
    pub fn begin(root: &Path, options: &Options, tools: &Tools) -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = memory.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok());
        let about = json!({
            "date": said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            "machine": {
                "cpu": model.map(|text| text.trim_start_matches([' ', '\t', ':'])),
                "cores": std::thread::available_parallelism().map_or(0, usize::from),
                "memory_gb": total.map(|kb| kb / 1024 / 1024),
                "kernel": said("uname", &["-sr"]),
            },
            "versions": versions(root),
            "quick": options.quick, "rounds": options.rounds,
            "missing": tools.missing,
        });
        Self { about, runs: Vec::new(), file: None }
    }

    /// Files a run and says so.
    pub fn add(
        &mut self,
        (scenario, server, contestant): (&str, &str, &str),
        size: usize,
        result: Result<Value, String>,
    ) {
        let shown = match &result {
            Ok(value) => value.to_string(),
            Err(why) => format!("failed: {why}"),
        };
        println!("{scenario} {server} {size} {contestant}: {shown}");
        let [scenario, server, contestant] = [scenario, server, contestant].map(str::to_owned);
        self.runs.push(Run { scenario, server, contestant, size, result });
        if let Some(Err(why)) = self.file.as_ref().map(|file| self.write(file)) {
            eprintln!("xtask: {why}");
        }
    }

    /// Takes over what an earlier record measured and this one did not.
    pub fn keep(&mut self, earlier: Self) {
        let place = |run: &Run| (run.scenario.clone(), run.server.clone(), run.size);
        let now: BTreeSet<_> = self.runs.iter().map(place).collect();
        self.runs.extend(earlier.runs.into_iter().filter(|run| !now.contains(&place(run))));
    }

    /// Writes the file.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        let runs: Vec<Value> = self.runs.iter().map(written).collect();
        let mut text = format!("{{\n\"about\": {},\n\"runs\": [\n", self.about);
        let lines: Vec<String> = runs.iter().map(Value::to_string).collect();
        text.push_str(&lines.join(",\n"));
        text.push_str("\n]}\n");
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Reads a file.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text =
            fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut value: Value =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let runs = value["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let runs = runs.iter().filter_map(read_run).collect();
        Ok(Self { about: value["about"].take(), runs, file: None })
    }
}

fn written(run: &Run) -> Value {
    let mut value = json!({
        "scenario": run.scenario, "server": run.server, "contestant": run.contestant,
        "size": run.size,
    });
    match &run.result {
        Ok(result) => value["result"] = result.clone(),
        Err(why) => value["error"] = json!(why),
    }
    value
}

fn read_run(value: &Value) -> Option<Run> {
    let text = |name: &str| Some(value[name].as_str()?.to_owned());
    let result = match value.get("result") {
        Some(result) => Ok(result.clone()),
        None => Err(text("error")?),
    };
    Some(Run {
        scenario: text("scenario")?,
        server: text("server")?,
        contestant: text("contestant")?,
        size: usize::try_from(value["size"].as_u64()?).ok()?,
        result,
    })
}

fn versions(root: &Path) -> Value {
    let locked = |file: &str, name: &str| {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        let mut lines = text.lines().skip_while(|line| *line != format!("name = \"{name}\""));
        let line = lines.nth(1).and_then(|line| line.strip_prefix("version = "));
        line.map(|version| version.trim_matches('"').to_owned())
    };
    let module = |file: &str, name: &str| {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.split_once(&format!("{name} v")));
        line.map(|(_, version)| version.split_whitespace().next().unwrap_or_default().to_owned())
    };
    json!({
        "windlass": said("git", &["-C", &root.display().to_string(), "rev-parse", "--short", "HEAD"]),
        "rustc": said("rustc", &["--version"]),
        "go": said("go", &["version"]),
        "kube-runtime": locked("bench/kube-rs/Cargo.lock", "kube-runtime"),
        "controller-runtime": module("bench/controller-runtime/go.mod", "sigs.k8s.io/controller-runtime"),
        "client-go": module("bench/controller-runtime/go.mod", "k8s.io/client-go"),
        "kube-apiserver": module("bench/peers/kubernetes/go.mod", "k8s.io/kubernetes"),
        "etcd": module("bench/peers/etcd/go.mod", "go.etcd.io/etcd/server/v3"),
    })
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
