//! Lists: order, selectors, pages, versions, and the other forms of an answer.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use serde_json::json;
use windlass_apiserver::ApiServer;

use crate::support::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn labelled(server: &ApiServer, name: &str, labels: serde_json::Value) {
    let body = json!({"metadata": {"name": name, "labels": labels}});
    ask(server, &format!("POST {MAPS}"), body).await.ok();
}

async fn list(server: &ApiServer, query: &str) -> serde_json::Value {
    ask(server, &format!("GET {MAPS}{query}"), json!(null)).await.ok()
}

#[tokio::test]
async fn items_come_in_the_order_of_their_names_without_their_kind() {
    let server = server();
    for name in ["c", "a", "b-1", "b"] {
        create_map(&server, name, "1").await;
    }
    let list = list(&server, "").await;
    assert_eq!(names(&list), ["a", "b", "b-1", "c"]);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(version(&list), server.revision());
    assert_eq!(list["items"][0]["kind"], json!(null));
}

#[tokio::test]
async fn a_list_over_all_namespaces_is_ordered_by_namespace_first() {
    let server = server();
    for space in ["zoo", "abc"] {
        let body = json!({"metadata": {"name": space}});
        ask(&server, "POST /api/v1/namespaces", body).await.ok();
        let path = format!("POST /api/v1/namespaces/{space}/secrets");
        ask(&server, &path, json!({"metadata": {"name": format!("of-{space}")}})).await.ok();
    }
    let all = ask(&server, "GET /api/v1/secrets", json!(null)).await.ok();
    assert_eq!(names(&all), ["of-abc", "of-zoo"]);
}

#[tokio::test]
async fn label_selectors_choose_by_sets_and_presence() {
    let server = server();
    labelled(&server, "a", json!({"app": "web", "tier": "front"})).await;
    labelled(&server, "b", json!({"app": "web"})).await;
    labelled(&server, "c", json!({"app": "db"})).await;
    for (selector, wanted) in [
        ("app%3Dweb", vec!["a", "b"]),
        ("app!%3Dweb", vec!["c"]),
        ("app%20in%20(db,web),tier", vec!["a"]),
        ("app%20notin%20(db)", vec!["a", "b"]),
        ("!tier", vec!["b", "c"]),
        ("app%3D%3Ddb", vec!["c"]),
        ("", vec!["a", "b", "c"]),
    ] {
        let found = list(&server, &format!("?labelSelector={selector}")).await;
        assert_eq!(names(&found), wanted, "{selector}");
    }
    let what = format!("GET {MAPS}?labelSelector=a%20in%20(");
    let text = ask(&server, &what, json!(null)).await.fails(400);
    assert!(text.contains("unable to parse requirement"), "{text}");
}

#[tokio::test]
async fn field_selectors_know_the_fields_of_the_kind() {
    let server = pod_server().await;
    for name in ["a", "b"] {
        ask(&server, &format!("POST {PODS}"), pod(name)).await.ok();
    }
    let bind = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    ask(&server, &format!("POST {PODS}/a/binding"), bind).await.ok();
    for (selector, wanted) in [
        ("spec.nodeName%3Dn1", vec!["a"]),
        ("spec.nodeName%3D", vec!["b"]),
        ("metadata.name%3Db,status.phase%3DPending", vec!["b"]),
        ("metadata.namespace!%3Ddefault", vec![]),
    ] {
        let what = format!("GET {PODS}?fieldSelector={selector}");
        let found = ask(&server, &what, json!(null)).await.ok();
        assert_eq!(names(&found), wanted, "{selector}");
    }
    let odd = ask(&server, &format!("GET {PODS}?fieldSelector=spec.x%3D1"), json!(null)).await;
    assert!(odd.fails(400).contains("field label not supported: spec.x"), "{}", odd.text());
}

