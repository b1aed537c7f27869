//! Server-side apply of custom resources: owners, nulls, versions, status.

use serde_json::{Value, json};

use crate::asked::{Asked, boat, boats, boats_path, owned, version};

async fn fleet() -> Asked {
    let asked = Asked::new();
    let spec = || {
        json!({
            "n": {"type": "integer"},
            "flags": {"type": "object", "additionalProperties": {"type": "string"}},
        })
    };
    let mut one = version("v1", true, spec());
    one["subresources"] = json!({"status": {}});
    let mut two = version("v2", false, spec());
    two["subresources"] = json!({"status": {}});
    asked.define(boats(json!([one, two]))).await;
    asked
}

fn path(version: &str) -> String {
    format!("{}/a", boats_path(version))
}

#[tokio::test]
async fn a_map_that_loses_its_last_key_becomes_null_and_is_refused() {
    let asked = fleet().await;
    let full = boat("v1", "a", json!({"flags": {"x": "1"}}));
    asked.apply(&path("v1"), "one", full).await.good();
    let empty = boat("v1", "a", json!({"flags": {}}));
    let answer = asked.apply(&path("v1"), "one", empty).await;
    assert_eq!(answer.code, 422);
    assert!(answer.message().contains("spec.flags in body must be of type object: \"null\""));
    let gone = asked.apply(&path("v1"), "one", boat("v1", "a", json!({"n": 1}))).await.good();
    assert_eq!(gone["spec"], json!({"n": 1}));
}

#[tokio::test]
async fn an_applied_null_stays_and_is_refused() {
    let asked = fleet().await;
    let object = boat("v1", "a", json!({"flags": {"x": null}}));
    let answer = asked.apply(&path("v1"), "one", object).await;
    assert_eq!(answer.code, 422);
    assert!(answer.message().contains("spec.flags.x in body must be of type string: \"null\""));
}

#[tokio::test]
async fn owners_of_one_version_hold_in_another() {
    let asked = fleet().await;
    asked.apply(&path("v1"), "one", boat("v1", "a", json!({"n": 1}))).await.good();
    let answer = asked.apply(&path("v2"), "two", boat("v2", "a", json!({"n": 2}))).await;
    assert_eq!(answer.code, 409);
    assert!(answer.message().contains("conflict with \"one\": .spec.n"));
    let forced = format!("{}?force=true", path("v2"));
    let object = asked.apply(&forced, "two", boat("v2", "a", json!({"n": 2}))).await.good();
    assert_eq!(owned(&object, "one", "Apply", ""), None);
    assert_eq!(owned(&object, "two", "Apply", ""), Some(json!({"f:spec": {"f:n": {}}})));
}

#[tokio::test]
async fn a_write_to_the_status_owns_nothing_else() {
    let asked = fleet().await;
    asked.post(&boats_path("v1"), boat("v1", "a", json!({"n": 1}))).await.good();
    let patch = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"n": 5},
        "status": {"phase": "Up"}});
    let object = asked.merge(&format!("{}/status", path("v1")), patch).await.good();
    assert_eq!(object["spec"]["n"], 1);
    let fields = owned(&object, "tester", "Update", "status");
    assert_eq!(fields, Some(json!({"f:status": {".": {}, "f:phase": {}}})));
    let missing = boat("v1", "b", json!({}));
    let status = format!("{}/b/status", boats_path("v1"));
    assert_eq!(asked.apply(&status, "one", missing).await.code, 404);
}

#[tokio::test]
async fn an_empty_owner_forgets_all_and_an_empty_list_none() {
    let asked = fleet().await;
    asked.apply(&path("v1"), "one", boat("v1", "a", json!({"n": 1}))).await.good();
    let kept = asked.merge(&path("v1"), json!({"metadata": {"managedFields": null}})).await.good();
    assert!(owned(&kept, "one", "Apply", "").is_some());
    // The real server's decoder of custom objects drops empty lists; built-in kinds are reset.
    let kept = asked.merge(&path("v1"), json!({"metadata": {"managedFields": []}})).await.good();
    assert!(owned(&kept, "one", "Apply", "").is_some());
    let reset = json!({"metadata": {"managedFields": [{}]}});
    let reset = asked.merge(&path("v1"), reset).await.good();
    assert_eq!(reset["metadata"].get("managedFields"), None::<&Value>);
}
