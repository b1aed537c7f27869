//! Create, read, update: identity, versions, generations, dry runs, strictness.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn a_created_object_carries_its_identity() {
    let server = server();
    let made = create_map(&server, "a", "1").await;
    let metadata = &made["metadata"];
    assert_eq!(made["kind"], "ConfigMap");
    assert_eq!(made["apiVersion"], "v1");
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert!(metadata["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(version(&made), server.revision());
    let read = ask(&server, &format!("GET {MAPS}/a"), json!(null)).await.ok();
    assert_eq!(read, made);
}

#[tokio::test]
async fn stored_bytes_are_served_with_the_type_in_front() {
    let server = server();
    let made = ask(&server, &format!("POST {MAPS}"), map("a", "1")).await;
    let read = ask(&server, &format!("GET {MAPS}/a"), json!(null)).await;
    let shown = ask(&server, &format!("GET {MAPS}/a?pretty=true"), json!(null)).await;
    assert_eq!(made.text(), read.text());
    assert_eq!(read.ok(), shown.ok());
    let sorted = read.ok().to_string();
    let rest = sorted.strip_prefix("{\"apiVersion\":\"v1\",").unwrap();
    let rest = rest.replacen("\"kind\":\"ConfigMap\",", "", 1);
    assert_eq!(read.text(), format!("{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",{rest}"));
}

#[tokio::test]
async fn stored_bytes_of_custom_objects_are_served_in_the_order_of_their_fields() {
    let server = server();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let definition = json!({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "boats", "kind": "Boat"},
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    ask(&server, &format!("POST {definitions}"), definition).await.ok();
    let boats = "/apis/example.com/v1/namespaces/default/boats";
    for (name, field) in [("a", "data"), ("b", "spec")] {
        let mut boat = json!({
            "apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name},
        });
        boat[field] = json!({"x": 1});
        let made = ask(&server, &format!("POST {boats}"), boat).await;
        let read = ask(&server, &format!("GET {boats}/{name}"), json!(null)).await;
        assert_eq!(made.text(), read.text());
        assert_eq!(read.text(), read.ok().to_string(), "sorted");
    }
}

#[tokio::test]
async fn a_name_is_taken_once() {
    let server = server();
    create_map(&server, "a", "1").await;
    let again = ask(&server, &format!("POST {MAPS}"), map("a", "2")).await;
    assert_eq!(again.fails(409), "configmaps \"a\" already exists");
    assert_eq!(again.json()["reason"], "AlreadyExists");
    assert_eq!(again.json()["details"], json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let server = server();
    let missing = ask(&server, &format!("GET {MAPS}/no"), json!(null)).await;
    assert_eq!(missing.fails(404), "configmaps \"no\" not found");
    let path = ask(&server, "GET /api/v1/namespaces/default/nothings", json!(null)).await;
    assert_eq!(path.fails(404), "the server could not find the requested resource");
    let update = ask(&server, &format!("PUT {MAPS}/no"), map("no", "1")).await;
    assert_eq!(update.fails(404), "configmaps \"no\" not found");
}

#[tokio::test]
async fn an_object_needs_an_existing_namespace() {
    let server = server();
    let made = ask(&server, "POST /api/v1/namespaces/nowhere/configmaps", map("a", "1")).await;
    assert_eq!(made.fails(404), "namespaces \"nowhere\" not found");
}

#[tokio::test]
async fn a_terminating_namespace_accepts_nothing_new() {
    let server = server();
    let space = json!({"metadata": {"name": "old"}});
    ask(&server, "POST /api/v1/namespaces", space).await.ok();
    let gone = ask(&server, "DELETE /api/v1/namespaces/old", json!(null)).await.ok();
    assert_eq!(gone["status"]["phase"], "Terminating");
    let made = ask(&server, "POST /api/v1/namespaces/old/configmaps", map("a", "1")).await;
    let text = made.fails(403);
    assert!(text.contains("because it is being terminated"), "{text}");
}

#[tokio::test]
async fn names_are_checked_against_the_rules_of_the_kind() {
    let server = server();
    for name in ["Upper", "under_score", "-start", "end-", "a..b", "sp ace"] {
        let made = ask(&server, &format!("POST {MAPS}"), map(name, "1")).await;
        let text = made.fails(422);
        assert!(text.contains("metadata.name: Invalid value"), "{name}: {text}");
    }
    let long = "a".repeat(254);
    let made = ask(&server, &format!("POST {MAPS}"), map(&long, "1")).await;
    assert!(made.fails(422).contains("must be no more than 253 characters"), "{}", made.text());
    let none = ask(&server, &format!("POST {MAPS}"), json!({"metadata": {}})).await;
    assert!(none.fails(422).contains("name or generateName is required"));
}

#[tokio::test]
async fn a_name_or_namespace_that_differs_from_the_path_is_refused() {
    let server = server();
    create_map(&server, "a", "1").await;
    let named = ask(&server, &format!("PUT {MAPS}/a"), map("b", "1")).await;
    let text = named.fails(400);
    assert_eq!(text, "the name of the object (b) does not match the name on the URL (a)");
    let moved = json!({"metadata": {"name": "c", "namespace": "kube-system"}});
    let made = ask(&server, &format!("POST {MAPS}"), moved).await;
    let text = made.fails(400);
    assert!(text.contains("does not match the namespace sent on the request"), "{text}");
}

#[tokio::test]
async fn generated_names_differ_and_start_as_asked() {
    let server = server();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let body = json!({"metadata": {"generateName": "job-"}});
        let made = ask(&server, &format!("POST {MAPS}"), body).await.ok();
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("job-") && name.len() == 9, "{name}");
        assert!(seen.insert(name));
    }
}

#[tokio::test]
async fn an_update_with_an_old_version_conflicts() {
    let server = server();
    let first = create_map(&server, "a", "1").await;
    let mut second = first.clone();
    second["data"]["key"] = json!("2");
    let second = ask(&server, &format!("PUT {MAPS}/a"), second).await.ok();
    assert!(version(&second) > version(&first));
    let mut stale = first.clone();
    stale["data"]["key"] = json!("3");
    let answer = ask(&server, &format!("PUT {MAPS}/a"), stale).await;
    assert_eq!(
        answer.fails(409),
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; \
         please apply your changes to the latest version and try again"
    );
    assert_eq!(answer.json()["reason"], "Conflict");
}

#[tokio::test]
async fn an_update_without_a_version_wins_always() {
    let server = server();
    create_map(&server, "a", "1").await;
    let updated = ask(&server, &format!("PUT {MAPS}/a"), map("a", "2")).await.ok();
    assert_eq!(updated["data"]["key"], "2");
}

#[tokio::test]
async fn an_update_keeps_what_the_server_owns() {
    let server = server();
    let first = create_map(&server, "a", "1").await;
    let mut body = map("a", "2");
    body["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    let updated = ask(&server, &format!("PUT {MAPS}/a"), body.clone()).await.ok();
    for field in ["uid", "creationTimestamp"] {
        assert_eq!(updated["metadata"][field], first["metadata"][field]);
    }
    body["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let other = ask(&server, &format!("PUT {MAPS}/a"), body).await;
    assert!(other.fails(409).contains("Precondition failed: UID in precondition"));
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_version() {
    let server = server();
    let first = create_map(&server, "a", "1").await;
    let before = server.revision();
    let same = ask(&server, &format!("PUT {MAPS}/a"), first.clone()).await.ok();
    assert_eq!(same, first);
    let change = json!({"data": {"key": "1"}});
    let same = patch(&server, &format!("{MAPS}/a"), MERGE_PATCH, change).await.ok();
    assert_eq!(version(&same), version(&first));
    assert_eq!(server.revision(), before);
}

#[tokio::test]
async fn the_generation_counts_changes_of_the_spec_only() {
    let server = server();
    let made = ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("web")).await.ok();
    assert_eq!(made["metadata"]["generation"], 1);
    let path = format!("{DEPLOYMENTS}/web");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let labelled = patch(&server, &path, MERGE_PATCH, labels).await.ok();
    assert_eq!(labelled["metadata"]["generation"], 1);
    let scaled = json!({"spec": {"replicas": 3}});
    let scaled = patch(&server, &path, MERGE_PATCH, scaled).await.ok();
    assert_eq!(scaled["metadata"]["generation"], 2);
    let status = json!({"status": {"replicas": 3}});
    let status = patch(&server, &format!("{path}/status"), MERGE_PATCH, status).await.ok();
    assert_eq!(status["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_dry_run_answers_and_stores_nothing() {
    let server = server();
    let before = server.revision();
    let tried = ask(&server, &format!("POST {MAPS}?dryRun=All"), map("a", "1")).await.ok();
    assert!(tried["metadata"]["uid"].is_string());
    assert_eq!(tried["metadata"]["resourceVersion"], json!(null));
    assert_eq!(server.revision(), before);
    create_map(&server, "b", "1").await;
    let before = server.revision();
    ask(&server, &format!("PUT {MAPS}/b?dryRun=All"), map("b", "2")).await.ok();
    ask(&server, &format!("DELETE {MAPS}/b?dryRun=All"), json!(null)).await.ok();
    assert_eq!(server.revision(), before);
    let odd = ask(&server, &format!("POST {MAPS}?dryRun=Some"), map("a", "1")).await;
    assert!(odd.fails(422).contains("dryRun: Unsupported value"), "{}", odd.text());
}

#[tokio::test]
async fn unknown_and_duplicate_fields_warn_fail_or_pass() {
    let server = server();
    let body = r#"{"metadata":{"name":"a"},"data":{"k":"1"},"data":{"k":"2"},"dota":{}}"#;
    let post = |mode: &str| {
        let what = format!("POST {MAPS}?dryRun=All&fieldValidation={mode}");
        let server = server.clone();
        async move { raw(&server, &what, "application/json", body).await }
    };
    let warned = post("Warn").await;
    warned.ok();
    let warnings = warned.warnings().join("\n");
    assert!(warnings.contains("unknown field \\\"dota\\\""), "{warnings}");
    assert!(warnings.contains("duplicate field \\\"data\\\""), "{warnings}");
    let text = post("Strict").await.fails(400);
    assert!(text.contains("strict decoding error") && text.contains("\"dota\""), "{text}");
    assert!(post("Ignore").await.warnings().is_empty());
    assert!(post("Perhaps").await.fails(422).contains("fieldValidation: Unsupported value"));
}

#[tokio::test]
async fn a_typed_client_creates_reads_and_replaces() {
    let server = server();
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let made: ConfigMap = serde_json::from_value(map("a", "1")).unwrap();
    let mut made = maps.create(&PostParams::default(), &made).await.unwrap();
    made.immutable = Some(true);
    let fixed = maps.replace("a", &PostParams::default(), &made).await.unwrap();
    let mut changed = fixed;
    changed.data.as_mut().unwrap().insert("key".into(), "2".into());
    let refused = maps.replace("a", &PostParams::default(), &changed).await.unwrap_err();
    assert!(refused.to_string().contains("field is immutable when `immutable` is set"));
    assert!(maps.get_opt("b").await.unwrap().is_none());
}

#[tokio::test]
async fn yaml_bodies_and_answers_are_understood() {
    let server = server();
    let body = "metadata:\n  name: a\ndata:\n  key: \"yes\"\n";
    let made = raw(&server, &format!("POST {MAPS}"), "application/yaml", body).await.ok();
    assert_eq!(made["data"]["key"], "yes");
    let read = accept(&server, &format!("GET {MAPS}/a"), "application/yaml").await;
    assert_eq!(read.headers["content-type"], "application/yaml");
    assert!(read.text().contains("kind: ConfigMap"), "{}", read.text());
}
