//! Validation of values against a schema, with the texts of kube-openapi.
//!
//! On update unchanged parts are forgiven (ratcheting): a fault below a value that equals its
//! correlated old value is dropped. Objects correlate by field, lists of type `map` by their keys;
//! atomic lists and sets do not correlate, nor do the branches of `allOf` and friends.
//!
//! **Invariant:** the walk follows the value, whose depth is bounded by decoding, so it ends.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;
use windlass_cel::Schema;
use windlass_text::format;

use super::correlation::{Correlation, unchanged};
use crate::status::{FieldError, FieldErrorKind, FieldErrors, quote, show};
use crate::work;

mod limits;

use limits::check_number;

/// Which type an int-or-string node is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Objects: integer or string.
    Object,
    /// Defaults inside a definition: the node's own type only, as upstream checks them.
    Default,
}

/// Problems of a value; `base` is the path of the value, `None` for a whole object.
pub fn validate(schema: &Schema, value: &Value, base: Option<&str>, mode: Mode) -> FieldErrors {
    errors(Checker { mode }.check(schema, value, &Path::Root, None), base)
}

/// Problems of a changed value: what did not change is forgiven.
pub fn validate_update(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    base: Option<&str>,
) -> FieldErrors {
    let checker = Checker { mode: Mode::Object };
    errors(checker.check_ratcheting(schema, value, &Path::Root, old), base)
}

