//! A value seen through its shape: what merges field by field, what is owned as a whole, and what
//! identifies an item of a list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::go;
use super::path::{PathElement, PathSet};
use crate::shape::{List, ListMerge, Object, Scalar, ShapeKind, ShapeRef};
use crate::status::quote;
use crate::work;

/// The most errors that a refused configuration lists.
const ERRORS_MAX: usize = 1_000;

/// How one place of an object merges.
#[derive(Clone, Copy)]
pub(super) enum Atom<'a> {
    /// A single value.
    Scalar(ScalarType),
    /// Fields; `None` is a map whose shape is deduced.
    Map(Option<&'a Object>),
    /// Items; `None` is a list whose shape is deduced, which is atomic.
    List(Option<&'a List>),
}

/// What a single value may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarType {
    Boolean,
    Numeric,
    String,
    Untyped,
}

// === impl Atom ===

impl<'a> Atom<'a> {
    /// The atom of a shape, deduced from the value where the shape says nothing.
    pub(super) fn of(shape: &'a ShapeRef, value: Option<&Value>) -> Self {
        match shape.kind() {
            // Its schema has no type, so that everything fits.
            ShapeKind::Scalar(Scalar::IntOrString) => match value {
                Some(Value::Array(_)) => Self::List(None),
                Some(Value::Object(_)) => Self::Map(None),
                _ => Self::Scalar(ScalarType::Untyped),
            },
            ShapeKind::Scalar(scalar) => Self::Scalar(scalar_type(*scalar)),
            ShapeKind::Object(object) => Self::Map(Some(object)),
            ShapeKind::List(list) => Self::List(Some(list)),
            ShapeKind::Any => match value {
                Some(Value::Array(_)) => Self::List(None),
                None | Some(Value::Object(_) | Value::Null) => Self::Map(None),
                Some(_) => Self::Scalar(ScalarType::Untyped),
            },
        }
    }

    /// Returns `true` if two deduced atoms are of one kind.
    pub(super) fn same_kind(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Scalar(_), Self::Scalar(_))
                | (Self::Map(_), Self::Map(_))
                | (Self::List(_), Self::List(_))
        )
    }

    /// Returns `true` if the place is owned as a whole.
    pub(super) fn is_atomic(&self) -> bool {
        match self {
            Self::Scalar(_) => true,
            Self::Map(object) => object.is_some_and(|o| o.atomic),
            Self::List(list) => list.is_none_or(|l| l.merge == ListMerge::Atomic),
        }
    }
}

fn scalar_type(scalar: Scalar) -> ScalarType {
    match scalar {
        Scalar::Boolean => ScalarType::Boolean,
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => ScalarType::Numeric,
        Scalar::IntOrString | Scalar::Quantity => ScalarType::Untyped,
        Scalar::Bytes | Scalar::Duration | Scalar::MicroTime | Scalar::String | Scalar::Time => {
            ScalarType::String
        }
    }
}

/// The shape of nothing declared.
pub(super) fn any() -> &'static ShapeRef {
    static ANY: OnceLock<ShapeRef> = OnceLock::new();
    ANY.get_or_init(ShapeRef::any)
}

/// The shape of a map's field if it may be there.
pub(super) fn field_shape<'a>(object: Option<&'a Object>, key: &str) -> Option<&'a ShapeRef> {
    let Some(object) = object else { return Some(any()) };
    if let Some(field) = object.fields.get(key) {
        return Some(&field.shape);
    }
    if object.rest.is_some() {
        return object.rest.as_ref();
    }
    (object.preserve_unknown || object.fields.is_empty()).then(any)
}

/// Returns `true` if the field is declared by name, other than a key of a map.
pub(super) fn is_named(object: Option<&Object>, key: &str) -> bool {
    object.is_some_and(|o| o.fields.contains_key(key))
}

