//! Questions to people. They are asked on a terminal only; elsewhere a missing answer is an error.

use std::io::{self, BufRead, IsTerminal as _, Read as _, Write};

use crate::failure::Failure;

/// How often a wrong answer may be given.
const ATTEMPTS_MAX: usize = 3;

/// The longest answer that is read.
const ANSWER_MAX: u64 = 4096;

/// Where questions are asked.
pub struct Terminal<R, W> {
    input: R,
    output: W,
    /// Whether a person can answer.
    interactive: bool,
}

/// Returns the value of a flag, or asks for it.
pub fn required(
    given: Option<String>,
    flag: &str,
    question: &str,
    check: fn(&str) -> Result<String, String>,
) -> Result<String, Failure> {
    match given {
        Some(text) => check(&text).map_err(Failure::usage),
        None => asked(question, &format!("--{flag} is missing: {question}"), check),
    }
}

/// Asks on the terminal of this process; without one, fails with the sentence of a missing answer.
pub fn asked(
    question: &str,
    missing: &str,
    check: impl Fn(&str) -> Result<String, String>,
) -> Result<String, Failure> {
    let interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
    let terminal = Terminal { input: io::stdin().lock(), output: io::stderr(), interactive };
    terminal.ask(question, missing, check)
}

// === impl Terminal ===

impl<R: BufRead, W: Write> Terminal<R, W> {
    /// Asks until an answer is good, a few times.
    fn ask(
        mut self,
        question: &str,
        missing: &str,
        check: impl Fn(&str) -> Result<String, String>,
    ) -> Result<String, Failure> {
        let missing = || Failure::usage(missing);
        if !self.interactive {
            return Err(missing());
        }
        for _ in 0..ATTEMPTS_MAX {
            // A terminal that is gone gives no answer either.
            let _ = write!(self.output, "{question}: ").and_then(|()| self.output.flush());
            let mut line = String::new();
            let read = self.input.by_ref().take(ANSWER_MAX).read_line(&mut line);
            if read.is_err() || line.is_empty() {
                break;
            }
            match check(line.trim()) {
                Ok(text) => return Ok(text),
                Err(why) => drop(writeln!(self.output, "{why}")),
            }
        }
        Err(missing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaffold::names;

    const MISSING: &str = "--version is missing: which version";

    fn ask(input: &str, interactive: bool) -> (Result<String, String>, String) {
        let mut output = Vec::new();
        let terminal = Terminal { input: input.as_bytes(), output: &mut output, interactive };
        let answer = terminal.ask("which version", MISSING, names::version);
        let answer = answer.map_err(|failure| failure.to_string());
        (answer, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_good_answer_is_taken() {
        let (answer, shown) = ask("  v1beta1 \nv1\n", true);
        assert_eq!((answer.as_deref(), shown.as_str()), (Ok("v1beta1"), "which version: "));
    }

    #[test]
    fn a_wrong_answer_is_explained_and_asked_for_again() {
        let (answer, shown) = ask("1\nv1\n", true);
        let expected = "which version: \"1\" is not a version such as v1, v1beta1 or v1alpha1\n\
                        which version: ";
        assert_eq!((answer.as_deref(), shown.as_str()), (Ok("v1"), expected));
    }

    #[test]
    fn three_wrong_answers_or_the_end_of_input_are_a_missing_flag() {
        let (answer, shown) = ask("1\n2\n3\nv1\n", true);
        assert_eq!(answer, Err(MISSING.to_owned()));
        assert_eq!(shown.matches("which version: ").count(), 3);
        assert_eq!(ask("", true), (Err(MISSING.to_owned()), "which version: ".to_owned()));
    }

    #[test]
    fn nothing_is_asked_in_a_pipe() {
        assert_eq!(ask("v1\n", false), (Err(MISSING.to_owned()), String::new()));
    }
}
