//! `cargo xtask bench`: windlass beside its peers, on the same servers and data, in one run.

mod build;
mod figures;
mod metrics;
mod plan;
mod process;
mod record;
mod report;
mod server;
mod stats;
mod svg;

use std::fs;
use std::path::{Path, PathBuf};

use record::Record;

/// What is asked for.
pub struct Options {
    /// Small sizes and few rounds, to see that everything works.
    pub quick: bool,
    /// Which scenarios, as patterns with `*`, separated by commas.
    pub only: Option<String>,
    /// How many pods contestants get, instead of the usual numbers.
    pub sizes: Vec<usize>,
    /// How often each contestant is measured.
    pub rounds: usize,
}

/// Measures and writes the page.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let mut options = Options { quick: false, only: None, sizes: Vec::new(), rounds: 0 };
    let (mut only_report, mut fresh) = (false, true);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "--quick" => options.quick = true,
            "--report" => only_report = true,
            "--no-build" => fresh = false,
            "--only" => options.only = words.next().map(|word| (*word).to_owned()),
            "--sizes" => {
                let sizes = words.next().map(|list| list.split(',').map(str::parse).collect());
                options.sizes = sizes
                    .and_then(Result::ok)
                    .ok_or("--sizes takes numbers, separated by commas")?;
            }
            "--rounds" => {
                let count = words.next().and_then(|word| word.parse().ok());
                options.rounds = count.ok_or("--rounds takes a number")?;
            }
            other => return Err(format!("bench knows no {other:?}")),
        }
    }
    if options.rounds == 0 {
        options.rounds = if options.quick { 1 } else { 3 };
    }
    let root = root();
    let results = root.join("bench/results");
    fs::create_dir_all(&results).map_err(|error| format!("{}: {error}", results.display()))?;
    let file = results.join(if options.quick { "quick.json" } else { "latest.json" });
    if only_report {
        return publish(&root, &Record::read(&file)?, options.quick);
    }
    let tools = build::build(&root, fresh)?;
    let earlier = Record::read(&file).ok().filter(|_| options.only.is_some());
    let mut record = Record::begin(&root, &options, &tools);
    record.file = Some(file.clone()).filter(|_| earlier.is_none());
    let outcome = plan::run(&options, &tools, &mut record);
    if let Some(earlier) = earlier {
        record.keep(earlier);
    }
    record.write(&file)?;
    publish(&root, &record, options.quick)?;
    outcome
}

fn publish(root: &Path, record: &Record, quick: bool) -> Result<(), String> {
    let (page, picture) = match quick {
        true => ("bench/results/quick.md", "bench/results/quick.svg"),
        false => ("docs/benchmarks.md", "docs/benchmarks.svg"),
    };
    let write = |path: &str, text: &str| {
        fs::write(root.join(path), text).map_err(|error| format!("{path}: {error}"))
    };
    let notes = fs::read_to_string(root.join("bench/notes.md")).unwrap_or_default();
    write(page, &report::page(record, &notes))?;
    write(picture, &svg::picture(record))?;
    println!("wrote {page}");
    Ok(())
}

/// The folder of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Tells whether a name fits one of the patterns, in which `*` stands for anything.
pub fn fits(pattern: &str, name: &str) -> bool {
    if let Some((first, others)) = pattern.split_once(',') {
        return fits(first, name) || fits(others, name);
    }
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(head) else { return false };
    (0..=name.len()).filter(|at| name.is_char_boundary(*at)).any(|at| fits(rest, &name[at..]))
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_fit_with_stars_anywhere() {
        assert!(fits("sync*", "sync-meta") && fits("*", "x") && fits("*meta", "sync-meta"));
        assert!(!fits("sync", "sync-meta") && !fits("s*x", "sync"));
        assert!(fits("queue,sync*", "sync-meta") && !fits("queue,sync", "sync-meta"));
    }
}
