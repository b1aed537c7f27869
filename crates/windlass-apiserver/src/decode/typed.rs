//! Decoding into a Go type and writing it back, without Go.
//!
//! This is one walk that does what the real server's round trip does: it removes unknown fields,
//! reports wrong types in Go's words, normalises special values, and leaves out or fills
//! in what the encoder of the Go struct would.
//!
//! **Invariant:** decoding its own output changes nothing, and fails only if that is too large to be
//! stored.

use serde_json::{Map, Value};

use super::node::{self, Seen};
use super::{Node, STRICT_MAX, scalar};
use crate::schema::go::{self, GoField, Special, Struct, Type, TypeId};

/// A failure without the place where it happened.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fail {
    /// A JSON value that does not fit its Go type.
    Type { value: String, typ: String },
    /// Any other text.
    Text(String),
}

/// The outcome of a walk.
pub(super) struct Outcome {
    pub value: Value,
    pub strict: Vec<String>,
}

/// Decodes a node into a type.
pub(super) fn decode(node: &Node<'_>, id: TypeId) -> Result<Outcome, String> {
    outcome(Decoder::new(false), node, id)
}

/// As [`decode`], for the map that a strategic patch or an apply results in: Go's converter cuts
/// numbers to the size of their field.
pub(super) fn convert(node: &Node<'_>, id: TypeId) -> Result<Outcome, String> {
    outcome(Decoder { wraps: true, ..Decoder::new(false) }, node, id)
}

fn outcome(mut decoder: Decoder, node: &Node<'_>, id: TypeId) -> Result<Outcome, String> {
    match decoder.run(node, &Type::Named(id)) {
        Ok(value) => Ok(Outcome { value, strict: decoder.strict }),
        Err((fail, context)) => Err(fail.text(&context)),
    }
}

/// The most structs that an object may consist of: with one field each, as many as the largest
/// stored object has room for. More of them would cost their defaults and checks in vain.
const STRUCTS_MAX: usize = crate::store::OBJECT_BYTES_MAX / 12;

struct Decoder {
    strict: Vec<String>,
    /// How many structs there are so far.
    structs: usize,
    /// The first failure that did not end the walk, and where it was.
    saved: Option<(Fail, String)>,
    /// Whether strict findings are not wanted.
    quiet: bool,
    /// Whether numbers are cut to the size of their field.
    wraps: bool,
    /// The current struct and the fields that led to it, for Go's type errors.
    strukt: Option<&'static str>,
    fields: Vec<&'static str>,
    /// The path with keys and indices, for strict findings.
    path: String,
}

/// Returns `true` for the Go type of lists of resources.
fn is_resources(typ: &Type) -> bool {
    matches!(typ, Type::Named(id) if id.get().name == "ResourceList")
}

/// The lower 32 bits of a whole number.
fn wrapped(text: &str) -> Option<i32> {
    let [.., a, b, c, d] = text.parse::<i64>().ok()?.to_be_bytes();
    Some(i32::from_be_bytes([a, b, c, d]))
}

// === impl Fail ===

impl Fail {
    fn wrong(node: &Node<'_>, typ: &Type) -> Self {
        Self::Type { value: node.what().into(), typ: typ.reflect() }
    }

    fn text(&self, context: &str) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Type { value, typ } if context.is_empty() => {
                format!("json: cannot unmarshal {value} into Go value of type {typ}")
            }
            Self::Type { value, typ } => {
                format!(
                    "json: cannot unmarshal {value} into Go struct field {context} of type {typ}"
                )
            }
        }
    }
}

/// The structs a field comes from that are embedded in the one it is found in: error texts name
/// them.
fn embedding(strukt: &str, field: &str) -> &'static [&'static str] {
    const REFERENCE: &[&str] = &["LocalObjectReference"];
    match (strukt, field) {
        ("Volume", name) if name != "name" => &["VolumeSource"],
        ("PersistentVolumeSpec", name) if !VOLUME_FIELDS.contains(&name) => {
            &["PersistentVolumeSource"]
        }
        (
            "ConfigMapEnvSource"
            | "SecretEnvSource"
            | "ConfigMapKeySelector"
            | "SecretKeySelector"
            | "ConfigMapProjection"
            | "SecretProjection"
            | "ConfigMapVolumeSource",
            "name",
        ) => REFERENCE,
        ("Probe", "exec" | "httpGet" | "tcpSocket" | "grpc") => &["ProbeHandler"],
        ("EphemeralContainer", name) if name != "targetContainerName" => {
            &["EphemeralContainerCommon"]
        }
        ("IngressRule", "http") => &["IngressRuleValue"],
        (
            "DeviceClaimConfiguration"
            | "DeviceClassConfiguration"
            | "DeviceAllocationConfiguration",
            "opaque",
        ) => &["DeviceConfiguration"],
        ("NamedRuleWithOperations", "operations") => &["RuleWithOperations"],
        ("NamedRuleWithOperations", "apiGroups" | "apiVersions" | "resources" | "scope") => {
            &["RuleWithOperations", "Rule"]
        }
        ("RuleWithOperations", "apiGroups" | "apiVersions" | "resources" | "scope") => &["Rule"],
        _ => &[],
    }
}

