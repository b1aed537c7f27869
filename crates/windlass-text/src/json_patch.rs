//! The operations of a JSON patch (RFC 6902), with the habits of the Go library that the API server
//! uses: `replace` may add a map key, `add` without a value adds null, negative indices count from
//! the end.

use serde_json::Value;

/// The most bytes all `copy` operations of a patch may add: copies of copies grow fast.
const COPY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How deep a patch may nest: moves can pile up what no body could hold, and walks recurse.
const DEPTH_MAX: usize = 110;

/// The operations of one patch, applied one after the other.
///
/// ```
/// use serde_json::json;
/// use windlass_text::json_patch::Steps;
///
/// let mut document = json!({"data": {"a": "1"}});
/// let mut steps = Steps::new();
/// let add = json!({"op": "add", "path": "/data/b", "value": "2"});
/// steps.apply(&mut document, &add).unwrap();
/// assert_eq!(document, json!({"data": {"a": "1", "b": "2"}}));
/// assert!(steps.apply(&mut document, &json!({"op": "remove", "path": "/none"})).is_err());
/// ```
#[derive(Debug, Default)]
pub struct Steps {
    copied: usize,
}

/// An operation that does not apply. The API server does not say why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operation does not apply")]
pub struct DoesNotApply;

// === impl Steps ===

impl Steps {
    /// Starts a patch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Carries out one operation.
    ///
    /// # Errors
    ///
    /// Fails if the operation does not apply; the document may be changed in part by a `move`.
    pub fn apply(&mut self, document: &mut Value, operation: &Value) -> Result<(), DoesNotApply> {
        run(document, operation, &mut self.copied).ok_or(DoesNotApply)
    }
}

/// Carries out one operation; `None` if it fails.
fn run(document: &mut Value, op: &Value, copied: &mut usize) -> Option<()> {
    let text = |key: &str| op.get(key).and_then(Value::as_str);
    let path = text("path");
    let value = || op.get("value").cloned().unwrap_or(Value::Null);
    match text("op")? {
        "add" => add(document, path?, value()),
        "remove" => remove(document, path?).map(drop),
        "replace" => replace(document, path?, value()),
        "move" => {
            let moved = remove(document, text("from")?)?;
            add(document, path?, moved)
        }
        "copy" => {
            let copy = get(document, text("from")?)?.cloned().unwrap_or(Value::Null);
            *copied += copy.to_string().len();
            if *copied > COPY_BYTES_MAX {
                return None;
            }
            add(document, path?, copy)
        }
        "test" => {
            let found = get(document, path?)?.unwrap_or(&Value::Null);
            (*found == op.get("value").cloned().unwrap_or(Value::Null)).then_some(())
        }
        _ => None,
    }
}

/// The value of a path; `Some(None)` is a missing key of a map that is there.
fn get<'a>(document: &'a Value, path: &str) -> Option<Option<&'a Value>> {
    let (parents, last) = split(path)?;
    let mut at = document;
    for part in parents.split('/').skip(1) {
        at = child(at, &unescape(part))?;
    }
    match at {
        Value::Object(map) => Some(map.get(&unescape(last))),
        Value::Array(items) => Some(Some(items.get(index(&unescape(last), items.len())?)?)),
        _ => None,
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    shallow(path, &value)?;
    let (parent, key) = parent_mut(document, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&key, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, key) = parent_mut(document, path)?;
    match parent {
        Value::Object(map) => map.remove(&key),
        Value::Array(items) => {
            let at = index(&key, items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    shallow(path, &value)?;
    if path.is_empty() {
        // Only this operation may take the document as a whole, and only for another like it.
        let whole = matches!(value, Value::Array(_) | Value::Object(_));
        return whole.then(|| *document = value);
    }
    let (parent, key) = parent_mut(document, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) => {
            let at = index(&key, items.len())?;
            items[at] = value;
        }
        _ => return None,
    }
    Some(())
}

/// `None` if the value would be too deep at the path.
fn shallow(path: &str, value: &Value) -> Option<()> {
    let at = path.bytes().filter(|b| *b == b'/').count();
    (at + depth(value) <= DEPTH_MAX).then_some(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

fn parent_mut<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parents, last) = split(path)?;
    let mut at = document;
    for part in parents.split('/').skip(1) {
        let part = unescape(part);
        at = match at {
            Value::Object(map) => map.get_mut(&part)?,
            Value::Array(items) => {
                let at = index(&part, items.len())?;
                &mut items[at]
            }
            _ => return None,
        };
    }
    Some((at, unescape(last)))
}

fn child<'a>(at: &'a Value, key: &str) -> Option<&'a Value> {
    match at {
        Value::Object(map) => map.get(key),
        Value::Array(items) => items.get(index(key, items.len())?),
        _ => None,
    }
}

/// The parents' path and the last part; what precedes the first slash does not count.
fn split(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once('/')
}

/// An index below `len`; negative ones count from the end.
fn index(text: &str, len: usize) -> Option<usize> {
    let at: i64 = text.parse().ok()?;
    let len = i64::try_from(len).ok()?;
    let at = if at < 0 { at + len } else { at };
    (0..len).contains(&at).then(|| usize::try_from(at).ok()).flatten()
}

fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}
