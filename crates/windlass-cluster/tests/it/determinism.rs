//! Equal seeds give equal traces: every request, answer, watch event and object, byte for byte.

mod scenario;
mod tape;

use std::path::Path;
use std::process::Command;

use scenario::{Run, run};

/// Names the file that the test writes its trace to, instead of comparing it.
const TRACE_FILE: &str = "WINDLASS_TRACE_FILE";

#[test]
fn equal_seeds_give_equal_traces_in_one_process() {
    let (first, second) = (run(&Run::default()), run(&Run::default()));
    assert_equal("this process", &first.trace, "this process, again", &second.trace);
    assert!(first.trace.len() > 500, "{} lines are hardly a trace", first.trace.len());
}

#[test]
fn equal_seeds_give_equal_traces_in_every_process() {
    let own = run(&Run::default()).trace;
    if let Some(file) = std::env::var_os(TRACE_FILE) {
        std::fs::write(file, own.join("\n")).expect("the trace can be written");
        return;
    }
    for child in ["one child process", "another child process"] {
        assert_equal("this process", &own, child, &trace_of_child(child));
    }
}

#[test]
fn other_seeds_give_other_traces() {
    let other = run(&Run { seed: 8, ..Run::default() });
    assert_ne!(run(&Run::default()).trace, other.trace);
}

#[test]
fn one_more_request_changes_no_name_and_no_uid_of_others() {
    let (plain, more) = (run(&Run::default()), run(&Run { more: true, ..Run::default() }));
    let missing: Vec<_> = plain.uids.iter().filter(|it| !more.uids.contains(it)).collect();
    let extra: Vec<_> = more.uids.iter().filter(|it| !plain.uids.contains(it)).collect();
    assert!(missing.is_empty(), "missing {missing:#?}\ninstead there are {extra:#?}");
    assert_eq!(extra.len(), 1, "{extra:#?}");
    assert!(extra[0].0.starts_with("configmaps default/more-"), "{extra:#?}");
}

/// Runs this very test in another process, and returns the trace that it writes.
fn trace_of_child(child: &str) -> Vec<String> {
    let name = format!("windlass-trace-{}-{}", std::process::id(), child.replace(' ', "-"));
    let file = std::env::temp_dir().join(name);
    let test = "determinism::equal_seeds_give_equal_traces_in_every_process";
    let output = Command::new(std::env::current_exe().expect("this test has a file"))
        .args(["--exact", test, "--test-threads=1"])
        .env(TRACE_FILE, &file)
        .output()
        .expect("this test can be run again");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{child} failed: {report}");
    let trace = read(&file);
    std::fs::remove_file(&file).expect("the trace can be removed");
    trace
}

fn read(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).expect("the child has written its trace");
    text.split('\n').map(str::to_owned).collect()
}

/// Fails with the first line that differs, and what happened before it.
fn assert_equal(one: &str, left: &[String], other: &str, right: &[String]) {
    let lines = left.len().max(right.len());
    let Some(at) = (0..lines).find(|at| left.get(*at) != right.get(*at)) else { return };
    let line = |trace: &[String], at: usize| match trace.get(at) {
        Some(line) => line.chars().take(2000).collect(),
        None => "(the trace has ended)".to_owned(),
    };
    let before: Vec<String> = (at.saturating_sub(5)..at).map(|at| line(left, at)).collect();
    let (left_len, right_len) = (left.len(), right.len());
    panic!(
        "the traces differ from line {at} on ({one}: {left_len} lines, {other}: {right_len} lines)\n\
         before: {}\n{one}: {}\n{other}: {}",
        before.join("\n        "),
        line(left, at),
        line(right, at),
    );
}
