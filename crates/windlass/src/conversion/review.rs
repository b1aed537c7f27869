//! The document of the API server: `ConversionReview`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::{Value, json};

use super::Versions;
use crate::controller::panic_text;
use crate::error::{Error, Result};

/// The conversions of all kinds of an operator.
#[derive(Clone, Default)]
pub(crate) struct Conversions(Vec<Arc<Versions>>);

// === impl Conversions ===

#[cfg_attr(not(feature = "operator"), expect(dead_code, reason = "for operators"))]
impl Conversions {
    pub(crate) fn add(&mut self, versions: Versions) {
        self.0.push(Arc::new(versions));
    }

    /// The conversion of a kind.
    pub(crate) fn of(&self, group: &str, kind: &str) -> Option<&Versions> {
        self.0.iter().map(|versions| &**versions).find(|v| v.group_kind() == (group, kind))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Versions> {
        self.0.iter().map(|versions| &**versions)
    }

    /// Answers a `ConversionReview`.
    pub(crate) fn review(&self, review: Value) -> Value {
        answer(review, |object| {
            let group = object["apiVersion"].as_str().and_then(|v| v.split_once('/'))?.0;
            self.of(group, object["kind"].as_str()?)
        })
    }
}

/// Answers a review, with the conversion that `find` returns for an object.
pub(super) fn answer<'a>(
    mut review: Value,
    find: impl Fn(&Value) -> Option<&'a Versions>,
) -> Value {
    let version = match review["apiVersion"].as_str() {
        Some(known @ "apiextensions.k8s.io/v1beta1") => known.to_owned(),
        _ => "apiextensions.k8s.io/v1".to_owned(),
    };
    let is_review = review["kind"] == "ConversionReview";
    let mut request = take(&mut review, "request");
    let uid = take(&mut request, "uid");
    let converted = match (is_review, take(&mut request, "objects")) {
        (true, Value::Array(objects)) => all(objects, &request, find),
        _ => Err("the body is not a ConversionReview with a request".to_owned()),
    };
    let response = match converted {
        Ok(objects) => {
            json!({"uid": uid, "result": {"status": "Success"}, "convertedObjects": objects})
        }
        Err(message) => json!({"uid": uid, "result": {"status": "Failure", "message": message}}),
    };
    json!({"apiVersion": version, "kind": "ConversionReview", "response": response})
}

/// Takes a field of a value that may be anything.
fn take(value: &mut Value, name: &str) -> Value {
    value.as_object_mut().and_then(|fields| fields.remove(name)).unwrap_or_default()
}

fn all<'a>(
    objects: Vec<Value>,
    request: &Value,
    find: impl Fn(&Value) -> Option<&'a Versions>,
) -> Result<Vec<Value>, String> {
    let to = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let mut converted = Vec::with_capacity(objects.len());
    for object in objects {
        let name = name_of(&object);
        let one = match find(&object) {
            Some(versions) => contained(versions, object, to),
            None => Err(Error::Invalid("this operator does not convert its kind".into())),
        };
        converted.push(
            one.map_err(|error| format!("cannot convert {name} to {to}: {}", error.chain()))?,
        );
    }
    Ok(converted)
}

/// Converts an object; a panic of the author's code is an error.
fn contained(versions: &Versions, object: Value, to: &str) -> Result<Value> {
    crate::panic::install_hook();
    let run = AssertUnwindSafe(|| versions.convert(object, to));
    catch_unwind(run).unwrap_or_else(|panic| {
        Err(Error::Panic(format!("the conversion: {}", panic_text(&*panic))))
    })
}

/// `Lamp default/a of example.com/v1`.
fn name_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let name = match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", text(&metadata["name"])),
        None => text(&metadata["name"]),
    };
    format!("{} {name} of {}", text(&object["kind"]), text(&object["apiVersion"]))
}
