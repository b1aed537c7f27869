//! CustomResourceDefinitions of kinds.
//!
//! [`macro@crate::api`] writes down a [`Definition`], from which [`Definition::crd`] makes the manifest.
//! [`merge`] joins the versions of a kind, [`check`] finds what the API server would refuse,
//! [`document`] decides how much documentation is kept, and [`to_value`] is the manifest as data.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::schema::{Field, Object};
use crate::schema::{Rule, SchemaOf, UI, keys, object};

mod check;
pub(crate) mod default;
mod documentation;
mod merge;
mod path;

pub use check::{Problem, Problems, check, check_crd};
pub use documentation::{SIZE_BUDGET, document};
pub use merge::{MergeError, merge};

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object.\nServers should convert recognized schemas to the latest internal value, and\nmay reject unrecognized values.\nMore info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents.\nServers may infer this from the endpoint the client submits requests to.\nCannot be updated.\nIn CamelCase.\nMore info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// A kind that [`macro@crate::api`] defines.
pub trait Api: CustomResourceExt {
    /// What the attribute says.
    const DEFINITION: Definition<'static>;
}

/// A kind: its names, and everything else that its definition says.
#[derive(Clone, Copy)]
pub struct Definition<'a> {
    /// The API group.
    pub group: &'a str,
    /// The name of the version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The name of the resource.
    pub plural: &'a str,
    /// The name of one object.
    pub singular: &'a str,
    /// Whether objects belong to a namespace.
    pub namespaced: bool,
    /// Short names for the command line.
    pub short: &'a [&'a str],
    /// Groups of resources for the command line, such as `all`.
    pub categories: &'a [&'a str],
    /// The documentation of the kind.
    pub doc: &'a str,
    /// The columns of tables.
    pub columns: &'a [Column<'a>],
    /// The subresource `scale`.
    pub scale: Option<Scale<'a>>,
    /// Whether objects are stored in this version.
    pub storage: bool,
    /// Whether the version is served.
    pub served: bool,
    /// Whether the version is deprecated.
    pub deprecated: bool,
    /// The warning of a deprecated version.
    pub deprecation_warning: Option<&'a str>,
    /// The paths of fields that field selectors know.
    pub selectable: &'a [&'a str],
    /// Labels of the definition.
    pub labels: &'a [(&'a str, &'a str)],
    /// Annotations of the definition.
    pub annotations: &'a [(&'a str, &'a str)],
    /// Rules of the whole object.
    pub rules: &'a [Rule<'a>],
    /// The schema of the spec.
    pub spec: SchemaOf,
    /// Whether every object has a spec.
    pub spec_required: bool,
    /// Rules of the spec beside those of its type.
    pub spec_rules: &'a [Rule<'a>],
    /// Whether there is no spec, and what would be its fields are fields of the object.
    pub flat: bool,
    /// The schema of the status, if the kind has one.
    pub status: Option<SchemaOf>,
    /// Rules of the status beside those of its type.
    pub status_rules: &'a [Rule<'a>],
    /// How a catalog shows the kind, as JSON.
    pub ui: Option<&'a str>,
}

/// One column of tables.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// The heading.
    pub name: &'a str,
    /// The path of the value.
    pub path: &'a str,
    /// The type; that of the field if it is not given.
    pub kind: Option<&'a str>,
    /// The format.
    pub format: Option<&'a str>,
    /// What the column shows.
    pub description: Option<&'a str>,
    /// 0 for columns that are always shown.
    pub priority: i32,
}

/// The paths of the subresource `scale`.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// The wanted number.
    pub spec: &'a str,
    /// The number that is there.
    pub status: &'a str,
    /// The label selector of what is scaled, as text.
    pub selector: Option<&'a str>,
}

/// How a catalog shows one field of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// The path of the field, below `spec` or `status`.
    pub path: String,
    /// What the attribute `ui` says: `displayName`, `xDescriptors`, `order`.
    pub ui: Value,
}

