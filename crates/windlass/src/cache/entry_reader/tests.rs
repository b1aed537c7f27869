use super::*;

fn read(json: &str) -> Result<Entry, Malformed> {
    EntryReader::new(false, true).read(json.as_bytes())
}

#[test]
fn an_object_is_kept_without_managed_fields_and_with_its_identity_beside() {
    let entry = read(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u",
        "resourceVersion":"7","generation":3,"labels":{"app":"x","tier":"y"},
        "managedFields":[{"manager":"m","fieldsV1":{"f:a":{}}}],
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"ru",
        "controller":true}],"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"x":[1,"]}"]}}"#,
    )
    .unwrap();
    assert_eq!(entry.key(), &Key::namespaced("n", "a"));
    assert_eq!((entry.uid(), entry.version(), entry.generation()), ("u", 7, 3));
    assert!(entry.deleting());
    assert_eq!(entry.label("tier"), Some("y"));
    assert_eq!(entry.labels().count(), 2);
    assert!(entry.owners()[0].controller);
    let value: serde_json::Value = entry.decode().unwrap();
    assert_eq!(value["metadata"].get("managedFields"), None);
    assert_eq!(value["spec"]["x"][1], "]}");
    assert_eq!(value["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
}

#[test]
fn an_object_of_a_list_gets_the_kind_it_came_without() {
    let kind = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
    let mut reader = EntryReader::new(false, true).of(&kind);
    for json in [
        r#" {"metadata":{"managedFields":[],"name":"a"},"spec":{}}"#,
        r#"{"metadata":{"name":"a"},"spec":{}}"#,
        r#"{"metadata":{"name":"a","managed\u0046ields":[]},"spec":{}}"#,
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{}}"#,
    ] {
        let value: serde_json::Value = reader.read(json.as_bytes()).unwrap().decode().unwrap();
        let whole = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {},
        });
        assert_eq!(value, whole, "{json}");
    }
}

#[test]
fn a_large_object_is_packed_and_comes_back_whole() {
    let json = format!(
        r#"{{"metadata":{{"name":"a","managedFields":[]}},"data":"{}"}}"#,
        "word ".repeat(1000)
    );
    let entry = read(&json).unwrap();
    assert!(entry.size() < 1000, "{}", entry.size());
    let value: serde_json::Value = entry.decode().unwrap();
    assert_eq!(value["data"].as_str().unwrap().len(), 5000);
    assert_eq!(value["metadata"], serde_json::json!({"name": "a"}));
}

#[test]
fn an_object_without_name_or_with_names_of_wrong_type_is_refused() {
    assert!(read("{}").is_err());
    assert!(read(r#"{"metadata":{"name":""}}"#).is_err());
    assert!(read(r#"{"metadata":{"name":1}}"#).is_err());
    assert!(read(r#"{"metadata":{"name":"a"}"#).is_err());
    assert!(read(r#"{"metadata":{"name":"a"}} x"#).is_err());
}

#[test]
fn an_error_of_decoding_does_not_quote_the_object() {
    let entry = read(r#"{"metadata":{"name":"a"},"data":"hunter2\", expected"}"#).unwrap();
    #[derive(Debug, serde::Deserialize)]
    struct Typed {
        #[allow(dead_code)]
        data: u8,
    }
    let err = entry.read::<Typed>().unwrap_err();
    assert!(err.message.starts_with("invalid type: string, expected u8"), "{err}");
    assert!(!err.message.contains("hunter2"), "{err}");
}

#[test]
fn nulls_count_as_absent() {
    let entry = read(
        r#"{"metadata":{"name":"a","namespace":null,"labels":null,"ownerReferences":null,
        "creationTimestamp":null,"deletionTimestamp":null,"managedFields":null}}"#,
    )
    .unwrap();
    assert_eq!(entry.key(), &Key::cluster("a"));
    assert!(!entry.deleting());
}
