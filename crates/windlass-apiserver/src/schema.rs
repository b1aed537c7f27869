//! Schemas of the built-in kinds: their Go types, and the shapes that merging sees.
//!
//! The types come from a table of facts (`data/builtin-types.tsv`: every Go struct behind the
//! served kinds with the JSON names, types and omission rules of its fields), the merge facts,
//! enums and defaults from the tables beside it. So shapes do not depend on the Kubernetes
//! version that `k8s-openapi` was built for; only the descriptions of [`crate::openapi`] do.
//!
//! **Invariant:** nothing is parsed before it is asked for, and nothing twice in a process.

use std::sync::OnceLock;

use serde_json::Value;

use crate::resource::Gvk;
use crate::shape::{Field, List, ListMerge, Object, Scalar, Shape, ShapeKind, ShapeRef};

pub mod facts;
pub mod go;

use go::{GoField, Special, Type, TypeId};

/// Returns the shape of a built-in kind; one that allows anything for a kind that is not built in.
pub fn shape_of(gvk: &Gvk) -> ShapeRef {
    type_name(gvk).and_then(|name| shape_of_type(&name)).unwrap_or_else(ShapeRef::any)
}

/// Returns the shape of a built-in type by its name in the tables, `api.core.v1.PodSpec`.
pub fn shape_of_type(name: &str) -> Option<ShapeRef> {
    Some(struct_shape(go::lookup(name)?))
}

/// Returns the type behind a built-in kind, if there is one.
pub fn type_of(gvk: &Gvk) -> Option<TypeId> {
    go::lookup(&type_name(gvk)?)
}

/// Returns the name of the type behind a kind: `api.apps.v1.Deployment`.
///
/// The option and envelope kinds of `meta.k8s.io` are found under every group version, as the
/// real server registers them.
pub fn type_name(gvk: &Gvk) -> Option<String> {
    let package = package_of(&gvk.group, &gvk.version);
    let own = package.map(|package| format!("{package}.{}", gvk.kind));
    if let Some(name) = own
        && go::lookup(&name).is_some()
    {
        return Some(name);
    }
    let meta = format!("{META}.{}", gvk.kind);
    let shared = META_KINDS.contains(&&*gvk.kind) || &*gvk.group == "meta.k8s.io";
    (shared && go::lookup(&meta).is_some()).then_some(meta)
}

/// Returns the name of a type in OpenAPI documents: `io.k8s.api.apps.v1.Deployment`.
pub fn definition_name(type_name: &str) -> String {
    format!("io.k8s.{type_name}")
}

const META: &str = "apimachinery.pkg.apis.meta.v1";

/// Kinds of `meta.k8s.io/v1` that every group version knows.
const META_KINDS: [&str; 12] = [
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "Status",
    "UpdateOptions",
    "WatchEvent",
];

fn package_of(group: &str, version: &str) -> Option<String> {
    let short = match group {
        "" => "core",
        "apiextensions.k8s.io" => {
            return Some(format!("apiextensions-apiserver.pkg.apis.apiextensions.{version}"));
        }
        "apiregistration.k8s.io" => {
            return Some(format!("kube-aggregator.pkg.apis.apiregistration.{version}"));
        }
        "meta.k8s.io" => return Some(META.to_owned()),
        // Groups without a dot and those under k8s.io are named by their first part.
        other if !other.contains('.') || other.ends_with(".k8s.io") => {
            other.split('.').next().unwrap_or(other)
        }
        _ => return None,
    };
    Some(format!("api.{short}.{version}"))
}

fn struct_shape(id: TypeId) -> ShapeRef {
    static SHAPES: OnceLock<Vec<OnceLock<ShapeRef>>> = OnceLock::new();
    let shapes = SHAPES.get_or_init(|| (0..go::count()).map(|_| OnceLock::new()).collect());
    match shapes.get(id.index()) {
        Some(cell) => cell.get_or_init(|| ShapeRef::lazy(move || make_struct(id))).clone(),
        None => ShapeRef::any(),
    }
}

/// The default that the real server's schema has for texts that are always written.
fn zero_default(name: &str, field: &GoField) -> Option<Value> {
    let reference = name == "api.core.v1.LocalObjectReference";
    let text = match &field.typ {
        Type::Named(id) => id.get().named == Some(Type::String),
        typ => *typ == Type::String,
    };
    (text && (!field.omit_empty || reference)).then(|| Value::from(""))
}

