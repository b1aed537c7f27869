//! The same scenario in two processes: equal seeds give equal traces, byte for byte.

use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use memcached_operator::{Memcached, MemcachedSpec, operator};
use serde_json::json;
use windlass_sim::{Explore, Sim};

/// Set in the child processes.
const CHILD: &str = "WINDLASS_SIM_TEST_CHILD";
/// The lines of a trace are between these.
const MARKS: [&str; 2] = ["-- trace", "-- end"];

/// A crash in the middle, so that both lives of the operator are compared.
const PLAN: &str = "processes@7: crash-after operator patch deployments.apps default/sample #1";

/// Prints a trace in a child process; elsewhere it does nothing but run.
#[test]
fn a_trace_of_a_child_process() {
    let scenario = async |sim: &mut Sim| {
        sim.runs(operator);
        sim.apply(&Memcached::new("sample", MemcachedSpec { size: 2 })).await?;
        sim.settle("two pods").await?;
        sim.delete_any::<Pod>().await?;
        sim.merge::<Memcached>("sample", json!({"spec": {"size": 3}})).await?;
        sim.settle("three pods").await
    };
    println!("{}", MARKS[0]);
    let report = Explore::of("processes", scenario).replay(PLAN).run();
    println!("{}", MARKS[1]);
    assert!(report.is_ok(), "\n{report}");
}

#[test]
fn two_processes_give_the_same_trace() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let [one, other] = [(), ()].map(|()| trace());
    assert!(one.lines().count() > 50, "too short:\n{one}");
    let mut lines = one.lines().zip(other.lines());
    let difference = lines.find(|(one, other)| one != other);
    assert_eq!(difference, None, "the traces of two processes differ");
    assert_eq!(one, other, "the traces of two processes differ");
}

/// The trace of a child process, which has hash seeds and addresses of its own.
fn trace() -> String {
    let program = std::env::current_exe().expect("this test is a program");
    let mut child = Command::new(program);
    child.args(["--exact", "determinism::a_trace_of_a_child_process", "--nocapture"]);
    child.env_remove("WINDLASS_REPLAY").env_remove("WINDLASS_REPLAYED");
    let output = child.env(CHILD, "1").output().expect("the test runs again");
    let text = String::from_utf8(output.stdout).expect("is text");
    assert!(output.status.success(), "{text}");
    let (_, after) = text.split_once(MARKS[0]).expect("the trace begins");
    let (trace, _) = after.split_once(MARKS[1]).expect("the trace ends");
    trace.to_owned()
}
