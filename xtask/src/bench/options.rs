//! What is asked for on the command line.

use super::plan::scenarios;

/// What is asked for.
#[derive(Debug, Default)]
pub struct Options {
    /// Small sizes and few rounds, to see that everything works.
    pub quick: bool,
    /// Which scenarios, as patterns with `*`, separated by commas.
    pub only: Option<String>,
    /// How many pods contestants get, instead of the usual numbers.
    pub sizes: Vec<usize>,
    /// How often each contestant is measured.
    pub rounds: usize,
    /// Measures nothing and writes the page from the last results.
    pub report: bool,
    /// Takes what is built already.
    pub built: bool,
}

// === impl Options ===

impl Options {
    /// Reads the words after `bench`.
    pub fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match *word {
                "--quick" => options.quick = true,
                "--report" => options.report = true,
                "--no-build" => options.built = true,
                "--only" => options.only = Some(patterns(words.next().copied())?),
                "--sizes" => {
                    let sizes = words.next().map(|list| list.split(',').map(str::parse).collect());
                    options.sizes = sizes
                        .and_then(Result::ok)
                        .ok_or("--sizes takes numbers, separated by commas")?;
                }
                "--rounds" => {
                    let count = words.next().and_then(|word| word.parse().ok());
                    options.rounds = count.ok_or("--rounds takes a number")?;
                }
                other => return Err(format!("bench knows no {other:?}")),
            }
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { 1 } else { 3 };
        }
        Ok(options)
    }

    /// Returns `true` if a scenario is asked for.
    pub fn wants(&self, scenario: &str) -> bool {
        self.only.as_ref().is_none_or(|only| fits(only, scenario))
    }
}

/// Refuses a pattern that no scenario fits: nothing would be measured, after a long build.
fn patterns(word: Option<&str>) -> Result<String, String> {
    let known = scenarios();
    let word = word.ok_or("--only takes patterns of scenarios, separated by commas")?;
    let strange =
        word.split(',').find(|pattern| !known.iter().any(|scenario| fits(pattern, scenario)));
    match strange {
        None => Ok(word.to_owned()),
        Some(strange) => {
            Err(format!("no scenario fits {strange:?}; there are {}", known.join(", ")))
        }
    }
}

/// Returns `true` if a name matches one of the patterns, in which `*` matches anything.
fn fits(pattern: &str, name: &str) -> bool {
    if let Some((first, others)) = pattern.split_once(',') {
        return fits(first, name) || fits(others, name);
    }
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(head) else { return false };
    (0..=name.len()).filter(|at| name.is_char_boundary(*at)).any(|at| fits(rest, &name[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_with_stars_anywhere() {
        assert!(fits("sync*", "sync-meta") && fits("*", "x") && fits("*meta", "sync-meta"));
        assert!(!fits("sync", "sync-meta") && !fits("s*x", "sync"));
        assert!(fits("queue,sync*", "sync-meta") && !fits("queue,sync", "sync-meta"));
    }

    #[test]
    fn a_pattern_that_no_scenario_fits_is_refused_with_the_list_of_them() {
        let why = Options::parse(&["--only", "sync,quueue"]).unwrap_err();
        assert!(why.starts_with("no scenario fits \"quueue\"; there are "), "{why}");
        assert!(why.contains(" queue,") && why.contains(" reconcile-key,"), "{why}");
        assert!(Options::parse(&["--only"]).is_err());
        assert!(Options::parse(&["--only", "sync*,queue"]).unwrap().wants("sync-meta"));
    }
}
