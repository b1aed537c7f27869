//! Patterns: Go's regular expressions on the `regex` crate.
//!
//! Both engines descend from RE2, but differ in details of syntax: what Go reads as ASCII classes
//! or literals is rewritten, and faults are told in Go's words, because clients see them.
//!
//! **Invariant:** matching is linear in the text; compiled programs are bounded by [`SIZE_MAX`].

use regex::{Regex, RegexBuilder};

/// Upper bound for one compiled pattern, in bytes.
pub const SIZE_MAX: usize = 4 << 20;

/// Go's limit of a repeat count.
const REPEAT_MAX: u32 = 1000;

/// The classes of characters that have names.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Compiles a pattern, or tells what is wrong with it as Go does.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    compile_within(pattern, SIZE_MAX)?.ok_or_else(|| too_large(pattern))
}

/// As [`compile`], but returns `None` for a pattern whose program has more than `size_max` bytes.
///
/// The time it takes is bounded by that size, too.
pub fn compile_within(pattern: &str, size_max: usize) -> Result<Option<Regex>, String> {
    let translated = Translator::new(pattern).run()?;
    match RegexBuilder::new(&translated).size_limit(size_max).nest_limit(200).build() {
        Ok(regex) => Ok(Some(regex)),
        Err(regex::Error::CompiledTooBig(_)) => Ok(None),
        Err(_) => Err(fault("invalid or unsupported Perl syntax", pattern)),
    }
}

/// The error of a pattern whose program is too large.
pub fn too_large(pattern: &str) -> String {
    fault("expression too large", pattern)
}

fn fault(what: &str, part: &str) -> String {
    format!("error parsing regexp: {what}: `{part}`")
}

struct Translator<'a> {
    text: &'a str,
    at: usize,
    out: String,
    open: Vec<usize>,
    /// Whether the last thing can be repeated, and where its repetition operators begin.
    atom: bool,
    repeat: Option<usize>,
}

impl<'a> Translator<'a> {
    fn new(text: &'a str) -> Self {
        let out = String::with_capacity(text.len() + 8);
        Self { text, at: 0, out, open: Vec::new(), atom: false, repeat: None }
    }