/// The path element of an item of a set or of a list of type map.
pub(super) fn item_element(list: &List, item: &Value) -> Result<PathElement, String> {
    let keys = match &list.merge {
        ListMerge::Atomic => return Err("invalid indexing of non-associative list".to_owned()),
        ListMerge::Set => return set_element(item),
        ListMerge::Map(keys) => keys,
    };
    let Value::Object(map) = item else {
        let what = if item.is_null() { "a null element" } else { "non-map elements" };
        return Err(format!("associative list with keys may not have {what}"));
    };
    let default_of = |key: &str| match list.item.kind() {
        ShapeKind::Object(object) => object.fields.get(key).and_then(|f| f.default.as_ref()),
        _ => None,
    };
    let mut found: Vec<(&str, &Value)> = Vec::with_capacity(keys.len());
    for key in keys {
        found.extend(map.get(key).or_else(|| default_of(key)).map(|value| (key.as_str(), value)));
    }
    if found.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] \
             (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    found.sort_unstable_by_key(|(key, _)| *key);
    let mut text = String::with_capacity(32);
    for (key, value) in found {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&json_text(key));
        text.push(':');
        text.push_str(&canonical(value));
    }
    text.push('}');
    Ok(PathElement::Key(text))
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => {
            Err("associative list without keys has an element that's a map type".to_owned())
        }
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => {
            Err("associative list without keys has an element that's an explicit null".to_owned())
        }
        scalar => Ok(PathElement::Value(canonical(scalar))),
    }
}

/// JSON text in which equal values are equal texts: `1.0` is written as `1`.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::String(text) => json_text(text),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            // Whole numbers in this range are exact in both representations.
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => format!("{float:.0}"),
            _ => number.to_string(),
        },
        Value::Object(map) => {
            let map: Map<String, Value> = map
                .iter()
                .map(|(key, value)| {
                    let text = canonical(value);
                    (key.clone(), serde_json::from_str(&text).unwrap_or(Value::Null))
                })
                .collect();
            Value::Object(map).to_string()
        }
        other => other.to_string(),
    }
}

fn json_text(text: &str) -> String {
    let plain = |b: u8| b >= 0x20 && b != b'"' && b != b'\\';
    if text.bytes().all(plain) {
        let mut out = String::with_capacity(text.len() + 2);
        out.push('"');
        out.push_str(text);
        out.push('"');
        return out;
    }
    Value::from(text).to_string()
}

/// Equality of values in which numbers are equal by their value.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|((k, x), (l, y))| k == l && same(x, y))
        }
        (a, b) => a == b,
    }
}

/// Checks an applied object against its shape; the error is the real server's text.
pub fn validate(value: &Value, shape: &ShapeRef) -> Result<(), String> {
    let mut errors = Vec::new();
    check(value, shape, &mut String::new(), &mut errors);
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(format!("errors:\n  {}", errors.join("\n  "))),
    }
}

fn check(value: &Value, shape: &ShapeRef, path: &mut String, errors: &mut Vec<String>) {
    let fail = |errors: &mut Vec<String>, path: &str, what: String| {
        errors.push(if path.is_empty() { what } else { format!("{path}: {what}") });
    };
    work::spent(1);
    if value.is_null() || errors.len() >= ERRORS_MAX {
        return;
    }
    let got = || format!("&{{{}}}", go::plain(value));
    match Atom::of(shape, Some(value)) {
        Atom::Scalar(kind) => {
            if let Some(what) = scalar_fault(kind, value) {
                fail(errors, path, what);
            }
        }
        Atom::Map(object) => {
            let Value::Object(map) = value else {
                return fail(errors, path, format!("expected map, got {}", got()));
            };
            let len = path.len();
            for (key, value) in map {
                path.push('.');
                path.push_str(key);
                let Some(shape) = field_shape(object, key) else {
                    fail(errors, path, "field not declared in schema".to_owned());
                    path.truncate(len);
                    break;
                };
                check(value, shape, path, errors);
                path.truncate(len);
            }
        }
        Atom::List(list) => {
            let Value::Array(items) = value else {
                return fail(errors, path, format!("expected list, got {}", got()));
            };
            if let Some(list) = list {
                check_items(items, list, path, errors);
            }
        }
    }
}

fn check_items(items: &[Value], list: &List, path: &mut String, errors: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    let len = path.len();
    for (i, item) in items.iter().enumerate() {
        if list.merge == ListMerge::Atomic {
            path.push_str(&format!("[{i}]"));
        } else {
            let element = match item_element(list, item) {
                Ok(element) => element,
                Err(why) => return errors.push(format!("{path}: element {i}: {why}")),
            };
            let shown = element.to_string();
            if !seen.insert(element) && errors.len() < ERRORS_MAX {
                errors.push(format!("{path}: duplicate entries for key {shown}"));
            }
            path.push_str(&shown);
        }
        check(item, &list.item, path, errors);
        path.truncate(len);
    }
}

