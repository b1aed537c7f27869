//! The chores of this repository: `cargo xtask alone`, `api`, `bench`, `build-times`, `differ`,
//! `fuzz`, `go-patterns`, `journey`, `kubectl`, `real`, `rebuild` and `tidy`.

#![allow(clippy::disallowed_methods, reason = "measures and reports real time")]

mod alone;
mod api;
mod bench;
mod build_times;
mod differ;
mod fuzz;
mod journey;
mod kubectl;
mod patterns;
mod peers;
mod real;
mod rebuild;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage:
  cargo xtask alone
      checks that every crate builds by itself: that it uses no feature of a
      dependency that only another crate of the workspace enables
  cargo xtask api [--write]
      compares the public API of windlass with crates/windlass/api.txt; --write
      accepts the present API
  cargo xtask bench [--quick] [--only GLOBS] [--sizes N,N] [--rounds N]
                    [--no-build] [--report]
      measures windlass beside kube-rs, controller-runtime and a real API server,
      writes bench/results/ and docs/benchmarks.md; --only runs some scenarios and
      keeps the last results of the others, --sizes says how many pods there are,
      --no-build takes what is built already, --report writes the page again from
      the last results
  cargo xtask build-times [--rounds N]
      builds the Memcached example and an operator with forty types, each with the
      attributes of windlass and with the derives of kube, from nothing and after a
      change; writes bench/results/ and docs/build-times.md, and fails if the
      attributes add more than 10 %; takes half an hour
  cargo xtask differ [--seed N] [--seconds N] [--only KIND] [--keep DIRECTORY]
                     [--controllers]
      sends generated requests to a real kube-apiserver and to the embedded one, and
      reports in groups where the answers differ; --only takes kinds whose name
      contains a text, --keep stores an example of each group; --controllers changes
      workloads instead, and compares what controllers make of it; needs Go
  cargo xtask fuzz [SECONDS]
      runs every property test with fresh random cases, 60 seconds for each crate
      by default
  cargo xtask journey [--no-build]
      starts an operator in an empty directory with the command windlass, and builds,
      tests, installs, renames and deletes what it consists of; takes minutes
  cargo xtask kubectl [--no-build]
      takes the steps of the Memcached tutorial with a real kubectl on `windlass
      cluster`, and compares what it prints with the chapter
  cargo xtask go-patterns
      asks the Go on this machine about generated regular expressions, and writes its
      answers where the tests of the API server find them
  cargo xtask real [--embedded] [--no-build] [PROGRAM ...]
      runs the operators of examples/ on a real kube-apiserver, with a real kubectl and
      under the roles of their own manifests; --embedded takes windlass cluster instead;
      needs Go
  cargo xtask rebuild [--rounds N] [--only-windlass]
      measures the time from saving a change to the first reconcile of the new build,
      with windlass dev and with kubebuilder's make run, and fails above 5 seconds on
      an idle machine; needs Go and make
  cargo xtask tidy
      checks the length of files and functions, and the words of comments";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.split_first() {
        Some((&"alone", [])) => alone::run(),
        Some((&"api", rest)) => api::run(rest),
        Some((&"bench", rest)) => bench::run(rest),
        Some((&"build-times", rest)) => build_times::run(rest),
        Some((&"differ", rest)) => differ::run(rest),
        Some((&"fuzz", rest)) => fuzz::run(rest),
        Some((&"journey", rest)) => journey::run(rest),
        Some((&"kubectl", rest)) => kubectl::run(rest),
        Some((&"go-patterns", rest)) => patterns::run(rest),
        Some((&"real", rest)) => real::run(rest),
        Some((&"rebuild", rest)) => rebuild::run(rest),
        Some((&"tidy", [])) => tidy::run(),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