/// The fields of a volume's spec that are no source.
const VOLUME_FIELDS: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

// === impl Decoder ===

impl Decoder {
    fn new(quiet: bool) -> Self {
        Self {
            strict: Vec::new(),
            structs: 0,
            saved: None,
            quiet,
            wraps: false,
            strukt: None,
            fields: Vec::new(),
            path: String::new(),
        }
    }

    fn run(&mut self, node: &Node<'_>, typ: &Type) -> Result<Value, (Fail, String)> {
        // A failure of a type's own decoder ends the walk and outranks earlier ones.
        let value = self.value(node, typ).map_err(|fail| (fail, self.context()))?;
        self.saved.take().map_or(Ok(value), Err)
    }

    fn context(&self) -> String {
        match self.strukt {
            Some(name) => format!("{name}.{}", self.fields.join(".")),
            None => String::new(),
        }
    }

    fn save(&mut self, fail: Fail) {
        if self.saved.is_none() {
            self.saved = Some((fail, self.context()));
        }
    }

    fn report(&mut self, what: &str, key: &str) {
        if self.quiet || self.strict.len() >= STRICT_MAX {
            return;
        }
        let dot = if self.path.is_empty() { "" } else { "." };
        let text = format!("{what} field \"{}{dot}{key}\"", self.path);
        if !self.strict.contains(&text) {
            self.strict.push(text);
        }
    }

    fn value(&mut self, node: &Node<'_>, typ: &Type) -> Result<Value, Fail> {
        match typ {
            Type::Pointer(inner) => match node {
                Node::Null => Ok(Value::Null),
                _ => self.value(node, inner),
            },
            Type::Named(id) => match &id.get().named {
                Some(of) => self.renamed(node, of, typ),
                None => self.strukt(node, *id, typ),
            },
            Type::Special(special) => Self::special(node, *special),
            Type::List(item) => self.list(node, item, typ),
            Type::Map(_, value) => self.map(node, value, typ),
            Type::Any => node.to_value().map_err(Fail::Text),
            _ => Ok(self.simple(node, typ, typ)),
        }
    }

    /// A type under another name, which errors use.
    fn renamed(&mut self, node: &Node<'_>, of: &Type, named: &Type) -> Result<Value, Fail> {
        match of {
            Type::List(item) => self.list(node, item, named),
            // A list of resources is rounded when it is defaulted, except in runtime classes.
            Type::Map(_, value) if is_resources(named) && self.strukt != Some("Overhead") => {
                let mut list = self.map(node, value, named)?;
                scalar::round_up(&mut list);
                Ok(list)
            }
            Type::Map(_, value) => self.map(node, value, named),
            Type::Bool | Type::Bytes | Type::Float64 | Type::Int32 | Type::Int64 | Type::String => {
                Ok(self.simple(node, of, named))
            }
            other => self.value(node, other),
        }
    }

    fn simple(&mut self, node: &Node<'_>, base: &Type, named: &Type) -> Value {
        let bad_number =
            |text: &str| Fail::Type { value: format!("number {text}"), typ: named.reflect() };
        let fail = match (base, node) {
            (_, Node::Null) => return zero(base),
            (Type::Bool, Node::Bool(b)) => return Value::Bool(*b),
            (Type::String, Node::String(text)) => return Value::String(text.clone().into_owned()),
            (Type::Int32, Node::Number(text)) => match text.parse::<i32>() {
                Ok(n) => return n.into(),
                Err(_) => match wrapped(text).filter(|_| self.wraps) {
                    Some(n) => return n.into(),
                    None => bad_number(text),
                },
            },
            (Type::Int64, Node::Number(text)) => match text.parse::<i64>() {
                Ok(n) => return n.into(),
                Err(_) => bad_number(text),
            },
            (Type::Float64, Node::Number(text)) => match text.parse::<f64>() {
                Ok(n) if n.is_finite() => return node::float(n),
                _ => bad_number(text),
            },
            (Type::Bytes, Node::String(text)) => match scalar::base64(text) {
                Ok(text) => return Value::String(text),
                Err(text) => Fail::Text(text),
            },
            _ => Fail::wrong(node, named),
        };
        self.save(fail);
        zero(base)
    }

