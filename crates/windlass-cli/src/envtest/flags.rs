//! Command lines as Go programs read them: `--name=value`, `--name value`, `--switch`.

use std::collections::BTreeMap;

/// The flags of a command line.
///
/// The programs that envtest starts have hundreds of flags. What is not known here is accepted, so
/// whether `--name` takes the following argument as its value is decided by how that one looks.
#[derive(Debug, Default)]
pub struct Flags {
    values: BTreeMap<String, Vec<String>>,
}

// === impl Flags ===

impl Flags {
    /// Reads a command line. Arguments that are not flags are ignored, as are their values.
    pub fn parse(args: Vec<String>) -> Self {
        let mut flags = Self::default();
        let mut args = args.into_iter().peekable();
        while let Some(arg) = args.next() {
            let Some(flag) = arg.strip_prefix('-') else { continue };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => match args.next_if(|next| !next.starts_with('-')) {
                    Some(value) => (flag, value),
                    None => (flag, "true".to_owned()),
                },
            };
            if !name.is_empty() {
                flags.values.entry(name.to_owned()).or_default().push(value);
            }
        }
        flags
    }

    /// Returns the value of a flag; the last one if it was given several times.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.last().map(String::as_str)
    }

    /// Returns the parts of all values of a flag that takes a list.
    pub fn list(&self, name: &str) -> Vec<&str> {
        let values = self.values.get(name).into_iter().flatten();
        let parts = values.flat_map(|value| value.split(',')).map(str::trim);
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// Returns the names of the flags that were given, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Flags {
        Flags::parse(line.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn flags_take_their_value_after_an_equals_sign_or_as_the_next_argument() {
        let flags = parse("--a=1 --b 2 --switch --c=x=y -v=4 stray");
        assert_eq!((flags.get("a"), flags.get("b")), (Some("1"), Some("2")));
        assert_eq!((flags.get("switch"), flags.get("c")), (Some("true"), Some("x=y")));
        assert_eq!((flags.get("v"), flags.get("stray")), (Some("4"), None));
    }

    #[test]
    fn lists_are_joined_over_all_occurrences_and_the_last_single_value_wins() {
        let flags = parse("--p=A,B --p=C --n=1 --n=2 --empty=");
        assert_eq!(flags.list("p"), ["A", "B", "C"]);
        assert_eq!(flags.get("n"), Some("2"));
        assert!(flags.list("empty").is_empty() && flags.list("none").is_empty());
        assert_eq!(flags.names().collect::<Vec<_>>(), ["empty", "n", "p"]);
    }
}
