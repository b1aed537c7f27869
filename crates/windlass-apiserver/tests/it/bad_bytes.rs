//! Bodies, paths and headers that are wrong: the right status, never a panic.

use serde_json::json;

use crate::support::*;

async fn post(media: &str, bytes: impl Into<Vec<u8>>) -> Answer {
    raw(&server(), &format!("POST {MAPS}"), media, bytes).await
}

#[tokio::test]
async fn bodies_that_are_no_json_are_bad_requests() {
    for body in [
        "",
        "{",
        "}",
        "[",
        "nul",
        "{\"a\":}",
        "{\"a\" 1}",
        "{'a': 1}",
        "{\"metadata\":{\"name\":\"a\"}}x",
        "\"text\"",
        "12",
        "[]",
        "true",
        "{\"metadata\": 5}",
        "{\"metadata\":{\"name\":5}}",
        "{\"kind\": 1}",
        "{\"apiVersion\": {}}",
        "\u{feff}{}",
        "\0",
        "{\"a\":\"\\ud800\"}",
    ] {
        let answer = post("application/json", body).await;
        assert!(answer.code.is_client_error(), "{body:?}: {} {}", answer.code, answer.text());
        assert_eq!(answer.json()["kind"], "Status", "{body:?}");
    }
}

#[tokio::test]
async fn bodies_that_are_no_yaml_are_bad_requests() {
    for body in
        ["a: b: c", "- [", "\t- x", "&a", "*unknown", "a: !!binary ???", "%YAML 9\n---\n", "{a"]
    {
        let answer = post("application/yaml", body).await;
        assert!(answer.code.is_client_error(), "{body:?}: {} {}", answer.code, answer.text());
    }
}

#[tokio::test]
async fn yaml_that_explodes_stays_small() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        let list = vec![before; 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    let answer = post("application/yaml", bomb).await;
    assert!(answer.code.is_client_error(), "{}", answer.code);
    assert!(answer.bytes.len() < 1 << 20);
}

#[tokio::test]
async fn bytes_that_are_no_utf8_do_not_get_in() {
    let body = b"{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"\xff\xfe\"}}";
    let answer = post("application/json", body).await;
    assert!(!answer.code.is_server_error(), "{}", answer.text());
    assert!(std::str::from_utf8(&answer.bytes).is_ok());
    let answer = post("application/yaml", b"\xff\xfe\x00a: b").await;
    assert!(answer.code.is_client_error(), "{}", answer.text());
}

#[tokio::test]
async fn a_body_of_more_than_three_mebibytes_is_too_large() {
    let body = map("a", &"x".repeat(3 << 20));
    let answer = post("application/json", body.to_string()).await;
    assert_eq!(answer.fails(413), "Request entity too large: limit is 3145728");
    assert_eq!(answer.json()["reason"], "RequestEntityTooLarge");
    let server = server();
    create_map(&server, "a", "1").await;
    let change = json!({"data": {"k": "x".repeat(4 << 20)}});
    let answer = patch(&server, &format!("{MAPS}/a"), MERGE_PATCH, change).await;
    assert_eq!(answer.code, 413);
    let list = ask(&server, &format!("GET {MAPS}"), json!(null)).await.ok();
    assert_eq!(names(&list), ["a"]);
}

#[tokio::test]
async fn deep_nesting_is_refused_not_followed() {
    let depth = 200_000;
    let lists = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let maps = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let server = server();
    create_map(&server, "a", "1").await;
    for body in [&lists, &maps] {
        let answer = post("application/json", body.as_str()).await;
        assert!(answer.code.is_client_error(), "{}", answer.code);
        let answer = post("application/yaml", body.as_str()).await;
        assert!(answer.code.is_client_error(), "{}", answer.code);
        for media in [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH] {
            let what = format!("PATCH {MAPS}/a?fieldManager=x");
            let answer = raw(&server, &what, media, body.as_str()).await;
            assert!(answer.code.is_client_error(), "{media} {}", answer.code);
        }
        let what = format!("DELETE {MAPS}/a");
        let answer = raw(&server, &what, "application/json", body.as_str()).await;
        assert!(answer.code.is_client_error(), "{}", answer.code);
    }
    // Deep, but within what the server takes.
    for depth in [50, 500, 5000, 9000] {
        let patch = format!("{{\"data\":{}1{}}}", "{\"a\":".repeat(depth), "}".repeat(depth));
        for media in [MERGE_PATCH, STRATEGIC_PATCH] {
            let answer = raw(&server, &format!("PATCH {MAPS}/a"), media, patch.as_str()).await;
            assert!(answer.code.is_client_error(), "{depth} {}", answer.code);
        }
    }
}

