//! Bodies, answers and watches in protobuf, as Go clients want them.

use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_protobuf::{Envelope, Frames, WatchFrame, from_value, to_value};

use crate::support::*;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const EITHER: &str = "application/vnd.kubernetes.protobuf,application/json";

/// Sends a document in protobuf and asks for protobuf.
async fn ask_protobuf(server: &ApiServer, what: &str, body: Value) -> Answer {
    let bytes = if body.is_null() { Vec::new() } else { from_value(&body).unwrap() };
    send_protobuf(server, what, bytes).await
}

async fn send_protobuf(server: &ApiServer, what: &str, bytes: Vec<u8>) -> Answer {
    let headers =
        [("authorization", "Bearer admin"), ("content-type", PROTOBUF), ("accept", EITHER)];
    send(server, what, &headers, bytes).await
}

/// The document of an answer, which must be protobuf.
#[track_caller]
fn document(answer: &Answer) -> Value {
    assert_eq!(answer.headers["content-type"], PROTOBUF, "{}", answer.text());
    to_value(&answer.bytes).unwrap()
}

/// An object with the kind it is sent as.
fn of(api_version: &str, kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}

#[tokio::test]
async fn an_object_sent_in_protobuf_is_defaulted_and_comes_back_as_by_json() {
    let server = server();
    let sent = of("apps/v1", "Deployment", deployment("a"));
    let created = ask_protobuf(&server, &format!("POST {DEPLOYMENTS}"), sent).await;
    assert_eq!(created.code, 201, "{}", created.text());
    let created = document(&created);
    assert_eq!(created["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    let json = ask(&server, &format!("GET {DEPLOYMENTS}/a"), Value::Null).await.ok();
    assert_eq!(created, json);
    let again = ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("b")).await.ok();
    assert_eq!(created["spec"], again["spec"]);

    let mut changed = created.clone();
    changed["spec"]["replicas"] = 5.into();
    let updated = ask_protobuf(&server, &format!("PUT {DEPLOYMENTS}/a"), changed).await;
    assert_eq!(document(&updated)["metadata"]["generation"], 2);
    let scale = accept(&server, &format!("GET {DEPLOYMENTS}/a/scale"), PROTOBUF).await;
    assert_eq!(document(&scale)["spec"]["replicas"], 5);
}

#[tokio::test]
async fn a_list_and_its_pages_are_the_same_in_both_encodings() {
    let server = server();
    for name in ["a", "b", "c"] {
        create_map(&server, name, &"x".repeat(100_000)).await;
    }
    for query in ["", "?limit=2", "?labelSelector=none"] {
        let path = format!("GET {MAPS}{query}");
        let mut json = ask(&server, &path, Value::Null).await.ok();
        if json["items"] == json!([]) {
            json["items"] = Value::Null;
        }
        assert_eq!(document(&accept(&server, &path, EITHER).await), json, "{query}");
    }
}

#[tokio::test]
async fn a_watch_sends_frames_with_objects_in_envelopes() {
    let server = server();
    create_map(&server, "a", "1").await;
    let headers = [("authorization", "Bearer admin"), ("accept", EITHER)];
    let query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
                 &resourceVersionMatch=NotOlderThan";
    let response = open(&server, &format!("GET {MAPS}?{query}"), &headers, "").await;
    let media = "application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!(response.headers()["content-type"], media);
    let (mut body, mut frames) = (response.into_body(), Frames::new(1 << 20));
    create_map(&server, "b", "2").await;
    ask(&server, &format!("DELETE {MAPS}/b"), Value::Null).await.ok();
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let chunk: Bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
        frames.push(chunk);
        while let Some(frame) = frames.next_frame().unwrap() {
            let event = WatchFrame::read(&frame).unwrap();
            let object = to_value(event.object).unwrap();
            assert_eq!(Envelope::read(event.object).unwrap().kind, "ConfigMap");
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            seen.push(format!("{} {name}", event.kind));
        }
    }
    assert_eq!(seen, ["ADDED a", "BOOKMARK ", "ADDED b", "DELETED b"]);
}

