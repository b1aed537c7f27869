//! A child process with everything that it starts.
//!
//! **Invariant:** nothing of it outlives the value: dropping it kills its whole process group.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// A running child process, in a process group of its own.
pub struct Process {
    child: Child,
    /// The process group, until the child has ended.
    group: Option<u32>,
}

// === impl Process ===

impl Process {
    /// Starts a command in a process group of its own, so that Ctrl-C reaches it through
    /// [`stop`](Self::stop) only.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        command.process_group(0);
        let child = command.kill_on_drop(true).spawn()?;
        let group = child.id();
        Ok(Self { child, group })
    }

    /// The process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The standard input, if it is piped and was not taken before.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The standard output, if it is piped and was not taken before.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The standard error, if it is piped and was not taken before.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Returns how the process has ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        let ended = self.child.try_wait();
        ended.map_or_else(|error| Some(error.to_string()), |status| status.map(|s| s.to_string()))
    }

    /// Waits for the end of the process, and ends what it left behind.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped: it can be called again.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let ended = self.child.wait().await;
        self.kill();
        ended
    }

    /// Asks the process to end, and kills it after the grace period.
    pub async fn stop(&mut self, grace: Duration) {
        self.signal(false);
        if tokio::time::timeout(grace, self.wait()).await.is_err() {
            self.kill();
            let _ = self.child.wait().await;
        }
    }

    /// Asks the process to end.
    pub fn interrupt(&self) {
        self.signal(false);
    }

    /// Kills the whole group at once.
    fn kill(&mut self) {
        self.signal(true);
        self.group = None;
    }

    #[cfg(unix)]
    fn signal(&self, kill: bool) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let group = self.group.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            // A group without processes is what is wanted.
            let _ = kill_process_group(group, if kill { Signal::KILL } else { Signal::TERM });
        }
    }

    /// Without signals there is but one way to end a process.
    #[cfg(not(unix))]
    fn signal(&mut self, _: bool) {
        let _ = self.child.start_kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;

    async fn shell(script: &str) -> (Process, tokio::io::Lines<BufReader<ChildStdout>>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command).unwrap();
        let lines = BufReader::new(process.stdout().unwrap()).lines();
        (process, lines)
    }

    #[tokio::test]
    async fn a_process_that_ignores_the_request_is_killed_after_the_grace_period() {
        let (mut process, mut lines) =
            shell("trap '' TERM; echo up; while :; do sleep 1; done").await;
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "up");
        process.stop(Duration::from_millis(50)).await;
        assert_eq!(lines.next_line().await.unwrap(), None, "its output is closed");
    }

    #[tokio::test]
    async fn grandchildren_end_with_the_value() {
        let (process, mut lines) = shell("sleep 1000 & echo up; wait").await;
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "up");
        drop(process);
        // The pipe is closed once no process holds it any more.
        assert_eq!(lines.next_line().await.unwrap(), None);
    }
}