#[tokio::test]
async fn pages_show_one_state_though_it_changes_in_between() {
    let server = server();
    for name in ["a", "b", "c", "d", "e"] {
        create_map(&server, name, "1").await;
    }
    let first = list(&server, "?limit=2").await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    ask(&server, &format!("DELETE {MAPS}/c"), json!(null)).await.ok();
    create_map(&server, "bb", "1").await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = list(&server, &format!("?limit=2&continue={token}")).await;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(version(&second), version(&first));
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = list(&server, &format!("?limit=2&continue={token}")).await;
    assert_eq!(names(&third), ["e"]);
    assert_eq!(third["metadata"]["continue"], json!(null));
}

#[tokio::test]
async fn an_expired_page_gives_a_token_to_go_on_with() {
    let server = server();
    for name in ["a", "b", "c"] {
        create_map(&server, name, "1").await;
    }
    let first = list(&server, "?limit=1").await;
    create_map(&server, "d", "1").await;
    server.compact();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let what = format!("GET {MAPS}?limit=1&continue={token}");
    let gone = ask(&server, &what, json!(null)).await;
    let text = gone.fails(410);
    assert!(text.starts_with("The provided continue parameter is too old"), "{text}");
    let token = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = list(&server, &format!("?continue={token}")).await;
    assert_eq!(names(&rest), ["b", "c", "d"]);
    let broken = ask(&server, &format!("GET {MAPS}?continue=%7B"), json!(null)).await;
    assert!(broken.fails(400).contains("continue key is not valid"), "{}", broken.text());
}

#[tokio::test]
async fn an_exact_version_shows_the_state_of_then() {
    let server = server();
    create_map(&server, "a", "1").await;
    let then = server.revision();
    create_map(&server, "b", "1").await;
    ask(&server, &format!("DELETE {MAPS}/a"), json!(null)).await.ok();
    let query = format!("?resourceVersion={then}&resourceVersionMatch=Exact");
    let old = list(&server, &query).await;
    assert_eq!((names(&old), version(&old)), (vec!["a".to_owned()], then));
    let fresh = list(&server, &format!("?resourceVersion={then}")).await;
    assert_eq!(names(&fresh), ["b"]);
    server.compact();
    let gone = ask(&server, &format!("GET {MAPS}{query}"), json!(null)).await;
    assert_eq!(gone.json()["reason"], "Expired");
    assert!(gone.fails(410).contains("too old"), "{}", gone.text());
}

#[tokio::test(start_paused = true)]
async fn a_version_of_the_future_is_waited_for_then_refused() {
    let server = server();
    let future = server.revision() + 100;
    let answer = ask(&server, &format!("GET {MAPS}?resourceVersion={future}"), json!(null)).await;
    assert!(answer.fails(504).contains("Too large resource version"), "{}", answer.text());
    assert_eq!(answer.headers["retry-after"], "1");
    let odd = ask(&server, &format!("GET {MAPS}?resourceVersion=x"), json!(null)).await;
    assert!(odd.fails(400).contains("resourceVersion: Invalid value: \"x\""), "{}", odd.text());
}

#[tokio::test]
async fn versions_and_matches_that_do_not_fit_are_refused() {
    let server = server();
    for (query, wanted) in [
        ("resourceVersionMatch=Exact", "forbidden unless resourceVersion is provided"),
        ("resourceVersion=0&resourceVersionMatch=Exact", "forbidden for resourceVersion \"0\""),
        ("resourceVersion=1&resourceVersionMatch=Near", "Unsupported value: \"Near\""),
        ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
    ] {
        let text = ask(&server, &format!("GET {MAPS}?{query}"), json!(null)).await.fails(422);
        assert!(text.contains(wanted), "{query}: {text}");
    }
    let odd = ask(&server, &format!("GET {MAPS}?limit=x"), json!(null)).await;
    assert!(odd.fails(400).contains("parsing \"x\": invalid syntax"), "{}", odd.text());
}

