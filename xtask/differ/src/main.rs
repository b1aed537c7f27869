//! `differ KUBECONFIG [--seed N] [--seconds N] [--only TEXT] [--keep DIRECTORY] [--controllers]`:
//! generates requests, sends them to the server of the kubeconfig and to an embedded one, and reports
//! what differs; or changes workloads on two clusters with controllers, and compares their states.

#![allow(clippy::disallowed_methods, reason = "runs for a given real time")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use differ::custom::custom;
use differ::draw::Draw;
use differ::fixture::Fixture;
use differ::generate::Generator;
use differ::report::Report;
use differ::run::run;
use differ::schemas::Schemas;
use differ::seeds::Seed;
use differ::sequence::Sequence;
use differ::server::{Answer, Server};
use differ::workloads::script;
use differ::{compare, kinds, mask, settle, shrink};

/// How many smaller sequences are tried for one difference.
const SHRINK_MAX: usize = 60;

struct Options {
    kubeconfig: String,
    seed: u64,
    seconds: u64,
    only: String,
    keep: Option<PathBuf>,
    controllers: bool,
}

struct Session {
    real: Server,
    ours: Server,
    /// Makes names unique over the runs of one real server.
    prefix: String,
    runs: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match options() {
        Ok(options) if options.controllers => controllers(&options).await,
        Ok(options) => explore(&options).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("differ: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut words = std::env::args().skip(1);
    let kubeconfig = words.next().ok_or("the kubeconfig of a real server is missing")?;
    let mut options = Options {
        kubeconfig,
        seed: 1,
        seconds: 60,
        only: String::new(),
        keep: None,
        controllers: false,
    };
    while let Some(word) = words.next() {
        if word == "--controllers" {
            options.controllers = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{word} {value}: not a number"));
        match word.as_str() {
            "--seed" => options.seed = number()?,
            "--seconds" => options.seconds = number()?,
            "--only" => options.only = value,
            "--keep" => options.keep = Some(value.into()),
            _ => return Err(format!("{word} is not an option")),
        }
    }
    Ok(options)
}

async fn explore(options: &Options) -> Result<(), String> {
    let real = Server::of_kubeconfig(&options.kubeconfig).await?;
    let seeds: Vec<Seed> = kinds::seeds(&real).await?;
    let seeds: Vec<Seed> =
        seeds.into_iter().filter(|seed| seed.kind.contains(&options.only)).collect();
    let schemas = Schemas::read(&real, &seeds).await?;
    let began = Instant::now();
    let prefix = prefix();
    let mut session = Session { real, ours: Server::embedded(), prefix, runs: 0 };
    let mut report = Report::default();
    let mut number = options.seed;
    while began.elapsed() < Duration::from_secs(options.seconds) {
        let sequence = draw(number, &seeds, &schemas, &options.only);
        number += 1;
        session.examine(&sequence, &mut report).await?;
    }
    println!("{report}");
    println!("seeds {} to {}", options.seed, number - 1);
    if let Some(directory) = &options.keep {
        session.keep(&report, directory).await?;
    }
    Ok(())
}

/// A text that makes names unique over the runs of one real server.
fn prefix() -> String {
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{:x}", started.map_or(0, |time| time.as_secs()))
}

/// Compares what controllers make of changes of workloads.
async fn controllers(options: &Options) -> Result<(), String> {
    let real = Server::of_kubeconfig(&options.kubeconfig).await?;
    let without = vec!["node-lifecycle".to_owned()];
    let cluster = windlass_cluster::Options { nodes: 0, without, ..Default::default() };
    let embedded = windlass_apiserver::ApiServer::start();
    let cluster = windlass_cluster::Cluster::with_options(embedded, cluster).await;
    let ours = Server::of_client(cluster.client());
    let (began, prefix) = (Instant::now(), prefix());
    let (mut number, mut states, mut differing) = (options.seed, 0, 0);
    while began.elapsed() < Duration::from_secs(options.seconds) {
        let script = script(&mut Draw::new(number.wrapping_mul(0x5851_f42d_4c95_7f2d)));
        number += 1;
        if !script.about.contains(&options.only) {
            continue;
        }
        let id = format!("{prefix}x{number:x}x");
        let (same, found) = settle::compare_states(&real, &ours, &script, &id).await?;
        states += same + usize::from(found.is_some());
        let Some(found) = found else { continue };
        differing += 1;
        println!("\nseed {}: {}", number - 1, script.about);
        for step in &script.moves[..=same] {
            println!("    {}", step.shown());
        }
        for difference in found {
            println!("      {difference}");
        }
    }
    println!("\nstates: {differing} of {states} differ; seeds {} to {}", options.seed, number - 1);
    cluster.stop().await;
    Ok(())
}

/// Draws a sequence about a built-in kind or, one time in seven, about a generated kind.
fn draw(number: u64, seeds: &[Seed], schemas: &Schemas, only: &str) -> Sequence {
    let mut draw = Draw::new(number.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let length = 3 + draw.below(8);
    let generated = seeds.is_empty() || (only.is_empty() && draw.chance(15));
    if generated {
        let custom = custom(&mut draw);
        let mut generator = Generator { draw, schemas, seed: &custom.seed, schema: &custom.schema };
        let mut sequence = generator.sequence(length);
        sequence.about = "custom kind".into();
        sequence.steps.splice(0..0, custom.steps);
        return sequence;
    }
    let seed = draw.pick(seeds);
    let nothing = serde_json::Value::Null;
    let schema = schemas.of(seed).unwrap_or(&nothing);
    Generator { draw, schemas, seed, schema }.sequence(length)
}

// === impl Session ===

impl Session {
    /// Runs a sequence on both servers and returns their masked answers.
    async fn both(&mut self, sequence: &Sequence) -> Result<Vec<Option<(Answer, Answer)>>, String> {
        self.runs += 1;
        let id = format!("{}x{:x}x", self.prefix, self.runs);
        let (real, ours) =
            tokio::join!(run(&self.real, sequence, &id), run(&self.ours, sequence, &id));
        let pairs = real?.into_iter().zip(ours?);
        Ok(pairs
            .map(|(real, ours)| Some((mask::answer(&real?, &id), mask::answer(&ours?, &id))))
            .collect())
    }

    /// Returns the first step whose answers differ, and how.
    async fn first(&mut self, sequence: &Sequence) -> Result<Option<(usize, Vec<String>)>, String> {
        let pairs = self.both(sequence).await?;
        Ok(pairs.iter().enumerate().find_map(|(index, pair)| {
            let (real, ours) = pair.as_ref()?;
            let found = compare::answers(real, ours);
            (!found.is_empty()).then_some((index, found))
        }))
    }

    /// Compares a sequence. What follows the first difference depends on it and is not counted.
    async fn examine(&mut self, sequence: &Sequence, report: &mut Report) -> Result<(), String> {
        let pairs = self.both(sequence).await?;
        for (index, pair) in pairs.iter().enumerate() {
            let Some((real, ours)) = pair else { continue };
            let found = compare::answers(real, ours);
            report.count(real.status >= 400, !found.is_empty());
            if found.is_empty() {
                continue;
            }
            let mut example = sequence.clone();
            example.steps.truncate(index + 1);
            if report.add(&example, &found) {
                let smaller = self.shrink(example, &found).await?;
                report.shrunk(&found, smaller);
            }
            return Ok(());
        }
        Ok(())
    }

    /// Returns the smallest sequence found that shows the same first difference.
    async fn shrink(&mut self, from: Sequence, found: &[String]) -> Result<Sequence, String> {
        let mut best = from;
        let mut tries = 0;
        'again: loop {
            let last = best.steps.len() - 1;
            for smaller in shrink::smaller(&best, last) {
                tries += 1;
                if tries > SHRINK_MAX {
                    return Ok(best);
                }
                let end = smaller.steps.len() - 1;
                let shown = self.first(&smaller).await?;
                if shown
                    .is_some_and(|(index, shown)| index == end && shown.first() == found.first())
                {
                    best = smaller;
                    continue 'again;
                }
            }
            return Ok(best);
        }
    }

    /// Stores the examples of a report with the answers of the real server.
    async fn keep(&mut self, report: &Report, directory: &PathBuf) -> Result<(), String> {
        std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
        let examples: Vec<Sequence> = report.examples().cloned().collect();
        for (number, sequence) in examples.into_iter().enumerate() {
            let pairs = self.both(&sequence).await?;
            let expect = pairs.into_iter().map(|pair| pair.map(|(real, _)| real.into())).collect();
            let kind = sequence.about.rsplit(' ').next().unwrap_or_default().to_lowercase();
            let file = directory.join(format!("{kind}-{number}.json"));
            let text = serde_json::to_string_pretty(&Fixture { sequence, expect })
                .map_err(|error| error.to_string())?;
            std::fs::write(&file, text + "\n").map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
