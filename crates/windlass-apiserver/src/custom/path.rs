//! Field paths of rules and selectable fields: `.spec.size`, `.spec['odd key']`.

use windlass_cel::Schema;

/// One step of a path: its name, and whether the field is declared.
pub type Step = (String, bool);

/// Follows a path through a schema.
///
/// # Errors
/// Why it is not a path of this schema.
pub fn resolve<'a>(
    path: &str,
    schema: &'a Schema,
    brackets: bool,
) -> Result<(Vec<Step>, &'a Schema), String> {
    let mut tokens = Tokens { rest: path };
    let mut steps = Vec::new();
    let mut node = Some(schema);
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" if !brackets => return Err("array notation is not allowed".into()),
            "[" => {
                let quoted = tokens.next().ok_or("unexpected end of JSON path")?;
                let inner = quoted
                    .strip_prefix('\'')
                    .and_then(|rest| rest.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                unescape(inner)?
            }
            "." => tokens.next().ok_or("unexpected end of JSON path")?.to_owned(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        let at = node.ok_or("does not refer to a valid field")?;
        let named = !at.properties.is_empty();
        node = match (named, &at.additional) {
            (true, _) => Some(at.properties.get(&name).ok_or("does not refer to a valid field")?),
            (false, Some(additional)) => additional.schema.as_deref(),
            (false, None) => return Err("does not refer to a valid field".into()),
        };
        steps.push((name, named));
        if token == "[" {
            match tokens.next() {
                Some("]") => {}
                Some(other) => return Err(format!("expected ] but got {other}")),
                None => return Err("unexpected end of JSON path".into()),
            }
        }
    }
    static EMPTY: std::sync::LazyLock<Schema> = std::sync::LazyLock::new(Schema::default);
    Ok((steps, node.unwrap_or(&EMPTY)))
}

/// Returns the path as error fields show it, without the leading dot; `None` if it is empty or
/// wrong.
pub fn normalized(path: &str, schema: &Schema) -> Option<String> {
    let path = path.trim();
    if path.is_empty() {
        return None;
    }
    let (steps, _) = resolve(path, schema, true).ok()?;
    Some(join(&steps))
}

/// Joins steps: declared fields with dots, map keys in brackets.
pub fn join(steps: &[Step]) -> String {
    let mut out = String::new();
    for (name, named) in steps {
        match (named, out.is_empty()) {
            (true, true) => out.push_str(name),
            (true, false) => out.push_str(&format!(".{name}")),
            (false, _) => out.push_str(&format!("[{name}]")),
        }
    }
    out
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some(escaped @ ('\'' | '\\' | '"' | '`')) => out.push(escaped),
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                _ => return Err(format!("invalid string literal: {text}")),
            },
            (c, false) => out.push(c),
        }
    }
    Ok(out)
}

struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let first = self.rest.chars().next()?;
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = self.rest.as_bytes();
                let close = (1..bytes.len()).find(|i| bytes[*i] == b'\'' && bytes[i - 1] != b'\\');
                close.map_or(self.rest.len(), |close| close + 1)
            }
            _ => self.rest.find(['.', '[', ']']).unwrap_or(self.rest.len()),
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}