#[tokio::test]
async fn a_table_has_columns_and_a_row_per_object() {
    let server = pod_server().await;
    ask(&server, &format!("POST {PODS}"), pod("a")).await.ok();
    let table = accept(&server, &format!("GET {PODS}"), TABLE).await.ok();
    assert_eq!(table["kind"], "Table");
    let columns = table["columnDefinitions"].as_array().unwrap();
    let shown: Vec<_> = columns.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(&shown[..5], ["Name", "Ready", "Status", "Restarts", "Age"]);
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), columns.len());
    assert_eq!((&cells[0], &cells[1]), (&json!("a"), &json!("0/1")));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let whole = format!("GET {PODS}/a?includeObject=Object");
    let whole = accept(&server, &whole, TABLE).await.ok();
    assert_eq!(whole["rows"][0]["object"]["kind"], "Pod");
    let none = accept(&server, &format!("GET {PODS}?includeObject=None"), TABLE).await.ok();
    assert_eq!(none["rows"][0]["object"], json!(null));
}

#[tokio::test]
async fn metadata_alone_is_asked_for_by_the_right_name() {
    let server = server();
    create_map(&server, "a", "1").await;
    let list = accept(&server, &format!("GET {MAPS}"), METADATA).await.ok();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(list["items"][0]["data"], json!(null));
    let one = METADATA.replace("List", "");
    let object = accept(&server, &format!("GET {MAPS}/a"), &one).await.ok();
    assert_eq!(object["kind"], "PartialObjectMetadata");
    let wrong = accept(&server, &format!("GET {MAPS}"), &one).await;
    assert!(wrong.fails(406).contains("the requested object is a list"), "{}", wrong.text());
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    assert_eq!(maps.list_metadata(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn metadata_cut_out_of_stored_bytes_is_what_the_objects_have() {
    let server = server();
    let body = json!({
        "metadata": {"name": "a", "annotations": {"odd": "}\"{,\\"}, "labels": {"x": "y"}},
        "binaryData": {"metadata": "YQ=="},
        "data": {"key": "\"metadata\":{"},
    });
    ask(&server, &format!("POST {MAPS}"), body).await.ok();
    create_map(&server, "b", "1").await;
    let whole = list(&server, "").await;
    let cut = accept(&server, &format!("GET {MAPS}"), METADATA).await;
    let read = accept(&server, &format!("GET {MAPS}?pretty=true"), METADATA).await;
    assert_eq!(cut.ok(), read.ok());
    assert_eq!(
        cut.text(),
        read.ok()
            .to_string()
            .replacen(
                "{\"apiVersion\":\"meta.k8s.io/v1\",",
                "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",",
                1,
            )
            .replace("],\"kind\":\"PartialObjectMetadataList\",", "],")
    );
    for at in 0..2 {
        assert_eq!(cut.ok()["items"][at]["metadata"], whole["items"][at]["metadata"]);
    }
}

#[tokio::test]
async fn a_form_nobody_makes_is_not_acceptable() {
    let server = server();
    let html = accept(&server, &format!("GET {MAPS}"), "text/html").await;
    assert_eq!(html.json()["code"], 406);
    let odd = "application/json;as=Poem;v=v1;g=meta.k8s.io";
    let odd = accept(&server, &format!("GET {MAPS}"), odd).await;
    assert!(odd.fails(406).starts_with("only the following media types are accepted"));
    let either = accept(&server, &format!("GET {MAPS}"), &format!("text/html,{TABLE}")).await;
    assert_eq!(either.ok()["kind"], "Table");
}

#[tokio::test]
async fn a_long_list_streams_whole() {
    let server = server();
    let filler = "x".repeat(4000);
    for index in 0..200 {
        create_map(&server, &format!("m{index:03}"), &filler).await;
    }
    let list = list(&server, "").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 200);
    assert_eq!(list["items"][199]["data"]["key"], filler.as_str());
}

#[tokio::test(start_paused = true)]
async fn a_list_at_a_coming_revision_is_answered_when_it_comes() {
    let server = server();
    let next = server.revision() + 1;
    let list = format!("GET {MAPS}?resourceVersion={next}&resourceVersionMatch=NotOlderThan");
    let begin = tokio::time::Instant::now();
    let (list, _) = tokio::join!(ask(&server, &list, json!(null)), create_map(&server, "a", "1"));
    assert_eq!(names(&list.ok()), ["a"]);
    assert!(begin.elapsed().is_zero());
}
