//! Paths and operations of resources, in both dialects of OpenAPI.
//!
//! kubectl looks here for what a server can do: it takes a PATCH operation's parameters as the
//! sign of dry run and field validation, and an operation's kind to find a resource's schema.

use serde_json::{Map, Value, json};

use super::definition::PATCH;
use super::{Dialect, custom};
use crate::resource::{Gvk, Resource, Subresource};
use crate::schema;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Adds the paths of a resource.
pub(super) fn add(resource: &Resource, dialect: Dialect, paths: &mut Map<String, Value>) {
    let maker = Maker { resource, dialect };
    let base = base_of(&resource.gvk);
    let plural = &resource.plural;
    let collection = match resource.namespaced {
        true => format!("{base}/namespaces/{{namespace}}/{plural}"),
        false => format!("{base}/{plural}"),
    };
    let item = format!("{collection}/{{name}}");
    let mut put = |path: String, operations: Map<String, Value>| {
        if operations.is_empty() {
            return;
        }
        let parameters = path_parameters(&path, dialect);
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        if let Value::Object(entry) = entry {
            entry.extend(operations);
            if !parameters.is_empty() {
                entry.insert("parameters".into(), parameters.into());
            }
        }
    };
    put(collection, maker.collection());
    put(item.clone(), maker.item());
    if resource.namespaced && resource.has_verb("list") {
        let id = format!("{}ForAllNamespaces", maker.id("list", false, ""));
        let list = maker.list_operation(id);
        put(format!("{base}/{plural}"), Map::from_iter([("get".to_owned(), list)]));
    }
    for (name, sub) in &resource.subresources {
        put(format!("{item}/{name}"), maker.subresource(name, sub));
    }
}

/// The document-wide path of a group version: `/api/v1`, `/apis/apps/v1`.
pub(super) fn base_of(gvk: &Gvk) -> String {
    match &*gvk.group {
        "" => format!("/api/{}", gvk.version),
        group => format!("/apis/{group}/{}", gvk.version),
    }
}

struct Maker<'a> {
    resource: &'a Resource,
    dialect: Dialect,
}

/// What one operation is like.
struct Operation<'a> {
    id: String,
    action: &'a str,
    gvk: &'a Gvk,
    parameters: &'a [&'a str],
    body: Option<String>,
    answer: String,
    patch: bool,
}

const WRITE: [&str; 4] = ["pretty", "dryRun", "fieldManager", "fieldValidation"];
const PATCH_PARAMETERS: [&str; 5] =
    ["pretty", "dryRun", "fieldManager", "fieldValidation", "force"];
