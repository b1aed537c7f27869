//! Questions to people. They are asked on a terminal only; elsewhere a missing answer is an error.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::failure::Failure;

/// How often a wrong answer may be given.
const ATTEMPTS_MAX: usize = 3;

/// Returns the value of a flag, or asks for it.
pub fn required(
    given: Option<String>,
    flag: &str,
    question: &str,
    check: fn(&str) -> Result<String, String>,
) -> Result<String, Failure> {
    if let Some(text) = given {
        return check(&text).map_err(Failure::usage);
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(format!("--{flag} is missing: {question}")));
    }
    for _ in 0..ATTEMPTS_MAX {
        eprint!("{question}: ");
        let _ = io::stderr().flush();
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        if read.is_err() || line.is_empty() {
            break;
        }
        match check(line.trim()) {
            Ok(text) => return Ok(text),
            Err(why) => eprintln!("{why}"),
        }
    }
    Err(Failure::usage(format!("--{flag} is missing: {question}")))
}
