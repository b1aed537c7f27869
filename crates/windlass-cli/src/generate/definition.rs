//! Definitions as modules: their kinds, and what `#[api(..)]` says about them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use heck::ToSnakeCase;
use serde_json::{Map, Value};
use syn::Ident;

use super::item::{attribute, indent, literal};
use super::name::{self, Names};
use super::rules::cel;
use super::schema::{Place, Types, is_set, kind as type_of, strings};
use super::{Lost, doc};
use crate::text::plain;

/// Annotations that tools write for themselves.
const TOOL_ANNOTATIONS: [&str; 2] =
    ["controller-gen.kubebuilder.io/version", "kubectl.kubernetes.io/last-applied-configuration"];
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const COLUMN_TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "date"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Returns the code for definitions: each in a module of its own if there are several.
pub fn all(definitions: &[Value], lost: &mut Lost) -> Result<String, String> {
    let mut names = Names::default();
    let mut code = String::new();
    for definition in definitions {
        let body = one(definition, lost)?;
        if definitions.len() == 1 {
            return Ok(body);
        }
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default();
        module(&names.take(&kind.to_snake_case()), &body, &mut code);
    }
    Ok(code)
}

/// Returns the code for a definition: each version in a module of its own if there are several.
fn one(definition: &Value, lost: &mut Lost) -> Result<String, String> {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = plain(definition["metadata"]["name"].as_str().unwrap_or_default());
    if versions.is_empty() {
        return Err(format!("{shown} has no versions"));
    }
    if definition["spec"]["conversion"]["strategy"] == "Webhook" {
        lost.add(&shown, "the conversion webhook belongs to the operator, not to the types");
    }
    let mut code = String::new();
    for version in versions {
        let kind = Kind::read(definition, version).map_err(|why| format!("{shown}: {why}"))?;
        let body = kind.code(lost).map_err(|why| format!("{shown}: {why}"))?;
        if versions.len() == 1 {
            return Ok(body);
        }
        module(&kind.version.to_snake_case(), &body, &mut code);
    }
    Ok(code)
}

fn module(name: &str, body: &str, code: &mut String) {
    let name = name::raw(name.to_owned());
    let _ = write!(code, "\npub mod {name} {{\n{}}}\n", indent(body.trim_start(), 1));
}

/// One version of a kind.
struct Kind<'a> {
    definition: &'a Value,
    version_value: &'a Value,
    kind: &'a str,
    version: &'a str,
    root: &'a Map<String, Value>,
}

// === impl Kind ===