#[tokio::test]
async fn deep_custom_objects_do_not_overflow() {
    let server = server();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "toys", "kind": "Toy"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let crds = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    ask(&server, crds, definition).await.ok();
    for depth in [60, 90, 105, 108, 111, 128, 150, 190, 1000, 9000, 20_000] {
        let deep = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let body = format!(
            "{{\"apiVersion\":\"example.com/v1\",\"kind\":\"Toy\",\
              \"metadata\":{{\"name\":\"t{depth}\"}},\"spec\":{deep}}}"
        );
        let what = "POST /apis/example.com/v1/toys?fieldValidation=Strict";
        let made = raw(&server, what, "application/json", body).await;
        if made.code.is_client_error() {
            assert!(depth > 100, "{}", made.text());
            continue;
        }
        // What is taken can be read back, alone and in a list.
        let path = format!("/apis/example.com/v1/toys/t{depth}");
        let read = ask(&server, &format!("GET {path}"), json!(null)).await.ok();
        assert!(read["spec"]["a"]["a"].is_object(), "{depth}");
        let change = json!({"metadata": {"labels": {"a": "b"}}});
        patch(&server, &path, MERGE_PATCH, change).await.ok();
        let list = ask(&server, "GET /apis/example.com/v1/toys", json!(null)).await.ok();
        assert!(names(&list).contains(&format!("t{depth}")));
    }
    let yaml = accept(&server, "GET /apis/example.com/v1/toys", "application/yaml").await;
    assert!(!yaml.code.is_server_error());
}

#[tokio::test]
async fn numbers_of_any_size_are_read_or_refused() {
    let server = server();
    for number in [
        "1e400",
        "-1e400",
        "9223372036854775808",
        "1.5",
        "1e3",
        "-0",
        "0x10",
        "00",
        "123456789012345678901234567890",
        "1e-400",
        "NaN",
        "Infinity",
        "-",
    ] {
        let body = format!(
            "{{\"metadata\":{{\"name\":\"a\"}},\"spec\":{{\"replicas\":{number},\
              \"selector\":{{\"matchLabels\":{{\"a\":\"b\"}}}},\"template\":{{\
              \"metadata\":{{\"labels\":{{\"a\":\"b\"}}}},\"spec\":{{\
              \"containers\":[{{\"name\":\"c\",\"image\":\"i\"}}]}}}}}}}}"
        );
        let what = format!("POST {DEPLOYMENTS}?dryRun=All");
        let answer = raw(&server, &what, "application/json", body).await;
        assert!(!answer.code.is_server_error(), "{number}: {}", answer.text());
    }
    let digits = "9".repeat(100_000);
    let body = format!("{{\"metadata\":{{\"name\":\"a\",\"generation\":{digits}}}}}");
    assert!(post("application/json", body).await.code.is_client_error());
}

#[tokio::test]
async fn odd_quantities_and_times_are_refused() {
    let server = pod_server().await;
    for quantity in ["1e999999999", "999999999999999999999999Ei", "1.1.1", "m", "", "--1", "1e-999"]
    {
        let mut body = pod("a");
        body["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": quantity}});
        let answer = ask(&server, &format!("POST {PODS}?dryRun=All"), body).await;
        assert!(!answer.code.is_server_error(), "{quantity}: {}", answer.text());
    }
    for time in
        ["never", "2026-13-45T00:00:00Z", "99999999-01-01T00:00:00Z", "0000-00-00T00:00:00Z"]
    {
        let mut body = map("a", "1");
        body["metadata"]["creationTimestamp"] = json!(time);
        let answer = ask(&server, &format!("POST {MAPS}?dryRun=All"), body).await;
        assert_eq!(answer.code, 400, "{time}: {}", answer.text());
    }
}

#[tokio::test]
async fn paths_and_escapes_of_all_sorts_are_answered() {
    let server = server();
    create_map(&server, "a", "1").await;
    for path in [
        "/",
        "//",
        "/api",
        "/api/",
        "/api//",
        "/apis///",
        "/api/v1/",
        "/api/v1//pods",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/default/",
        "/api/v1/namespaces/%2e%2e/configmaps",
        "/%61pi/v1/pods",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1/namespaces/default/configmaps/%",
        "/api/v1/namespaces/default/configmaps/%zz",
        "/api/v1/namespaces/default/configmaps/a%2fb",
        "/api/v1/namespaces/default/configmaps/..",
        "/api/v1/watch",
        "/api/v1/watch/",
        "/api/v1/watch/namespaces",
        "/api/v2/pods",
        "/api/v1/x/y/z/w/v",
        "/apis/apps/v1/namespaces/default/deployments/a/b/c/d",
        "/openapi/v3/apis/no/v1",
        "/openapi/v9",
        "/api/v1/namespaces/default/pods/a/proxy/../../x",
        "/metrics/cadvisor",
        "/.well-known/x",
    ] {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW"] {
            // Watches by path have no end.
            if path.contains("/watch") && matches!(method, "GET" | "HEAD") {
                continue;
            }
            let answer = ask(&server, &format!("{method} {path}"), json!(null)).await;
            assert!(!answer.code.is_server_error(), "{method} {path}: {}", answer.text());
        }
    }
    let long = format!("{MAPS}/{}", "a".repeat(10_000));
    assert_eq!(ask(&server, &format!("GET {long}"), json!(null)).await.code, 404);
}

