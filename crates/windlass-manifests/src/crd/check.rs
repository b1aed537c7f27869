//! What the API server would refuse, found before it is asked.
//!
//! `schema` checks the form of schemas, `value` their defaults, `rules` their rules with the type
//! checker and the cost model of the API server, and `columns` the paths of columns and
//! subresources.

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value};

mod columns;
mod form;
mod keywords;
mod rules;
mod schema;
mod value;

/// The bytes that the warning of a deprecated version may have.
const WARNING_MAX: usize = 256;

/// How many problems of one definition are reported.
const PROBLEMS_MAX: usize = 100;

/// One thing that is wrong with a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The version, and the path of the field: `v1 .spec.size`.
    pub path: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// All that is wrong with a definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    /// The name of the definition.
    pub name: String,
    /// What is wrong; at most 100 problems.
    pub problems: Vec<Problem>,
}

/// Checks the definition of a kind, in a test of one line.
///
/// ```
/// # extern crate windlass_manifests as windlass;
/// # use windlass::api;
/// #[api(group = "example.com", version = "v1", kind = "Lamp")]
/// pub struct LampSpec {
///     #[k8s(min = 5, default = 3)]
///     pub watts: i32,
/// }
///
/// let problems = windlass::crd::check::<Lamp>().unwrap_err();
/// assert_eq!(problems.problems[0].path, "v1 .spec.watts");
/// assert_eq!(problems.problems[0].message, "the default 3 is below the minimum 5");
/// ```
///
/// # Errors
/// Fails with everything that the API server would refuse.
pub fn check<K: CustomResourceExt>() -> Result<(), Problems> {
    check_crd(&K::crd())
}

/// Checks a definition.
///
/// # Errors
/// Fails with everything that the API server would refuse.
pub fn check_crd(crd: &CustomResourceDefinition) -> Result<(), Problems> {
    let crd = super::to_value(crd);
    let mut report = Report::default();
    names(&crd, &mut report);
    let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    served(versions, &mut report);
    for version in versions {
        report.version = version["name"].as_str().unwrap_or_default().to_owned();
        let Some(root) = version["schema"]["openAPIV3Schema"].as_object() else {
            report.add("", "the version has no schema");
            continue;
        };
        deprecation(version, &mut report);
        let before = report.problems.len();
        schema::check(root, &mut report);
        if report.problems.len() == before {
            rules::check(root, &mut report);
        }
        columns::check(root, version, &mut report);
    }
    if report.problems.is_empty() {
        return Ok(());
    }
    let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Err(Problems { name, problems: report.problems })
}

/// Collects problems.
#[derive(Default)]
struct Report {
    version: String,
    problems: Vec<Problem>,
}

// === impl Report ===

impl Report {
    fn add(&mut self, path: &str, message: impl fmt::Display) {
        if self.problems.len() >= PROBLEMS_MAX {
            return;
        }
        let path = format!("{} {path}", self.version).trim().to_owned();
        self.problems.push(Problem { path, message: message.to_string() });
    }
}

// === impl Problems ===

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the definition {} would be refused", self.name)?;
        for problem in &self.problems {
            write!(formatter, "\n  {}: {}", problem.path, problem.message)?;
        }
        Ok(())
    }
}

fn names(crd: &Value, report: &mut Report) {
    kind_and_group(crd, report);
    let names = &crd["spec"]["names"];
    let list = |key: &str| names[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let singular = names.get("singular");
    let single = names.get("plural").into_iter().map(|name| ("plural", name));
    let single = single.chain(singular.map(|name| ("singular", name)));
    let several = ["shortNames", "categories"]
        .into_iter()
        .flat_map(|key| list(key).iter().map(move |name| (key, name)));
    for (key, name) in single.chain(several) {
        let name = name.as_str().unwrap_or_default();
        if !windlass_text::name::dns1035_faults(name).is_empty() {
            report.add(
                &format!("names.{key}"),
                format_args!("`{name}` is not a name in lower case that begins with a letter"),
            );
        }
    }
    for (key, faults) in [
        ("labels", windlass_text::name::label_value_faults as fn(&str) -> Vec<String>),
        ("annotations", |_| Vec::new()),
    ] {
        for (name, value) in crd["metadata"][key].as_object().into_iter().flatten() {
            if !windlass_text::name::qualified_name_faults(&name.to_lowercase()).is_empty() {
                report.add(key, format_args!("`{name}` is not a key such as `example.com/name`"));
            }
            let value = value.as_str().unwrap_or_default();
            if let Some(why) = faults(value).first() {
                report.add(
                    key,
                    format_args!("the value `{value}` of `{name}` is not allowed, {why}"),
                );
            }
        }
    }
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let protected = [".k8s.io", ".kubernetes.io"].iter().any(|suffix| group.ends_with(suffix));
    if protected && crd["metadata"]["annotations"]["api-approved.kubernetes.io"].is_null() {
        report.add("group", format_args!(
            "`{group}` belongs to Kubernetes and needs the annotation api-approved.kubernetes.io, use a group of your own"
        ));
    }
}

/// Checks what identifies a kind: its group, its name, and the name of its definition.
fn kind_and_group(crd: &Value, report: &mut Report) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &crd["spec"];
    let (group, names) = (text(&spec["group"]), &spec["names"]);
    if !group.contains('.') || !windlass_text::name::dns1123_subdomain_faults(&group).is_empty() {
        let message = format!("`{group}` is not a domain name such as `cache.example.com`");
        report.add("group", message);
    }
    for key in ["kind", "listKind"] {
        let name = text(&names[key]);
        let given = key == "kind" || !name.is_empty();
        if given && !windlass_text::name::dns1035_faults(&name.to_lowercase()).is_empty() {
            let message = format!("`{name}` is not a name in camel case such as `Memcached`");
            report.add(&format!("names.{key}"), message);
        }
    }
    if names["kind"] == names["listKind"] {
        report.add("names.listKind", "a kind and the kind of its lists have different names");
    }
    let (name, expected) =
        (text(&crd["metadata"]["name"]), format!("{}.{group}", text(&names["plural"])));
    if name != expected {
        report.add("name", format_args!("the definition `{name}` has to be called `{expected}`"));
    }
    let scope = text(&spec["scope"]);
    if !["Cluster", "Namespaced"].contains(&scope.as_str()) {
        report.add("scope", format_args!("the scope `{scope}` is not `Cluster` or `Namespaced`"));
    }
    for version in spec["versions"].as_array().into_iter().flatten() {
        let name = text(&version["name"]);
        if !windlass_text::name::dns1035_faults(&name).is_empty() {
            report.add(&name, "a version is a name in lower case such as `v1alpha1`");
        }
    }
}

fn served(versions: &[Value], report: &mut Report) {
    if !versions.iter().any(|version| version["served"] == true) {
        report.add("", "no version is served, remove `served = false` from one");
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        report.add("", "exactly one version is stored, set `storage = false` on all others");
    }
}

fn deprecation(version: &Value, report: &mut Report) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    if version["deprecated"] != true {
        report.add("deprecated", "the version has a warning, but is not deprecated");
    }
    if warning.is_empty() || warning.len() > WARNING_MAX {
        report.add("deprecated", format_args!("the warning has 1 to {WARNING_MAX} bytes"));
    }
    if warning.contains(|letter: char| letter.is_control()) {
        report.add("deprecated", "the warning has line breaks or other control characters");
    }
}

/// The type of a schema; empty if it has none.
fn kind(schema: &Map<String, Value>) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is_set(schema: &Map<String, Value>, keyword: &str) -> bool {
    schema.get(keyword).is_some_and(|value| value == true)
}
