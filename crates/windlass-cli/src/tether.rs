//! Ties a child process to the life of this one: on Linux it ends even if this process is killed.
//!
//! This program starts itself, asks the kernel for a signal at the end of its parent, and becomes
//! the wanted program. Elsewhere the program is started directly.

use std::ffi::{OsStr, OsString};

use tokio::process::Command;

/// The first argument of a process that becomes another program.
const WORD: &str = "__become";

/// A command for a program that does not outlive this process.
///
/// The signal is sent at the end of the thread that starts the command, so that has to be the main
/// thread.
pub fn command(program: &OsStr) -> Command {
    if cfg!(target_os = "linux") {
        // The file of this process, even if it was replaced in the meantime.
        let mut command = Command::new("/proc/self/exe");
        command.arg(WORD).arg(std::process::id().to_string()).arg(program);
        return command;
    }
    Command::new(program)
}

/// Becomes the wanted program if this process was started for that; returns the exit status if that
/// fails.
pub fn of_process() -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != WORD {
        return None;
    }
    let parent: u32 = words.next()?.to_str()?.parse().ok()?;
    let program = words.next()?;
    Some(become_program(parent, &program, words))
}

#[cfg(target_os = "linux")]
fn become_program(parent: u32, program: &OsStr, args: impl Iterator<Item = OsString>) -> u8 {
    use std::os::unix::process::{CommandExt, parent_id};

    use rustix::process::{Signal, set_parent_process_death_signal};
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    // The parent may have ended before the request.
    if tied.is_err() || parent_id() != parent {
        return 1;
    }
    let error = std::process::Command::new(program).args(args).exec();
    note!("cannot run {}: {error}", program.display());
    127
}

#[cfg(not(target_os = "linux"))]
fn become_program(_: u32, _: &OsStr, _: impl Iterator<Item = OsString>) -> u8 {
    2
}