impl<'a> Kind<'a> {
    fn read(definition: &'a Value, version_value: &'a Value) -> Result<Self, String> {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let valid = syn::parse_str::<Ident>(kind).is_ok()
            && kind.starts_with(|first: char| first.is_ascii_uppercase());
        if !valid || name::RESERVED.contains(&kind) {
            return Err(format!("the kind `{}` cannot be the name of a struct", plain(kind)));
        }
        let version = version_value["name"].as_str().unwrap_or_default();
        let is_label = |text: &str| windlass_text::name::dns1123_label(text);
        if !is_label(version) || version.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(format!("`{}` is not the name of a version", plain(version)));
        }
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        if !group.contains('.') || !group.split('.').all(is_label) {
            return Err(format!("`{}` is not the name of a group", plain(group)));
        }
        let root = version_value["schema"]["openAPIV3Schema"].as_object();
        let root = root.ok_or_else(|| format!("version {version} has no schema"))?;
        Ok(Kind { definition, version_value, kind, version, root })
    }

    fn property(&self, name: &str) -> Option<&'a Map<String, Value>> {
        self.root.get("properties")?.get(name)?.as_object()
    }

    fn has_status_subresource(&self) -> bool {
        self.version_value["subresources"]["status"].is_object()
    }

    /// Returns `true` if the object does not consist of metadata, spec and status alone.
    fn is_flat(&self) -> bool {
        let standard = ["apiVersion", "kind", "metadata", "spec", "status"];
        let properties = self.root.get("properties").and_then(Value::as_object);
        let others =
            properties.is_some_and(|map| map.keys().any(|name| !standard.contains(&name.as_str())));
        let plain_spec = self.property("spec").is_some_and(|spec| {
            type_of(spec) == "object"
                && !spec.contains_key("additionalProperties")
                && !spec.contains_key("default")
                && !is_set(spec, "nullable")
        });
        let status_field = self.property("status").is_some() && !self.has_status_subresource();
        others || !plain_spec || status_field || is_set(self.root, PRESERVE)
    }

    fn code(&self, lost: &mut Lost) -> Result<String, String> {
        let mut flat = self.is_flat();
        let mut scratch = Lost::default();
        if !flat && !strings(self.root.get("required")).contains(&"spec") {
            // A spec that may be missing needs a default, which not every type has.
            let mut types = Types::new(self.version, &mut scratch);
            let name = self.spec(&mut types, false)?;
            flat = !types.item_mut(&name).is_some_and(|item| {
                item.attributes.iter().any(|attribute| attribute == "#[derive(Default)]")
            });
        }
        let mut types = Types::new(self.version, lost);
        types.names.take(self.kind);
        let spec = self.spec(&mut types, flat)?;
        let status = self.status(&mut types)?;
        self.differences(flat, &mut types);
        let arguments = self.arguments(flat, status.as_deref(), &mut types);
        let api = attribute("api", &arguments, 0);
        let own = if flat { None } else { self.property("spec") };
        let rules = own.map(|spec| self.own_rules(spec, ".spec", &mut types)).unwrap_or_default();
        // The struct of a flat object carries the documentation of the kind.
        let text = own.unwrap_or(self.root).get("description").and_then(Value::as_str);
        finish(&mut types, &spec, api, rules, text);
        let (items, imports) = types.into_items();
        let mut code = uses(&imports);
        for item in items {
            let _ = write!(code, "\n{}", item.print());
        }
        Ok(code)
    }

    /// Adds the struct of the spec, or that of all fields of a flat object.
    fn spec(&self, types: &mut Types<'_>, flat: bool) -> Result<String, String> {
        let attributes = vec!["#[api]".to_owned()];
        let place = Place { name: "", path: "", depth: 0, is_element: false };
        if flat {
            let mut without = vec!["apiVersion", "kind", "metadata"];
            if self.has_status_subresource() {
                without.push("status");
            }
            let mut root = self.root.clone();
            if let Some(Value::Array(required)) = root.get_mut("required") {
                required.retain(|name| !without.iter().any(|other| name == other));
            }
            let wanted = types.names.take(&format!("{}Fields", self.kind));
            let name = types.structure(
                &root,
                Place { name: self.kind, ..place },
                None,
                attributes,
                &without,
            )?;
            return Ok(rename(types, &name, wanted));
        }
        let wanted = types.names.take(&format!("{}Spec", self.kind));
        let empty = Map::new();
        let spec = self.property("spec").unwrap_or(&empty);
        let name = types.structure(
            spec,
            Place { name: self.kind, path: ".spec", ..place },
            None,
            attributes,
            &[],
        )?;
        Ok(rename(types, &name, wanted))
    }

    /// Adds the type of the status, if the version has the subresource.
    fn status(&self, types: &mut Types<'_>) -> Result<Option<String>, String> {
        if !self.has_status_subresource() {
            return Ok(None);
        }
        let empty = Map::from_iter([("type".to_owned(), Value::from("object"))]);
        let status = self.property("status").unwrap_or_else(|| {
            types.lose(".status", "a status without fields is described");
            &empty
        });
        for keyword in ["default", "nullable"] {
            if status.contains_key(keyword) {
                types.lose(".status", format_args!("`{keyword}` has no attribute for the status"));
            }
        }
        let wanted = format!("{}Status", self.kind);
        let place = Place { name: &wanted, path: ".status", depth: 0, is_element: false };
        if type_of(status) != "object" || status.contains_key("additionalProperties") {
            let typed = types.typed(status, place)?;
            if !typed.rules.is_empty() {
                types.lose(".status", "rules of a status that is not an object have no attribute");
            }
            return Ok(Some(typed.kind));
        }
        let name = types.structure(status, place, None, vec!["#[status]".to_owned()], &[])?;
        let rules = self.own_rules(status, ".status", types);
        let text = status.get("description").and_then(Value::as_str);
        finish(types, &name, "#[k8s]".into(), rules, text);
        Ok(Some(name))
    }

    /// The rules of the spec or the status itself.
    fn own_rules(
        &self,
        schema: &Map<String, Value>,
        path: &str,
        types: &mut Types<'_>,
    ) -> Vec<String> {
        let path = format!("{} {path}", self.version);
        let reader = super::rules::Reader {
            schema,
            shape: super::rules::Shape::Object,
            said: &[PRESERVE],
            path: &path,
            lost: types.lost,
        };
        reader.read()
    }

    /// Records what neither `#[api(..)]` nor the types say.
    fn differences(&self, flat: bool, types: &mut Types<'_>) {
        for name in strings(self.root.get("required")) {
            let says = (flat && !matches!(name, "apiVersion" | "kind" | "metadata"))
                || (!flat && name == "spec");
            if !says {
                types.lose("", format_args!("`{name}` is not required explicitly"));
            }
        }
        for name in ["apiVersion", "kind", "metadata"] {
            match self.property(name) {
                None => types.lose(&format!(".{name}"), "the field is described"),
                Some(schema) if schema.keys().any(|key| key != "type" && key != "description") => {
                    types.lose(&format!(".{name}"), "its rules have no attribute");
                }
                Some(_) => {}
            }
        }
        let said =
            ["type", "description", "properties", "required", "x-kubernetes-validations", PRESERVE];
        for keyword in self.root.keys().filter(|keyword| !said.contains(&keyword.as_str())) {
            types.lose("", format_args!("`{keyword}` of the whole object has no attribute"));
        }
        let names = &self.definition["spec"]["names"];
        if names["listKind"].as_str().is_some_and(|list| list != format!("{}List", self.kind)) {
            types.lose("", "the name of the list follows from the kind");
        }
    }

    fn arguments(&self, flat: bool, status: Option<&str>, types: &mut Types<'_>) -> Vec<String> {
        let spec = &self.definition["spec"];
        let text = |value: &Value| literal(value.as_str().unwrap_or_default());
        let mut arguments = vec![
            format!("group = {}", text(&spec["group"])),
            format!("version = {}", literal(self.version)),
            format!("kind = {}", literal(self.kind)),
            format!("plural = {}", text(&spec["names"]["plural"])),
        ];
        let singular = spec["names"]["singular"].as_str().unwrap_or_default();
        if !singular.is_empty() && singular != self.kind.to_lowercase() {
            arguments.push(format!("singular = {}", literal(singular)));
        }
        if spec["scope"] == "Cluster" {
            arguments.push("scope = Cluster".into());
        }
        for (key, argument) in [("shortNames", "short"), ("categories", "categories")] {
            let list: Vec<String> =
                strings(spec["names"].get(key)).into_iter().map(literal).collect();
            match list.as_slice() {
                [] => {}
                [one] => arguments.push(format!("{argument} = {one}")),
                _ => arguments.push(format!("{argument} = [{}]", list.join(", "))),
            }
        }
        let description = self.root.get("description").and_then(Value::as_str).unwrap_or_default();
        let own = self.property("spec").and_then(|spec| spec.get("description")?.as_str());
        if !flat && own.unwrap_or_default() != description {
            arguments.push(format!("doc = {}", literal(description)));
        }
        arguments.extend(status.map(|status| format!("status = {status}")));
        if flat {
            arguments.push("flat".into());
        } else if !strings(self.root.get("required")).contains(&"spec") {
            arguments.push("optional_spec".into());
        }
        self.version_arguments(&mut arguments);
        self.paths(&mut arguments, types);
        self.metadata(&mut arguments, types);
        for rule in self
            .root
            .get("x-kubernetes-validations")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            match cel(rule) {
                Ok(rule) => arguments.push(rule),
                Err(why) => types.lose("", why),
            }
        }
        arguments
    }

    fn version_arguments(&self, arguments: &mut Vec<String>) {
        for name in ["storage", "served"] {
            if self.version_value[name] == false {
                arguments.push(format!("{name} = false"));
            }
        }
        if self.version_value["deprecated"] == true {
            match self.version_value["deprecationWarning"].as_str() {
                Some(warning) => arguments.push(format!("deprecated = {}", literal(warning))),
                None => arguments.push("deprecated".into()),
            }
        }
    }

    /// Columns, `scale` and selectable fields.
    fn paths(&self, arguments: &mut Vec<String>, types: &mut Types<'_>) {
        let list =
            |key: &str| self.version_value[key].as_array().map(Vec::as_slice).unwrap_or_default();
        for column in list("additionalPrinterColumns") {
            let name = column["name"].as_str().unwrap_or_default();
            match self.column(column) {
                Ok(column) => arguments.push(column),
                Err(why) => types.lose("", format_args!("column {name}: {why}")),
            }
        }
        let scale = &self.version_value["subresources"]["scale"];
        if scale.is_object() {
            let keys = [
                ("spec", "specReplicasPath"),
                ("status", "statusReplicasPath"),
                ("selector", "labelSelectorPath"),
            ];
            let paths: Vec<(&str, &str)> = keys
                .iter()
                .filter_map(|(key, path)| Some((*key, scale[*path].as_str()?)))
                .filter(|(_, path)| !path.is_empty())
                .collect();
            if let Some((_, path)) = paths.iter().find(|(_, path)| !self.leads(path)) {
                types.lose("", format_args!("scale: the path `{path}` leads to no field"));
            } else {
                let paths = paths.iter().map(|(key, path)| format!("{key} = {}", literal(path)));
                arguments.push(format!("scale({})", paths.collect::<Vec<_>>().join(", ")));
            }
        }
        let selectable =
            list("selectableFields").iter().filter_map(|field| field["jsonPath"].as_str());
        let (good, bad): (Vec<&str>, Vec<&str>) = selectable.partition(|path| self.leads(path));
        for path in bad {
            types.lose("", format_args!("selectable: the path `{path}` leads to no field"));
        }
        if !good.is_empty() {
            let good: Vec<String> = good.into_iter().map(literal).collect();
            arguments.push(format!("selectable = [{}]", good.join(", ")));
        }
    }

    fn column(&self, column: &Value) -> Result<String, String> {
        let text = |key: &str| column[key].as_str().filter(|text| !text.is_empty());
        let path = text("jsonPath").unwrap_or_default();
        if !self.leads(path) {
            return Err(format!("the path `{path}` leads to no field"));
        }
        let kind = text("type").unwrap_or_default();
        if !COLUMN_TYPES.contains(&kind) {
            return Err(format!("`{kind}` is not a type of columns"));
        }
        let mut arguments = vec![
            literal(text("name").unwrap_or_default()),
            literal(path),
            format!("type = {}", literal(kind)),
        ];
        if let Some(format) = text("format") {
            if !COLUMN_FORMATS.contains(&format) {
                return Err(format!("`{format}` is not a format of columns"));
            }
            arguments.push(format!("format = {}", literal(format)));
        }
        match column["priority"].as_i64() {
            Some(priority) if priority < 0 => return Err("its priority is negative".into()),
            Some(priority) if priority > 0 => arguments.push(format!("priority = {priority}")),
            _ => {}
        }
        if let Some(description) = text("description") {
            arguments.push(format!("description = {}", literal(description)));
        }
        Ok(format!("column({})", arguments.join(", ")))
    }

    /// Returns `true` if the attribute accepts a path.
    fn leads(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix('.') else { return false };
        let end = |text: &str| text.find(['.', '[']).unwrap_or(text.len());
        let first = &rest[..end(rest)];
        if matches!(first, "metadata" | "apiVersion" | "kind" | "status") {
            return true;
        }
        let Some(schema) = self.property(first) else { return is_set(self.root, PRESERVE) };
        let Some(after) = rest.strip_prefix("spec.") else { return true };
        let name = &after[..end(after)];
        let properties = schema.get("properties").and_then(Value::as_object);
        properties.is_some_and(|map| map.contains_key(name)) || is_set(schema, PRESERVE)
    }

    fn metadata(&self, arguments: &mut Vec<String>, types: &mut Types<'_>) {
        let metadata = &self.definition["metadata"];
        for (key, argument) in [("labels", "label"), ("annotations", "annotation")] {
            for (name, value) in metadata[key].as_object().into_iter().flatten() {
                let Some(value) = value.as_str() else { continue };
                if TOOL_ANNOTATIONS.contains(&name.as_str()) {
                    types.lose("", format_args!("the annotation {name} of a tool is left out"));
                } else {
                    arguments.push(format!("{argument}({}, {})", literal(name), literal(value)));
                }
            }
        }
    }
}