#[tokio::test]
async fn metadata_is_the_same_in_both_encodings_by_list_and_by_watch() {
    let server = server();
    for n in 0..130 {
        create_map(&server, &format!("m{n:03}"), "1").await;
    }
    ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("a")).await.ok();
    let form = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for path in [MAPS, DEPLOYMENTS] {
        let path = format!("GET {path}");
        let json = accept(&server, &path, &format!("application/json;{form}")).await.ok();
        let bytes = accept(&server, &path, &format!("{PROTOBUF};{form}")).await;
        let list = document(&bytes);
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), json["items"].as_array().unwrap().len());
        for (one, other) in items.iter().zip(json["items"].as_array().unwrap()) {
            assert_eq!(one["metadata"], other["metadata"]);
            assert_eq!(one.get("spec"), None);
        }
    }
    let accept = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let headers = [("authorization", "Bearer admin"), ("accept", &*accept)];
    let path = format!("GET {DEPLOYMENTS}?watch=true&resourceVersion=0");
    let mut body = open(&server, &path, &headers, "").await.into_body();
    let mut frames = Frames::new(1 << 20);
    frames.push(body.frame().await.unwrap().unwrap().into_data().unwrap());
    let frame = frames.next_frame().unwrap().unwrap();
    let event = WatchFrame::read(&frame).unwrap();
    let envelope = Envelope::read(event.object).unwrap();
    let types = (envelope.api_version, envelope.kind);
    assert_eq!(types, ("meta.k8s.io/v1", "PartialObjectMetadata"));
    let whole = ask(&server, &format!("GET {DEPLOYMENTS}/a"), Value::Null).await.ok();
    assert_eq!(to_value(event.object).unwrap()["metadata"], whole["metadata"]);
}

#[tokio::test]
async fn failures_come_in_protobuf_too() {
    let server = server();
    let missing = accept(&server, &format!("GET {MAPS}/none"), PROTOBUF).await;
    assert_eq!(missing.code, 404);
    let status = document(&missing);
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("NotFound")));
    assert_eq!(status["details"]["name"], "none");
    for (token, code) in [("nobody", 401), ("bob", 403)] {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer), ("accept", PROTOBUF)];
        let refused = send(&server, &format!("GET {MAPS}"), &headers, "").await;
        assert_eq!(document(&refused)["code"], code);
    }
    let unknown = accept(&server, "GET /api/v1/nonsense", PROTOBUF).await;
    assert_eq!(document(&unknown)["code"], 404);
}

#[tokio::test]
async fn discovery_comes_in_protobuf_for_those_who_prefer_it() {
    let server = server();
    for path in ["/api", "/apis", "/apis/apps", "/api/v1", "/apis/apps/v1"] {
        let json = accept(&server, &format!("GET {path}"), "application/json").await.ok();
        let mut other = document(&accept(&server, &format!("GET {path}"), EITHER).await);
        other["apiVersion"] = json["apiVersion"].clone();
        assert_eq!(other["kind"], json["kind"], "{path}");
        let count = |value: &Value| value.as_array().map(Vec::len);
        assert_eq!(count(&other["resources"]), count(&json["resources"]));
        assert_eq!(count(&other["groups"]), count(&json["groups"]));
    }
}

#[tokio::test]
async fn bodies_that_are_no_protobuf_are_refused_in_the_words_of_the_real_server() {
    let server = server();
    let refused = async |bytes: &[u8]| {
        let headers = [("authorization", "Bearer admin"), ("content-type", PROTOBUF)];
        send(&server, &format!("POST {MAPS}"), &headers, bytes).await.fails(400)
    };
    let prefix = "the object provided is unrecognized (must be of type ConfigMap): ";
    assert_eq!(refused(b"").await, format!("{prefix}empty data (<empty>)"));
    assert_eq!(
        refused(b"xyz").await,
        format!(
            "{prefix}provided data does not appear to be a protobuf message, \
             expected prefix [107 56 115 0] (78797a)"
        )
    );
    assert_eq!(refused(b"k8s\0").await, format!("{prefix}empty body (6b387300)"));
    assert_eq!(
        refused(&Envelope::wrap("v1", "ConfigMap", b"\x0a\x09")).await,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF"
    );
    assert_eq!(
        refused(&Envelope::wrap("v1", "ConfigMap", b"\x08\x09")).await,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: \
         proto: wrong wireType = 0 for field ObjectMeta"
    );
    assert_eq!(
        refused(&Envelope::wrap("v1", "Secret", b"")).await,
        "Secret in version \"v1\" cannot be handled as a ConfigMap: \
         converting (v1.Secret) to (core.ConfigMap): unknown conversion"
    );
    assert_eq!(
        refused(&Envelope::wrap("v1", "Poem", b"")).await,
        "Poem in version \"v1\" cannot be handled as a ConfigMap: no kind \"Poem\" is registered \
         for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\""
    );
}