    fn list(&mut self, node: &Node<'_>, item: &Type, named: &Type) -> Result<Value, Fail> {
        let items = match node {
            Node::Null => return Ok(Value::Null),
            Node::Array(items) => items,
            _ => {
                self.save(Fail::wrong(node, named));
                return Ok(Value::Null);
            }
        };
        let end = self.path.len();
        let mut out = Vec::with_capacity(items.len());
        for (index, node) in items.iter().enumerate() {
            self.path.push('[');
            self.path.push_str(&index.to_string());
            self.path.push(']');
            out.push(self.value(node, item)?);
            self.path.truncate(end);
        }
        Ok(Value::Array(out))
    }

    fn map(&mut self, node: &Node<'_>, item: &Type, named: &Type) -> Result<Value, Fail> {
        let entries = match node {
            Node::Null => return Ok(Value::Null),
            Node::Object(entries) => entries,
            _ => {
                self.save(Fail::wrong(node, named));
                return Ok(Value::Null);
            }
        };
        let end = self.path.len();
        let mut seen = Seen::new(entries.len());
        let mut out = Map::new();
        for (key, node) in entries {
            if seen.again(key) {
                self.report("duplicate", key);
            }
            self.enter(key);
            let value = self.value(node, item)?;
            self.path.truncate(end);
            out.insert(key.clone().into_owned(), value);
        }
        Ok(Value::Object(out))
    }

    fn enter(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }

    fn strukt(&mut self, node: &Node<'_>, id: TypeId, typ: &Type) -> Result<Value, Fail> {
        let strukt = id.get();
        let entries = match node {
            Node::Null => return Ok(zero_struct(strukt)),
            Node::Object(entries) => entries,
            _ => {
                self.save(Fail::wrong(node, typ));
                return Ok(zero_struct(strukt));
            }
        };
        self.structs += 1;
        if self.structs > STRUCTS_MAX {
            let why =
                format!("its lists have more than {STRUCTS_MAX} items, too many to be stored");
            return Err(Fail::Text(why));
        }
        let (outer, end) = (self.strukt, self.path.len());
        let mut found: Vec<Option<usize>> = vec![None; strukt.fields.len()];
        let mut values: Vec<Option<Value>> = vec![None; strukt.fields.len()];
        for (index, (key, node)) in entries.iter().enumerate() {
            let Some(place) = strukt.position(key) else {
                self.report("unknown", key);
                continue;
            };
            let field = &strukt.fields[place];
            let before = found[place].replace(index);
            if before.is_some() {
                self.report("duplicate", key);
            }
            self.strukt = Some(strukt.name);
            let depth = self.fields.len();
            self.fields.extend(embedding(strukt.name, field.name));
            self.fields.push(field.name);
            self.enter(key);
            let value = self.value(node, &field.typ)?;
            let value = match before.and_then(|i| entries.get(i)) {
                Some((_, first)) => second(first, node, field, value, &mut values[place]),
                None => value,
            };
            self.path.truncate(end);
            self.fields.truncate(depth);
            self.strukt = outer;
            values[place] = Some(value);
        }
        Ok(encode(strukt, values))
    }

    fn special(node: &Node<'_>, special: Special) -> Result<Value, Fail> {
        let text = |node: &Node<'_>| match node {
            Node::String(text) => Ok(text.clone().into_owned()),
            _ => Err(Fail::wrong(node, &Type::String)),
        };
        if let (Node::Null, false) = (node, special == Special::SchemaOrBool) {
            return Ok(zero_special(special));
        }
        Ok(match special {
            Special::Time => windlass_text::time::time(&text(node)?).map_err(Fail::Text)?.into(),
            Special::MicroTime => {
                windlass_text::time::micro_time(&text(node)?).map_err(Fail::Text)?.into()
            }
            Special::Duration => {
                let nanos = windlass_text::time::duration(&text(node)?).map_err(Fail::Text)?;
                windlass_text::time::format_duration(nanos).into()
            }
            Special::Quantity => scalar::quantity(node).map_err(Fail::Text)?.into(),
            Special::IntOrString => match node {
                Node::String(text) => text.clone().into_owned().into(),
                Node::Number(text) => match text.parse::<i32>() {
                    Ok(n) => n.into(),
                    Err(_) => {
                        let value = format!("number {text}");
                        return Err(Fail::Type { value, typ: "int32".into() });
                    }
                },
                other => return Err(Fail::wrong(other, &Type::Int32)),
            },
            Special::Raw | Special::Fields | Special::Json => {
                node.to_value().map_err(Fail::Text)?
            }
            Special::SchemaOrArray => match node {
                Node::Object(_) => inner(node, &Type::Named(go::schema_props()))?,
                Node::Array(items) if items.is_empty() => Value::Null,
                Node::Array(_) => {
                    inner(node, &Type::List(Box::new(Type::Named(go::schema_props()))))?
                }
                _ => Value::Null,
            },
            Special::SchemaOrBool => match node {
                Node::Object(_) => inner(node, &Type::Named(go::schema_props()))?,
                Node::Bool(b) => Value::Bool(*b),
                _ => return Err(Fail::Text("boolean or JSON schema expected".into())),
            },
            Special::SchemaOrStrings => match node {
                Node::Object(_) => inner(node, &Type::Named(go::schema_props()))?,
                Node::Array(items) if items.is_empty() => Value::Null,
                Node::Array(_) => inner(node, &Type::List(Box::new(Type::String)))?,
                _ => Value::Null,
            },
        })
    }
}

