//! What `kubectl` needs and other clients seldom ask for.

use serde_json::json;

use crate::support::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const OPENAPI_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

#[tokio::test]
async fn a_scale_is_shown_with_columns_of_its_own() {
    let server = server();
    ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("web")).await.ok();
    let table = accept(&server, &format!("GET {DEPLOYMENTS}/web/scale"), TABLE).await.ok();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let names: Vec<_> = columns.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..3], [json!("web"), json!(2), json!(0)]);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn the_old_schema_document_is_served_in_protobuf() {
    let server = server();
    let answer = accept(&server, "GET /openapi/v2", OPENAPI_PROTOBUF).await;
    let media = answer.headers["content-type"].to_str().unwrap();
    assert_eq!(media, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    assert!(answer.bytes.starts_with(b"\x0a\x032.0"), "the field `swagger` comes first");
    let json = accept(&server, "GET /openapi/v2", "application/json, */*").await.ok();
    assert_eq!(json["swagger"], "2.0");
}

#[tokio::test]
async fn a_simulated_container_says_that_it_has_no_log_and_runs_nothing() {
    let server = pod_server().await;
    ask(&server, &format!("POST {PODS}"), pod("a")).await.ok();
    let exec = format!("POST {PODS}/a/exec?command=ls");
    let early = ask(&server, &exec, json!(null)).await.fails(400);
    assert_eq!(early, "pod a does not have a host assigned");
    let bind = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    ask(&server, &format!("POST {PODS}/a/binding"), bind).await.ok();
    let log = ask(&server, &format!("GET {PODS}/a/log"), json!(null)).await.fails(400);
    assert!(log.ends_with("of pod \"a\" is simulated: it does not run and writes no log"), "{log}");
    // kubectl asks for 20 seconds again what fails while it follows.
    let followed = ask(&server, &format!("GET {PODS}/a/log?follow=true"), json!(null)).await;
    assert_eq!((followed.code.as_u16(), followed.text()), (200, format!("{log}\n")));
    let exec = ask(&server, &exec, json!(null)).await;
    let text = "pod \"a\" is simulated, no container runs: nothing can be executed in it";
    assert_eq!(exec.fails(400), text);
}

#[tokio::test]
async fn the_service_of_the_server_comes_back_with_its_address() {
    let server = server();
    let path = "/api/v1/namespaces/default/services/kubernetes";
    let before = ask(&server, &format!("GET {path}"), json!(null)).await.ok();
    ask(&server, &format!("DELETE {path}"), json!(null)).await.ok();
    let after = ask(&server, &format!("GET {path}"), json!(null)).await.ok();
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(before["spec"]["clusterIP"], after["spec"]["clusterIP"]);
    let taken = json!({
        "metadata": {"name": "thief"},
        "spec": {"clusterIP": after["spec"]["clusterIP"], "ports": [{"port": 1}]},
    });
    ask(&server, "POST /api/v1/namespaces/default/services", taken).await.fails(422);
}

#[tokio::test]
async fn the_component_statuses_show_whether_controllers_run() {
    let server = server();
    let path = "/api/v1/componentstatuses";
    let health = |status: &serde_json::Value| status["conditions"][0]["status"].clone();
    let alone = ask(&server, &format!("GET {path}/scheduler"), json!(null)).await.ok();
    assert_eq!(health(&alone), "False");
    server.set_controllers_run(true);
    let list = ask(&server, &format!("GET {path}"), json!(null)).await.ok();
    assert_eq!(names(&list), ["controller-manager", "etcd-0", "scheduler"]);
    assert!(list["items"].as_array().unwrap().iter().all(|status| health(status) == "True"));
    let table = accept(&server, &format!("GET {path}/etcd-0"), TABLE).await.ok();
    assert_eq!(table["rows"][0]["cells"], json!(["etcd-0", "Healthy", "ok", ""]));
    ask(&server, &format!("GET {path}/none"), json!(null)).await.fails(404);
}

#[tokio::test]
async fn an_object_says_its_kind_first() {
    let server = server();
    let path = "/api/v1/namespaces/default/services/kubernetes";
    let text = ask(&server, &format!("GET {path}"), json!(null)).await.text();
    assert!(
        text.starts_with("{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":"),
        "{text}"
    );
    let text = ask(&server, &format!("GET {path}x"), json!(null)).await.text();
    assert!(text.starts_with("{\"kind\":\"Status\",\"apiVersion\":\"v1\","), "{text}");
}
