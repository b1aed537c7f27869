//! The rules of a definition's spec: names, versions, columns, subresources, conversion.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};
use windlass_cel::Schema;
use windlass_text::name as text;

use super::{openapi, webhook};
use crate::custom::{names, path, validate};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// How many selectable fields a version may have.
const SELECTABLE_MAX: usize = 8;

const APPROVED: &str = "api-approved.kubernetes.io";

/// Problems of a definition; `old` is the stored one on update.
pub fn validate(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let spec = &object["spec"];
    if old.is_none() {
        let wanted = format!("{}.{}", str_of(&spec["names"]["plural"]), str_of(&spec["group"]));
        for key in ["generateName", "name"] {
            let name = str_of(&object["metadata"][key]);
            if !name.is_empty() && name != wanted {
                let detail = "must be spec.names.plural+\".\"+spec.group";
                errors.push(FieldError::invalid_str(format!("metadata.{key}"), name, detail));
            }
        }
    }
    validate_spec(spec, old, &mut errors);
    if let Some(old) = old {
        let fixed = names::is_true(old, "Established");
        for (pointer, field, always) in [
            ("/scope", "spec.scope", false),
            ("/names/kind", "spec.names.kind", false),
            ("/group", "spec.group", true),
            ("/names/plural", "spec.names.plural", true),
        ] {
            let (new, before) = (spec.pointer(pointer), old["spec"].pointer(pointer));
            if (always || fixed) && new != before {
                let new = new.unwrap_or(&Value::Null);
                errors.push(FieldError::invalid(field, new, "field is immutable"));
            }
        }
    }
    errors.extend(validate_names(&object["status"]["acceptedNames"], "status.acceptedNames"));
    validate_stored(object, &mut errors);
    validate_approval(object, old, &mut errors);
    let preserved = |object: &Value| object["spec"]["preserveUnknownFields"] == true;
    if preserved(object) && !old.is_some_and(preserved) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
             spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &true.into(), detail));
    }
    errors
}

/// Returns `true` if all versions have the same value there: it is then seen at the top of the
/// spec.
pub fn same(versions: &[Value], key: &str) -> bool {
    let value = |version: &Value| version.get(key).filter(|v| !v.is_null()).cloned();
    versions.windows(2).all(|pair| value(&pair[0]) == value(&pair[1]))
}

/// Returns a string; empty if the value is not a string.
pub fn str_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list_of(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn validate_spec(spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let group = str_of(&spec["group"]);
    let group_faults = text::dns1123_subdomain_faults(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !group_faults.is_empty() {
        errors.push(FieldError::invalid_str("spec.group", group, group_faults.join(",")));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid_str("spec.group", group, detail));
    }
    one_of("spec.scope", &spec["scope"], &["Cluster", "Namespaced"], errors);
    let versions = list_of(&spec["versions"]);
    for (index, version) in versions.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let place = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(place, ""));
        }
    }
    let preserve = spec["preserveUnknownFields"] == true;
    let schemas: Vec<Schema> =
        versions.iter().map(|v| Schema::parse(&v["schema"]["openAPIV3Schema"])).collect();
    if preserve && schemas.iter().any(|s| s.any(&|node| node.default.is_some())) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &true.into(), detail));
    }
    let hoisted = Hoisted::of(versions);
    let before = Before::of(old);
    for (index, version) in versions.iter().enumerate() {
        let place = format!("spec.versions[{index}]");
        let name = str_of(&version["name"]);
        let faults = text::dns1035_faults(name);
        if !faults.is_empty() {
            let field = format!("{place}.name");
            errors.push(FieldError::invalid_str(field, name, faults.join(",")));
        }
        validate_version(version, &schemas[index], &place, &hoisted, &before, errors);
    }
    validate_versions(spec, versions, errors);
    let given = &spec["names"];
    for key in ["plural", "singular", "kind", "listKind"] {
        if str_of(&given[key]).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{key}"), ""));
        }
    }
    errors.extend(validate_names(given, "spec.names"));
    if let (Some(first), Some(schema)) = (versions.first(), schemas.first()) {
        let status = versions.iter().any(|v| v["subresources"]["status"].is_object());
        let unchanged = before.has_same(first, "schema");
        if hoisted.schema && first["schema"].is_object() {
            let raw = &first["schema"]["openAPIV3Schema"];
            let check = openapi::Check { status, unchanged, raw };
            errors.extend(openapi::validate(schema, "spec.validation", &check));
        }
        if hoisted.subresources {
            validate_subresources(&first["subresources"], "spec.subresources", errors);
        }
        if hoisted.columns {
            validate_columns(first, "spec.additionalPrinterColumns", errors);
        }
        if hoisted.selectable {
            validate_selectable(first, schema, "spec.selectableFields", &before, errors);
        }
    }
    webhook::validate(&spec["conversion"], preserve, old, errors);
}

