//! The shape of a kind as decoding, merging and apply see it: fields, list types, merge keys.
//!
//! Built-in kinds get theirs from their OpenAPI schema and the merge facts beside it
//! ([`crate::schema`]), custom kinds from their definition ([`crate::custom`]).
//!
//! **Invariant:** a shape is immutable and shared; recursion uses [`ShapeRef`].

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// A shared, possibly recursive reference to a shape.
#[derive(Clone)]
pub struct ShapeRef(Arc<Node>);

struct Node {
    cell: OnceLock<Shape>,
    make: Option<Box<dyn Fn() -> Shape + Send + Sync>>,
}

/// What is allowed in one place of an object.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The Go type's name for error texts: `DeploymentSpec`, `string`, `[]v1.Container`.
    pub go_type: String,
    /// The structure.
    pub kind: ShapeKind,
}

/// The structure of a [`Shape`].
#[derive(Clone, Debug)]
pub enum ShapeKind {
    /// Nothing is declared: everything is kept, apply deduces the structure from the value.
    Any,
    /// A single value.
    Scalar(Scalar),
    /// Named fields, and perhaps further ones.
    Object(Object),
    /// A list.
    List(List),
}

/// Single values, distinguished where decoding or comparing differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// `true` or `false`.
    Boolean,
    /// Base64 text.
    Bytes,
    /// Go `metav1.Duration` text.
    Duration,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// An integer or a string.
    IntOrString,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// A float.
    Number,
    /// A `resource.Quantity`; canonicalised on write.
    Quantity,
    /// Text.
    String,
    /// RFC 3339 with seconds.
    Time,
}

/// A struct or a map.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// Declared fields by JSON name.
    pub fields: BTreeMap<String, Field>,
    /// The shape of every other key (a Go map); `None` if there are no others.
    pub rest: Option<ShapeRef>,
    /// Unknown fields are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// `x-kubernetes-map-type: atomic`: apply owns the whole.
    pub atomic: bool,
    /// `x-kubernetes-embedded-resource`, or the root of an object.
    pub embedded: bool,
}

/// One declared field.
#[derive(Clone, Debug)]
pub struct Field {
    /// What is allowed there.
    pub shape: ShapeRef,
    /// Its default, used for associative keys that are left out.
    pub default: Option<Value>,
    /// Whether the field has to be there.
    pub required: bool,
    /// `x-kubernetes-patch-strategy`, split at commas: `merge`, `replace`, `retainKeys`.
    pub patch_strategy: Vec<String>,
    /// `x-kubernetes-patch-merge-key`.
    pub patch_merge_key: Option<String>,
}

/// A list and how it merges.
#[derive(Clone, Debug)]
pub struct List {
    /// Its items.
    pub item: ShapeRef,
    /// How apply merges it.
    pub merge: ListMerge,
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListMerge {
    /// Owned and replaced as a whole.
    Atomic,
    /// Items are unique scalars.
    Set,
    /// Items are objects identified by these keys.
    Map(Vec<String>),
}

// === impl ShapeRef ===

impl ShapeRef {
    /// Creates a reference to a shape that is there already.
    pub fn new(shape: Shape) -> Self {
        Self(Arc::new(Node { cell: OnceLock::from(shape), make: None }))
    }

    /// Returns a reference that makes its shape on first use.
    pub fn lazy(make: impl Fn() -> Shape + Send + Sync + 'static) -> Self {
        Self(Arc::new(Node { cell: OnceLock::new(), make: Some(Box::new(make)) }))
    }

    /// Returns the shape with nothing declared.
    pub fn any() -> Self {
        static ANY: OnceLock<ShapeRef> = OnceLock::new();
        ANY.get_or_init(|| {
            Self::new(Shape { go_type: "interface {}".into(), kind: ShapeKind::Any })
        })
        .clone()
    }

    /// Creates a scalar.
    pub fn scalar(scalar: Scalar) -> Self {
        Self::new(Shape { go_type: scalar.go_type().into(), kind: ShapeKind::Scalar(scalar) })
    }

    /// Returns the shape.
    pub fn get(&self) -> &Shape {
        self.0.cell.get_or_init(|| match &self.0.make {
            Some(make) => make(),
            None => Shape { go_type: "interface {}".into(), kind: ShapeKind::Any },
        })
    }

    /// Returns the structure.
    pub fn kind(&self) -> &ShapeKind {
        &self.get().kind
    }

    /// Returns the shape of a field or map key, if the shape has one.
    pub fn field(&self, name: &str) -> Option<&ShapeRef> {
        match self.kind() {
            ShapeKind::Object(o) => o.fields.get(name).map(|f| &f.shape).or(o.rest.as_ref()),
            _ => None,
        }
    }
}

impl std::fmt::Debug for ShapeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Shapes recurse: the name is enough, and printing must end.
        match self.0.cell.get() {
            Some(shape) => write!(f, "ShapeRef({})", shape.go_type),
            None => f.write_str("ShapeRef(..)"),
        }
    }
}

// === impl Scalar ===

impl Scalar {
    /// Returns the Go type's name.
    pub fn go_type(self) -> &'static str {
        match self {
            Self::Boolean => "bool",
            Self::Bytes => "[]uint8",
            Self::Duration => "v1.Duration",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::IntOrString => "intstr.IntOrString",
            Self::MicroTime => "v1.MicroTime",
            Self::Number => "float64",
            Self::Quantity => "resource.Quantity",
            Self::String => "string",
            Self::Time => "v1.Time",
        }
    }
}
