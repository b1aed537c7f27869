//! The raw results.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::build::Tools;
use super::metrics::axis;
use super::options::Options;
use crate::peers::versions::{self, said};

/// The contestant of a run that failed because its server did not start.
pub const SERVER: &str = "server";

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
    /// Which earlier record it was kept from, if it was.
    pub kept: Option<Origin>,
}

/// When and of what a record is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    pub date: String,
    /// The commit.
    pub windlass: String,
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
            "versions": versions::all(root),
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
        self.runs.push(Run { scenario, server, contestant, size, result, kept: None });
        if let Some(Err(why)) = self.file.as_ref().map(|file| self.write(file)) {
            eprintln!("xtask: {why}");
        }
    }

    /// Takes over what an earlier record measured and this one did not, and marks it.
    pub fn keep(&mut self, earlier: Self) {
        let scenario = |run: &Run| (run.scenario.clone(), run.server.clone());
        let now: BTreeSet<_> = self.runs.iter().map(|run| (scenario(run), run.size)).collect();
        let scenarios: BTreeSet<_> = self.runs.iter().map(scenario).collect();
        let origin = earlier.origin();
        let runs = earlier.runs.into_iter().filter(|run| {
            // Only of pods can some sizes be asked for; a server that did not start counts for all
            // sizes.
            let some = matches!(axis(&run.scenario), "pods" | "objects");
            match some && run.contestant != SERVER {
                true => !now.contains(&(scenario(run), run.size)),
                false => !scenarios.contains(&scenario(run)),
            }
        });
        self.runs.extend(runs.map(|mut run| {
            run.kept.get_or_insert_with(|| origin.clone());
            run
        }));
    }

    /// When and of what this is.
    pub fn origin(&self) -> Origin {
        let text = |pointer: &str| {
            let value = self.about.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or("?").to_owned()
        };
        Origin { date: text("/date"), windlass: text("/versions/windlass") }
    }

    /// Returns how many runs of this record failed; those of earlier ones are not counted.
    pub fn failed(&self) -> usize {
        self.runs.iter().filter(|run| run.kept.is_none() && run.result.is_err()).count()
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
    if let Some(Origin { date, windlass }) = &run.kept {
        value["kept"] = json!({ "date": date, "windlass": windlass });
    }
    value
}

fn read_run(value: &Value) -> Option<Run> {
    let text = |name: &str| Some(value[name].as_str()?.to_owned());
    let result = match value.get("result") {
        Some(result) => Ok(result.clone()),
        None => Err(text("error")?),
    };
    let kept = value.get("kept").and_then(|kept| {
        let text = |name: &str| Some(kept[name].as_str()?.to_owned());
        Some(Origin { date: text("date")?, windlass: text("windlass")? })
    });
    Some(Run {
        kept,
        scenario: text("scenario")?,
        server: text("server")?,
        contestant: text("contestant")?,
        size: usize::try_from(value["size"].as_u64()?).ok()?,
        result,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A record that is made up: scenario, server, contestant, size, result.
    pub fn made_up(runs: &[(&str, &str, &str, usize, Value)]) -> Record {
        let about =
            json!({ "date": "2026-01-02 03:04 UTC", "versions": { "windlass": "abc1234" } });
        let mut record = Record { about, runs: Vec::new(), file: None };
        for (scenario, server, contestant, size, result) in runs {
            record.add((scenario, server, contestant), *size, Ok(result.clone()));
        }
        record
    }

    #[test]
    fn kept_runs_are_marked_also_after_writing_and_reading() {
        let one = |size| ("sync", "ours", "windlass", size, json!({ "time_s": 1.0 }));
        let mut now = made_up(&[one(1000)]);
        now.about["date"] = json!("2026-02-02 00:00 UTC");
        now.keep(made_up(&[one(1000), one(5000)]));
        let file = std::env::temp_dir().join(format!("windlass-kept-{}", std::process::id()));
        now.write(&file).unwrap();
        let read = Record::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let kept: Vec<_> = read.runs.iter().map(|run| (run.size, run.kept.clone())).collect();
        let earlier = made_up(&[]).origin();
        assert_eq!(kept, [(1000, None), (5000, Some(earlier.clone()))]);
        // A run that is kept again is still of the record that measured it.
        let mut later = made_up(&[one(1000)]);
        later.keep(read);
        assert_eq!(later.runs[1].kept, Some(earlier));
    }

    #[test]
    fn rates_that_are_no_longer_measured_are_not_kept() {
        let one = |rate| ("stream", "real", "windlass", rate, json!({ "cpu_us_per_event": 1.0 }));
        let mut now = made_up(&[one(50), one(150)]);
        now.keep(made_up(&[one(50), one(1000)]));
        assert!(now.runs.iter().all(|run| run.kept.is_none()), "{:?}", now.runs);
    }

    #[test]
    fn a_server_that_starts_again_makes_up_for_the_time_it_did_not() {
        let mut earlier = made_up(&[]);
        for scenario in ["sync", "relist"] {
            earlier.add((scenario, "real", SERVER), 0, Err("the server did not start".into()));
        }
        let mut now = made_up(&[("sync", "real", "windlass", 1000, json!({}))]);
        now.keep(earlier);
        let left: Vec<_> = now.runs.iter().map(|run| run.scenario.as_str()).collect();
        assert_eq!(left, ["sync", "relist"]);
        assert_eq!(now.failed(), 0, "the failure is an earlier one");
    }
}