/// Returns the manifest as data, with whole numbers written as such.
pub fn to_value(crd: &CustomResourceDefinition) -> Value {
    let mut value = serde_json::to_value(crd).unwrap_or_default();
    whole_numbers(&mut value);
    value
}

fn whole_numbers(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (keyword, value) in map {
                let numeric = matches!(keyword.as_str(), "minimum" | "maximum" | "multipleOf");
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the number is whole and small enough"
                )]
                match value.as_f64() {
                    Some(number) if numeric && number.fract() == 0.0 && number.abs() < 9.3e18 => {
                        *value = json!(number as i64);
                    }
                    _ => whole_numbers(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(whole_numbers),
        _ => {}
    }
}

// === impl Definition ===

impl Definition<'_> {
    /// Returns the manifest of the definition.
    pub fn crd(&self) -> CustomResourceDefinition {
        let mut schema = self.root();
        keys::add_rules(&mut schema);
        let columns = self.columns.iter().map(|column| column.to_value(&schema)).collect();
        documentation::fit(&mut schema);
        clean(&mut schema);
        self.manifest(schema, columns).unwrap_or_else(|error| {
            let why = format!("unsupported: the schema cannot be written, {error}");
            let schema = Map::from_iter([("$ref".to_owned(), why.into())]);
            self.manifest(schema, Vec::new()).expect("names and a reference are a definition")
        })
    }

    fn manifest(
        &self,
        schema: Map<String, Value>,
        columns: Vec<Value>,
    ) -> Result<CustomResourceDefinition, serde_json::Error> {
        serde_json::from_value(json!({
            "metadata": self.metadata(),
            "spec": {
                "group": self.group,
                "names": self.names(),
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "versions": [self.version_value(schema, columns)],
            },
        }))
    }

    /// Returns how a catalog shows the fields of the spec and of the status.
    pub fn descriptors(&self) -> Vec<Descriptor> {
        let mut found = Vec::new();
        describe(&Value::Object(self.root()), String::new(), &mut found);
        found
    }

    fn metadata(&self) -> Value {
        let texts = |pairs: &[(&str, &str)]| -> Map<String, Value> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect()
        };
        let mut metadata = Map::new();
        metadata.insert("name".into(), format!("{}.{}", self.plural, self.group).into());
        for (key, pairs) in [("labels", self.labels), ("annotations", self.annotations)] {
            if !pairs.is_empty() {
                metadata.insert(key.into(), Value::Object(texts(pairs)));
            }
        }
        Value::Object(metadata)
    }

    fn names(&self) -> Value {
        let mut names = Map::new();
        names.insert("kind".into(), self.kind.into());
        names.insert("listKind".into(), format!("{}List", self.kind).into());
        names.insert("plural".into(), self.plural.into());
        names.insert("singular".into(), self.singular.into());
        for (key, list) in [("shortNames", self.short), ("categories", self.categories)] {
            if !list.is_empty() {
                names.insert(key.into(), json!(list));
            }
        }
        Value::Object(names)
    }

    fn version_value(&self, schema: Map<String, Value>, columns: Vec<Value>) -> Value {
        let mut version = Map::new();
        version.insert("name".into(), self.version.into());
        version.insert("served".into(), self.served.into());
        version.insert("storage".into(), self.storage.into());
        version.insert("schema".into(), json!({ "openAPIV3Schema": schema }));
        if self.deprecated {
            version.insert("deprecated".into(), true.into());
        }
        if let Some(warning) = self.deprecation_warning {
            version.insert("deprecationWarning".into(), warning.into());
        }
        if !columns.is_empty() {
            version.insert("additionalPrinterColumns".into(), Value::Array(columns));
        }
        if !self.selectable.is_empty() {
            let fields: Vec<Value> =
                self.selectable.iter().map(|path| json!({ "jsonPath": path })).collect();
            version.insert("selectableFields".into(), Value::Array(fields));
        }
        let mut subresources = Map::new();
        if self.status.is_some() {
            subresources.insert("status".into(), json!({}));
        }
        if let Some(scale) = self.scale {
            subresources.insert("scale".into(), scale.to_value());
        }
        if !subresources.is_empty() {
            version.insert("subresources".into(), Value::Object(subresources));
        }
        Value::Object(version)
    }

    /// The schema of the whole object.
    fn root(&self) -> Map<String, Value> {
        match self.schema().to_value() {
            Value::Object(root) => root,
            _ => Map::new(),
        }
    }

    /// Returns the schema of objects of the kind.
    pub fn schema(&self) -> schemars::Schema {
        let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
        let field = |name, doc, required, schema| Field {
            name,
            doc,
            required,
            flatten: false,
            schema,
            rules: &[],
        };
        let mut fields = vec![
            field(
                "apiVersion",
                API_VERSION,
                false,
                SchemaGenerator::subschema_for::<String> as SchemaOf,
            ),
            field("kind", KIND, false, SchemaGenerator::subschema_for::<String>),
            field("metadata", "", false, metadata_schema),
            Field {
                flatten: self.flat,
                rules: self.spec_rules,
                ..field("spec", "", self.spec_required, self.spec)
            },
        ];
        fields.extend(self.status.map(|status| Field {
            rules: self.status_rules,
            ..field("status", "", false, status)
        }));
        let root = Object { doc: self.doc, fields: &fields, rules: self.rules };
        object(&mut generator, &root)
    }
}

