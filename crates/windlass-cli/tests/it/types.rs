//! `windlass generate types`: the types compile, are what the command prints, and make the definition
//! from which they were made.
//!
//! After a change of the generator or of a definition, write the types again:
//! `windlass generate types tests/it/types/NAME.yaml > tests/it/types/NAME.rs`.

use std::io::Write as _;
use std::process::Stdio;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, CustomResourceExt};
use serde_json::{Value, json};
use windlass::manifests::crd;
use windlass_apiserver::ApiServer;

use crate::support::{output, windlass};

#[rustfmt::skip]
mod application;
#[rustfmt::skip]
mod certificate;
#[rustfmt::skip]
mod composite;
#[rustfmt::skip]
mod monitor;
#[rustfmt::skip]
mod odd;
#[rustfmt::skip]
mod route;

/// A definition, the types that were made of it, and the definition that these make.
struct Case {
    name: &'static str,
    types: &'static str,
    made: CustomResourceDefinition,
}

fn cases() -> Vec<Case> {
    let case = |name, types, made| Case { name, types, made };
    let composite =
        [composite::v1::CompositeDefinition::crd(), composite::v2::CompositeDefinition::crd()];
    let route = [route::v1::Route::crd(), route::v1beta1::Route::crd()];
    vec![
        case("application", include_str!("types/application.rs"), application::Application::crd()),
        case("certificate", include_str!("types/certificate.rs"), certificate::Certificate::crd()),
        case("composite", include_str!("types/composite.rs"), crd::merge(composite).unwrap()),
        case("monitor", include_str!("types/monitor.rs"), monitor::Monitor::crd()),
        case("odd", include_str!("types/odd.rs"), odd::Oddity::crd()),
        case("route", include_str!("types/route.rs"), crd::merge(route).unwrap()),
    ]
}

fn path(name: &str) -> String {
    format!("{}/tests/it/types/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

fn original(name: &str) -> CustomResourceDefinition {
    let text = std::fs::read_to_string(path(name)).unwrap();
    let mut documents = windlass::manifests::yaml::read(&text).unwrap();
    serde_json::from_value(documents.remove(0)).unwrap()
}

/// Returns the paths at which two values differ.
fn differences(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for (key, value) in one {
                let value_there = other.get(key).unwrap_or(&Value::Null);
                differences(value, value_there, &format!("{path}.{key}"), found);
            }
            for key in other.keys().filter(|key| !one.contains_key(*key)) {
                found.push(format!("{path}.{key}"));
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                differences(one, other, &format!("{path}[{at}]"), found);
            }
        }
        _ if one == other => {}
        _ => found.push(path.to_owned()),
    }
}

/// A definition as data, with names of required fields in order.
fn comparable(definition: &CustomResourceDefinition) -> Value {
    fn sort(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    sort(value);
                    if let (Value::Array(names), "required") = (value, key.as_str()) {
                        names.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(sort),
            _ => {}
        }
    }
    let mut value = crd::to_value(definition);
    sort(&mut value);
    value
}

#[test]
fn the_types_are_what_the_command_prints() {
    for case in cases() {
        let output = output(&["generate", "types", &path(case.name)]);
        assert_eq!(output.status.code(), Some(0));
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed == case.types, "{}: write the types again, as this file says", case.name);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", case.name);
    }
}

#[test]
fn the_types_make_the_definition_from_which_they_were_made() {
    for case in cases() {
        let mut found = Vec::new();
        differences(&comparable(&original(case.name)), &comparable(&case.made), "", &mut found);
        // These texts belong to the fields of every kind, and to types of Kubernetes.
        let foreign = |path: &String| {
            path.ends_with(".description")
                && [
                    ".properties.apiVersion.",
                    ".properties.kind.",
                    ".conditions.items.",
                    ".selector.properties.",
                    ".secretKeyRef.",
                ]
                .iter()
                .any(|part| path.contains(part))
        };
        found.retain(|path| !foreign(path));
        assert_eq!(found, Vec::<String>::new(), "{}", case.name);
    }
}

#[test]
fn the_definitions_are_found_good_before_a_server_sees_them() {
    for case in cases() {
        crd::check_crd(&case.made).unwrap_or_else(|problems| panic!("{}: {problems}", case.name));
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_accepts_the_definitions() {
    let server = ApiServer::start();
    let definitions = Api::<CustomResourceDefinition>::all(server.client());
    for case in cases() {
        let created = definitions.create(&Default::default(), &case.made).await;
        let created = created.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let conditions = created.status.and_then(|status| status.conditions).unwrap_or_default();
        let is_bad = |kind: &str| kind == "NonStructuralSchema";
        assert!(!conditions.iter().any(|one| is_bad(&one.type_)), "{}", case.name);
    }
}

#[test]
fn objects_of_a_flat_kind_keep_their_fields_beside_the_metadata() {
    let object = json!({
        "apiVersion": "deploy.example.com/v1alpha1", "kind": "Application",
        "metadata": {"name": "shop"},
        "operation": {"phase": "Running"},
        "spec": {"destination": {}, "project": "default"},
    });
    let parsed: application::Application = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(parsed.fields.operation.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(serde_json::to_value(&parsed).unwrap(), object);
}

#[test]
fn fields_that_a_definition_does_not_describe_are_kept() {
    let object = json!({
        "apiVersion": "odd.example.com/v1", "kind": "Oddity", "metadata": {},
        "spec": {
            "must": "now", "2fa": false, "größe": 1, "level": 1, "word": "**", "other": {"x": [1]},
            "port": 80, "payloads": {"a": "aGk="}, "texts": [null, "a"], "quote\"d\nname": "q",
        },
    });
    let parsed: odd::Oddity = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&parsed).unwrap(), object);
}

#[test]
fn several_definitions_from_standard_input_are_modules() {
    let mut command = windlass();
    command.args(["generate", "types", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for name in ["certificate", "route"] {
        input.write_all(b"---\n").unwrap();
        input.write_all(&std::fs::read(path(name)).unwrap()).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let code = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for module in ["pub mod certificate {", "pub mod route {", "    pub mod v1beta1 {"] {
        assert!(code.contains(module), "{module}");
    }
}

#[test]
fn what_has_no_definition_is_refused_in_a_sentence() {
    let output = output(&["generate", "types", "Cargo.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(crate::support::one_line(&output).matches("windlass: ").count(), 1);
}
