//! Random bytes and random objects of every kind.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_protobuf::{Envelope, JsonOptions, from_value, message_of, to_json, to_value};

const KINDS: [(&str, &str); 12] = [
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "Event"),
    ("v1", "PodList"),
    ("v1", "Status"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "CronJob"),
    ("coordination.k8s.io/v1", "Lease"),
    ("authentication.k8s.io/v1", "TokenReview"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
];

/// Messages as they are on the wire, of any fields.
fn wire() -> impl Strategy<Value = Vec<u8>> {
    let number = 1_u8..16;
    let leaf = prop_oneof![
        (number.clone(), any::<u8>()).prop_map(|(n, v)| vec![n << 3, v & 0x7f]),
        (number.clone(), prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(n, v)| sized(n, &v)),
        (number.clone(), any::<[u8; 8]>()).prop_map(|(n, v)| [&[n << 3 | 1][..], &v].concat()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        (1_u8..16, prop::collection::vec(inner, 0..5)).prop_map(|(n, v)| sized(n, &v.concat()))
    })
}

fn sized(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut len = bytes.len();
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend_from_slice(bytes);
    out
}

fn pod() -> impl Strategy<Value = Value> {
    let text = "[a-z\"\\\\\u{1}\u{e9}]{0,6}";
    let labels = prop::collection::btree_map(text, text, 1..4).prop_map(|m| json!(m));
    let port = prop_oneof![any::<i32>().prop_map(|n| json!(n)), text.prop_map(|t| json!(t))];
    let container = (text, port, any::<i32>(), prop::option::of(any::<bool>())).prop_map(
        |(name, port, seconds, flag)| {
            let mut container = json!({
                "name": name, "resources": {"limits": {"cpu": "100m"}},
                "livenessProbe": {"httpGet": {"port": port}},
            });
            if seconds != 0 {
                container["livenessProbe"]["periodSeconds"] = seconds.into();
            }
            if let Some(flag) = flag {
                container["securityContext"] = json!({"privileged": flag});
            }
            container
        },
    );
    let containers = prop::collection::vec(container, 1..4);
    (labels, containers, 0_i64..4_000_000_000, any::<i64>()).prop_map(
        |(labels, containers, seconds, grace)| {
            let second = seconds % 60;
            json!({
                "kind": "Pod", "apiVersion": "v1",
                "metadata": {"labels": labels, "annotations": labels,
                    "creationTimestamp": format!("2026-11-16T05:06:{second:02}Z")},
                "spec": {"containers": containers, "terminationGracePeriodSeconds": grace,
                    "volumes": [{"name": "v", "emptyDir": {}}]},
                "status": {},
            })
        },
    )
}

proptest! {
    #[test]
    fn no_bytes_break_a_reader(
        kind in 0..KINDS.len(),
        parts in prop::collection::vec(wire(), 0..6),
    ) {
        let (api_version, kind) = KINDS[kind];
        let bytes = Envelope::wrap(api_version, kind, &parts.concat());
        if let Ok(json) = to_json(&bytes, JsonOptions::default()) {
            let value: Value = serde_json::from_slice(&json).expect("what is written is JSON");
            // What is read once is read the same for ever.
            let again = to_value(&from_value(&value).unwrap()).unwrap();
            prop_assert_eq!(again, value);
        }
    }

    #[test]
    fn no_envelope_breaks_a_reader(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Envelope::read(&bytes);
        let _ = to_value(&[&b"k8s\0"[..], &bytes].concat());
    }

    #[test]
    fn a_pod_comes_back_as_it_was(pod in pod()) {
        prop_assert_eq!(to_value(&from_value(&pod).unwrap()).unwrap(), pod);
    }
}

#[test]
fn managed_fields_are_left_out_on_demand() {
    let mut object = json!({
        "kind": "Namespace", "apiVersion": "v1", "spec": {}, "status": {},
        "metadata": {"name": "a", "managedFields": [{"manager": "x", "fieldsV1": {"f:a": {}}}]},
    });
    let bytes = from_value(&object).unwrap();
    assert_eq!(to_value(&bytes).unwrap(), object);
    object["metadata"] = json!({"name": "a"});
    let json =
        to_json(&bytes, JsonOptions { managed_fields: false, ..JsonOptions::default() }).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), object);
}

#[test]
fn fields_of_later_versions_are_left_out_or_reported_as_configured() {
    let namespace = message_of("v1", "Namespace").unwrap();
    let bytes = [nested(1, &nested(1, b"a")), nested(2, &nested(77, b"new"))].concat();
    let read = |known_only| {
        let options = JsonOptions { known_only, ..JsonOptions::default() };
        let mut out = Vec::new();
        namespace
            .write_json(&bytes, "", options, &mut out)
            .map(|()| String::from_utf8(out).unwrap())
    };
    assert_eq!(read(false).unwrap(), r#"{"metadata":{"name":"a"},"spec":{},"status":{}}"#);
    let wanted = "spec: NamespaceSpec has a field 77, which is not known";
    assert_eq!(read(true).unwrap_err().to_string(), wanted);
}

#[test]
fn depth_is_bounded_both_ways() {
    let schema = message_of("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"not": deep});
    }
    let object = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": deep}}]}});
    let error = schema.encode(&object, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().ends_with("messages are nested too deeply"), "{error}");

    let mut bytes = Vec::new();
    for _ in 0..200 {
        bytes = nested(28, &bytes);
    }
    let version = nested(4, &nested(1, &bytes));
    let object = nested(2, &nested(7, &version));
    let error = schema.write_json(&object, "", JsonOptions::default(), &mut Vec::new());
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("spec.versions"), "{text}");
}

fn nested(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for mut value in [u64::from(number << 3 | 2), bytes.len() as u64] {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }
    out.extend_from_slice(bytes);
    out
}

#[test]
fn an_error_says_where_it_is() {
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "spec": {"containers": [{"ports": [{"containerPort": "http"}]}]},
    });
    let text = from_value(&pod).unwrap_err().to_string();
    assert_eq!(text, "spec.containers.ports.containerPort: expected an integer, found \"http\"");
    let unknown = from_value(&Value::Object(Map::new())).unwrap_err().to_string();
    assert_eq!(unknown, "no kind \"\" of version \"\" has a protobuf form");
}