#[tokio::test]
async fn options_of_a_deletion_are_read_from_protobuf() {
    let server = server();
    let map = create_map(&server, "a", "1").await;
    let options = |uid: &Value| of("v1", "DeleteOptions", json!({"preconditions": {"uid": uid}}));
    let wrong = ask_protobuf(&server, &format!("DELETE {MAPS}/a"), options(&json!("other"))).await;
    assert_eq!(wrong.code, 409, "{}", wrong.text());
    let poem = ask_protobuf(&server, &format!("DELETE {MAPS}/a"), of("v1", "Pod", json!({}))).await;
    let text = "no kind \"Pod\" is registered for version \"v1\" \
                in scheme \"pkg/runtime/scheme.go:111\"";
    assert_eq!(document(&poem)["message"], text);
    let right = options(&map["metadata"]["uid"]);
    let gone = ask_protobuf(&server, &format!("DELETE {MAPS}/a"), right).await;
    assert_eq!(document(&gone)["status"], "Success");
}

#[tokio::test]
async fn custom_objects_have_json_only_but_their_metadata_has_protobuf() {
    let server = server();
    let definition = of(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        json!({
            "metadata": {"name": "boats.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "boats", "kind": "Boat"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object"},
                }}],
            },
        }),
    );
    let path = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created = ask_protobuf(&server, path, definition).await;
    assert_eq!(created.code, 201, "{}", created.text());
    document(&created);
    let boats = "/apis/example.com/v1/namespaces/default/boats";
    let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a"}});
    ask(&server, &format!("POST {boats}"), boat).await.ok();

    let list = accept(&server, &format!("GET {boats}"), EITHER).await;
    assert_eq!(list.headers["content-type"], "application/json");
    assert_eq!(list.ok()["kind"], "BoatList");
    let only = accept(&server, &format!("GET {boats}"), PROTOBUF).await;
    let text = "only the following media types are accepted: \
                application/json, application/yaml, application/vnd.kubernetes.protobuf";
    assert_eq!((only.code.as_u16(), &document(&only)["message"]), (406, &json!(text)));
    let metadata = format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let list = document(&accept(&server, &format!("GET {boats}"), &metadata).await);
    assert_eq!(names(&list), ["a"]);
    let sent = Envelope::wrap("example.com/v1", "Boat", b"");
    let refused = send_protobuf(&server, &format!("POST {boats}"), sent).await;
    assert_eq!(
        document(&refused)["message"],
        "Boat in version \"v1\" cannot be handled as a Boat: object *unstructured.Unstructured \
         does not implement the protobuf marshalling interface and cannot be encoded to a \
         protobuf message"
    );
}

#[tokio::test]
async fn tables_stay_json() {
    let server = server();
    create_map(&server, "a", "1").await;
    let table = format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1");
    let only = accept(&server, &format!("GET {MAPS}"), &table).await;
    assert!(only.fails(406).starts_with("only the following media types are accepted"));
    let either = format!("{table},application/json;as=Table;g=meta.k8s.io;v=v1");
    let answer = accept(&server, &format!("GET {MAPS}"), &either).await;
    assert_eq!(answer.ok()["kind"], "Table");
}

#[tokio::test]
async fn every_kind_that_is_served_has_a_protobuf_form() {
    for resource in windlass_apiserver::resource::builtins() {
        let version = resource.gvk.api_version();
        let known = |kind: &str| windlass_protobuf::message_of(&version, kind).is_some();
        assert!(known(&resource.gvk.kind), "{}", resource.gvk);
        if resource.has_verb("list") {
            assert!(known(&resource.list_kind), "{}", resource.list_kind);
        }
    }
}