/// A place below the validated value, printed only when something is wrong there.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    /// A field that is not declared; it has its dot even at the root.
    Extra(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) | Self::Extra(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

enum Code {
    Type,
    Required,
    TooLong(i64),
    Unsupported(Vec<Value>),
    TooMany(usize, i64),
    Other,
    /// An error without a place of its own.
    Plain,
}

struct Fault {
    code: Code,
    name: String,
    value: Value,
    message: String,
}

#[derive(Default)]
struct Outcome {
    faults: Vec<Fault>,
    seen: HashSet<String>,
    /// How many bytes the messages have.
    bytes: usize,
    /// How many checks applied, to find the closest branch of an `anyOf`.
    matched: usize,
}

impl Outcome {
    fn add(&mut self, fault: Fault) {
        work::spent(1);
        if !self.is_full() && self.seen.insert(fault.message.clone()) {
            self.bytes += fault.message.len();
            self.faults.push(fault);
        }
    }

    fn fail(&mut self, code: Code, path: &Path<'_>, value: Value, text: impl fmt::Display) {
        let name = path.to_string();
        let message = format!("{name} in body {text}");
        self.add(Fault { code, name, value, message });
    }

    fn plain(&mut self, message: String) {
        self.add(Fault { code: Code::Plain, name: String::new(), value: Value::Null, message });
    }

    fn merge(&mut self, other: Self) {
        self.matched += other.matched;
        other.faults.into_iter().for_each(|fault| self.add(fault));
    }

    fn is_full(&self) -> bool {
        self.faults.len() >= FAULTS_MAX || self.bytes >= FAULT_BYTES_MAX
    }

    fn valid(&self) -> bool {
        self.faults.is_empty()
    }
}

/// The most faults of one value that are collected, as many as an answer lists.
const FAULTS_MAX: usize = 1_000;
/// The most bytes of messages that are collected, apart from the last one: a message may list all
/// values of an enum. An answer lists half of that.
const FAULT_BYTES_MAX: usize = 4 << 20;

struct Checker {
    mode: Mode,
}

impl Checker {
    fn check_ratcheting(
        &self,
        schema: &Schema,
        value: &Value,
        path: &Path<'_>,
        old: Option<&Value>,
    ) -> Outcome {
        let mut outcome = self.check(schema, value, path, old);
        if !outcome.valid() && old.is_some_and(|old| unchanged(Some(schema), value, old)) {
            outcome.faults.clear();
            outcome.seen.clear();
            outcome.bytes = 0;
        }
        outcome
    }

    fn check(
        &self,
        schema: &Schema,
        value: &Value,
        path: &Path<'_>,
        old: Option<&Value>,
    ) -> Outcome {
        work::spent(1);
        let mut out = Outcome::default();
        let format = schema.supported_format();
        let kinds = self.kinds(schema);
        if value.is_null() {
            check_type(&kinds, format, schema, value, path, &mut out);
            check_enum(schema, value, path, &mut out);
            return out;
        }
        if !kinds.is_empty() || !format.is_empty() {
            check_type(&kinds, format, schema, value, path, &mut out);
            out.matched += 1;
        }
        self.check_branches(schema, value, path, &mut out);
        out.matched += 1;
        match value {
            Value::String(text) => {
                check_text(schema, text, path, &mut out);
                out.matched += 1;
                if !format.is_empty() && format::known(format) {
                    if !format::matches(format, text) {
                        type_fault(path, &schema.format, text, &mut out);
                    }
                    out.matched += 1;
                }
            }
            Value::Number(number) => {
                check_number(schema, &kinds, format, number, path, &mut out);
                out.matched += 2;
            }
            Value::Array(items) => self.check_list(schema, items, path, old, &mut out),
            _ => {}
        }
        check_enum(schema, value, path, &mut out);
        out.matched += 1;
        if let Value::Object(_) = value {
            self.check_object(schema, value, path, old, &mut out);
            out.matched += 1;
        }
        out.matched += 1;
        out
    }

    fn kinds<'a>(&self, schema: &'a Schema) -> Vec<&'a str> {
        match (schema.int_or_string && self.mode == Mode::Object, schema.kind.as_str()) {
            (true, _) => vec!["integer", "string"],
            (false, "") => Vec::new(),
            (false, kind) => vec![kind],
        }
    }

    fn check_branches(&self, schema: &Schema, value: &Value, path: &Path<'_>, out: &mut Outcome) {
        let mut main = Outcome::default();
        let try_one = |branch: &Schema| self.check(branch, value, path, None);
        if !schema.any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            let mut good = None;
            for branch in &schema.any_of {
                let result = try_one(branch);
                if result.valid() {
                    good = Some(result);
                    break;
                }
                if best.as_ref().is_none_or(|b| result.matched > b.matched) {
                    best = Some(result);
                }
            }
            if good.is_none() {
                main.plain(format!(
                    "{} must validate at least one schema (anyOf)",
                    quote(&path.to_string())
                ));
            }
            good.or(best).into_iter().for_each(|result| main.merge(result));
        }
        if !schema.one_of.is_empty() {
            self.check_one_of(schema, value, path, &mut main);
        }
        if !schema.all_of.is_empty() {
            let mut good = 0;
            for branch in &schema.all_of {
                let result = try_one(branch);
                good += usize::from(result.valid());
                main.merge(result);
            }
            if good != schema.all_of.len() {
                let none = if good == 0 { ". None validated" } else { "" };
                main.plain(format!(
                    "{} must validate all the schemas (allOf){none}",
                    quote(&path.to_string())
                ));
            }
        }
        if let Some(not) = &schema.not
            && try_one(not).valid()
        {
            let path = quote(&path.to_string());
            main.plain(format!("{path} must not validate the schema (not)"));
        }
        main.matched += 1;
        out.merge(main);
    }

    fn check_one_of(&self, schema: &Schema, value: &Value, path: &Path<'_>, main: &mut Outcome) {
        let mut best: Option<Outcome> = None;
        let mut first = None;
        let mut good = 0;
        for branch in &schema.one_of {
            let result = self.check(branch, value, path, None);
            if result.valid() {
                good += 1;
                best = None;
                first.get_or_insert(result);
            } else if good == 0 && best.as_ref().is_none_or(|b| result.matched > b.matched) {
                best = Some(result);
            }
        }
        if good == 1 {
            first.into_iter().for_each(|result| main.merge(result));
            return;
        }
        let found = match good {
            0 => "Found none valid".to_owned(),
            n => format!("Found {n} valid alternatives"),
        };
        let path = quote(&path.to_string());
        main.plain(format!("{path} must validate one and only one schema (oneOf). {found}"));
        best.into_iter().for_each(|result| main.merge(result));
    }

    fn check_list(
        &self,
        schema: &Schema,
        items: &[Value],
        path: &Path<'_>,
        old: Option<&Value>,
        out: &mut Outcome,
    ) {
        let old = Correlation::new(schema, old.and_then(Value::as_array).map(Vec::as_slice));
        if let Some(item_schema) = &schema.items {
            for (index, item) in items.iter().enumerate() {
                if out.is_full() || work::is_stopped() {
                    break;
                }
                let place = Path::Index(path, index);
                out.merge(self.check_ratcheting(item_schema, item, &place, old.of(item)));
            }
        }
        let size = items.len();
        if let Some(min) = schema.min_items.filter(|min| (size as i64) < *min) {
            let text = format!("should have at least {min} items");
            out.fail(Code::Other, path, size.into(), text);
        }
        if let Some(max) = schema.max_items.filter(|max| size as i64 > *max) {
            let text = format!("should have at most {max} items");
            out.fail(Code::TooMany(size, max), path, size.into(), text);
        }
        if schema.unique_items {
            let mut seen = HashSet::new();
            if !items.iter().all(|item| seen.insert(item.to_string())) {
                out.fail(Code::Other, path, Value::Null, "shouldn't contain duplicates");
            }
        }
        out.matched += 2;
    }

    fn check_object(
        &self,
        schema: &Schema,
        value: &Value,
        path: &Path<'_>,
        old: Option<&Value>,
        out: &mut Outcome,
    ) {
        let Value::Object(map) = value else { return };
        let size = map.len();
        if let Some(min) = schema.min_properties.filter(|min| (size as i64) < *min) {
            let text = format!("should have at least {min} properties");
            out.fail(Code::Other, path, size.into(), text);
        }
        if let Some(max) = schema.max_properties.filter(|max| size as i64 > *max) {
            let text = format!("should have at most {max} properties");
            out.fail(Code::TooMany(size, max), path, size.into(), text);
        }
        let root = matches!(path, Path::Root);
        let old_of = |key: &str| {
            let type_meta = root && (key == "kind" || key == "apiVersion");
            old.filter(|_| !type_meta)?.as_object()?.get(key)
        };
        match &schema.additional {
            Some(additional) if !additional.allows => {
                for key in map.keys().filter(|key| !schema.properties.contains_key(*key)) {
                    let name = path.to_string();
                    let message = format!("{name}.{key} in body is a forbidden property");
                    let value = Value::from(key.as_str());
                    out.add(Fault { code: Code::Other, name, value, message });
                }
            }
            Some(additional) => {
                if let Some(rest) = additional.schema.as_deref() {
                    for (key, value) in map {
                        if out.is_full() || work::is_stopped() {
                            break;
                        }
                        if !schema.properties.contains_key(key) {
                            let place = Path::Extra(path, key);
                            out.merge(self.check_ratcheting(rest, value, &place, old_of(key)));
                        }
                    }
                }
            }
            None => {}
        }
        for (key, value) in map {
            if out.is_full() || work::is_stopped() {
                break;
            }
            if let Some(field) = schema.properties.get(key) {
                let place = Path::Field(path, key);
                out.merge(self.check_ratcheting(field, value, &place, old_of(key)));
            }
        }
        for key in schema.required.iter().filter(|key| !map.contains_key(*key)) {
            out.fail(Code::Required, &Path::Extra(path, key), Value::Null, "is required");
        }
    }
}

