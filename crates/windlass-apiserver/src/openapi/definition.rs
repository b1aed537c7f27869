//! Schemas of the built-in types in both dialects of OpenAPI.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::Dialect;
use super::describe::Descriptions;
use crate::resource::{Gvk, builtins};
use crate::schema::go::{GoField, Special, Type, TypeId};
use crate::schema::{self, facts};

/// The definitions of some types and of all they refer to.
pub(super) struct Definitions<'d> {
    dialect: Dialect,
    texts: &'d Descriptions,
    found: BTreeMap<String, Value>,
}

/// The definition of patch bodies.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

// === impl Definitions ===

impl<'d> Definitions<'d> {
    /// Creates a set without definitions.
    pub fn new(dialect: Dialect, texts: &'d Descriptions) -> Self {
        Self { dialect, texts, found: BTreeMap::new() }
    }

    /// Adds a type and what it refers to.
    pub fn add(&mut self, id: TypeId) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let name = schema::definition_name(id.name());
            if self.found.contains_key(&name) || id.get().named.is_some() {
                continue;
            }
            let definition = self.strukt(id, &name, &mut open);
            self.found.insert(name, definition);
        }
    }

    /// Adds the built-in kind, if it is one.
    pub fn add_kind(&mut self, gvk: &Gvk) {
        if let Some(id) = schema::type_of(gvk) {
            self.add(id);
        }
    }

    /// Returns all of them by name, with the one for patches.
    pub fn finish(mut self) -> BTreeMap<String, Value> {
        let description = "Patch is provided to give a concrete name and type to the Kubernetes \
                           PATCH request body.";
        let patch = json!({"description": description, "type": "object"});
        self.found.insert(PATCH.into(), patch);
        self.found
    }

    fn strukt(&mut self, id: TypeId, name: &str, open: &mut Vec<TypeId>) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in &id.get().fields {
            let property = self.property(id, name, field, open);
            properties.insert(field.name.to_owned(), property);
            if field.required {
                required.push(field.name);
            }
        }
        let mut out = Map::new();
        if let Some(text) = self.texts.of_type(name) {
            out.insert("description".into(), text.into());
        }
        out.insert("type".into(), "object".into());
        if !properties.is_empty() {
            out.insert("properties".into(), properties.into());
        }
        if !required.is_empty() {
            out.insert("required".into(), required.into());
        }
        if let Some(kinds) = kinds_of(id.name()) {
            out.insert("x-kubernetes-group-version-kind".into(), kinds.clone().into());
        }
        let merge = facts::merge(id.name(), "");
        if let Some(merge) = merge.filter(|m| !m.map_type.is_empty()) {
            out.insert("x-kubernetes-map-type".into(), merge.map_type.into());
        }
        Value::Object(out)
    }

    fn property(
        &mut self,
        id: TypeId,
        name: &str,
        field: &GoField,
        open: &mut Vec<TypeId>,
    ) -> Value {
        let mut extra = Map::new();
        if let Some(text) = self.texts.of_field(name, field.name) {
            extra.insert("description".into(), text.into());
        }
        if let Some(values) = facts::enumeration(id.name(), field.name) {
            extra.insert("enum".into(), values.to_vec().into());
        }
        if let Some(default) = schema::default_of(id.name(), field.name) {
            extra.insert("default".into(), default);
        } else if let Some(zero) = zero_default(&field.typ, field.omit_empty)
            && self.dialect == Dialect::V3
        {
            extra.insert("default".into(), zero);
        }
        if let Some(merge) = facts::merge(id.name(), field.name) {
            extensions(merge, &mut extra);
        }
        self.place(&field.typ, extra, open)
    }

    /// The schema of a type at a place that has more to say about it.
    fn place(&mut self, typ: &Type, extra: Map<String, Value>, open: &mut Vec<TypeId>) -> Value {
        let mut schema = match typ {
            Type::Pointer(inner) => return self.place(inner, extra, open),
            Type::Named(id) => match &id.get().named {
                Some(of) => return self.place(of, extra, open),
                None => {
                    open.push(*id);
                    let name = schema::definition_name(id.name());
                    return self.dialect.reference(&name, extra);
                }
            },
            Type::Special(special) => {
                let (name, definition) = self.special(*special);
                self.found.entry(name.clone()).or_insert(definition);
                if matches!(
                    special,
                    Special::SchemaOrArray | Special::SchemaOrBool | Special::SchemaOrStrings
                ) {
                    open.push(schema::go::schema_props());
                }
                return self.dialect.reference(&name, extra);
            }
            Type::Any => Map::new(),
            Type::Bool => typed("boolean", ""),
            Type::Bytes => typed("string", "byte"),
            Type::Float64 => typed("number", "double"),
            Type::Int32 => typed("integer", "int32"),
            Type::Int64 => typed("integer", "int64"),
            Type::String => typed("string", ""),
            Type::List(item) => {
                let mut list = typed("array", "");
                list.insert("items".into(), self.item(item, open));
                list
            }
            Type::Map(_, item) => {
                let mut map = typed("object", "");
                map.insert("additionalProperties".into(), self.item(item, open));
                map
            }
        };
        schema.extend(extra);
        Value::Object(schema)
    }

    fn item(&mut self, typ: &Type, open: &mut Vec<TypeId>) -> Value {
        let mut extra = Map::new();
        if let Some(zero) = zero_default(typ, false)
            && self.dialect == Dialect::V3
        {
            extra.insert("default".into(), zero);
        }
        self.place(typ, extra, open)
    }

    fn special(&self, special: Special) -> (String, Value) {
        let name = schema::definition_name(special_name(special));
        let mut schema = match (special, self.dialect) {
            (Special::Time | Special::MicroTime, _) => typed("string", "date-time"),
            (Special::Duration, _) | (Special::Quantity, Dialect::V2) => typed("string", ""),
            (Special::IntOrString, Dialect::V2) => typed("string", "int-or-string"),
            (Special::Quantity, Dialect::V3) => object(json!({
                "oneOf": [{"type": "string"}, {"type": "number"}],
            })),
            (Special::IntOrString, Dialect::V3) => object(json!({
                "format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}],
            })),
            (Special::Raw | Special::Fields, _) => typed("object", ""),
            _ => Map::new(),
        };
        if let Some(text) = self.texts.of_type(&name) {
            schema.insert("description".into(), text.into());
        }
        (name, Value::Object(schema))
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn typed(typ: &str, format: &str) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("type".into(), typ.into());
    if !format.is_empty() {
        map.insert("format".into(), format.into());
    }
    map
}

