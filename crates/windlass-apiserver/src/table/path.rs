//! Paths of printer columns: a small JSONPath.

use serde_json::Value;

/// Values a path may find at once, and steps it may have.
const FOUND_MAX: usize = 10_000;
const STEPS_MAX: usize = 256;

/// A parsed path like `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>, i64),
    All,
    Deep(String),
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: JsonPath,
    compare: Option<(Compare, Operand)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Value(Value),
    Path(JsonPath),
}

// === impl JsonPath ===

impl JsonPath {
    /// Parses a path, with or without `$` and surrounding braces.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        let text = text.strip_prefix(['$', '@']).unwrap_or(text);
        let mut rest = text;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if steps.len() >= STEPS_MAX {
                return Err(format!("path has more than {STEPS_MAX} steps: shorten it"));
            }
            let (step, after) = step(rest)?;
            steps.extend(step);
            rest = after;
        }
        Ok(Self(steps))
    }

    /// Returns the values it leads to, in order.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.0 {
            let mut next = Vec::new();
            for value in found {
                step.apply(value, &mut next);
                if next.len() > FOUND_MAX {
                    next.truncate(FOUND_MAX);
                    break;
                }
            }
            found = next;
        }
        found
    }
}

// === impl Step ===

impl Step {
    fn apply<'a>(&self, value: &'a Value, out: &mut Vec<&'a Value>) {
        match self {
            Self::Field(name) => out.extend(value.get(name)),
            Self::Index(at) => {
                if let Some(list) = value.as_array() {
                    out.extend(position(*at, list.len()).and_then(|at| list.get(at)));
                }
            }
            Self::Slice(from, to, by) => {
                if let Some(list) = value.as_array() {
                    let bound = |at: i64| match at < 0 {
                        true => usize::try_from(at + list.len() as i64).unwrap_or(0),
                        false => usize::try_from(at).unwrap_or(usize::MAX).min(list.len()),
                    };
                    let (from, to) = (bound(from.unwrap_or(0)), to.map_or(list.len(), bound));
                    let by = usize::try_from(*by).unwrap_or(1).max(1);
                    out.extend(list.iter().take(to).skip(from).step_by(by));
                }
            }
            Self::All => match value {
                Value::Array(list) => out.extend(list),
                Value::Object(map) => out.extend(map.values()),
                _ => {}
            },
            Self::Deep(name) => deep(value, name, out),
            Self::Filter(filter) => {
                let list = value.as_array().into_iter().flatten();
                out.extend(list.filter(|item| filter.holds(item)));
            }
        }
    }
}

// === impl Filter ===

impl Filter {
    fn holds(&self, item: &Value) -> bool {
        let left = self.left.find(item);
        let Some((compare, operand)) = &self.compare else { return !left.is_empty() };
        let Some(left) = left.first() else { return false };
        let right = match operand {
            Operand::Value(value) => value,
            Operand::Path(path) => match path.find(item).first() {
                Some(value) => *value,
                None => return false,
            },
        };
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => {
                a.as_f64().unwrap_or(0.0).partial_cmp(&b.as_f64().unwrap_or(0.0))
            }
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match compare {
            Compare::Equal => *left == right,
            Compare::NotEqual => *left != right,
            Compare::Less => order.is_some_and(|o| o.is_lt()),
            Compare::LessOrEqual => order.is_some_and(|o| o.is_le()),
            Compare::Greater => order.is_some_and(|o| o.is_gt()),
            Compare::GreaterOrEqual => order.is_some_and(|o| o.is_ge()),
        }
    }
}

/// Everything called `name` below a value, without recursion on the stack.
fn deep<'a>(value: &'a Value, name: &str, out: &mut Vec<&'a Value>) {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        if out.len() > FOUND_MAX {
            return;
        }
        match value {
            Value::Object(map) => {
                out.extend(map.get(name));
                waiting.extend(map.values().rev());
            }
            Value::Array(list) => waiting.extend(list.iter().rev()),
            _ => {}
        }
    }
}

