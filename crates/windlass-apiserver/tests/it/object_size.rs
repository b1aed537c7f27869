//! The size of a stored object is bounded, whichever verb makes it grow, and what was acknowledged
//! can be read back.

use serde_json::{Value, json};
use windlass_apiserver::store::Journal;
use windlass_apiserver::{ApiServer, Options};

use crate::support::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOXES: &str = "/apis/test.example/v1/namespaces/default/boxes";
const MIB: usize = 1 << 20;
const TOO_LARGE: &str = "etcdserver: request is too large";

async fn define(server: &ApiServer) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "boxes.test.example"},
        "spec": {
            "group": "test.example", "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    });
    ask(server, &format!("POST {DEFINITIONS}"), definition).await.ok();
}

/// An object with one part of about `bytes`.
fn big(part: &str, bytes: usize) -> Value {
    json!({
        "apiVersion": "test.example/v1", "kind": "Box", "metadata": {"name": "a"},
        part: {"text": "x".repeat(bytes)},
    })
}

fn on(dir: &TempDir) -> ApiServer {
    let journal = Journal::open(&dir.path().join("data")).unwrap();
    server_with(Options { journal: Some(journal), ..Options::default() })
}

#[tokio::test(start_paused = true)]
async fn every_verb_refuses_to_store_more_than_the_real_server() {
    let server = server();
    define(&server).await;
    let create = format!("POST {BOXES}");
    let answer = ask(&server, &create, big("spec", 3 * MIB / 2)).await;
    assert_eq!(answer.fails(500), TOO_LARGE);
    assert!(answer.json().get("reason").is_none(), "{}", answer.text());
    assert_eq!(
        ask(&server, &create, big("spec", 5 * MIB / 2)).await.fails(500).split(" (").next(),
        Some("rpc error: code = ResourceExhausted desc = trying to send message larger than max")
    );

    let stored = ask(&server, &create, big("spec", MIB)).await.ok();
    let path = format!("{BOXES}/a");
    let more = big("more", 3 * MIB / 4);
    let mut grown = big("spec", 3 * MIB / 2);
    grown["metadata"] = stored["metadata"].clone();
    assert_eq!(ask(&server, &format!("PUT {path}"), grown).await.fails(500), TOO_LARGE);
    for media in [MERGE_PATCH, APPLY_PATCH] {
        let path = format!("{path}?fieldManager=other");
        assert_eq!(patch(&server, &path, media, more.clone()).await.fails(500), TOO_LARGE);
    }
    let add = json!([{"op": "add", "path": "/more", "value": more["more"]}]);
    assert_eq!(patch(&server, &path, JSON_PATCH, add).await.fails(500), TOO_LARGE);
    let status =
        patch(&server, &format!("{path}/status"), MERGE_PATCH, big("status", 3 * MIB / 4)).await;
    assert_eq!(status.fails(500), TOO_LARGE);
    let stored = ask(&server, &format!("GET {path}"), Value::Null).await.ok();
    assert_eq!(stored["spec"]["text"].as_str().map(str::len), Some(MIB));
    ask(&server, &format!("DELETE {path}"), Value::Null).await.ok();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_large_with_its_managed_fields_is_stored_without_them() {
    let server = server();
    define(&server).await;
    let keys: serde_json::Map<String, Value> =
        (0..55_000).map(|n| (format!("some-key-{n:05}"), json!(1))).collect();
    let mut object = big("spec", 0);
    object["spec"] = Value::Object(keys);
    let stored = ask(&server, &format!("POST {BOXES}"), object).await.ok();
    assert!(stored["metadata"].get("managedFields").is_none());
    assert_eq!(stored["spec"].as_object().map(serde_json::Map::len), Some(55_000));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_grows_until_it_is_refused_is_there_after_each_restart() {
    let dir = TempDir::new();
    let mut server = on(&dir);
    define(&server).await;
    ask(&server, &format!("POST {BOXES}"), big("spec", 0)).await.ok();
    let path = format!("{BOXES}/a");
    let mut refused = 0;
    for part in 0..6 {
        let grown = json!({"spec": {format!("part{part}"): "x".repeat(400 << 10)}});
        let answer = patch(&server, &path, MERGE_PATCH, grown).await;
        if answer.code == 500 {
            refused += 1;
        } else {
            answer.ok();
        }
        let before = ask(&server, &format!("GET {path}"), Value::Null).await.ok();
        create_map(&server, &format!("small{part}"), "1").await;
        drop(server);
        server = on(&dir);
        let after = ask(&server, &format!("GET {path}"), Value::Null).await.ok();
        assert!(before == after, "the object is another one after a restart");
        ask(&server, &format!("GET {MAPS}/small{part}"), Value::Null).await.ok();
    }
    assert_eq!(refused, 3);
}
