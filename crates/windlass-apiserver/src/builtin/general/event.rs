//! Event in its two forms: core `v1` and `events.k8s.io/v1`, stored once.

use serde_json::{Map, Value, json};
use windlass_text::select::key;

use super::names::push;
use super::tools::{fill, has, immutable, number, object, text};
use crate::builtin::Strategy;
use crate::status::{FieldError, FieldErrors};
use crate::store::ResourceKey;

/// Fields of the core form and what the newer form calls them.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Returns where events of both groups are stored.
pub fn storage() -> ResourceKey {
    ResourceKey::new("", "events")
}

/// Returns the `events.k8s.io/v1` form of a core event.
pub fn to_events_v1(event: &Value) -> Value {
    let mut out = rename(event, |(core, newer)| (core, newer));
    out["apiVersion"] = "events.k8s.io/v1".into();
    NewEvent.defaults(&mut out);
    out
}

/// Returns the core form of an `events.k8s.io/v1` event.
pub fn to_core_v1(event: &Value) -> Value {
    let mut out = rename(event, |(core, newer)| (newer, core));
    out["apiVersion"] = "v1".into();
    CoreEvent.defaults(&mut out);
    out
}

/// Core Event.
pub(super) struct CoreEvent;

impl Strategy for CoreEvent {
    fn defaults(&self, event: &mut Value) {
        object(event, "involvedObject");
        object(event, "source");
        for key in ["firstTimestamp", "lastTimestamp", "eventTime"] {
            fill(event, key, Value::Null);
        }
        for key in ["reportingComponent", "reportingInstance"] {
            fill(event, key, "");
        }
    }

    fn validate(&self, event: &Value) -> FieldErrors {
        check(event, "reportingComponent")
    }

