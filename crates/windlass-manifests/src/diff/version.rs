//! What belongs to one version: whether it is served and stored, and its subresources.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{EMPTY, Report, schema, text};

/// All versions of a definition.
pub(super) fn all(definition: &Value) -> &[Value] {
    definition["spec"]["versions"].as_array().map_or(&[], Vec::as_slice)
}

/// The version of a name.
pub(super) fn find<'a>(definition: &'a Value, name: &str) -> Option<&'a Value> {
    all(definition).iter().find(|version| text(version, "/name") == name)
}

/// The version in which objects are stored.
pub(super) fn storage(definition: &Value) -> Option<&Value> {
    all(definition).iter().find(|version| version["storage"] == true)
}

/// The schema of a version; empty if it has none.
pub(super) fn schema(version: &Value) -> &Map<String, Value> {
    version["schema"]["openAPIV3Schema"].as_object().unwrap_or(&EMPTY)
}

pub(super) fn compare(old: &Value, new: &Value, report: &mut Report) {
    match (old["served"] == true, new["served"] == true) {
        (true, false) => {
            report.breaking(
                "",
                "served",
                "the version is no longer served, so its clients get 404",
            );
        }
        (false, true) => report.safe("", "served", "the version is served again"),
        _ => {}
    }
    if old["deprecated"] != true && new["deprecated"] == true {
        report.safe("", "deprecated", "the version is deprecated, so its clients get a warning");
    }
    status(old, new, report);
    scale(old, new, report);
    selectable(old, new, report);
    if old["additionalPrinterColumns"] != new["additionalPrinterColumns"] {
        report.safe("", "additionalPrinterColumns", "the columns of tables change");
    }
    schema::compare(schema(old), schema(new), report);
}

fn status(old: &Value, new: &Value, report: &mut Report) {
    let has = |version: &Value| version["subresources"]["status"].is_object();
    match (has(old), has(new)) {
        (true, false) => report.breaking(
            "",
            "subresources",
            "the subresource status is removed, so writes of it get 404 and everybody who may write \
             an object may write its status",
        ),
        (false, true) => report.breaking(
            "",
            "subresources",
            "the subresource status is added, so writes of the object itself no longer change its \
             status",
        ),
        _ => {}
    }
}

fn scale(old: &Value, new: &Value, report: &mut Report) {
    let (before, after) = (&old["subresources"]["scale"], &new["subresources"]["scale"]);
    match (before.is_object(), after.is_object()) {
        (true, false) => {
            let why = "the subresource scale is removed, so autoscalers and kubectl scale get 404";
            report.breaking("", "subresources", why);
        }
        (false, true) => report.safe("", "subresources", "the subresource scale is added"),
        (true, true) if has_new_selector(before, after) => {
            let why = "the subresource scale has a selector, which horizontal autoscalers need";
            report.safe("", "subresources", why);
        }
        _ if before != after => {
            let why = "the paths of the subresource scale change, so autoscalers read and write other \
                       fields";
            report.breaking("", "subresources", why);
        }
        _ => {}
    }
}

/// Returns `true` if the path of the selector is new, and all else as before.
fn has_new_selector(old: &Value, new: &Value) -> bool {
    let selector = |scale: &Value| !text(scale, "/labelSelectorPath").is_empty();
    !selector(old)
        && selector(new)
        && ["specReplicasPath", "statusReplicasPath"].iter().all(|path| old[*path] == new[*path])
}

fn selectable(old: &Value, new: &Value, report: &mut Report) {
    let paths = |version: &Value| -> BTreeSet<String> {
        let fields = version["selectableFields"].as_array().into_iter().flatten();
        fields.map(|field| text(field, "/jsonPath").to_owned()).collect()
    };
    let (before, after) = (paths(old), paths(new));
    for path in before.difference(&after) {
        let why = "the field is no longer selectable, so requests that select by it are refused";
        report.breaking(path, "selectableFields", why);
    }
    for path in after.difference(&before) {
        report.safe(path, "selectableFields", "the field becomes selectable");
    }
}