    fn run(mut self) -> Result<String, String> {
        while let Some(c) = self.rest().chars().next() {
            match c {
                '(' => self.group()?,
                ')' => {
                    if self.open.pop().is_none() {
                        return Err(fault("unexpected )", self.text));
                    }
                    self.take(c);
                    self.after_atom();
                }
                '|' => {
                    self.take(c);
                    self.atom = false;
                    self.repeat = None;
                }
                '*' | '+' | '?' => self.repetition(1)?,
                '{' => match self.count()? {
                    Some(len) => self.repetition(len)?,
                    None => {
                        self.out.push_str("\\{");
                        self.at += 1;
                        self.after_atom();
                    }
                },
                '[' => self.class()?,
                '\\' => self.escape(false)?,
                _ => {
                    if c == '}' {
                        self.out.push('\\');
                    }
                    self.take(c);
                    self.after_atom();
                }
            }
        }
        match self.open.is_empty() {
            true => Ok(self.out),
            false => Err(fault("missing closing )", self.text)),
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, c: char) {
        self.out.push(c);
        self.at += c.len_utf8();
    }

    fn after_atom(&mut self) {
        self.atom = true;
        self.repeat = None;
    }

    fn group(&mut self) -> Result<(), String> {
        let rest = self.rest();
        self.atom = false;
        self.repeat = None;
        let Some(flags) = rest.strip_prefix("(?") else {
            self.open.push(self.at);
            self.take('(');
            return Ok(());
        };
        if let Some(name) = flags.strip_prefix("P<").or_else(|| flags.strip_prefix('<')) {
            let end = name.find('>').ok_or_else(|| fault("invalid named capture", rest))?;
            let good = |c: char| c == '_' || c.is_ascii_alphanumeric();
            let used = rest.len() - name.len() + end + 1;
            if end == 0 || !name[..end].chars().all(good) {
                return Err(fault("invalid named capture", &rest[..used]));
            }
            self.out.push_str("(?P<");
            self.out.push_str(&name[..=end]);
            self.at += used;
            self.open.push(self.at);
            return Ok(());
        }
        let end = flags.find(|c: char| !matches!(c, 'i' | 'm' | 's' | 'U' | '-'));
        match end.map(|end| (end, flags.as_bytes()[end])) {
            Some((end, b':')) => self.open.push(self.at + end),
            Some((end, b')')) if end > 0 => {}
            Some((end, _)) => {
                let next = flags[end..].chars().next().map_or(0, char::len_utf8);
                let part = &rest[..2 + end + next];
                return Err(fault("invalid or unsupported Perl syntax", part));
            }
            None => return Err(fault("missing closing )", self.text)),
        }
        let used = 3 + end.unwrap_or_default();
        self.out.push_str(&rest[..used]);
        self.at += used;
        Ok(())
    }

    fn repetition(&mut self, len: usize) -> Result<(), String> {
        let operator = &self.rest()[..len];
        let start = self.at;
        if let Some(begin) = self.repeat {
            return Err(fault(
                "invalid nested repetition operator",
                &self.text[begin..start + len],
            ));
        }
        if !self.atom {
            return Err(fault("missing argument to repetition operator", operator));
        }
        self.out.push_str(operator);
        self.at += len;
        if self.rest().starts_with('?') {
            self.take('?');
        }
        self.repeat = Some(start);
        Ok(())
    }

    /// The length of a `{n,m}` that starts here, if it is one.
    fn count(&self) -> Result<Option<usize>, String> {
        let rest = self.rest();
        let Some(end) = rest.find('}') else { return Ok(None) };
        let (low, high) = match rest[1..end].split_once(',') {
            Some((low, high)) => (low, Some(high)),
            None => (&rest[1..end], None),
        };
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        let plain = |s: &str| digits(s) && (s.len() == 1 || !s.starts_with('0'));
        if !plain(low) || high.is_some_and(|h| !h.is_empty() && !plain(h)) {
            return Ok(None);
        }
        let number = |s: &str| s.parse::<u32>().unwrap_or(u32::MAX);
        let bad = fault("invalid repeat count", &rest[..=end]);
        let low = number(low);
        let high = high.filter(|h| !h.is_empty()).map(number);
        match low > REPEAT_MAX || high.is_some_and(|h| h > REPEAT_MAX || h < low) {
            true => Err(bad),
            false => Ok(Some(end + 1)),
        }
    }

    fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        self.take('[');
        if self.rest().starts_with('^') {
            self.take('^');
        }
        let mut first = true;
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else {
                return Err(fault("missing closing ]", &self.text[start..]));
            };
            match c {
                ']' if !first => break,
                '[' if rest.starts_with("[:") && rest.contains(":]") => {
                    let end = rest.find(":]").unwrap_or_default() + 2;
                    let name = rest[2..end - 2].trim_start_matches('^');
                    if !CLASSES.contains(&name) {
                        return Err(fault("invalid character class range", &rest[..end]));
                    }
                    self.out.push_str(&rest[..end]);
                    self.at += end;
                }
                '\\' => self.escape(true)?,
                '[' | ']' | '&' | '~' | '^' => {
                    self.out.push('\\');
                    self.take(c);
                }
                '-' if self.out.ends_with('-') || self.out.ends_with('[') => {
                    self.out.push('\\');
                    self.take(c);
                }
                _ => self.range(c)?,
            }
            first = false;
        }
        self.take(']');
        self.after_atom();
        Ok(())
    }

    /// A character in a class; a range that runs backwards is Go's `invalid character class range`.
    fn range(&mut self, low: char) -> Result<(), String> {
        let rest = self.rest();
        let mut chars = rest.chars().skip(1);
        if let (Some('-'), Some(high)) = (chars.next(), chars.next())
            && high != ']'
            && high != '\\'
            && high < low
        {
            let len = low.len_utf8() + 1 + high.len_utf8();
            return Err(fault("invalid character class range", &rest[..len]));
        }
        self.take(low);
        Ok(())
    }

    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let rest = self.rest();
        let Some(c) = rest[1..].chars().next() else {
            return Err("error parsing regexp: trailing backslash at end of expression: ``".into());
        };
        let inner = match c {
            'd' => "0-9",
            'w' => "0-9A-Za-z_",
            's' => "\\t\\n\\x0c\\r ",
            'D' => "^0-9",
            'W' => "^0-9A-Za-z_",
            'S' => "^\\t\\n\\x0c\\r ",
            _ => "",
        };
        if !inner.is_empty() {
            let bare = in_class && !inner.starts_with('^');
            match bare {
                true => self.out.push_str(inner),
                false => self.out.push_str(&format!("[{inner}]")),
            }
            self.at += 2;
            self.after_atom();
            return Ok(());
        }
        if c == 'Q' && !in_class {
            let body = &rest[2..];
            let end = body.find("\\E");
            self.out.push_str(&regex::escape(&body[..end.unwrap_or(body.len())]));
            self.at += 2 + end.map_or(body.len(), |end| end + 2);
            self.after_atom();
            return Ok(());
        }
        let kept = match c {
            'b' if !in_class => Some("(?-u:\\b)"),
            'B' if !in_class => Some("\\B"),
            'A' | 'z' if !in_class => None,
            'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'p' | 'P' | 'x' => None,
            '0' => Some("\\x00"),
            '<' => Some("<"),
            '>' => Some(">"),
            c if c.is_ascii_punctuation() => None,
            _ => return Err(fault("invalid escape sequence", &rest[..1 + c.len_utf8()])),
        };
        match kept {
            Some(text) => self.out.push_str(text),
            None => self.out.push_str(&rest[..1 + c.len_utf8()]),
        }
        self.at += 1 + c.len_utf8();
        if matches!(c, 'x' | 'p' | 'P') && self.rest().starts_with('{') {
            let end = self.rest().find('}').map_or(self.rest().len(), |end| end + 1);
            self.out.push_str(&self.rest()[..end]);
            self.at += end;
        }
        self.after_atom();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_as_go_tells_them() {
        let told = |pattern: &str| compile(pattern).unwrap_err();
        assert_eq!(told("(open"), "error parsing regexp: missing closing ): `(open`");
        assert_eq!(told("a)"), "error parsing regexp: unexpected ): `a)`");
        assert_eq!(
            told("(?=x)"),
            "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"
        );
        assert_eq!(told("a{3,2}"), "error parsing regexp: invalid repeat count: `{3,2}`");
        assert_eq!(told("[a"), "error parsing regexp: missing closing ]: `[a`");
        assert_eq!(told("*"), "error parsing regexp: missing argument to repetition operator: `*`");
        assert_eq!(told("a**"), "error parsing regexp: invalid nested repetition operator: `**`");
        assert_eq!(told("\\1"), "error parsing regexp: invalid escape sequence: `\\1`");
        assert_eq!(told("[z-a]"), "error parsing regexp: invalid character class range: `z-a`");
    }

    #[test]
    fn classes_are_ascii_and_odd_literals_work() {
        assert!(!compile("^\\d$").unwrap().is_match("٣"));
        assert!(compile("^[\\w.-]+$").unwrap().is_match("a_b.c-d"));
        assert!(compile("^a{$").unwrap().is_match("a{"));
        assert!(compile("^[[]$").unwrap().is_match("["));
        assert!(compile("^[+--]$").unwrap().is_match(","));
        assert!(compile("^\\Qa.b\\E$").unwrap().is_match("a.b"));
        assert!(compile("(?i)^AB$").unwrap().is_match("ab"));
        assert!(compile("^[a&&b]+$").unwrap().is_match("a&b"));
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_panics(pattern in "\\PC{0,24}") {
            let _ = compile(&pattern);
        }
    }
}