const LIST: [&str; 11] = [
    "pretty",
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const DELETE: [&str; 5] =
    ["pretty", "dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"];

// === impl Maker ===

impl Maker<'_> {
    fn collection(&self) -> Map<String, Value> {
        let resource = self.resource;
        let mut out = Map::new();
        if resource.has_verb("list") {
            let id = self.id("list", true, "");
            out.insert("get".into(), self.list_operation(id));
        }
        if resource.has_verb("create") {
            let kind = self.definition(&resource.gvk);
            out.insert(
                "post".into(),
                self.render(Operation {
                    id: self.id("create", true, ""),
                    action: "post",
                    gvk: &resource.gvk,
                    parameters: &WRITE,
                    body: Some(kind.clone()),
                    answer: kind,
                    patch: false,
                }),
            );
        }
        if resource.has_verb("deletecollection") {
            let id = format!("delete{}Collection{}", self.group_version(), self.scoped_kind());
            let parameters: Vec<_> = DELETE.iter().chain(&LIST[2..10]).copied().collect();
            out.insert(
                "delete".into(),
                self.render(Operation {
                    id,
                    action: "deletecollection",
                    gvk: &resource.gvk,
                    parameters: &parameters,
                    body: Some(format!("{META}.DeleteOptions")),
                    answer: format!("{META}.Status"),
                    patch: false,
                }),
            );
        }
        out
    }

    fn list_operation(&self, id: String) -> Value {
        let gvk = &self.resource.gvk;
        let list = Gvk { kind: self.resource.list_kind.clone(), ..gvk.clone() };
        self.render(Operation {
            id,
            action: "list",
            gvk,
            parameters: &LIST,
            body: None,
            answer: self.definition(&list),
            patch: false,
        })
    }

    fn item(&self) -> Map<String, Value> {
        let mut out = Map::new();
        for verb in &self.resource.verbs {
            self.on_object(verb, "", &self.resource.gvk, &mut out);
        }
        out
    }

    fn subresource(&self, name: &str, sub: &Subresource) -> Map<String, Value> {
        let own = Gvk { kind: sub.gvk.kind.clone(), ..self.resource.gvk.clone() };
        let gvk = if sub.gvk.version.is_empty() { &own } else { &sub.gvk };
        let connects = matches!(name, "attach" | "exec" | "portforward" | "proxy");
        let mut out = Map::new();
        for verb in &sub.verbs {
            match (connects, verb.as_str()) {
                (false, "create") => {
                    let kind = self.definition(gvk);
                    out.insert(
                        "post".into(),
                        self.render(Operation {
                            id: self.id("create", true, name),
                            action: "post",
                            gvk,
                            parameters: &WRITE,
                            body: Some(kind.clone()),
                            answer: kind,
                            patch: false,
                        }),
                    );
                }
                (false, verb) => self.on_object(verb, name, gvk, &mut out),
                (true, verb) => self.connect(verb, name, gvk, &mut out),
            }
        }
        out
    }

    fn connect(&self, verb: &str, name: &str, gvk: &Gvk, out: &mut Map<String, Value>) {
        let method = match verb {
            "create" => "post",
            "update" => "put",
            other => other,
        };
        let id = format!(
            "connect{}{}{}{}",
            self.group_version(),
            capital(method),
            self.scoped_kind(),
            capital(name)
        );
        let mut operation = json!({
            "operationId": id, "tags": [self.tag()], "x-kubernetes-action": "connect",
            "x-kubernetes-group-version-kind": kind_of(gvk),
            "responses": {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}},
        });
        if self.dialect == Dialect::V2 {
            operation["consumes"] = json!(["*/*"]);
            operation["produces"] = json!(["*/*"]);
        }
        out.insert(method.into(), operation);
    }

    fn on_object(&self, verb: &str, sub: &str, gvk: &Gvk, out: &mut Map<String, Value>) {
        let kind = self.definition(gvk);
        let (method, word, parameters, body): (_, _, &[&str], _) = match verb {
            "get" => ("get", "read", &WRITE[..1], None),
            "update" => ("put", "replace", &WRITE, Some(kind.clone())),
            "patch" => ("patch", "patch", &PATCH_PARAMETERS, Some(PATCH.to_owned())),
            "delete" => ("delete", "delete", &DELETE, Some(format!("{META}.DeleteOptions"))),
            _ => return,
        };
        let answer = match verb {
            "delete" => format!("{META}.Status"),
            _ => kind,
        };
        let operation = Operation {
            id: self.id(word, true, sub),
            action: method,
            gvk,
            parameters,
            body,
            answer,
            patch: verb == "patch",
        };
        out.insert(method.into(), self.render(operation));
    }

    fn render(&self, operation: Operation<'_>) -> Value {
        let reference = |name: &str| self.dialect.reference(name, Map::new());
        let mut parameters: Vec<_> =
            operation.parameters.iter().map(|name| query(name, self.dialect)).collect();
        let answer = reference(&operation.answer);
        let types = ["application/json", "application/yaml"];
        let mut out = json!({
            "operationId": operation.id,
            "tags": [self.tag()],
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": kind_of(operation.gvk),
        });
        let codes: &[&str] = match operation.action {
            "post" => &["200", "201", "202"],
            "put" | "patch" => &["200", "201"],
            "delete" => &["200", "202"],
            _ => &["200"],
        };
        let mut responses = Map::new();
        for code in codes {
            let description = match *code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            let response = match self.dialect {
                Dialect::V2 => json!({"description": description, "schema": answer}),
                Dialect::V3 => {
                    let content: Map<_, _> = types
                        .map(|t| (t.to_owned(), json!({"schema": answer})))
                        .into_iter()
                        .collect();
                    json!({"description": description, "content": content})
                }
            };
            responses.insert((*code).into(), response);
        }
        responses.insert("401".into(), json!({"description": "Unauthorized"}));
        out["responses"] = responses.into();
        let accepted = self.accepted(operation.patch);
        if let Some(body) = &operation.body {
            let required = operation.action != "delete" && operation.action != "deletecollection";
            match self.dialect {
                Dialect::V2 => parameters.push(json!({
                    "name": "body", "in": "body", "required": required, "schema": reference(body),
                })),
                Dialect::V3 => {
                    let content: Map<_, _> = accepted
                        .iter()
                        .map(|t| ((*t).to_owned(), json!({"schema": reference(body)})))
                        .collect();
                    out["requestBody"] = json!({"content": content, "required": required});
                }
            }
        }
        if self.dialect == Dialect::V2 {
            out["consumes"] = json!(accepted);
            out["produces"] = json!(types);
        }
        out["parameters"] = parameters.into();
        out
    }

    fn accepted(&self, patch: bool) -> Vec<&'static str> {
        if !patch {
            return vec!["*/*"];
        }
        let mut types = vec![
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
        ];
        if !self.resource.is_custom() {
            types.insert(2, "application/strategic-merge-patch+json");
        }
        types
    }

    fn definition(&self, gvk: &Gvk) -> String {
        match schema::type_name(gvk) {
            Some(name) => schema::definition_name(&name),
            None => custom::definition_name(gvk, &gvk.kind),
        }
    }

    fn id(&self, word: &str, scoped: bool, sub: &str) -> String {
        let kind = match scoped {
            true => self.scoped_kind(),
            false => self.resource.gvk.kind.to_string(),
        };
        format!("{word}{}{kind}{}", self.group_version(), capital(sub))
    }

    fn scoped_kind(&self) -> String {
        let scope = if self.resource.namespaced { "Namespaced" } else { "" };
        format!("{scope}{}", self.resource.gvk.kind)
    }

    fn group_version(&self) -> String {
        let gvk = &self.resource.gvk;
        let group = match &*gvk.group {
            "" => "core",
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        let parts = group.split(['.', '-']).map(capital);
        format!("{}{}", parts.collect::<String>(), capital(&gvk.version))
    }

    fn tag(&self) -> String {
        let text = self.group_version();
        let gvk = &self.resource.gvk;
        let group = &text[..text.len() - gvk.version.len()];
        let first = group.chars().next().map(|c| c.to_ascii_lowercase());
        format!("{}{}_{}", first.unwrap_or_default(), group.get(1..).unwrap_or(""), gvk.version)
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

fn kind_of(gvk: &Gvk) -> Value {
    json!({"group": &*gvk.group, "version": &*gvk.version, "kind": &*gvk.kind})
}

fn path_parameters(path: &str, dialect: Dialect) -> Vec<Value> {
    let mut out = Vec::new();
    for (name, text) in [("name", "name of the object"), ("namespace", "namespace of the object")] {
        if path.contains(&format!("{{{name}}}")) {
            out.push(parameter(name, "path", text, "string", dialect));
        }
    }
    out
}

fn query(name: &str, dialect: Dialect) -> Value {
    let (typ, text) = match name {
        "allowWatchBookmarks" => ("boolean", "whether a watch may send BOOKMARK events"),
        "continue" => ("string", "the token of the page to go on with"),
        "dryRun" => ("string", "All: go through every step of the request but do not store it"),
        "fieldManager" => ("string", "who makes the change, at most 128 printable characters"),
        "fieldSelector" => ("string", "restricts the list by the objects' fields"),
        "fieldValidation" => {
            ("string", "what to do with unknown and duplicate fields: Ignore, Warn or Strict")
        }
        "force" => ("boolean", "whether an apply takes over fields that others own"),
        "gracePeriodSeconds" => ("integer", "the seconds before the object is deleted"),
        "labelSelector" => ("string", "restricts the list by the objects' labels"),
        "limit" => ("integer", "the largest number of objects on a page"),
        "orphanDependents" => ("boolean", "whether dependents stay; use propagationPolicy instead"),
        "propagationPolicy" => {
            ("string", "what happens to dependents: Orphan, Background, Foreground")
        }
        "resourceVersion" => ("string", "the version that the answer has to be at or after"),
        "resourceVersionMatch" => ("string", "how resourceVersion is meant"),
        "sendInitialEvents" => ("boolean", "whether a watch begins with the objects there are"),
        "timeoutSeconds" => ("integer", "the seconds after which a list or watch ends"),
        "watch" => ("boolean", "whether to stream changes instead of a list"),
        _ => ("string", "whether the answer is indented"),
    };
    parameter(name, "query", text, typ, dialect)
}

fn parameter(name: &str, place: &str, text: &str, typ: &str, dialect: Dialect) -> Value {
    let mut out = match dialect {
        Dialect::V2 => {
            json!({"name": name, "in": place, "description": text, "type": typ,
                "uniqueItems": true})
        }
        Dialect::V3 => {
            json!({"name": name, "in": place, "description": text,
                "schema": {"type": typ, "uniqueItems": true}})
        }
    };
    if place == "path" {
        out["required"] = true.into();
    }
    out
}
