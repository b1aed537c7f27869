//! Classes of characters: brackets, names, and the escapes `\d`, `\w`, `\s`, `\p`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::escape::{self, Scalar};
use super::fault;

/// A class that contains no character.
pub(super) const NOTHING: &str = "[^\\x{0}-\\x{10FFFF}]";

/// The names that Go knows for `[:name:]`.
const NAMES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// The names that Go knows for `\p{name}`, in lower case, with the name of the group for the
/// `regex` crate (empty: no character of a text is in the group). `cargo xtask go-patterns` writes the file.
static GROUPS: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    let lines = include_str!("../../data/go-unicode-groups.tsv").lines();
    lines.filter_map(|line| line.split_once('\t')).collect()
});

/// Reads classes in brackets.
#[derive(Default)]
pub(super) struct Class {
    /// There is no `:]` in the rest of the pattern, so that it is looked for only once.
    no_names: bool,
}

// === impl Class ===

impl Class {
    /// Reads a class that begins with `[`; returns its length and the translation.
    pub fn read(&mut self, text: &str) -> Result<(usize, String), String> {
        let mut out = String::from("[");
        let mut at = 1;
        if text[at..].starts_with('^') {
            at += 1;
            out.push('^');
        }
        let first = at;
        while at == first || !text[at..].starts_with(']') {
            let rest = &text[at..];
            let item = match self.named(rest)? {
                Some(item) => Some(item),
                None => escaped(rest)?,
            };
            at += match item {
                Some((len, item)) => {
                    out.push_str(&item);
                    len
                }
                None => range(text, at, &mut out)?,
            };
        }
        out.push(']');
        Ok((at + 1, out))
    }

    /// Reads `[:name:]` or `[:^name:]`.
    fn named(&mut self, text: &str) -> Result<Option<(usize, String)>, String> {
        if self.no_names || !text.starts_with("[:") {
            return Ok(None);
        }
        let Some(end) = text[2..].find(":]").map(|end| end + 2) else {
            self.no_names = true;
            return Ok(None);
        };
        let name = &text[2..end];
        if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(fault("invalid character class range", &text[..end + 2]));
        }
        Ok(Some((end + 2, text[..end + 2].to_owned())))
    }
}

/// Reads a character or a range in a class; returns its length.
///
/// A `-` that is not between two characters is itself: after a range or a class, and at the end.
fn range(class: &str, at: usize, out: &mut String) -> Result<usize, String> {
    let (mut len, low) = character(class, at)?;
    let mut high = low;
    let rest = &class[at + len..];
    if rest.starts_with('-') && rest.len() > 1 && !rest.starts_with("-]") {
        let (used, last) = character(class, at + len + 1)?;
        len += 1 + used;
        high = last;
        if high < low {
            return Err(fault("invalid character class range", &class[at..at + len]));
        }
    }
    // Surrogates are no characters of a text, so a range begins after them or ends before them.
    let low = char::from_u32(low.0).map_or(0xE000, u32::from);
    let high = char::from_u32(high.0).map_or(0xD7FF, u32::from);
    out.push_str(&match low > high {
        true => NOTHING.to_owned(),
        false => format!("\\x{{{low:X}}}-\\x{{{high:X}}}"),
    });
    Ok(len)
}

fn character(class: &str, at: usize) -> Result<(usize, Scalar), String> {
    let rest = &class[at..];
    match rest.chars().next() {
        None => Err(fault("missing closing ]", class)),
        Some('\\') => escape::read(rest),
        Some(c) => Ok((c.len_utf8(), Scalar::from(c))),
    }
}

/// Reads an escape that is a class; returns its length and the translation.
pub(super) fn escaped(text: &str) -> Result<Option<(usize, String)>, String> {
    let Some(c) = text.strip_prefix('\\').and_then(|rest| rest.chars().next()) else {
        return Ok(None);
    };
    let class = match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[\\t\\n\\x0c\\r ]",
        'S' => "[^\\t\\n\\x0c\\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        'p' | 'P' => return group(text, c == 'P').map(Some),
        _ => return Ok(None),
    };
    Ok(Some((2, class.to_owned())))
}

/// Reads `\pN`, `\p{Name}` or `\p{^Name}`.
fn group(text: &str, mut negated: bool) -> Result<(usize, String), String> {
    let wrong = |part: &str| fault("invalid character class range", part);
    let body = &text[2..];
    let (len, name) = match body.chars().next() {
        Some('{') => {
            let end = body.find('}').ok_or_else(|| wrong(text))?;
            (2 + end + 1, &body[1..end])
        }
        Some(c) => (2 + c.len_utf8(), &body[..c.len_utf8()]),
        None => (2, ""),
    };
    let name = match name.strip_prefix('^') {
        Some(name) => {
            negated = !negated;
            name
        }
        None => name,
    };
    let skipped = |c: &char| !matches!(c, '_' | '-' | ' ');
    let canonical: String = name.chars().filter(skipped).collect();
    let group = GROUPS.get(canonical.to_ascii_lowercase().as_str());
    let group = group.ok_or_else(|| wrong(&text[..len]))?;
    let class = match (group.is_empty(), negated) {
        (true, false) => NOTHING.to_owned(),
        (true, true) => "[\\x{0}-\\x{10FFFF}]".to_owned(),
        (false, false) => format!("\\p{{{group}}}"),
        (false, true) => format!("\\P{{{group}}}"),
    };
    Ok((len, class))
}
