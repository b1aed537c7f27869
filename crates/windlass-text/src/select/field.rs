//! Field selectors.

/// A conjunction of requirements on fields; without any it selects everything.
///
/// ```
/// use windlass_text::select::FieldSelector;
///
/// let selector = FieldSelector::parse("metadata.name!=a").unwrap();
/// assert!(selector.matches(|field| (field == "metadata.name").then_some("b")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field, `metadata.name`.
    pub field: String,
    /// Whether the field has to differ from the value.
    pub negated: bool,
    /// The value, unescaped.
    pub value: String,
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Parses the text of `fieldSelector=`.
    ///
    /// # Errors
    /// The text a server answers with (400).
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = split(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, negated, value)) = split_term(term) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            let value = unescape(value)?;
            requirements.push(FieldRequirement { field: field.to_owned(), negated, value });
        }
        Ok(Self { requirements })
    }

    /// Selects everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Returns `true` if everything is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns `true` if an object with these fields is selected; a missing field counts as empty.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|r| (lookup(&r.field).unwrap_or_default() == r.value) != r.negated)
    }

    /// The value a field must have, if one is required exactly.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let found = self.requirements.iter().find(|r| r.field == field && !r.negated)?;
        Some(&found.value)
    }

    /// Returns its requirements, sorted by their text.
    pub fn requirements(&self) -> impl Iterator<Item = &FieldRequirement> {
        self.requirements.iter()
    }
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        let rest = &term[at..];
        for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..at], negated, value));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence: String = ['\\'].into_iter().chain(other).collect();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    ));
                }
            },
            // The original prints the character's number.
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}