struct Hoisted {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl Hoisted {
    fn of(versions: &[Value]) -> Self {
        Self {
            schema: same(versions, "schema"),
            subresources: same(versions, "subresources"),
            columns: same(versions, "additionalPrinterColumns"),
            selectable: same(versions, "selectableFields"),
        }
    }
}

/// The versions of a stored definition, by name.
struct Before<'a>(HashMap<&'a Value, &'a Value>);

impl<'a> Before<'a> {
    fn of(old: Option<&'a Value>) -> Self {
        let versions = old.map_or(&[][..], |old| list_of(&old["spec"]["versions"]));
        let mut first = HashMap::with_capacity(versions.len());
        for version in versions {
            first.entry(&version["name"]).or_insert(version);
        }
        Self(first)
    }

    fn has_same(&self, version: &Value, key: &str) -> bool {
        self.0.get(&version["name"]).is_some_and(|before| before[key] == version[key])
    }
}

fn validate_version(
    version: &Value,
    schema: &Schema,
    place: &str,
    hoisted: &Hoisted,
    before: &Before<'_>,
    errors: &mut FieldErrors,
) {
    deprecation(version, place, errors);
    if !hoisted.schema && version["schema"].is_object() {
        let check = openapi::Check {
            status: version["subresources"]["status"].is_object(),
            unchanged: before.has_same(version, "schema"),
            raw: &version["schema"]["openAPIV3Schema"],
        };
        errors.extend(openapi::validate(schema, &format!("{place}.schema"), &check));
    }
    if !hoisted.subresources {
        validate_subresources(&version["subresources"], &format!("{place}.subresources"), errors);
    }
    if !hoisted.columns {
        validate_columns(version, &format!("{place}.additionalPrinterColumns"), errors);
    }
    let place = format!("{place}.selectableFields");
    if hoisted.selectable {
        return;
    }
    if version["schema"]["openAPIV3Schema"].is_object() {
        validate_selectable(version, schema, &place, before, errors);
    } else if !list_of(&version["selectableFields"]).is_empty() {
        // The real server says the opposite of what it means.
        let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
        errors.push(FieldError::invalid_str(place, "", why));
    }
}

fn deprecation(version: &Value, place: &str, errors: &mut FieldErrors) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let mut add = |detail: String| {
        let field = format!("{place}.deprecationWarning");
        errors.push(FieldError::invalid_str(field, warning, detail));
    };
    if version["deprecated"] != true {
        return add("can only be set for deprecated versions".into());
    }
    if warning.len() > 256 {
        add("must be <= 256 characters long".into());
    }
    if warning.is_empty() {
        add("must not be an empty string".into());
    }
    let odd = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if let Some(index) = warning.find(odd) {
        add(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index \
             {index}"
        ));
    }
}

fn validate_versions(spec: &Value, versions: &[Value], errors: &mut FieldErrors) {
    let shown = shown_versions(spec, versions);
    let wrong = |detail: &str| {
        FieldError::raw(FieldErrorKind::Invalid, "spec.versions", shown.clone(), detail)
    };
    let unique: BTreeSet<&str> = versions.iter().map(|v| str_of(&v["name"])).collect();
    if unique.len() != versions.len() {
        errors.push(wrong("must contain unique version names"));
    }
    if versions.iter().filter(|v| v["storage"] == true).count() != 1 {
        errors.push(wrong("must have exactly one version marked as storage version"));
    }
    let first = versions.first().map(|v| str_of(&v["name"])).unwrap_or_default();
    let faults = text::dns1035_faults(first);
    if !first.is_empty() && !faults.is_empty() {
        errors.push(FieldError::invalid_str("spec.version", first, faults.join(",")));
    }
}