#[tokio::test]
async fn queries_of_all_sorts_are_answered() {
    let server = server();
    create_map(&server, "a", "1").await;
    for query in [
        "limit=-1",
        "limit=99999999999999999999",
        "limit=1&limit=2",
        "resourceVersion=-1",
        "resourceVersion=99999999999999999999999",
        "continue=%00",
        "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
        "labelSelector=%ff",
        "labelSelector=a%20in",
        "labelSelector=(((((",
        "fieldSelector===",
        "fieldSelector=a",
        "=",
        "&&&",
        "%=%",
        "pretty=maybe",
        "timeoutSeconds=-5",
        "watch=maybe&timeoutSeconds=1",
        "resourceVersion=0&limit=1",
        "fieldManager=%00",
        "dryRun=",
        "dryRun=All&dryRun=All",
    ] {
        let answer = ask(&server, &format!("GET {MAPS}?{query}"), json!(null)).await;
        assert!(!answer.code.is_server_error(), "{query}: {}", answer.text());
        let answer = ask(&server, &format!("POST {MAPS}?{query}"), map("b", "1")).await;
        assert!(!answer.code.is_server_error(), "{query}: {}", answer.text());
        ask(&server, &format!("DELETE {MAPS}/b"), json!(null)).await;
    }
    let long = format!("{MAPS}?labelSelector={}", "a,".repeat(20_000));
    assert!(!ask(&server, &format!("GET {long}"), json!(null)).await.code.is_server_error());
}

#[tokio::test]
async fn a_wrong_media_type_is_reported() {
    for media in ["text/plain", "application/xml", "application/x-www-form-urlencoded", "nonsense"]
    {
        let answer = post(media, "{}").await;
        let text = answer.fails(415);
        assert!(text.contains("application/json, application/yaml"), "{text}");
    }
    let charset = post("application/json; charset=utf-8", map("a", "1").to_string()).await;
    assert_eq!(charset.code, 201);
    let cased = post("Application/JSON", map("a", "1").to_string()).await;
    assert_eq!(cased.code, 201, "{}", cased.text());
}

#[tokio::test]
async fn a_wrong_kind_in_the_body_is_reported() {
    let server = server();
    for (kind, api_version) in [
        ("Secret", "v1"),
        ("ConfigMap", "v2"),
        ("ConfigMap", "apps/v1"),
        ("Nothing", "v1"),
        ("ConfigMap", "a/b/c"),
        ("ConfigMapList", "v1"),
    ] {
        let mut body = map("a", "1");
        body["kind"] = json!(kind);
        body["apiVersion"] = json!(api_version);
        let text = ask(&server, &format!("POST {MAPS}"), body).await.fails(400);
        assert!(!text.is_empty());
    }
}

#[tokio::test]
async fn odd_headers_are_survived() {
    let server = server();
    let long = "x".repeat(50_000);
    for (name, value) in [
        ("accept", ";;;,,,=q"),
        ("accept", "application/json;q=NaN"),
        ("accept", long.as_str()),
        ("accept", "application/json;as=Table;v=;g="),
        ("authorization", "Bearer a.b.c"),
        ("authorization", "Bearer ey..."),
        ("impersonate-user", ""),
        ("impersonate-uid", "x"),
        ("user-agent", "\u{e9}"),
        ("user-agent", long.as_str()),
        ("content-type", ";"),
        ("authorization", "Bearer eyJhbGciOiJub25lIn0.e30."),
        ("impersonate-extra-x", "y"),
    ] {
        let admin = ("authorization", "Bearer admin");
        let headers =
            if name == "authorization" { vec![(name, value)] } else { vec![admin, (name, value)] };
        let answer =
            send(&server, &format!("POST {MAPS}?dryRun=All"), &headers, map("a", "1").to_string())
                .await;
        let refused = !answer.code.is_server_error() || name.starts_with("impersonate");
        assert!(refused, "{name}: {value:.40}: {}", answer.text());
    }
}
