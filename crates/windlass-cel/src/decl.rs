//! What values look like: declarations made from schemas, with the sizes that bound costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::escape::escape;
use super::types::Type;
use crate::schema::Schema;

/// The largest request, in bytes.
pub const REQUEST_MAX: i64 = 3 * 1024 * 1024;

/// What a value looks like.
#[derive(Clone, Debug)]
pub struct Decl {
    /// Its kind, and what it is made of.
    pub shape: Shape,
    /// How many characters, items or entries it has at most.
    pub max: i64,
    /// The fewest bytes it takes as JSON.
    pub min_size: i64,
    /// Whether it may be null.
    pub nullable: bool,
}

/// The kind of a value.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Whatever the JSON is.
    Dyn,
    /// Data that can only be compared.
    Raw,
    /// A whole number or a text.
    IntOrString,
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Double,
    /// A text.
    Str,
    /// Bytes, as base64 in JSON.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A day.
    Date,
    /// A span of time.
    Duration,
    /// A list.
    List(Arc<Decl>, ListKind),
    /// A map.
    Map(Arc<Decl>),
    /// An object with declared fields.
    Object(Arc<Object>),
    /// A value that does not come from JSON, of the given type.
    Value(Type),
}

/// How items of a list relate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// By their order.
    #[default]
    Atomic,
    /// As members of a set.
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

/// An object with declared fields.
#[derive(Debug, Default)]
pub struct Object {
    /// The name of the type.
    pub name: String,
    /// The fields, by the names that expressions use.
    pub fields: BTreeMap<String, Field>,
    /// The declarations, by the names in JSON.
    pub by_key: BTreeMap<String, Arc<Decl>>,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name in JSON.
    pub key: String,
    /// What it looks like.
    pub decl: Arc<Decl>,
}

// === impl Decl ===

/// What values look like of which nothing is known.
pub static DYN: Decl = Decl { shape: Shape::Dyn, max: 0, min_size: 0, nullable: true };

/// What data looks like that schemas do not tell about.
pub static RAW: Decl = Decl { shape: Shape::Raw, max: 0, min_size: 0, nullable: true };

impl Decl {
    /// Creates a declaration without bounds.
    pub fn new(shape: Shape) -> Self {
        Self { shape, max: 0, min_size: 1, nullable: false }
    }

    /// Declares anything; it is checked at run time.
    pub fn dynamic() -> Self {
        DYN.clone()
    }

    /// Creates an object of a named type with the given fields.
    pub fn object(name: &str, fields: impl IntoIterator<Item = (String, Self)>) -> Self {
        let mut object = Object { name: name.to_owned(), ..Object::default() };
        for (key, decl) in fields {
            object.add(&key, Arc::new(decl));
        }
        Self::new(Shape::Object(Arc::new(object)))
    }

    /// Creates a list of what is given.
    pub fn list(item: Self) -> Self {
        Self::new(Shape::List(Arc::new(item), ListKind::Atomic))
    }

    /// Creates a map from strings to what is given.
    pub fn map(value: Self) -> Self {
        Self::new(Shape::Map(Arc::new(value)))
    }

    /// Returns a declaration of what a schema describes, if rules can see it; `root` adds the
    /// fields every object has.
    pub fn from_schema(schema: &Schema, root: bool, name: &str) -> Option<Self> {
        let mut decl = Self::of_schema(schema, root, name)?;
        decl.nullable = schema.nullable;
        Some(decl)
    }

