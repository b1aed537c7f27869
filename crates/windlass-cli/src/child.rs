//! A program that the command runs and waits for.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Command;

use crate::failure::Failure;
use crate::signals::Signals;

/// The cargo that runs this command, or the one in the path.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a program until it ends, and returns the status with which a shell would end.
///
/// After a signal the program gets the grace period to end by itself.
pub fn run(mut command: Command, shown: &str, grace: Duration) -> Result<u8, Failure> {
    command.kill_on_drop(true);
    let mut code = 1;
    crate::cluster::block_on(async {
        let mut signals = Signals::listen()?;
        let mut child = command
            .spawn()
            .map_err(|error| Failure::with_code(127, format!("cannot start {shown}: {error}")))?;
        let ended = tokio::select! {
            biased;
            // A terminal sends its interrupt to the program as well: give it time to clean up.
            () = signals.wait() => tokio::time::timeout(grace, child.wait()).await,
            ended = child.wait() => Ok(ended),
        };
        let late = |_| Failure::other(format!("{shown} did not end within {} s", grace.as_secs()));
        let status =
            ended.map_err(late)?.map_err(|error| Failure::other(format!("{shown}: {error}")))?;
        code = exit_code(status);
        Ok(())
    })?;
    Ok(code)
}

/// The status with which a shell would end for this end of a process.
pub fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(1);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