fn make_struct(id: TypeId) -> Shape {
    let strukt = id.get();
    let name = id.name();
    if let Some(of) = &strukt.named {
        let merge = facts::merge(name, "");
        return Shape { go_type: strukt.reflect.clone(), ..make(of, merge).get().clone() };
    }
    let fields = strukt.fields.iter().map(|field| {
        let merge = facts::merge(name, field.name);
        let shape = make(&field.typ, merge);
        let split = |text: &str| text.split(',').map(str::to_owned).collect();
        let field_facts = Field {
            shape,
            default: facts::default(name, field.name)
                .and_then(|t| serde_json::from_str(t).ok())
                .or_else(|| zero_default(name, field)),
            required: field.required,
            patch_strategy: merge.map_or_else(Vec::new, |m| match m.patch_strategy {
                "" => Vec::new(),
                text => split(text),
            }),
            patch_merge_key: merge
                .filter(|m| !m.patch_merge_key.is_empty())
                .map(|m| m.patch_merge_key.to_owned()),
        };
        (field.name.to_owned(), field_facts)
    });
    let object = Object {
        fields: fields.collect(),
        rest: None,
        preserve_unknown: false,
        atomic: facts::merge(name, "").is_some_and(|m| m.map_type == "atomic"),
        embedded: strukt.is_object(),
    };
    Shape { go_type: strukt.reflect.clone(), kind: ShapeKind::Object(object) }
}

/// The shape of a type at a place with these merge facts.
fn make(typ: &Type, merge: Option<&facts::Merge>) -> ShapeRef {
    let scalar = match typ {
        Type::Bool => Scalar::Boolean,
        Type::Int32 => Scalar::Int32,
        Type::Int64 => Scalar::Int64,
        Type::Float64 => Scalar::Number,
        Type::String => Scalar::String,
        Type::Bytes => Scalar::Bytes,
        Type::Any => return ShapeRef::any(),
        Type::Special(special) => return make_special(*special),
        Type::Pointer(inner) => return make(inner, merge),
        Type::List(item) => {
            let list = List { item: make(item, None), merge: list_merge(merge) };
            return ShapeRef::new(Shape { go_type: typ.reflect(), kind: ShapeKind::List(list) });
        }
        Type::Map(_, value) => {
            let object = Object {
                rest: Some(make(value, None)),
                atomic: merge.is_some_and(|m| m.map_type == "atomic"),
                ..Object::default()
            };
            return ShapeRef::new(Shape {
                go_type: typ.reflect(),
                kind: ShapeKind::Object(object),
            });
        }
        Type::Named(id) => return make_named(*id, merge),
    };
    ShapeRef::scalar(scalar)
}

/// A named type: its own shared shape, or a copy where the field says how to merge it.
fn make_named(id: TypeId, merge: Option<&facts::Merge>) -> ShapeRef {
    match &id.get().named {
        Some(of) => {
            let shape = make(of, merge).get().clone();
            ShapeRef::new(Shape { go_type: id.get().reflect.clone(), ..shape })
        }
        None if merge.is_some_and(|m| !m.map_type.is_empty()) => {
            let atomic = merge.is_some_and(|m| m.map_type == "atomic");
            let whole = struct_shape(id);
            // The copy shares the fields' shapes and differs in one flag.
            ShapeRef::lazy(move || {
                let mut shape = whole.get().clone();
                if let ShapeKind::Object(object) = &mut shape.kind {
                    object.atomic = atomic;
                }
                shape
            })
        }
        None => struct_shape(id),
    }
}

fn make_special(special: Special) -> ShapeRef {
    let scalar = match special {
        Special::Duration => Scalar::Duration,
        Special::IntOrString => Scalar::IntOrString,
        Special::MicroTime => Scalar::MicroTime,
        Special::Quantity => Scalar::Quantity,
        Special::Time => Scalar::Time,
        // This value is not merged inside: it has one owner as a whole.
        Special::Raw | Special::Fields | Special::Json => {
            let object = Object { preserve_unknown: true, atomic: true, ..Object::default() };
            return match special {
                Special::Json => ShapeRef::any(),
                _ => ShapeRef::new(Shape {
                    go_type: special.reflect().into(),
                    kind: ShapeKind::Object(object),
                }),
            };
        }
        Special::SchemaOrArray | Special::SchemaOrBool | Special::SchemaOrStrings => {
            return ShapeRef::any();
        }
    };
    ShapeRef::scalar(scalar)
}