/// The versions as errors show them: Go's internal type, without what is seen at the top.
fn shown_versions(spec: &Value, versions: &[Value]) -> String {
    if spec["versions"].is_null() {
        return "null".into();
    }
    let hoisted = Hoisted::of(versions);
    let one = |version: &Value| {
        let field = |hoisted: bool, key: &str| match hoisted {
            true => Value::Null,
            false => version[key].clone(),
        };
        let fields = [
            ("Name", json!(str_of(&version["name"]))),
            ("Served", json!(version["served"] == true)),
            ("Storage", json!(version["storage"] == true)),
            ("Deprecated", json!(version["deprecated"] == true)),
            ("DeprecationWarning", version["deprecationWarning"].clone()),
            ("Schema", field(hoisted.schema, "schema")),
            ("Subresources", field(hoisted.subresources, "subresources")),
            ("AdditionalPrinterColumns", field(hoisted.columns, "additionalPrinterColumns")),
            ("SelectableFields", field(hoisted.selectable, "selectableFields")),
        ];
        let fields: Vec<String> = fields.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
        format!("{{{}}}", fields.join(","))
    };
    let all: Vec<String> = versions.iter().map(one).collect();
    format!("[{}]", all.join(","))
}

/// Problems of names, given or accepted.
pub fn validate_names(names: &Value, place: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let mut check = |field: String, name: &str, mixed: bool| {
        let faults = match mixed {
            true => text::dns1035_faults(&name.to_lowercase()),
            false => text::dns1035_faults(name),
        };
        if !faults.is_empty() {
            let hint = "may have mixed case, but should otherwise match: ";
            let detail = format!("{}{}", if mixed { hint } else { "" }, faults.join(","));
            errors.push(FieldError::invalid_str(format!("{place}.{field}"), name, detail));
        }
    };
    for (key, mixed) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)]
    {
        let name = str_of(&names[key]);
        if !name.is_empty() {
            check(key.into(), name, mixed);
        }
    }
    for (index, name) in list_of(&names["shortNames"]).iter().enumerate() {
        check(format!("shortNames[{index}]"), str_of(name), false);
    }
    let same_kinds = !str_of(&names["kind"]).is_empty() && names["kind"] == names["listKind"];
    let at = errors.len();
    let mut check = |field: String, name: &str| {
        let faults = text::dns1035_faults(name);
        if !faults.is_empty() {
            let field = format!("{place}.{field}");
            errors.push(FieldError::invalid_str(field, name, faults.join(",")));
        }
    };
    for (index, name) in list_of(&names["categories"]).iter().enumerate() {
        check(format!("categories[{index}]"), str_of(name));
    }
    if same_kinds {
        let detail = "kind and listKind may not be the same";
        let field = format!("{place}.listKind");
        errors.insert(at, FieldError::invalid(field, &names["listKind"], detail));
    }
    errors
}

fn validate_stored(object: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "status.storedVersions";
    let stored = &object["status"]["storedVersions"];
    let list = list_of(stored);
    if list.is_empty() {
        let detail = "must have at least one stored version";
        errors.push(FieldError::invalid(FIELD, stored, detail));
        return;
    }
    let versions = list_of(&object["spec"]["versions"]);
    let (stored_names, names): (HashSet<&Value>, HashSet<&Value>) =
        (list.iter().collect(), versions.iter().map(|version| &version["name"]).collect());
    for version in versions.iter().filter(|v| v["storage"] == true) {
        if !stored_names.contains(&version["name"]) && !errors.is_full() {
            let detail = format!("must have the storage version {}", str_of(&version["name"]));
            errors.push(FieldError::invalid(FIELD, stored, detail));
        }
    }
    for (index, name) in list.iter().enumerate() {
        if !names.contains(name) {
            let v = str_of(name);
            let detail = format!(
                "missing from spec.versions; {v} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {v} and removes {v} from status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{FIELD}[{index}]"), name, detail));
        }
    }
}