fn check_type(
    kinds: &[&str],
    format: &str,
    schema: &Schema,
    value: &Value,
    path: &Path<'_>,
    out: &mut Outcome,
) {
    let expected = kinds.join(",");
    if value.is_null() {
        match !kinds.is_empty() && !schema.nullable {
            true => type_fault(path, &expected, "null", out),
            false => out.matched += 1,
        }
        return;
    }
    let (kind, own_format) = kind_of(value);
    let has = |kind: &str| kinds.contains(&kind);
    let whole = |f: f64| f.fract() == 0.0 && f.abs() <= 9_007_199_254_740_991.0;
    let float_int = kind == "number" && value.as_f64().is_some_and(whole) && has("integer");
    let int_float = kind == "integer" && has("number");
    let texty = value.is_string() || value.is_array();
    let fits = has(kind) || float_int || int_float;
    if !texty && !format.is_empty() && !fits && own_format != format {
        return type_fault(path, format, own_format, out);
    }
    let numeric = has("number") || has("integer");
    if (!numeric && !format.is_empty() && texty) || fits {
        out.matched += 1;
        return;
    }
    type_fault(path, &expected, kind, out);
}

fn kind_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(n) if n.as_i64().is_some() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn type_fault(path: &Path<'_>, expected: &str, got: &str, out: &mut Outcome) {
    let text = format!("must be of type {expected}: {}", quote(got));
    out.fail(Code::Type, path, got.into(), text);
}

