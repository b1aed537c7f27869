//! Processes that are measured, spoken to line by line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A process whose standard output is lines of JSON; ended when dropped.
pub struct Process {
    child: Child,
    lines: Receiver<(String, Instant)>,
    /// When it was started.
    pub began: Instant,
    name: String,
}

// === impl Process ===

impl Process {
    /// Starts a program; `--name value` pairs are its arguments.
    pub fn start(program: &Path, arguments: &[(&str, String)]) -> Result<Self, String> {
        let words = arguments.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]);
        let mut command = Command::new(program);
        command.args(words);
        Self::spawn(command)
    }

    /// Starts a command.
    pub fn spawn(mut command: Command) -> Result<Self, String> {
        let name = format!("{:?}", command.get_program());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let out = child.stdout.take().ok_or("no standard output")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send((line, Instant::now())).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines, began, name })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line and returns when it came.
    pub fn line(&self, within: Duration) -> Result<(String, Instant), String> {
        self.lines.recv_timeout(within).map_err(|why| match why {
            RecvTimeoutError::Timeout => format!("{}: nothing for {within:?}", self.name),
            RecvTimeoutError::Disconnected => format!("{}: ended without a result", self.name),
        })
    }

    /// Waits for the next line of JSON.
    pub fn json(&self, within: Duration) -> Result<Value, String> {
        let (line, _) = self.line(within)?;
        serde_json::from_str(&line).map_err(|error| format!("{}: {line:?}: {error}", self.name))
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("no standard input")?;
        let sent = writeln!(input, "{line}").and_then(|()| input.flush());
        sent.map_err(|error| format!("{}: {error}", self.name))
    }

    /// Asks the process to end and waits for it.
    pub fn end(mut self) {
        self.terminate();
    }

    fn terminate(&mut self) {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).stderr(Stdio::null()).status();
        let limit = Instant::now() + Duration::from_secs(10);
        while asked.as_ref().is_ok_and(std::process::ExitStatus::success) && Instant::now() < limit
        {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
        }
    }
}

/// Resident memory of a process in KiB, and its CPU seconds.
pub fn usage(id: u32) -> (u64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name may hold spaces, so fields are counted from its closing bracket.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (resident.unwrap_or_default(), (ticks(11) + ticks(12)) / 100.0)
}