fn list_merge(merge: Option<&facts::Merge>) -> ListMerge {
    match merge.map(|m| (m.list_type, m.list_map_keys)) {
        Some(("set", _)) => ListMerge::Set,
        Some(("map", keys)) => ListMerge::Map(keys.split(',').map(str::to_owned).collect()),
        _ => ListMerge::Atomic,
    }
}

/// Returns the values a built-in field may have, sorted, if it is an enumeration.
///
/// ```
/// use windlass_apiserver::schema;
///
/// let policies = schema::enum_of("api.core.v1.Container", "imagePullPolicy").unwrap();
/// assert!(policies.contains(&"Always"));
/// ```
pub fn enum_of(type_name: &str, field: &str) -> Option<&'static [&'static str]> {
    facts::enumeration(type_name, field)
}

/// Returns the default that the schema of a built-in field names.
pub fn default_of(type_name: &str, field: &str) -> Option<Value> {
    serde_json::from_str(facts::default(type_name, field)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::builtins;

    fn object(shape: &ShapeRef) -> &Object {
        match shape.kind() {
            ShapeKind::Object(object) => object,
            other => panic!("no object: {other:?}"),
        }
    }

    #[test]
    fn every_built_in_kind_has_a_type() {
        for resource in builtins() {
            assert!(type_of(&resource.gvk).is_some(), "{}", resource.gvk);
            assert!(matches!(resource.shape.kind(), ShapeKind::Object(_)));
            for sub in resource.subresources.values() {
                let version = match &*sub.gvk.version {
                    "" => Gvk { kind: sub.gvk.kind.clone(), ..resource.gvk.clone() },
                    _ => sub.gvk.clone(),
                };
                assert!(type_of(&version).is_some(), "{version}");
            }
        }
    }

    #[test]
    fn containers_merge_by_name_and_know_their_default_protocol() {
        let pod = shape_of(&Gvk::new("", "v1", "Pod"));
        let spec = pod.field("spec").unwrap();
        let containers = &object(spec).fields["containers"];
        assert_eq!(containers.patch_merge_key.as_deref(), Some("name"));
        assert_eq!(containers.patch_strategy, ["merge"]);
        let ShapeKind::List(list) = containers.shape.kind() else { panic!("no list") };
        assert_eq!(list.merge, ListMerge::Map(vec!["name".into()]));
        assert_eq!(containers.shape.get().go_type, "[]v1.Container");
        let ShapeKind::List(ports) = list.item.field("ports").unwrap().kind() else {
            panic!("no list")
        };
        assert_eq!(ports.merge, ListMerge::Map(vec!["containerPort".into(), "protocol".into()]));
        let protocol = &object(&ports.item).fields["protocol"];
        assert_eq!(protocol.default, Some(Value::from("TCP")));
    }

    #[test]
    fn a_selector_is_atomic_and_recursive_schemas_end() {
        let deployment = shape_of(&Gvk::new("apps", "v1", "Deployment"));
        let selector = deployment.field("spec").unwrap().field("selector").unwrap();
        assert!(object(selector).atomic);
        let crd = shape_of(&Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
        let versions = crd.field("spec").unwrap().field("versions").unwrap();
        let ShapeKind::List(list) = versions.kind() else { panic!("no list") };
        let schema = list.item.field("schema").unwrap().field("openAPIV3Schema").unwrap();
        let deeper = schema.field("not").unwrap().field("not").unwrap();
        assert_eq!(deeper.get().go_type, "v1.JSONSchemaProps");
    }

    #[test]
    fn option_kinds_are_known_in_every_group_and_custom_kinds_are_not() {
        assert!(type_of(&Gvk::new("apps", "v1", "DeleteOptions")).is_some());
        assert!(type_of(&Gvk::new("autoscaling", "v1", "Scale")).is_some());
        assert!(type_of(&Gvk::new("example.com", "v1", "Boat")).is_none());
        let any = shape_of(&Gvk::new("example.com", "v1", "Boat"));
        assert!(matches!(any.kind(), ShapeKind::Any));
    }
}
