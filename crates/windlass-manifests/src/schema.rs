//! Structural schemas of types.
//!
//! Every type of an API implements [`schemars::JsonSchema`]; [`macro@crate::k8s`] implements it by
//! handing a description of the type to [`object`], [`newtype`] or [`union`](union()). What these
//! return is a structural schema already: references are resolved, types of other crates are made
//! structural (`structural`), types of Kubernetes get the facts that their schemas lack
//! (`overlay`), and rules are applied (`rule`).
//!
//! **Invariant:** building a schema never fails. What a structural schema cannot express becomes a
//! `$ref` that names the reason. No API server accepts a `$ref`, and [`crate::crd::check`] reports it.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

pub mod bytes;
pub mod duration;
pub mod fields;
pub mod unit;

pub(crate) mod cel;
mod flatten;
pub(crate) mod keys;
mod overlay;
mod rule;
mod structural;
mod union;

pub use bytes::Bytes;
pub use rule::{Cel, Count, Rule};
pub use union::{Content, Tagging, Union, Variant, union};

pub(crate) use rule::{INT_OR_STRING, PRESERVE};

use structural::{structural, unsupported};

/// Marks a schema that is structural already.
const STRUCTURAL: &str = "x-windlass-structural";

/// Marks a schema that comes from Kubernetes' own types, whose documentation may be dropped.
pub(crate) const FOREIGN: &str = "x-windlass-foreign";

/// Holds what the keys of a map look like.
const KEYS: &str = "x-windlass-keys";

/// Holds the maximum of a `u32` in a format that is wider than `int32`.
const WIDE: &str = "x-windlass-wide";

/// Holds how a console shows a field.
pub(crate) const UI: &str = "x-windlass-ui";

/// The schema of a field before the rules of the field apply.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A struct with named fields.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    /// The documentation of the type.
    pub doc: &'a str,
    /// The fields, in their order.
    pub fields: &'a [Field<'a>],
    /// The rules of the type.
    pub rules: &'a [Rule<'a>],
}

/// One field of a struct.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    /// The name in JSON.
    pub name: &'a str,
    /// The documentation of the field.
    pub doc: &'a str,
    /// Whether every object has the field.
    pub required: bool,
    /// Whether the fields of the value are fields of the struct.
    pub flatten: bool,
    /// The schema of the type.
    pub schema: SchemaOf,
    /// The rules of the field.
    pub rules: &'a [Rule<'a>],
}

/// The structural schema of a type: of a kind of an operator, or of one of Kubernetes' own.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pod = windlass_manifests::schema::of::<Pod>();
/// let containers = &pod["properties"]["spec"]["properties"]["containers"];
/// assert_eq!(containers["x-kubernetes-list-map-keys"][0], "name");
/// ```
pub fn of<T: JsonSchema>() -> Value {
    let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
    Value::Object(field_schema(&mut generator, SchemaGenerator::subschema_for::<T>))
}

/// The schema of a struct with named fields.
pub fn object(generator: &mut SchemaGenerator, object: &Object<'_>) -> Schema {
    let mut schema = fields(generator, object.fields);
    describe(&mut schema, object.doc);
    rule::apply_all(&mut schema, object.rules);
    finish(schema)
}

/// The schema of a struct with one unnamed field, which is the schema of that field.
pub fn newtype(
    generator: &mut SchemaGenerator,
    doc: &str,
    inner: SchemaOf,
    rules: &[Rule<'_>],
) -> Schema {
    let mut schema = field_schema(generator, inner);
    describe(&mut schema, doc);
    rule::apply_all(&mut schema, rules);
    finish(schema)
}

/// The schema of a value without a type, for fields that describe themselves by rules alone.
pub fn any(_: &mut SchemaGenerator) -> Schema {
    finish(Map::new())
}

/// The schema of an object with these fields.
fn fields(generator: &mut SchemaGenerator, fields: &[Field<'_>]) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    for field in fields {
        let mut value = field_schema(generator, field.schema);
        if field.flatten {
            flatten::flatten(&mut schema, value, field.required);
            continue;
        }
        describe(&mut value, field.doc);
        if let Some(attribute) = rule::counts_fields(&value, field.rules) {
            value = unsupported(format_args!(
                "`{attribute}` applies to maps, but this is a struct, put it on the type or use `at_least_one_of`"
            ));
        }
        rule::apply_all(&mut value, field.rules);
        if field.rules.iter().any(|rule| matches!(rule, Rule::Immutable)) && !field.required {
            rule::push_cel(&mut schema, cel::immutable_once_set(field.name));
        }
        let twice = entry(&mut schema, "properties").insert(field.name.into(), value.into());
        if twice.is_some() {
            flatten::twice(&mut schema, field.name);
        }
        if field.required {
            require(&mut schema, field.name);
        }
    }
    schema
}

fn field_schema(generator: &mut SchemaGenerator, of: SchemaOf) -> Map<String, Value> {
    let schema = of(generator);
    structural(schema.to_value(), generator.definitions())
}

fn describe(schema: &mut Map<String, Value>, doc: &str) {
    if !doc.is_empty() {
        schema.insert("description".into(), doc.into());
    }
}

fn finish(mut schema: Map<String, Value>) -> Schema {
    schema.insert(STRUCTURAL.into(), true.into());
    schema.into()
}

/// The object at `key`, which is added if it is missing.
fn entry<'a>(schema: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = schema.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("it was made an object above")
}

fn require(schema: &mut Map<String, Value>, name: &str) {
    let slot = schema.entry("required").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(names) = slot
        && !names.iter().any(|known| known == name)
    {
        names.push(name.into());
    }
}
