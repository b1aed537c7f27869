//! Custom resources: definitions and what follows from them.
//!
//! [`definition`] has the rules of `CustomResourceDefinition` itself, [`names`] says which names a
//! definition gets and what its conditions are, [`compile`] turns it into [`Resource`]s. A
//! [`Version`] then reads, defaults, validates and converts the objects.
//!
//! **Invariant:** everything here is a pure function on values; a version never changes once it is
//! compiled, a changed definition is compiled again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::discovery::version_order;
use crate::resource::{Gvk, Resource, Subresource};
use crate::status::{FieldError, FieldErrors};

pub mod convert;
mod correlation;
pub mod defaulting;
pub mod definition;
pub mod list;
pub mod meta;
pub mod names;
pub mod path;
pub mod prune;
pub mod rules;
pub mod scale;
pub mod shape;
pub mod validate;

pub use scale::ScalePaths;
pub use windlass_cel::Schema;

use validate::Mode;

/// One version of a custom resource, compiled.
#[derive(Debug)]
pub struct Version {
    /// The definition as stored.
    pub definition: Arc<Value>,
    /// The version's name.
    pub name: String,
    /// Group, version and kind of its objects.
    pub gvk: Gvk,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether it is served.
    pub served: bool,
    /// Whether objects are stored in this version.
    pub storage: bool,
    /// The schema of its objects.
    pub schema: Arc<Schema>,
    /// `spec.preserveUnknownFields`: nothing is pruned.
    pub preserve_unknown: bool,
    /// Whether it has the status subresource.
    pub status: bool,
    /// The paths of the scale subresource.
    pub scale: Option<ScalePaths>,
    /// `additionalPrinterColumns`, as given.
    pub columns: Vec<Value>,
    /// Selectable fields: the name in selectors, and the steps to the value.
    pub selectable: Vec<(String, Vec<String>)>,
    /// The text of the warning for deprecated versions.
    pub deprecation: Option<String>,
    /// Whether what is stored by any version is what this one serves, byte for byte: it is the
    /// storage version and adds nothing when it reads.
    pub served_as_stored: bool,
    has_rules: bool,
}

/// What is written: the main resource or a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The main resource, or its scale.
    Main,
    /// The status subresource.
    Status,
}

/// What validation found.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What refuses the object.
    pub errors: FieldErrors,
    /// Faults of rules that were there before.
    pub warnings: Vec<String>,
}

impl From<FieldErrors> for Verdict {
    fn from(errors: FieldErrors) -> Self {
        Self { errors, warnings: Vec::new() }
    }
}

/// Compiles all versions of a definition, served or not, in the order of `spec.versions`.
pub fn compile(definition: &Arc<Value>) -> Vec<Arc<Version>> {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.map(|version| Arc::new(Version::compile(definition, version))).collect()
}

/// Returns the resources of the versions that are served.
///
/// A definition in deletion takes no new objects: its resources cannot be written.
pub fn resources(definition: &Value, versions: &[Arc<Version>]) -> Vec<Arc<Resource>> {
    let served = versions.iter().filter(|version| version.served);
    served.map(|version| Arc::new(version.resource(definition))).collect()
}

/// The warning for a deprecated version that has no text of its own.
fn deprecation(spec: &Value, name: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let versions = spec["versions"].as_array().into_iter().flatten();
    let better = versions
        .filter(|v| v["served"] == true && v["deprecated"] != true)
        .filter_map(|v| v["name"].as_str())
        .filter(|other| version_order(other) < version_order(name))
        .min_by_key(|other| version_order(other));
    match better {
        None => format!("{group}/{name} {kind} is deprecated"),
        Some(other) => {
            format!("{group}/{name} {kind} is deprecated; use {group}/{other} {kind}")
        }
    }
}

/// Sets a field, making the objects on the way; does nothing if something else is in the way.
pub(crate) fn put(object: &mut Value, path: &[&str], value: Value) {
    let mut at = object;
    for key in path {
        if at.is_null() {
            *at = Value::Object(serde_json::Map::new());
        }
        let Value::Object(map) = at else { return };
        at = map.entry(*key).or_insert(Value::Null);
    }
    *at = value;
}

// === impl Version ===

