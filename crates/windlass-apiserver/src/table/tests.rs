use proptest::prelude::*;
use serde_json::{Value, json};

use super::age::human_duration;
use super::*;
use crate::resource::builtins;

fn now() -> Timestamp {
    "2026-01-10T00:00:00Z".parse().unwrap()
}

fn resource(plural: &str) -> &'static Resource {
    builtins().iter().find(|r| &*r.plural == plural).unwrap()
}

#[test]
fn every_built_in_kind_has_as_many_cells_as_columns() {
    for resource in builtins() {
        let object =
            json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-09T00:00:00Z"}});
        let count = columns(resource).len();
        let mut cells = cells::cells(&resource.gvk.group, &resource.plural, &object, now());
        // Kinds that are never listed have no printer either.
        if resource.has_verb("list") && &*resource.plural != "componentstatuses" {
            assert_eq!(cells.len(), count, "{resource:?}");
        }
        cells.clear();
        assert_eq!(row(resource, &object, now()).len(), count);
    }
}

#[test]
fn a_pod_shows_why_it_does_not_run() {
    let pod = |status: Value| {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "c"}]},
            "status": status,
        });
        row(resource("pods"), &pod, now())[1..4].to_vec()
    };
    let waiting = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "i", "state": {"terminated": {"exitCode": 0}}},
        {"name": "j", "restartCount": 2, "state": {"running": {}},
            "lastState": {"terminated": {"finishedAt": "2026-01-09T23:59:00Z"}}},
    ]});
    assert_eq!(pod(waiting), [json!("0/1"), json!("Init:1/2"), json!("2 (60s ago)")]);
    let failed = json!({"phase": "Failed", "containerStatuses": [
        {"name": "c", "state": {"terminated": {"exitCode": 3}}},
    ]});
    assert_eq!(pod(failed), [json!("0/1"), json!("ExitCode:3"), json!("0")]);
}

#[test]
fn include_object_decides_what_rows_carry() {
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let at = |include| {
        let objects = [object.clone()];
        let out = table(resource("configmaps"), &objects, include, now(), "meta.k8s.io/v1");
        out["rows"][0]["object"].clone()
    };
    assert_eq!(at(Include::None), json!(null));
    assert_eq!(at(Include::Metadata)["kind"], "PartialObjectMetadata");
    assert_eq!(at(Include::Object)["apiVersion"], "v1");
    assert!(Include::parse(Some("Some")).unwrap_err().message.ends_with("or empty"));
}

#[test]
fn paths_find_fields_items_and_filtered_items() {
    let object = json!({
        "metadata": {"labels": {"a.b/c": "l"}},
        "status": {"conditions": [{"type": "A", "n": 1}, {"type": "B", "n": 2}]},
    });
    let find = |path: &str| -> Vec<Value> {
        JsonPath::parse(path).unwrap().find(&object).into_iter().cloned().collect()
    };
    assert_eq!(find(".metadata.labels.a\\.b/c"), [json!("l")]);
    assert_eq!(find(".metadata.labels['a.b/c']"), [json!("l")]);
    assert_eq!(find(".status.conditions[?(@.type==\"B\")].n"), [json!(2)]);
    assert_eq!(find(".status.conditions[?(@.n>=1)].type"), [json!("A"), json!("B")]);
    assert_eq!(find(".status.conditions[-1].n"), [json!(2)]);
    assert_eq!(find(".status.conditions[*].n"), [json!(1), json!(2)]);
    assert_eq!(find("..n"), [json!(1), json!(2)]);
    assert_eq!(find(".nothing.here"), Vec::<Value>::new());
}

#[test]
fn durations_have_at_most_two_units() {
    for (seconds, want) in [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (303, "5m3s"),
        (601, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"),
        (50 * 3600, "2d2h"),
        (86400 * 9, "9d"),
        (86400 * 800, "2y70d"),
        (86400 * 365 * 9, "9y"),
    ] {
        assert_eq!(human_duration(seconds), want);
    }
}

proptest! {
    #[test]
    fn no_path_text_panics(text in "[.a\\[\\]?(@=='\"*:0-9\\\\)]{0,20}") {
        if let Ok(path) = JsonPath::parse(&text) {
            let _ = path.find(&json!({"a": [{"a": 1}, {"a": "0"}]}));
        }
    }
}

#[test]
fn odd_values_of_custom_columns_show_what_they_are() {
    let cell = |kind: &str, value: Value| {
        let column = json!({"name": "x", "type": kind, "jsonPath": ".spec.x"});
        custom_cell(&column, &json!({"spec": {"x": value}}), now())
    };
    assert_eq!(cell("string", Value::Null), "<no value>");
    assert_eq!(cell("string", json!(1e-7)), "1e-07");
    assert_eq!(cell("integer", Value::Null), Value::Null);
    assert_eq!(cell("date", json!("")), "<unknown>");
    assert_eq!(cell("date", json!("yesterday")), "<invalid>");
}