fn scalar_fault(kind: ScalarType, value: &Value) -> Option<String> {
    let got = || format!("&{{{}}}", go::plain(value));
    match kind {
        ScalarType::Numeric if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go::type_name(value)))
        }
        ScalarType::String if !value.is_string() => {
            let got = go::syntax(value);
            Some(format!("expected string, got &value.valueUnstructured{{Value:{got}}}"))
        }
        ScalarType::Boolean if !value.is_boolean() => {
            Some(format!("expected boolean, got {}", got()))
        }
        ScalarType::Untyped if value.is_object() || value.is_array() => {
            Some(format!("expected any scalar, got {}", got()))
        }
        _ => None,
    }
}

/// Returns the set of the fields of a value: what a manager that applies it owns.
pub fn field_set(value: &Value, shape: &ShapeRef) -> PathSet {
    fields_of(value, shape).1
}

/// Whether the place itself is in the set, and what is below it.
fn fields_of(value: &Value, shape: &ShapeRef) -> (bool, PathSet) {
    let mut out = PathSet::default();
    let atom = Atom::of(shape, Some(value));
    if atom.is_atomic() {
        return (true, out);
    }
    match (atom, value) {
        (Atom::Map(object), Value::Object(map)) => {
            for (key, value) in map {
                let (own, below) = fields_of(value, field_shape(object, key).unwrap_or(any()));
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                let member = own || empty || !is_named(object, key);
                out.graft(PathElement::Field(key.clone()), member, below);
            }
        }
        (Atom::List(Some(list)), Value::Array(items)) => {
            let mut places: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
            for item in items {
                work::spent(1);
                if let Ok(element) = item_element(list, item) {
                    places.entry(element).or_default().push(item);
                }
            }
            for (element, items) in places {
                let below = match items.as_slice() {
                    [item] => fields_of(item, &list.item).1,
                    // Nothing is owned below items that have the same key.
                    _ => PathSet::default(),
                };
                out.graft(element, true, below);
            }
        }
        _ => {}
    }
    (false, out)
}

/// The set with the named fields on the way to its paths added.
pub(super) fn with_named(set: &PathSet, shape: Option<&ShapeRef>) -> PathSet {
    let mut out = PathSet::default();
    for (element, member, below) in set.iter() {
        let (named, inner) = match (element, shape.map(ShapeRef::kind)) {
            (PathElement::Field(name), Some(ShapeKind::Object(object))) => {
                (is_named(Some(object), name), field_shape(Some(object), name))
            }
            (PathElement::Field(_), Some(ShapeKind::Any)) => (false, shape),
            (PathElement::Key(_), Some(ShapeKind::List(list))) => (false, Some(&list.item)),
            _ => (false, None),
        };
        let member = member || (named && !below.is_empty());
        out.graft(element.clone(), member, with_named(below, inner));
    }
    out
}

/// Owning the whole where the shape is atomic now but the set names parts; `None` if none does.
pub(super) fn reconciled(set: &PathSet, shape: &ShapeRef) -> Option<PathSet> {
    let mut whole = PathSet::default();
    atomic_parents(set, shape, &mut Vec::new(), &mut whole);
    if whole.is_empty() {
        return None;
    }
    let mut out = set.clone();
    out.subtract_all(&whole);
    out.unite(whole);
    Some(out)
}

fn atomic_parents(
    set: &PathSet,
    shape: &ShapeRef,
    path: &mut Vec<PathElement>,
    whole: &mut PathSet,
) {
    for (element, _, below) in set.iter().filter(|(_, _, below)| !below.is_empty()) {
        let inner = match (element, shape.kind()) {
            (PathElement::Field(name), ShapeKind::Object(object)) => {
                field_shape(Some(object), name)
            }
            (PathElement::Field(_), _) => None,
            (_, ShapeKind::List(list)) => Some(&list.item),
            _ => None,
        };
        let Some(inner) = inner else { continue };
        path.push(element.clone());
        let atomic = match inner.kind() {
            ShapeKind::Object(object) => object.atomic,
            ShapeKind::List(list) => list.merge == ListMerge::Atomic,
            ShapeKind::Any | ShapeKind::Scalar(_) => false,
        };
        if atomic {
            whole.insert(path.iter().cloned());
        } else {
            atomic_parents(below, inner, path, whole);
        }
        path.pop();
    }
}