impl Version {
    fn compile(definition: &Arc<Value>, version: &Value) -> Self {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&version["name"]);
        let kind = text(&spec["names"]["kind"]);
        let group = text(&spec["group"]);
        let schema = Arc::new(Schema::parse(&version["schema"]["openAPIV3Schema"]));
        schema.compile_rules();
        let deprecation = (version["deprecated"] == true).then(|| {
            let given = version["deprecationWarning"].as_str().map(str::to_owned);
            given.unwrap_or_else(|| deprecation(spec, &name))
        });
        let selectable = version["selectableFields"].as_array().into_iter().flatten();
        let selectable = selectable.filter_map(|field| {
            let path = field["jsonPath"].as_str()?;
            let name = path.strip_prefix('.').unwrap_or(path).to_owned();
            let steps = match path::resolve(path, &schema, true) {
                Ok((steps, _)) => steps.into_iter().map(|(step, _)| step).collect(),
                Err(_) => name.split('.').map(str::to_owned).collect(),
            };
            Some((name, steps))
        });
        Self {
            gvk: Gvk::new(&group, &name, &kind),
            namespaced: spec["scope"] == "Namespaced",
            served: version["served"] == true,
            storage: version["storage"] == true,
            preserve_unknown: spec["preserveUnknownFields"] == true,
            status: version["subresources"]["status"].is_object(),
            scale: ScalePaths::parse(&version["subresources"]["scale"]),
            columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
            selectable: selectable.collect(),
            deprecation,
            served_as_stored: version["storage"] == true
                && (spec["versions"].as_array().is_some_and(|all| all.len() == 1)
                    || !schema.any(&|node| node.default.is_some())),
            has_rules: rules::any(&schema),
            definition: definition.clone(),
            name,
            schema,
        }
    }

    /// Returns the resource this version is served as.
    pub fn resource(self: &Arc<Self>, definition: &Value) -> Resource {
        let accepted = &definition["status"]["acceptedNames"];
        let names = match accepted["plural"].as_str() {
            Some(plural) if !plural.is_empty() => accepted,
            _ => &definition["spec"]["names"],
        };
        let text = |key: &str| names[key].as_str().unwrap_or_default();
        let texts = |key: &str| -> Vec<String> {
            let list = names[key].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let verbs: &[&str] = match names::is_true(definition, "Terminating") {
            true => &["delete", "deletecollection", "get", "list", "watch"],
            false => {
                &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
            }
        };
        let owned = |verbs: &[&str]| verbs.iter().map(|verb| (*verb).to_owned()).collect();
        let mut subresources = BTreeMap::new();
        let mut add = |name: &str, gvk: Gvk| {
            let verbs = owned(&["get", "patch", "update"]);
            subresources.insert(name.to_owned(), Subresource { verbs, gvk });
        };
        if self.status {
            add("status", self.gvk.clone());
        }
        if self.scale.is_some() {
            add("scale", Gvk::new("autoscaling", "v1", "Scale"));
        }
        Resource {
            gvk: self.gvk.clone(),
            plural: text("plural").into(),
            singular: text("singular").into(),
            list_kind: text("listKind").into(),
            namespaced: self.namespaced,
            verbs: owned(verbs),
            short_names: texts("shortNames"),
            categories: texts("categories"),
            subresources,
            shape: self.shape(),
            custom: Some(self.clone()),
        }
    }

    /// Returns the shape of its objects.
    pub fn shape(&self) -> crate::shape::ShapeRef {
        shape::of(&self.schema, self.preserve_unknown)
    }

    /// Brings a request body into shape: known fields only, no nulls that are not allowed.
    /// Returns the paths of the fields that were dropped.
    ///
    /// # Errors
    /// What follows `<Kind> in version "<v>" cannot be handled as a <Kind>: `.
    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        self.coerce(object, false)
    }

    /// Brings a stored object into shape: as [`Version::decode`], dropping broken metadata.
    /// Defaults are left to the version it is served in.
    pub fn read(&self, object: &mut Value) {
        // Lenient decoding drops what it cannot keep, so there is no error to report.
        let _ = self.coerce(object, true);
        let metadata = &object["metadata"];
        if metadata.is_object() && metadata["generation"].as_i64().unwrap_or_default() == 0 {
            put(object, &["metadata", "generation"], 1.into());
        }
    }

    fn coerce(&self, object: &mut Value, lenient: bool) -> Result<Vec<String>, String> {
        windlass_text::number::normalize(object);
        let mut unknown = Vec::new();
        if let Some(metadata) = object.get("metadata") {
            let (read, fields) = meta::read(metadata, lenient)?;
            unknown.extend(fields.into_iter().map(|field| format!("metadata.{field}")));
            put(object, &["metadata"], read);
        }
        if !self.preserve_unknown {
            unknown.extend(prune::prune_object(&self.schema, object));
            prune::prune_nulls(Some(&self.schema), object);
        }
        let embedded = prune::coerce_embedded(&self.schema, object, false, lenient);
        unknown.extend(embedded.map_err(|error| error.to_string())?);
        Ok(unknown)
    }

    /// Fills in defaults.
    pub fn default(&self, object: &mut Value) {
        prune::prune_nulls(Some(&self.schema), object);
        defaulting::apply(&self.schema, object);
    }

    /// Prepares an object for its creation: the status is not the client's if it is a subresource.
    pub fn prepare_create(&self, object: &mut Value) {
        if self.status
            && let Value::Object(map) = object
        {
            map.remove("status");
        }
        put(object, &["metadata", "generation"], 1.into());
    }

    /// Prepares an update of the main resource: keeps the old status, counts the generation.
    pub fn prepare_update(&self, object: &mut Value, old: &Value) {
        if self.status
            && let Value::Object(map) = object
        {
            match old.get("status") {
                Some(status) => drop(map.insert("status".into(), status.clone())),
                None => drop(map.remove("status")),
            }
        }
        let before = old["metadata"]["generation"].as_i64().unwrap_or_default();
        let after = before + i64::from(self.generation_changed(object, old));
        put(object, &["metadata", "generation"], after.into());
    }

    /// Prepares an update of the status: everything else stays as it was.
    pub fn prepare_status(&self, object: &mut Value, old: &Value) {
        let status = object.get("status").cloned();
        let managed = object["metadata"].get("managedFields").cloned();
        *object = old.clone();
        let mut set = |pointer: &str, key: &str, value: Option<Value>| {
            if let Some(Value::Object(map)) = object.pointer_mut(pointer) {
                match value {
                    Some(value) => drop(map.insert(key.into(), value)),
                    None => drop(map.remove(key)),
                }
            }
        };
        set("/metadata", "managedFields", managed);
        set("", "status", status);
    }

    /// Returns `true` if an update changes anything but metadata.
    pub fn generation_changed(&self, object: &Value, old: &Value) -> bool {
        let (Value::Object(new), Value::Object(old)) = (object, old) else { return true };
        let rest = |map: &serde_json::Map<String, Value>| {
            map.len() - usize::from(map.contains_key("metadata"))
        };
        rest(new) != rest(old)
            || new.iter().any(|(key, value)| key != "metadata" && old.get(key) != Some(value))
    }

    /// Problems of a new object (`old` is `None`) or an update, apart from common metadata.
    pub fn validate(&self, object: &Value, old: Option<&Value>, part: Part) -> Verdict {
        let errors = self.type_errors(object);
        if !errors.is_empty() {
            return Verdict { errors, warnings: Vec::new() };
        }
        let mut errors = match part {
            Part::Main => self.schema_errors(object, old),
            Part::Status => self.status_errors(object, old),
        };
        let lists = |object: &Value| list::validate(&self.schema, object);
        if old.is_none_or(|old| lists(old).is_empty()) {
            errors.extend(lists(object));
        }
        let mut warnings = Vec::new();
        if self.has_rules {
            // The missing name itself is reported with the rest of the metadata.
            let nameless = crate::object::meta_str(object, "name").is_empty();
            match rules::blocked(&errors, nameless) {
                Some(blocked) => errors.push(blocked),
                None => {
                    let mut budget = rules::OBJECT_BUDGET;
                    let found = rules::evaluate(&self.schema, object, old, "", &mut budget);
                    errors.extend(found.errors);
                    warnings = found.warnings;
                }
            }
        }
        Verdict { errors, warnings }
    }

    /// Returns what is wrong with the kind and version an object names.
    pub fn type_errors(&self, object: &Value) -> FieldErrors {
        let wanted = [("kind", self.gvk.kind.to_string()), ("apiVersion", self.gvk.api_version())];
        let mut errors = FieldErrors::default();
        for (key, wanted) in wanted {
            let got = object[key].as_str().unwrap_or_default();
            if got != wanted {
                errors.push(FieldError::invalid_str(key, got, format!("must be {wanted}")));
            }
        }
        errors
    }

    fn schema_errors(&self, object: &Value, old: Option<&Value>) -> FieldErrors {
        let mut errors = match old {
            None => validate::validate(&self.schema, object, None, Mode::Object),
            Some(_) => validate::validate_update(&self.schema, object, old, None),
        };
        if let Some(scale) = &self.scale {
            errors.extend(scale.validate_spec(object));
            errors.extend(scale.validate_status(object));
        }
        errors.extend(meta::validate_embedded(&self.schema, object));
        errors
    }

    fn status_errors(&self, object: &Value, old: Option<&Value>) -> FieldErrors {
        let mut errors = FieldErrors::default();
        if let (Some(status), Some(schema)) =
            (object.get("status"), self.schema.properties.get("status"))
        {
            let old = old.and_then(|old| old.get("status"));
            errors.extend(validate::validate_update(schema, status, old, Some("status")));
        }
        if let Some(scale) = &self.scale {
            errors.extend(scale.validate_status(object));
        }
        errors
    }

    /// Texts for `Warning` headers on create and update of the main resource.
    pub fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        meta::finalizer_warnings(object, old)
    }

    /// Returns the values of the selectable fields, by name.
    pub fn selectable_values(&self, object: &Value) -> Vec<(String, String)> {
        let value = |steps: &[String]| {
            let found = steps.iter().try_fold(object, |at, step| at.get(step));
            found.filter(|value| !value.is_null()).map(scale::go_value).unwrap_or_default()
        };
        self.selectable.iter().map(|(name, steps)| (name.clone(), value(steps))).collect()
    }
}

#[cfg(test)]
mod tests;