    fn of_schema(schema: &Schema, root: bool, name: &str) -> Option<Self> {
        let sized = |shape, min_size, max| Self { shape, max, min_size, nullable: false };
        let longest = schema.max_length.map_or(REQUEST_MAX - 2, |max| max.max(0).saturating_mul(4));
        if schema.int_or_string {
            return Some(sized(Shape::IntOrString, 1, longest));
        }
        match schema.kind.as_str() {
            "array" => {
                let items = schema.items.as_deref()?;
                let item = Self::from_schema(items, items.embedded, &format!("{name}.@idx"))?;
                let fits = (REQUEST_MAX - 2) / (item.min_size + 1);
                let max = schema.max_items.map_or(fits, |max| max.max(0));
                let kind = match schema.list_type.as_deref() {
                    Some("set") => ListKind::Set,
                    Some("map") => ListKind::Map(schema.list_map_keys.clone()),
                    _ => ListKind::Atomic,
                };
                Some(sized(Shape::List(Arc::new(item), kind), 2, max))
            }
            "object" => match schema.additional_schema() {
                Some(further) => {
                    let below = format!("{name}.@elem");
                    let value = Self::from_schema(further, further.embedded, &below)?;
                    let fits = (REQUEST_MAX - 2) / (value.min_size + 6);
                    let max = schema.max_properties.map_or(fits, |max| max.max(0));
                    Some(sized(Shape::Map(Arc::new(value)), 2, max))
                }
                None => Some(Self::of_object(schema, root, name)),
            },
            "string" => Some(match schema.format.as_str() {
                "byte" => {
                    let max = schema.max_length.map_or(REQUEST_MAX - 2, |max| max.max(0));
                    sized(Shape::Bytes, 2, max)
                }
                "duration" => sized(Shape::Duration, 3, 32),
                "date" => sized(Shape::Date, 12, 12),
                "date-time" => sized(Shape::Timestamp, 21, 32),
                _ if schema.max_length.is_none() && !schema.allowed.is_empty() => {
                    let lengths = schema.allowed.iter().filter_map(|v| v.as_str()).map(str::len);
                    sized(Shape::Str, 2, i64::try_from(lengths.max().unwrap_or(0)).ok()?)
                }
                _ => sized(Shape::Str, 2, longest),
            }),
            "boolean" => Some(sized(Shape::Bool, 4, 0)),
            "number" => Some(sized(Shape::Double, 1, 0)),
            "integer" => Some(sized(Shape::Int, 1, 0)),
            _ => None,
        }
    }

    fn of_object(schema: &Schema, root: bool, name: &str) -> Self {
        let mut object = Object { name: name.to_owned(), ..Object::default() };
        let mut min_size = 2_i64;
        let meta = root && !has_meta(schema);
        for (key, property) in &schema.properties {
            if meta && matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
                continue;
            }
            let below = format!("{name}.{}", escape(key).unwrap_or_default());
            let Some(decl) = Self::from_schema(property, property.embedded, &below) else {
                object.by_key.insert(key.clone(), Arc::new(RAW.clone()));
                continue;
            };
            if schema.required.contains(key) && property.default.is_none() {
                min_size += key.len() as i64 + decl.min_size + 4;
            }
            object.add(key, Arc::new(decl));
        }
        if meta {
            let text = || Self { max: REQUEST_MAX - 2, min_size: 2, ..Self::new(Shape::Str) };
            let names = ["name", "generateName"].map(|key| (key.to_owned(), text()));
            let mut metadata = Self::object(&format!("{name}.metadata"), names);
            metadata.min_size = 2;
            let all = [("kind", text()), ("apiVersion", text()), ("metadata", metadata)];
            for (key, decl) in all {
                if schema.required.iter().any(|required| required == key) {
                    min_size += key.len() as i64 + decl.min_size + 4;
                }
                object.add(key, Arc::new(decl));
            }
        }
        let nullable = false;
        Self { shape: Shape::Object(Arc::new(object)), max: 0, min_size, nullable }
    }

    /// Returns the type of such values in expressions.
    pub fn ty(&self) -> Type {
        match &self.shape {
            Shape::Dyn | Shape::Raw | Shape::IntOrString => Type::Dyn,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Double => Type::Double,
            Shape::Str => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Timestamp | Shape::Date => Type::Timestamp,
            Shape::Duration => Type::Duration,
            Shape::List(item, _) => item.ty().list(),
            Shape::Map(value) => Type::map(Type::String, value.ty()),
            Shape::Object(object) => Type::Object(object.clone()),
            Shape::Value(ty) => ty.clone(),
        }
    }

    /// Returns what items or values below look like.
    pub fn item(&self) -> Option<&Self> {
        match &self.shape {
            Shape::List(item, _) | Shape::Map(item) => Some(item),
            _ => None,
        }
    }
}

fn has_meta(schema: &Schema) -> bool {
    let is = |schema: &Schema, key: &str, kind: &str| {
        schema.properties.get(key).is_some_and(|property| property.kind == kind)
    };
    is(schema, "kind", "string")
        && is(schema, "apiVersion", "string")
        && is(schema, "metadata", "object")
        && schema.properties.get("metadata").is_some_and(|metadata| {
            is(metadata, "name", "string") && is(metadata, "generateName", "string")
        })
}

// === impl Object ===

impl Object {
    fn add(&mut self, key: &str, decl: Arc<Decl>) {
        if let Some(name) = escape(key) {
            self.fields.insert(name, Field { key: key.to_owned(), decl: decl.clone() });
        }
        self.by_key.insert(key.to_owned(), decl);
    }
}