/// Gives an item its attribute, its rules and its documentation.
fn finish(
    types: &mut Types<'_>,
    name: &str,
    first: String,
    mut rules: Vec<String>,
    text: Option<&str>,
) {
    let text = text.unwrap_or_default();
    let (doc, exact) = doc::comment(text);
    if !exact {
        rules.push(format!("doc = {}", literal(text)));
    }
    let Some(item) = types.item_mut(name) else { return };
    item.doc = doc;
    item.attributes[0] = match (first.as_str(), rules.is_empty()) {
        ("#[k8s]", _) => attribute("k8s", &rules, 0),
        (_, true) => first,
        (_, false) => format!("{first}\n{}", attribute("k8s", &rules, 0)),
    };
}

fn rename(types: &mut Types<'_>, name: &str, wanted: String) -> String {
    if let Some(item) = types.item_mut(name) {
        item.name.clone_from(&wanted);
    }
    wanted
}

/// The imports of the code.
fn uses(imports: &BTreeSet<String>) -> String {
    let mut code = String::from("\n");
    for import in imports.iter().filter(|import| import.starts_with("std::")) {
        let _ = writeln!(code, "use {import};\n");
    }
    for import in imports.iter().filter(|import| !import.starts_with("std::")) {
        let _ = writeln!(code, "use windlass::{import};");
    }
    code.push_str("use windlass::{api, k8s};\n");
    code
}