/// Whether a value fits a type that decodes itself.
///
/// # Errors
/// The decoder's text.
pub(super) fn special_fits(node: &Node<'_>, special: Special) -> Result<(), String> {
    Decoder::special(node, special).map(drop).map_err(|fail| fail.text(""))
}

/// A duplicate field: objects are decoded into the same value one after the other.
fn second(
    first: &Node<'_>,
    node: &Node<'_>,
    field: &GoField,
    value: Value,
    earlier: &mut Option<Value>,
) -> Value {
    let base = field.typ.base();
    match (first, node, base) {
        (Node::Object(a), Node::Object(b), Type::Map(..) | Type::Named(_)) => {
            let both = Node::Object(a.iter().chain(b).cloned().collect::<Vec<_>>());
            Decoder::new(true).run(&both, &field.typ).unwrap_or(value)
        }
        // A null changes nothing but pointers, lists and maps.
        (_, Node::Null, _) if !is_nillable(&field.typ) => earlier.take().unwrap_or(value),
        _ => value,
    }
}

/// A decoder inside a type's own decoder: it knows no strictness, and its failure is reported with
/// the place of the outer one.
fn inner(node: &Node<'_>, typ: &Type) -> Result<Value, Fail> {
    Decoder::new(true).run(node, typ).map_err(|(fail, _)| fail)
}

/// Writes a struct: what is empty is left out or filled in, as its tags say.
fn encode(strukt: &Struct, values: Vec<Option<Value>>) -> Value {
    let mut out = Map::new();
    for (field, value) in strukt.fields.iter().zip(values) {
        let value = match value {
            Some(value) => value,
            None if field.omit_empty && !is_struct(&field.typ) => continue,
            None => zero(&field.typ),
        };
        let empty = is_empty(&value, &field.typ);
        if empty && field.omit_empty || field.omit_zero && value.is_null() {
            continue;
        }
        // Storage knows no empty lists and maps, only absent ones; that of definitions does.
        let nil = empty
            && strukt.name != "CustomResourceDefinitionSpec"
            && matches!(value, Value::Array(_) | Value::Object(_));
        out.insert(field.name.to_owned(), if nil { Value::Null } else { value });
    }
    Value::Object(out)
}

fn is_empty(value: &Value, typ: &Type) -> bool {
    match typ {
        Type::Pointer(_) | Type::Any => value.is_null(),
        Type::Named(id) => match &id.get().named {
            Some(of) => is_empty(value, of),
            None => false,
        },
        Type::Special(_) => false,
        _ => match value {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Number(n) => n.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
        },
    }
}

fn is_struct(typ: &Type) -> bool {
    match typ {
        Type::Special(_) => true,
        Type::Named(id) => match &id.get().named {
            Some(of) => is_struct(of),
            None => true,
        },
        _ => false,
    }
}

fn is_nillable(typ: &Type) -> bool {
    match typ {
        Type::Pointer(_) | Type::List(_) | Type::Map(..) | Type::Bytes | Type::Any => true,
        Type::Named(id) => id.get().named.as_ref().is_some_and(is_nillable),
        _ => false,
    }
}

fn zero(typ: &Type) -> Value {
    match typ {
        Type::Bool => Value::Bool(false),
        Type::Float64 | Type::Int32 | Type::Int64 => 0.into(),
        Type::String => "".into(),
        Type::Any | Type::Bytes | Type::List(_) | Type::Map(..) | Type::Pointer(_) => Value::Null,
        Type::Special(special) => zero_special(*special),
        Type::Named(id) => match &id.get().named {
            Some(of) => zero(of),
            None => zero_struct(id.get()),
        },
    }
}

fn zero_struct(strukt: &Struct) -> Value {
    encode(strukt, vec![None; strukt.fields.len()])
}

fn zero_special(special: Special) -> Value {
    match special {
        Special::Duration => "0s".into(),
        Special::IntOrString => 0.into(),
        Special::Quantity => "0".into(),
        _ => Value::Null,
    }
}