    fn checks_meta(&self) -> bool {
        false
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn selectable_fields(&self, event: &Value) -> Option<Vec<(&'static str, String)>> {
        let mut fields = core_fields(event);
        // An event is stored once and found under the names of both forms.
        if event.is_object() {
            fields.extend(newer_fields(&to_events_v1(event)));
        }
        Some(fields)
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn has_dependents(&self) -> bool {
        false
    }

    fn expires(&self) -> bool {
        true
    }
}

/// Event of `events.k8s.io`.
pub(super) struct NewEvent;

impl Strategy for NewEvent {
    fn defaults(&self, event: &mut Value) {
        object(event, "regarding");
        object(event, "deprecatedSource");
        for key in ["eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
            fill(event, key, Value::Null);
        }
        for key in ["reportingController", "reportingInstance"] {
            super::tools::drop_empty(event, key);
        }
    }

    fn validate(&self, event: &Value) -> FieldErrors {
        let core = to_core_v1(event);
        let mut errors = check(&core, "reportingController");
        if !has(&core, "eventTime") {
            errors.push(FieldError::required("eventTime", ""));
        }
        let kind = text(&core, "type");
        if kind != "Normal" && kind != "Warning" {
            let why = format!("has invalid value: {kind}");
            errors.push(FieldError::invalid_str("type", "", why));
        }
        let unset = "needs to be unset";
        for key in ["firstTimestamp", "lastTimestamp"] {
            if has(&core, key) {
                errors.push(FieldError::invalid_str(key, "", unset));
            }
        }
        if number(&core, "count") != 0 {
            errors.push(FieldError::invalid_str("count", "", unset));
        }
        let source = &core["source"];
        if !text(source, "component").is_empty() || !text(source, "host").is_empty() {
            errors.push(FieldError::invalid_str("source", "", unset));
        }
        errors
    }

    fn validate_update(&self, event: &Value, old: &Value) -> FieldErrors {
        let (new, old) = (to_core_v1(event), to_core_v1(old));
        let mut errors = check(&new, "reportingController");
        for key in ["involvedObject", "reason", "reportingController", "reportingInstance"]
            .into_iter()
            .chain(["action", "related", "message", "type", "source"])
            .chain(["firstTimestamp", "lastTimestamp", "reason"])
        {
            let core = if key == "reportingController" { "reportingComponent" } else { key };
            immutable(&mut errors, key, &field(&new, core), &field(&old, core));
        }
        let count = |event: &Value| Value::from(number(event, "count"));
        immutable(&mut errors, "count", &count(&new), &count(&old));
        if new["series"] != old["series"] && has(&new, "series") {
            if number(&new["series"], "count") < 2 {
                errors.push(FieldError::invalid_str("series.count", "", "should be at least 2"));
            }
            if !has(&new["series"], "lastObservedTime") {
                errors.push(FieldError::required("series.lastObservedTime", ""));
            }
        }
        immutable(&mut errors, "eventTime", &new["eventTime"], &old["eventTime"]);
        errors
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn selectable_fields(&self, event: &Value) -> Option<Vec<(&'static str, String)>> {
        let mut fields = newer_fields(event);
        if event.is_object() {
            fields.extend(core_fields(&to_core_v1(event)));
        }
        Some(fields)
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn has_dependents(&self) -> bool {
        false
    }

    fn expires(&self) -> bool {
        true
    }

    fn is_converted(&self) -> bool {
        true
    }

    fn stored_form(&self, event: Value) -> Value {
        to_core_v1(&event)
    }

    fn read_stored(&self, event: Value) -> Value {
        to_events_v1(&event)
    }
}

/// Returns a field as the real server compares it: a text that is left out is empty.
fn field(event: &Value, key: &str) -> Value {
    let is_object = ["involvedObject", "related", "source"].contains(&key);
    match &event[key] {
        Value::Null if !is_object && !key.ends_with("Timestamp") => json!(""),
        value => value.clone(),
    }
}

/// Fields to select by, under the names of the core form.
fn core_fields(event: &Value) -> Vec<(&'static str, String)> {
    let about = &event["involvedObject"];
    let get = |parent: &Value, key: &str| text(parent, key).to_owned();
    let source = match get(&event["source"], "component") {
        empty if empty.is_empty() => get(event, "reportingComponent"),
        source => source,
    };
    vec![
        ("involvedObject.kind", get(about, "kind")),
        ("involvedObject.namespace", get(about, "namespace")),
        ("involvedObject.name", get(about, "name")),
        ("involvedObject.uid", get(about, "uid")),
        ("involvedObject.apiVersion", get(about, "apiVersion")),
        ("involvedObject.resourceVersion", get(about, "resourceVersion")),
        ("involvedObject.fieldPath", get(about, "fieldPath")),
        ("reason", get(event, "reason")),
        ("reportingComponent", get(event, "reportingComponent")),
        ("source", source),
        ("type", get(event, "type")),
    ]
}

/// The same under the names of the newer form.
fn newer_fields(event: &Value) -> Vec<(&'static str, String)> {
    let about = &event["regarding"];
    let get = |parent: &Value, key: &str| text(parent, key).to_owned();
    vec![
        ("regarding.kind", get(about, "kind")),
        ("regarding.namespace", get(about, "namespace")),
        ("regarding.name", get(about, "name")),
        ("regarding.uid", get(about, "uid")),
        ("regarding.apiVersion", get(about, "apiVersion")),
        ("regarding.resourceVersion", get(about, "resourceVersion")),
        ("regarding.fieldPath", get(about, "fieldPath")),
        ("reason", get(event, "reason")),
        ("reportingController", get(event, "reportingController")),
        ("type", get(event, "type")),
    ]
}

fn rename(
    event: &Value,
    order: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let Some(fields) = event.as_object() else { return json!({}) };
    let mut out = Map::new();
    for (key, value) in fields {
        let found = RENAMED.into_iter().map(&order).find(|(from, _)| from == key);
        out.insert(found.map_or(key.clone(), |(_, to)| to.to_owned()), value.clone());
    }
    Value::Object(out)
}

/// The rules both forms share, on the core form.
fn check(event: &Value, controller_field: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let namespace = text(&event["metadata"], "namespace");
    let about = text(&event["involvedObject"], "namespace");
    let mismatch = || {
        FieldError::invalid_str("involvedObject.namespace", about, "does not match event.namespace")
    };
    if !has(event, "eventTime") {
        let fits = match about {
            "" => matches!(namespace, "" | "default"),
            about => about == namespace,
        };
        if !fits {
            errors.push(mismatch());
        }
        return errors;
    }
    if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
        errors.push(mismatch());
    }
    let controller = text(event, "reportingComponent");
    if controller.is_empty() {
        errors.push(FieldError::required(controller_field, ""));
    }
    push(&mut errors, controller_field, controller, key::qualified_name(controller));
    for key in ["reportingInstance", "action", "reason"] {
        let value = text(event, key);
        if value.is_empty() {
            errors.push(FieldError::required(key, ""));
        } else if value.len() > 128 {
            let why = "can have at most 128 characters";
            errors.push(FieldError::invalid_str(key, "", why));
        }
    }
    if text(event, "message").len() > 1024 {
        errors.push(FieldError::invalid_str("message", "", "can have at most 1024 characters"));
    }
    errors
}
