//! The operator of a plan: a process whose time can be that of the copy.
//!
//! A program of `Operator::main` follows the variable `WINDLASS_CLOCK`: its time stands still, each
//! line of its input is a number of milliseconds that pass, and each is answered by a line of its
//! output, after a first one that says that it does so. A program that does not is one whose time
//! is that of the machine.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout, Command};

use super::virtual_time::wait;
use crate::failure::Failure;
use crate::process::Process;
use crate::program::Program;
use crate::run::free_probe_port;

/// What a program answers.
const LINE: &[u8] = b"windlass-clock";
/// How long the operator may take to end, or to answer.
const GRACE: Duration = Duration::from_secs(10);

/// A running operator.
pub struct Worker {
    process: Process,
    input: Option<ChildStdin>,
    /// How many answers were read.
    answers: Arc<AtomicU64>,
}

// === impl Worker ===

impl Worker {
    /// Starts an operator at a time of the copy.
    pub fn start(
        program: &Program,
        kubeconfig: &Path,
        time: &jiff::Timestamp,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(program.path());
        command.arg("run").env("KUBECONFIG", kubeconfig).env("WINDLASS_CLOCK", time.to_string());
        command.env("METRICS_BIND_ADDRESS", "0").stdin(Stdio::piped()).stdout(Stdio::piped());
        free_probe_port(&mut command);
        let shown = program.path().display();
        let failed = |error| Failure::other(format!("cannot run {shown}: {error}"));
        let mut process = Process::spawn(&mut command).map_err(failed)?;
        let answers = Arc::new(AtomicU64::new(0));
        if let Some(output) = process.stdout() {
            tokio::spawn(read(output, answers.clone()));
        }
        let input = process.stdin();
        Ok(Self { process, input, answers })
    }

    /// Returns `true` if the time of the program is that of the copy.
    pub fn is_stepped(&self) -> bool {
        self.answers.load(Ordering::Relaxed) > 0
    }

    /// Fails if the program has ended.
    pub fn check(&mut self, what: &str) -> Result<(), Failure> {
        match self.process.ended() {
            None => Ok(()),
            Some(how) => Err(Failure::other(format!("{what} ended by itself: {how}"))),
        }
    }

    /// Lets time pass for the program, and waits until it has.
    pub async fn pass(&mut self, time: Duration, what: &str) -> Result<(), Failure> {
        let before = self.answers.load(Ordering::Relaxed);
        let Some(input) = &mut self.input else { return Ok(()) };
        let line = format!("{}\n", time.as_millis());
        let sent = match input.write_all(line.as_bytes()).await {
            Ok(()) => input.flush().await,
            Err(error) => Err(error),
        };
        let began = Instant::now();
        while sent.is_ok()
            && self.answers.load(Ordering::Relaxed) == before
            && began.elapsed() < GRACE
        {
            wait(Duration::from_millis(1)).await;
            self.check(what)?;
        }
        Ok(())
    }

    /// Ends the program, which may need time for that, and kills it after the grace period.
    pub async fn stop(mut self, what: &str) {
        self.process.interrupt();
        let began = Instant::now();
        while self.process.ended().is_none() && began.elapsed() < GRACE {
            wait(Duration::from_millis(5)).await;
            if self.is_stepped() && self.pass(Duration::from_millis(100), what).await.is_err() {
                return;
            }
        }
    }
}

/// Counts the answers of a program; everything else that it prints is dropped.
async fn read(mut output: ChildStdout, answers: Arc<AtomicU64>) {
    let mut buffer = [0; 4096];
    // A line, as long as it can be an answer.
    let mut line = Vec::new();
    while let Ok(count @ 1..) = output.read(&mut buffer).await {
        for byte in &buffer[..count] {
            if *byte == b'\n' {
                if line == LINE {
                    answers.fetch_add(1, Ordering::Relaxed);
                }
                line.clear();
            } else if line.len() <= LINE.len() {
                line.push(*byte);
            }
        }
    }
}
