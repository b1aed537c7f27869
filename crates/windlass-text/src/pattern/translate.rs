//! From Go's syntax to that of the `regex` crate.

use super::class::{self, Class};
use super::escape::{self, Scalar};
use super::fault;

/// Go's limit for repeat counts, also for the product of nested ones.
const REPEAT_MAX: u32 = 1000;

/// Writes a pattern of Go in the syntax of the `regex` crate.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    Translator::new(pattern).run()
}

/// The flags that `(?flags)` sets.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Flags {
    ignore_case: bool,
    multi_line: bool,
    dot_newline: bool,
    ungreedy: bool,
}

/// What a repetition operator would repeat.
#[derive(Clone, Copy)]
struct Atom {
    /// Where it begins in the output.
    start: usize,
    /// The largest product of nested repeat counts in it.
    repeats: u32,
    is_repetition: bool,
}

/// A group that is open.
struct Group {
    start: usize,
    /// The flags that hold again after the group, as read and as written.
    flags: Flags,
    written: Flags,
    repeats: u32,
}

struct Translator<'a> {
    text: &'a str,
    at: usize,
    out: String,
    open: Vec<Group>,
    flags: Flags,
    /// The flags that hold at the end of the output.
    written: Flags,
    atom: Option<Atom>,
    /// Where the repetition operator begins that was read last, if nothing followed it yet.
    operator: Option<usize>,
    /// The largest product of nested repeat counts in the group that is open.
    repeats: u32,
    class: Class,
}

// === impl Flags ===

impl Flags {
    fn set(&mut self, name: char, value: bool) -> bool {
        let flag = match name {
            'i' => &mut self.ignore_case,
            'm' => &mut self.multi_line,
            's' => &mut self.dot_newline,
            'U' => &mut self.ungreedy,
            _ => return false,
        };
        *flag = value;
        true
    }

    /// The text that turns `from` into these flags: `i-m`, for example.
    fn difference(self, from: Self) -> String {
        let all = [
            ('i', self.ignore_case, from.ignore_case),
            ('m', self.multi_line, from.multi_line),
            ('s', self.dot_newline, from.dot_newline),
            ('U', self.ungreedy, from.ungreedy),
        ];
        let changed = |to: bool| {
            let changed = all.iter().filter(move |(_, new, old)| new != old && *new == to);
            changed.map(|(name, ..)| *name).collect::<String>()
        };
        let (on, off) = (changed(true), changed(false));
        if off.is_empty() { on } else { format!("{on}-{off}") }
    }
}

// === impl Translator ===