/// Go's zero value, where the schema names it as the default.
fn zero_default(typ: &Type, omit_empty: bool) -> Option<Value> {
    match typ {
        Type::Named(id) => match &id.get().named {
            Some(of) => zero_default(of, omit_empty),
            None => Some(json!({})),
        },
        _ if omit_empty => None,
        Type::Bool => Some(false.into()),
        Type::Float64 | Type::Int32 | Type::Int64 => Some(0.into()),
        Type::String => Some("".into()),
        _ => None,
    }
}

fn extensions(merge: &facts::Merge, out: &mut Map<String, Value>) {
    for (key, text) in [
        ("x-kubernetes-list-type", merge.list_type),
        ("x-kubernetes-map-type", merge.map_type),
        ("x-kubernetes-patch-merge-key", merge.patch_merge_key),
        ("x-kubernetes-patch-strategy", merge.patch_strategy),
    ] {
        if !text.is_empty() {
            out.insert(key.into(), text.into());
        }
    }
    if !merge.list_map_keys.is_empty() {
        let keys: Vec<_> = merge.list_map_keys.split(',').collect();
        out.insert("x-kubernetes-list-map-keys".into(), keys.into());
    }
}

fn special_name(special: Special) -> &'static str {
    match special {
        Special::Duration => "apimachinery.pkg.apis.meta.v1.Duration",
        Special::Fields => "apimachinery.pkg.apis.meta.v1.FieldsV1",
        Special::IntOrString => "apimachinery.pkg.util.intstr.IntOrString",
        Special::MicroTime => "apimachinery.pkg.apis.meta.v1.MicroTime",
        Special::Quantity => "apimachinery.pkg.api.resource.Quantity",
        Special::Raw => "apimachinery.pkg.runtime.RawExtension",
        Special::Time => "apimachinery.pkg.apis.meta.v1.Time",
        Special::Json => "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        Special::SchemaOrArray => {
            "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"
        }
        Special::SchemaOrBool => {
            "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool"
        }
        Special::SchemaOrStrings => {
            "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray"
        }
    }
}

/// The kinds that a type is served as.
fn kinds_of(type_name: &str) -> Option<&'static Vec<Value>> {
    static KINDS: OnceLock<HashMap<String, Vec<Value>>> = OnceLock::new();
    let kinds = KINDS.get_or_init(|| {
        let mut kinds: HashMap<String, Vec<Value>> = HashMap::new();
        let mut add = |gvk: Gvk| {
            let Some(name) = schema::type_name(&gvk) else { return };
            let kind = json!({"group": &*gvk.group, "kind": &*gvk.kind, "version": &*gvk.version});
            let list = kinds.entry(name).or_default();
            if !list.contains(&kind) {
                list.push(kind);
            }
        };
        for kind in ["Status", "APIGroup", "APIGroupList", "APIResourceList", "APIVersions"] {
            add(Gvk::new("", "v1", kind));
        }
        for resource in builtins() {
            let own = |kind: &str| Gvk::new(&resource.gvk.group, &resource.gvk.version, kind);
            add(resource.gvk.clone());
            add(own(&resource.list_kind));
            add(own("DeleteOptions"));
            add(own("WatchEvent"));
            for sub in resource.subresources.values() {
                match &*sub.gvk.version {
                    "" => add(own(&sub.gvk.kind)),
                    _ => add(sub.gvk.clone()),
                }
            }
        }
        kinds
    });
    kinds.get(type_name)
}