fn validate_approval(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    if !names::is_protected(str_of(&object["spec"]["group"])) {
        return;
    }
    let (state, detail) = names::approval(object);
    if old.is_some_and(|old| names::approval(old).0 == state) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    let given = str_of(&object["metadata"]["annotations"][APPROVED]);
    match state {
        names::Approval::Invalid => errors.push(FieldError::invalid_str(field, given, detail)),
        names::Approval::Missing => errors.push(FieldError::required(field, detail)),
        names::Approval::Approved | names::Approval::Bypassed => {}
    }
}

/// A string out of a list.
pub fn one_of(field: &str, value: &Value, allowed: &[&str], errors: &mut FieldErrors) {
    let given = str_of(value);
    if given.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !allowed.contains(&given) {
        errors.push(FieldError::not_supported(field, value, allowed));
    }
}

fn validate_subresources(subresources: &Value, place: &str, errors: &mut FieldErrors) {
    let Value::Object(scale) = &subresources["scale"] else { return };
    for (key, prefix, wrong) in [
        ("specReplicasPath", ".spec.", "should be a json path under .spec"),
        ("statusReplicasPath", ".status.", "should be a json path under .status"),
    ] {
        let field = format!("{place}.scale.{key}");
        let given = text_in(scale, key);
        if given.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if let Some(error) = simple_path(given, &field) {
            errors.push(error);
        } else if !given.starts_with(prefix) {
            errors.push(FieldError::invalid_str(field, given, wrong));
        }
    }
    let selector = text_in(scale, "labelSelectorPath");
    let field = format!("{place}.scale.labelSelectorPath");
    if selector.is_empty() {
    } else if let Some(error) = simple_path(selector, &field) {
        errors.push(error);
    } else if !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        let detail = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid_str(field, selector, detail));
    }
}

fn text_in<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn simple_path(path: &str, field: &str) -> Option<FieldError> {
    let detail = "must be a simple json path starting with .";
    (!path.starts_with('.')).then(|| FieldError::invalid_str(field, path, detail))
}

fn validate_columns(version: &Value, place: &str, errors: &mut FieldErrors) {
    const TYPES: &str = "must be one of boolean,date,integer,number,string";
    const FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
    let columns = list_of(&version["additionalPrinterColumns"]);
    for (index, column) in columns.iter().enumerate() {
        let field = |key: &str| format!("{place}[{index}].{key}");
        let text = |key: &str| str_of(&column[key]);
        if text("name").is_empty() {
            errors.push(FieldError::required(field("name"), ""));
        }
        match text("type") {
            "" => errors.push(FieldError::required(field("type"), TYPES)),
            "boolean" | "date" | "integer" | "number" | "string" => {}
            other => errors.push(FieldError::invalid_str(field("type"), other, TYPES)),
        }
        let format = text("format");
        if !format.is_empty() && !FORMATS.split(',').any(|known| known == format) {
            let detail = format!("must be one of {FORMATS}");
            errors.push(FieldError::invalid_str(field("format"), format, detail));
        }
        match text("jsonPath") {
            "" => errors.push(FieldError::required(field("JSONPath"), "")),
            path => errors.extend(simple_path(path, &field("JSONPath"))),
        }
    }
}

fn validate_selectable(
    version: &Value,
    schema: &Schema,
    place: &str,
    before: &Before<'_>,
    errors: &mut FieldErrors,
) {
    let fields = list_of(&version["selectableFields"]);
    let mut seen = BTreeSet::new();
    for (index, given) in fields.iter().enumerate() {
        let field = format!("{place}[{index}].jsonPath");
        let given = str_of(&given["jsonPath"]);
        if given.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let (steps, found) = match path::resolve(given, schema, false) {
            Ok(found) => found,
            Err(why) => {
                let detail = format!("is an invalid path: {why}");
                errors.push(FieldError::invalid_str(field, given, detail));
                continue;
            }
        };
        if steps.first().is_some_and(|(step, _)| step == "metadata") {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid_str(&field, given, detail));
        }
        if !matches!(found.kind.as_str(), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string \
                 fields and strings with formats are allowed.";
            errors.push(FieldError::invalid_str(&field, given, detail));
        }
        if !seen.insert(path::join(&steps)) {
            errors.push(FieldError::duplicate(&field, &given.into()));
        }
    }
    let kept = before.has_same(version, "selectableFields");
    if seen.len() > SELECTABLE_MAX && !kept {
        errors.push(validate::too_many(place, seen.len(), SELECTABLE_MAX as i64));
    }
}
