//! The shape of custom objects for decoding, merging and apply.

use std::collections::HashSet;

use std::sync::Arc;

use windlass_cel::Schema;

use crate::resource::Gvk;
use crate::shape::{Field, List, ListMerge, Object, Scalar, Shape, ShapeKind, ShapeRef};

/// Returns the shape of whole objects; made on first use.
pub fn of(schema: &Arc<Schema>, preserve_all: bool) -> ShapeRef {
    let schema = schema.clone();
    ShapeRef::lazy(move || {
        let mut shape = node(&schema);
        if !matches!(shape.kind, ShapeKind::Object(_)) {
            shape.kind = ShapeKind::Object(Object::default());
        }
        if let ShapeKind::Object(object) = &mut shape.kind {
            object.embedded = true;
            object.preserve_unknown |= preserve_all;
            add_meta(object);
        }
        shape
    })
}

/// Adds the fields every object has.
fn add_meta(object: &mut Object) {
    let config = crate::schema::shape_of(&Gvk::new("", "v1", "ConfigMap"));
    let metadata = config.field("metadata").cloned().unwrap_or_else(ShapeRef::any);
    for (name, shape) in [
        ("apiVersion", ShapeRef::scalar(Scalar::String)),
        ("kind", ShapeRef::scalar(Scalar::String)),
        ("metadata", metadata),
    ] {
        object.fields.insert(name.into(), field(shape, None, false));
    }
}

fn field(shape: ShapeRef, default: Option<serde_json::Value>, required: bool) -> Field {
    Field { shape, default, required, patch_strategy: Vec::new(), patch_merge_key: None }
}

fn node(schema: &Schema) -> Shape {
    let scalar = |scalar: Scalar| (scalar.go_type(), ShapeKind::Scalar(scalar));
    let (go_type, kind) = match schema.kind.as_str() {
        _ if schema.int_or_string => scalar(Scalar::IntOrString),
        "string" => scalar(Scalar::String),
        "integer" if schema.format == "int32" => scalar(Scalar::Int32),
        "integer" => scalar(Scalar::Int64),
        "number" => scalar(Scalar::Number),
        "boolean" => scalar(Scalar::Boolean),
        "array" => ("[]interface {}", ShapeKind::List(list(schema))),
        "object" => ("map[string]interface {}", ShapeKind::Object(object(schema))),
        _ => ("interface {}", ShapeKind::Any),
    };
    Shape { go_type: go_type.into(), kind }
}

fn list(schema: &Schema) -> List {
    let merge = match schema.list_type.as_deref() {
        Some("set") => ListMerge::Set,
        Some("map") => ListMerge::Map(schema.list_map_keys.clone()),
        _ => ListMerge::Atomic,
    };
    let item = schema.items.as_deref().map_or_else(ShapeRef::any, |s| ShapeRef::new(node(s)));
    List { item, merge }
}

fn object(schema: &Schema) -> Object {
    let required: HashSet<&String> = schema.required.iter().collect();
    let fields = schema.properties.iter().map(|(name, schema_of_field)| {
        let required = required.contains(name);
        let shape = ShapeRef::new(node(schema_of_field));
        (name.clone(), field(shape, schema_of_field.default.clone(), required))
    });
    let rest = schema
        .additional
        .as_ref()
        .filter(|additional| additional.allows)
        .map(|a| a.schema.as_deref().map_or_else(ShapeRef::any, |s| ShapeRef::new(node(s))));
    let mut object = Object {
        fields: fields.collect(),
        rest,
        preserve_unknown: schema.preserves(),
        atomic: schema.map_type.as_deref() == Some("atomic"),
        embedded: schema.embedded,
    };
    if schema.embedded {
        add_meta(&mut object);
    }
    object
}