fn position(at: i64, length: usize) -> Option<usize> {
    if at >= 0 { usize::try_from(at).ok() } else { length.checked_sub(at.unsigned_abs() as usize) }
}

/// The steps at the start of a text (none for a lone dot) and the rest.
fn step(text: &str) -> Result<(Option<Step>, &str), String> {
    if let Some(rest) = text.strip_prefix("..") {
        let (name, rest) = word(rest);
        return Ok((Some(Step::Deep(name)), rest));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let end = closing(rest).ok_or_else(|| format!("unterminated array in {text:?}"))?;
        return Ok((Some(bracket(&rest[..end])?), &rest[end + 1..]));
    }
    let rest = text.strip_prefix('.').unwrap_or(text);
    if let Some(rest) = rest.strip_prefix('*') {
        return Ok((Some(Step::All), rest));
    }
    let (name, after) = word(rest);
    match name.is_empty() {
        false => Ok((Some(Step::Field(name)), after)),
        true if rest.len() < text.len() => Ok((None, rest)),
        true => Err(format!("unrecognized character in path at {text:?}")),
    }
}

/// A field name; a backslash takes the next character as it is.
fn word(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[at..]),
            c => name.push(c),
        }
    }
    (name, "")
}

/// The position of the bracket that closes, quotes and inner brackets skipped.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quoted) = (0usize, None);
    for (at, c) in text.char_indices() {
        match (quoted, c) {
            (Some(q), c) if c == q => quoted = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quoted = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Result<Step, String> {
    let text = text.trim();
    if text == "*" {
        return Ok(Step::All);
    }
    if let Some(condition) = text.strip_prefix("?(").and_then(|t| t.strip_suffix(')')) {
        return Ok(Step::Filter(filter(condition)?));
    }
    if let Some(name) = unquote(text) {
        return Ok(Step::Field(name.to_owned()));
    }
    let number = |part: &str| -> Result<Option<i64>, String> {
        match part.trim() {
            "" => Ok(None),
            part => part.parse().map(Some).map_err(|_| format!("invalid array index {part}")),
        }
    };
    match text.split_once(':') {
        Some((from, to)) => {
            let (to, by) = to.split_once(':').unwrap_or((to, ""));
            Ok(Step::Slice(number(from)?, number(to)?, number(by)?.unwrap_or(1)))
        }
        None => match number(text)? {
            Some(at) => Ok(Step::Index(at)),
            None => Ok(Step::All),
        },
    }
}

fn filter(text: &str) -> Result<Filter, String> {
    let operators = [
        ("==", Compare::Equal),
        ("!=", Compare::NotEqual),
        ("<=", Compare::LessOrEqual),
        (">=", Compare::GreaterOrEqual),
        ("<", Compare::Less),
        (">", Compare::Greater),
    ];
    let found = operators
        .iter()
        .filter_map(|(sign, compare)| text.find(sign).map(|at| (at, *sign, *compare)))
        .min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()));
    let Some((at, sign, compare)) = found else {
        return Ok(Filter { left: relative(text)?, compare: None });
    };
    let right = text[at + sign.len()..].trim();
    let operand = if right.starts_with('@') {
        Operand::Path(relative(right)?)
    } else if let Some(text) = unquote(right) {
        Operand::Value(text.into())
    } else {
        let parsed = serde_json::from_str(right);
        Operand::Value(parsed.map_err(|_| format!("cannot compare with {right}"))?)
    };
    Ok(Filter { left: relative(&text[..at])?, compare: Some((compare, operand)) })
}

/// A path from the item; filters inside of filters are not followed.
fn relative(text: &str) -> Result<JsonPath, String> {
    let text = text.trim();
    if text.contains("?(") {
        return Err(format!("filters inside of filters are not supported: {text:?}"));
    }
    JsonPath::parse(text)
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|q| text.strip_prefix(q)?.strip_suffix(q))
}