impl<'a> Translator<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            out: String::with_capacity(text.len() + 8),
            open: Vec::new(),
            flags: Flags::default(),
            written: Flags::default(),
            atom: None,
            operator: None,
            repeats: 1,
            class: Class::default(),
        }
    }

    fn run(mut self) -> Result<String, String> {
        while let Some(c) = self.rest().chars().next() {
            let operator = self.operator.take();
            match c {
                '(' if self.rest().starts_with("(?") => self.flagged_group()?,
                '(' => {
                    self.at += 1;
                    self.open_group(self.flags);
                }
                ')' => self.close_group()?,
                '|' => {
                    self.at += 1;
                    self.out.push('|');
                    self.atom = None;
                }
                '*' => self.repeat(1, "*", operator)?,
                '+' => self.repeat(1, "+", operator)?,
                '?' => self.repeat(1, "?", operator)?,
                '{' => self.brace(operator)?,
                '[' => self.bracket()?,
                '\\' => self.backslash()?,
                '^' | '$' | '.' => {
                    self.at += 1;
                    self.push(c.encode_utf8(&mut [0; 4]));
                }
                _ => {
                    self.at += c.len_utf8();
                    self.push(&Scalar::from(c).literal());
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

    /// Writes something that can be repeated.
    fn push(&mut self, atom: &str) {
        self.write_flags();
        let start = self.out.len();
        self.out.push_str(atom);
        self.atom = Some(Atom { start, repeats: 1, is_repetition: false });
    }

    /// Writes flags only when something follows to which they apply, because what precedes them
    /// can still be repeated: `a(?i)*` is `a*`.
    fn write_flags(&mut self) {
        if self.flags != self.written {
            self.out.push_str(&format!("(?{})", self.flags.difference(self.written)));
            self.written = self.flags;
        }
    }

    fn open_group(&mut self, inside: Flags) {
        self.write_flags();
        self.open.push(Group {
            start: self.out.len(),
            flags: self.flags,
            written: self.written,
            repeats: std::mem::replace(&mut self.repeats, 1),
        });
        self.out.push_str(&format!("(?{}:", inside.difference(self.written)));
        (self.flags, self.written) = (inside, inside);
        self.atom = None;
    }

    fn close_group(&mut self) -> Result<(), String> {
        let Some(group) = self.open.pop() else { return Err(fault("unexpected )", self.text)) };
        self.at += 1;
        self.out.push(')');
        let repeats = self.repeats;
        self.repeats = repeats.max(group.repeats);
        self.atom = Some(Atom { start: group.start, repeats, is_repetition: false });
        (self.flags, self.written) = (group.flags, group.written);
        Ok(())
    }

    /// Reads what begins with `(?`: a named group, flags for the rest, or a group with flags.
    fn flagged_group(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let named = rest.strip_prefix("(?P<").or_else(|| rest.strip_prefix("(?<"));
        if let Some(name) = named.filter(|name| !name.is_empty()) {
            let end = name.find('>').ok_or_else(|| fault("invalid named capture", rest))?;
            let used = rest.len() - name.len() + end + 1;
            let good = |c: char| c == '_' || c.is_ascii_alphanumeric();
            if end == 0 || !name[..end].chars().all(good) {
                return Err(fault("invalid named capture", &rest[..used]));
            }
            self.at += used;
            self.open_group(self.flags);
            return Ok(());
        }
        let (mut flags, mut value, mut seen, mut end) = (self.flags, true, false, 2);
        for c in rest[2..].chars() {
            end += c.len_utf8();
            match c {
                '-' if value => (value, seen) = (false, false),
                ':' | ')' if value || seen => {
                    self.at += end;
                    match c {
                        ':' => self.open_group(flags),
                        _ => self.flags = flags,
                    }
                    return Ok(());
                }
                c if flags.set(c, value) => seen = true,
                _ => break,
            }
        }
        Err(fault("invalid or unsupported Perl syntax", &rest[..end]))
    }

    fn brace(&mut self, operator: Option<usize>) -> Result<(), String> {
        let Some((len, min, max)) = escape::count(self.rest()) else {
            self.at += 1;
            self.push("\\{");
            return Ok(());
        };
        let limit = max.unwrap_or(min);
        if min > REPEAT_MAX || limit > REPEAT_MAX || limit < min {
            return Err(fault("invalid repeat count", &self.rest()[..len]));
        }
        let text = &self.rest()[..len];
        let start = self.at;
        self.repeat(len, text, operator)?;
        let atom = self.atom.as_mut().filter(|_| max != Some(0));
        if let Some(atom) = atom {
            atom.repeats = atom.repeats.saturating_mul(limit.max(1));
            self.repeats = self.repeats.max(atom.repeats);
            if atom.repeats > REPEAT_MAX && limit >= 2 {
                return Err(fault("invalid repeat count", &self.text[start..self.at]));
            }
        }
        Ok(())
    }

    /// Writes a repetition operator of this length for the last atom.
    fn repeat(&mut self, len: usize, text: &str, operator: Option<usize>) -> Result<(), String> {
        let start = self.at;
        self.at += len;
        let lazy = self.rest().starts_with('?');
        self.at += usize::from(lazy);
        if let Some(begin) = operator {
            let part = &self.text[begin..self.at];
            return Err(fault("invalid nested repetition operator", part));
        }
        let Some(atom) = &mut self.atom else {
            let part = &self.text[start..self.at];
            return Err(fault("missing argument to repetition operator", part));
        };
        if atom.is_repetition {
            self.out.insert_str(atom.start, "(?:");
            self.out.push(')');
        }
        atom.is_repetition = true;
        self.out.push_str(text);
        if lazy {
            self.out.push('?');
        }
        self.operator = Some(start);
        Ok(())
    }

    fn bracket(&mut self) -> Result<(), String> {
        let (len, class) = self.class.read(self.rest())?;
        self.at += len;
        self.push(&class);
        Ok(())
    }

    fn backslash(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let assertion = match rest.as_bytes().get(1) {
            Some(b'A') => Some("\\A"),
            Some(b'z') => Some("\\z"),
            Some(b'b') => Some("(?-u:\\b)"),
            Some(b'B') => Some("(?-u:\\B)"),
            Some(b'C') => return Err(fault("invalid escape sequence", "\\C")),
            Some(b'Q') => {
                self.quotation();
                return Ok(());
            }
            _ => None,
        };
        if let Some(assertion) = assertion {
            self.at += 2;
            self.push(assertion);
            return Ok(());
        }
        if let Some((len, class)) = class::escaped(rest)? {
            self.at += len;
            self.push(&class);
            return Ok(());
        }
        let (len, scalar) = escape::read(rest)?;
        self.at += len;
        self.push(&scalar.literal());
        Ok(())
    }

    /// Reads `\Q...\E`, which quotes everything between.
    fn quotation(&mut self) {
        let body = &self.rest()[2..];
        let end = body.find("\\E");
        for c in body[..end.unwrap_or(body.len())].chars() {
            self.push(&Scalar::from(c).literal());
        }
        self.at += 2 + end.map_or(body.len(), |end| end + 2);
    }
}