fn check_enum(schema: &Schema, value: &Value, path: &Path<'_>, out: &mut Outcome) {
    if schema.allowed.is_empty() || schema.allows(value) {
        return;
    }
    let list: Vec<String> = schema.allowed.iter().map(plain_text).collect();
    let text = format!("should be one of [{}]", list.join(" "));
    work::scanned(text.len());
    out.fail(Code::Unsupported(schema.allowed.clone()), path, value.clone(), text);
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn check_text(schema: &Schema, text: &str, path: &Path<'_>, out: &mut Outcome) {
    let length = || text.chars().count() as i64;
    if let Some(max) = schema.max_length.filter(|max| text.len() as i64 > *max && length() > *max) {
        let what = format!("should be at most {max} chars long");
        out.fail(Code::TooLong(max), path, text.into(), what);
    } else if let Some(min) = schema.min_length.filter(|min| length() < *min) {
        let what = format!("should be at least {min} chars long");
        out.fail(Code::Other, path, text.into(), what);
    } else if !schema.pattern.is_empty() && !schema.pattern_matches(text) {
        out.fail(Code::Other, path, text.into(), format!("should match '{}'", schema.pattern));
    }
}

fn errors(outcome: Outcome, base: Option<&str>) -> FieldErrors {
    let mut out = FieldErrors::default();
    for fault in outcome.faults {
        let name = fault.name.strip_prefix('.').unwrap_or(&fault.name);
        let field = match (base, name) {
            (None, "") => "<nil>".to_owned(),
            (None, name) => name.to_owned(),
            (Some(base), "") => base.to_owned(),
            (Some(base), name) => format!("{base}.{name}"),
        };
        let shown = match &fault.value {
            Value::Null => "\"\"".to_owned(),
            value => show(value),
        };
        out.push(match fault.code {
            Code::Type => FieldError::raw(FieldErrorKind::TypeInvalid, field, shown, fault.message),
            Code::Required => FieldError::required(field, ""),
            Code::TooLong(max) => too_long(field, max),
            Code::Unsupported(allowed) => {
                let allowed: Vec<String> = allowed.iter().map(plain_text).collect();
                FieldError::not_supported(field, &fault.value, &allowed)
            }
            Code::TooMany(size, max) => too_many(field, size, max),
            Code::Other | Code::Plain => {
                FieldError::raw(FieldErrorKind::Invalid, field, shown, fault.message)
            }
        });
    }
    out
}

fn too_long(field: String, max: i64) -> FieldError {
    let unit = if max == 1 { "byte" } else { "bytes" };
    let detail = format!("may not be more than {max} {unit}");
    FieldError::raw(FieldErrorKind::TooLong, field, "", detail)
}

/// Creates `Too many: N: must have at most M items`, with the right number of the noun.
pub fn too_many(field: impl Into<String>, count: usize, max: i64) -> FieldError {
    let unit = if max == 1 { "item" } else { "items" };
    let detail = format!("must have at most {max} {unit}");
    FieldError::raw(FieldErrorKind::TooMany, field, count.to_string(), detail)
}
