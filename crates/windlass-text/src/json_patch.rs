//! The operations of a JSON patch (RFC 6902), with the habits of the Go library that the API server
//! uses: `replace` may add a map key, `add` without a value adds null, negative indices count from
//! the end.

use serde_json::Value;

use crate::work;

/// The most bytes all `copy` operations of a patch may add: copies of copies grow fast.
const COPY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How deep a patch may nest: moves can pile up what no body could hold, and walks recurse.
const DEPTH_MAX: usize = 110;

/// The most values a patch may move or look through, other than its own: an item that is added to
/// the front of a long list moves all the others.
const WORK_MAX: usize = 16_000_000;

/// How many items of a list are moved in the time it takes to look at one value.
const MOVED_PER_STEP: usize = 8;

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
    work: usize,
}

/// Why an operation was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It does not apply to the document. The API server does not say why.
    #[error("the operation does not apply")]
    DoesNotApply,
    /// The patch as a whole moves too many values.
    #[error(
        "the operations of the patch move more than {WORK_MAX} values of the object: \
         replace long lists as a whole"
    )]
    TooMuchWork,
}

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
    /// Fails if the operation does not apply, or if the patch takes too much work; the document
    /// may be changed in part by a `move`.
    pub fn apply(&mut self, document: &mut Value, operation: &Value) -> Result<(), Refused> {
        match self.run(document, operation) {
            _ if self.work > WORK_MAX => Err(Refused::TooMuchWork),
            done => done.ok_or(Refused::DoesNotApply),
        }
    }

    /// Carries out one operation; `None` if it fails.
    fn run(&mut self, document: &mut Value, op: &Value) -> Option<()> {
        let text = |key: &str| op.get(key).and_then(Value::as_str);
        let path = text("path");
        let value = || op.get("value").cloned().unwrap_or(Value::Null);
        match text("op")? {
            "add" => self.add(document, path?, value()),
            "remove" => self.remove(document, path?).map(drop),
            "replace" => self.replace(document, path?, value()),
            "move" => {
                let moved = self.remove(document, text("from")?)?;
                self.add(document, path?, moved)
            }
            "copy" => {
                let copy = get(document, text("from")?)?.cloned().unwrap_or(Value::Null);
                let size = copy.to_string().len();
                work::scanned(size);
                self.copied += size;
                if self.copied > COPY_BYTES_MAX {
                    return None;
                }
                self.add(document, path?, copy)
            }
            "test" => {
                let found = get(document, path?)?.unwrap_or(&Value::Null);
                (*found == op.get("value").cloned().unwrap_or(Value::Null)).then_some(())
            }
            _ => None,
        }
    }

    fn add(&mut self, document: &mut Value, path: &str, value: Value) -> Option<()> {
        self.check_depth(path, &value)?;
        let (parent, key) = parent_mut(document, path)?;
        match parent {
            Value::Object(map) => {
                map.insert(key, value);
            }
            Value::Array(items) if key == "-" => items.push(value),
            Value::Array(items) => {
                let at = index(&key, items.len() + 1)?;
                self.moves(items.len() - at)?;
                items.insert(at, value);
            }
            _ => return None,
        }
        Some(())
    }

    fn remove(&mut self, document: &mut Value, path: &str) -> Option<Value> {
        let (parent, key) = parent_mut(document, path)?;
        match parent {
            Value::Object(map) => map.remove(&key),
            Value::Array(items) => {
                let at = index(&key, items.len())?;
                self.moves(items.len() - at)?;
                Some(items.remove(at))
            }
            _ => None,
        }
    }

    fn replace(&mut self, document: &mut Value, path: &str, value: Value) -> Option<()> {
        self.check_depth(path, &value)?;
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

    /// Counts the items of a list that make room for one, or close the gap of one.
    fn moves(&mut self, items: usize) -> Option<()> {
        self.spend(items / MOVED_PER_STEP)
    }

    /// `None` if the value would be too deep at the path.
    fn check_depth(&mut self, path: &str, value: &Value) -> Option<()> {
        let at = path.bytes().filter(|b| *b == b'/').count();
        let mut nodes = 0;
        let fits = at + depth(value, &mut nodes) <= DEPTH_MAX;
        self.spend(nodes)?;
        fits.then_some(())
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        work::spent(steps);
        self.work += steps;
        (self.work <= WORK_MAX).then_some(())
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

/// How deep a value is; counts the values in it.
fn depth(value: &Value, nodes: &mut usize) -> usize {
    *nodes += 1;
    match value {
        Value::Array(items) => {
            1 + items.iter().map(|item| depth(item, nodes)).max().unwrap_or_default()
        }
        Value::Object(map) => {
            1 + map.values().map(|value| depth(value, nodes)).max().unwrap_or_default()
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn steps(document: Value, ops: &[Value]) -> Result<u64, Refused> {
        let (mut document, mut steps, before) = (document, Steps::new(), work::total());
        for op in ops {
            steps.apply(&mut document, op)?;
        }
        Ok(work::total() - before)
    }

    #[test]
    fn adding_to_the_front_of_a_long_list_ends() {
        let list = |length: usize| json!({"l": vec![0; length]});
        let front = json!({"op": "add", "path": "/l/0", "value": 1});
        assert!(steps(list(1_000), &vec![front.clone(); 1_000]).is_ok());
        assert_eq!(steps(list(100_000), &vec![front; 2_000]), Err(Refused::TooMuchWork));
        let end = json!({"op": "add", "path": "/l/-", "value": 1});
        assert!(steps(list(100_000), &vec![end; 10_000]).unwrap() < 20_000);
        let gap = json!({"op": "remove", "path": "/l/0"});
        assert_eq!(steps(list(100_000), &vec![gap; 2_000]), Err(Refused::TooMuchWork));
    }

    #[test]
    fn moving_a_large_value_to_and_fro_ends() {
        let to = json!({"op": "move", "from": "/a", "path": "/b"});
        let fro = json!({"op": "move", "from": "/b", "path": "/a"});
        let ops: Vec<_> = (0..1_000).flat_map(|_| [to.clone(), fro.clone()]).collect();
        assert!(steps(json!({"a": vec![0; 1_000]}), &ops).is_ok());
        assert_eq!(steps(json!({"a": vec![0; 10_000]}), &ops), Err(Refused::TooMuchWork));
    }
}
