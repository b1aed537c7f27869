//! A parsed body: what was written, in its order, with its duplicates.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Number, Value};

/// One JSON value that borrows from the body where it can.
#[derive(Clone, Debug, PartialEq)]
pub enum Node<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it is written.
    Number(Cow<'a, str>),
    /// Text.
    String(Cow<'a, str>),
    /// A list.
    Array(Vec<Node<'a>>),
    /// An object: its entries in their order, equal keys included.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

// === impl Node ===

impl<'a> Node<'a> {
    /// Creates a node that borrows from a value.
    pub fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Number(n) => Self::Number(n.to_string().into()),
            Value::String(text) => Self::String(Cow::Borrowed(text)),
            Value::Array(items) => Self::Array(items.iter().map(Self::of).collect()),
            Value::Object(map) => Self::Object(
                map.iter().map(|(k, v)| (Cow::Borrowed(k.as_str()), Self::of(v))).collect(),
            ),
        }
    }

    /// Returns the last entry of an object under a key.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        match self {
            Self::Object(entries) => entries.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Returns the text of a string.
    #[cfg(test)]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns what it is called in error texts.
    pub fn what(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Returns the value as an untyped decoder gives it: of equal keys the last one counts.
    ///
    /// # Errors
    /// The text of a number that no float holds.
    pub fn to_value(&self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(*b),
            Self::Number(text) => number(text)?,
            Self::String(text) => Value::String(text.clone().into_owned()),
            Self::Array(items) => {
                Value::Array(items.iter().map(Self::to_value).collect::<Result<_, _>>()?)
            }
            Self::Object(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    map.insert(key.clone().into_owned(), value.to_value()?);
                }
                Value::Object(map)
            }
        })
    }

    /// Returns the paths of duplicate keys of one object, as `duplicate field "a.b[0].c"`.
    pub fn duplicates(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.find_duplicates(&mut String::new(), &mut found);
        found
    }

    fn find_duplicates(&self, path: &mut String, found: &mut Vec<String>) {
        let end = path.len();
        match self {
            Self::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{index}]"));
                    item.find_duplicates(path, found);
                    path.truncate(end);
                }
            }
            Self::Object(entries) => {
                let mut seen = Seen::new(entries.len());
                for (key, value) in entries {
                    if end > 0 {
                        path.push('.');
                    }
                    path.push_str(key);
                    if seen.again(key) && found.len() < super::STRICT_MAX {
                        let text = format!("duplicate field \"{path}\"");
                        if !found.contains(&text) {
                            found.push(text);
                        }
                    }
                    value.find_duplicates(path, found);
                    path.truncate(end);
                }
            }
            _ => {}
        }
    }
}

/// The keys of one object so far: a list while they are few, then a set.
pub enum Seen<'k> {
    /// A few keys.
    Few(Vec<&'k str>),
    /// Many keys.
    Many(HashSet<&'k str>),
}

// === impl Seen ===

impl<'k> Seen<'k> {
    /// Makes room for an object of so many entries.
    pub fn new(len: usize) -> Self {
        match len {
            0..=24 => Self::Few(Vec::with_capacity(len)),
            _ => Self::Many(HashSet::with_capacity(len)),
        }
    }

    /// Adds a key, and returns `true` if it was already there.
    pub fn again(&mut self, key: &'k str) -> bool {
        match self {
            Self::Few(keys) => {
                let known = keys.contains(&key);
                if !known {
                    keys.push(key);
                }
                known
            }
            Self::Many(keys) => !keys.insert(key),
        }
    }
}

/// Returns a number as the server's untyped decoder keeps it: an integer if it is one, or a float.
pub fn number(text: &str) -> Result<Value, String> {
    let integer = !text.contains(['.', 'e', 'E']);
    if integer && let Ok(n) = text.parse::<i64>() {
        return Ok(n.into());
    }
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() => Ok(float(n)),
        _ => Err(format!("json: cannot unmarshal number {text} into Go value of type float64")),
    }
}

/// Returns a float as Go writes it: without a fraction if it has none.
pub fn float(n: f64) -> Value {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if n.fract() == 0.0 && n.abs() <= WHOLE_MAX {
        return Value::from(n as i64);
    }
    Number::from_f64(n).map_or(Value::Null, Value::Number)
}