fn metadata_schema(_: &mut SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object" })
}

/// Removes the keywords that are for this crate alone.
fn clean(schema: &mut Map<String, Value>) {
    schema.retain(|keyword, _| !keyword.starts_with("x-windlass-"));
    let embedded = schema.contains_key("x-kubernetes-embedded-resource");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        if embedded && properties.contains_key("metadata") {
            properties.insert("metadata".into(), json!({ "type": "object" }));
        }
        properties.values_mut().filter_map(Value::as_object_mut).for_each(clean);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(Value::Object(child)) = schema.get_mut(keyword) {
            clean(child);
        }
    }
}

fn describe(schema: &Value, path: String, found: &mut Vec<Descriptor>) {
    if let Some(ui) = schema.get(UI) {
        found.push(Descriptor { path: path.trim_start_matches('.').into(), ui: ui.clone() });
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, value) in properties {
            describe(value, format!("{path}.{name}"), found);
        }
    }
    if let Some(items) = schema.get("items") {
        describe(items, format!("{path}[0]"), found);
    }
}

// === impl Column ===

impl Column<'_> {
    /// A column that says nothing yet.
    pub const NONE: Column<'static> =
        Column { name: "", path: "", kind: None, format: None, description: None, priority: 0 };

    fn to_value(self, schema: &Map<String, Value>) -> Value {
        let mut column = Map::new();
        column.insert("name".into(), self.name.into());
        column.insert("jsonPath".into(), self.path.into());
        let kind = self.kind.unwrap_or_else(|| path::column_type(schema, self.path));
        column.insert("type".into(), kind.into());
        for (key, text) in [("format", self.format), ("description", self.description)] {
            if let Some(text) = text {
                column.insert(key.into(), text.into());
            }
        }
        if self.priority != 0 {
            column.insert("priority".into(), self.priority.into());
        }
        Value::Object(column)
    }
}

// === impl Scale ===

impl Scale<'_> {
    fn to_value(self) -> Value {
        let mut scale = Map::new();
        scale.insert("specReplicasPath".into(), self.spec.into());
        scale.insert("statusReplicasPath".into(), self.status.into());
        if let Some(selector) = self.selector {
            scale.insert("labelSelectorPath".into(), selector.into());
        }
        Value::Object(scale)
    }
}
