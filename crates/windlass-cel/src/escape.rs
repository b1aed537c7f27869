//! Field names as identifiers.

/// Words with a meaning of their own in an expression.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Words that are reserved for later, and cannot be used as identifiers.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns `true` if a word cannot be used as an identifier.
pub fn is_reserved(word: &str) -> bool {
    KEYWORDS.contains(&word) || RESERVED.contains(&word)
}

/// Returns the identifier that denotes a field name, if there is one.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            '_' => out.push('_'),
            c if c.is_ascii_alphanumeric() => out.push(c),
            _ => return None,
        }
        rest = &rest[1..];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_on_the_real_server() {
        let table = [
            ("a-b", Some("a__dash__b")),
            ("c.d", Some("c__dot__d")),
            ("e/f", Some("e__slash__f")),
            ("x__y", Some("x__underscores__y")),
            ("___", Some("__underscores___")),
            ("namespace", Some("__namespace__")),
            ("self", Some("self")),
            ("_u", Some("_u")),
            ("9n", None),
            ("é", None),
            ("$ref", None),
            ("", None),
        ];
        for (name, expected) in table {
            assert_eq!(escape(name).as_deref(), expected, "{name}");
        }
    }
}
