//! `cargo xtask bench`: windlass beside its peers, on the same servers and data, in one run.

mod build;
mod figures;
mod metrics;
mod options;
mod plan;
mod record;
mod report;
mod server;
mod stats;
mod svg;

use std::fs;
use std::path::Path;

use options::Options;
use record::Record;

use crate::peers::{root, scratch};

/// Measures and writes the page.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let root = root();
    let results = root.join("bench/results");
    fs::create_dir_all(&results).map_err(|error| format!("{}: {error}", results.display()))?;
    let file = results.join(if options.quick { "quick.json" } else { "latest.json" });
    if options.report {
        return publish(&root, &Record::read(&file)?, options.quick);
    }
    let tools = build::build(&root, &options)?;
    scratch::wipe()?;
    let earlier = Record::read(&file).ok().filter(|_| options.only.is_some());
    let mut record = Record::begin(&root, &options, &tools);
    // What an earlier run has is not given up before this one is at its end.
    let partial = results.join("partial.json");
    record.file = Some(if earlier.is_some() { partial.clone() } else { file.clone() });
    plan::run(&options, &tools, &mut record);
    if let Some(earlier) = earlier {
        record.keep(earlier);
    }
    record.write(&file)?;
    let _ = fs::remove_file(partial);
    publish(&root, &record, options.quick)?;
    match record.failed() {
        0 => Ok(()),
        failed => Err(format!("{failed} runs failed; the page lists them")),
    }
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
