//! Several versions of one kind: stored in one, served in all.

use serde_json::json;

use crate::asked::{Asked, DEFINITIONS, boat, boats, boats_path, version};

#[tokio::test]
async fn what_the_storage_version_does_not_know_is_lost() {
    let asked = Asked::new();
    let old = version("v1", false, json!({"n": {"type": "integer"}, "old": {"type": "string"}}));
    let new = version("v2", true, json!({"n": {"type": "integer"}, "new": {"type": "string"}}));
    asked.define(boats(json!([old, new]))).await;
    let spec = json!({"n": 1, "old": "x"});
    let created = asked.post(&boats_path("v1"), boat("v1", "a", spec)).await.good();
    assert_eq!(created["spec"], json!({"n": 1}));
    assert_eq!(created["apiVersion"], "sea.example/v1");
    let path = format!("{}/a", boats_path("v2"));
    asked.merge(&path, json!({"spec": {"new": "y"}})).await.good();
    let read = asked.get(&format!("{}/a", boats_path("v1"))).await.good();
    assert_eq!(read["spec"], json!({"n": 1}), "v1 does not know what v2 wrote");
    assert_eq!(read["metadata"]["generation"], 2);
}

#[tokio::test]
async fn defaults_are_those_of_the_storage_version() {
    let asked = Asked::new();
    let number = |default: i64| json!({"type": "integer", "default": default});
    let one = version("v1", true, json!({"n": number(1)}));
    let two = version("v2", false, json!({"n": {"type": "integer"}, "m": number(2)}));
    asked.define(boats(json!([one, two]))).await;
    let created = asked.post(&boats_path("v2"), boat("v2", "a", json!({}))).await.good();
    assert_eq!(created["spec"], json!({"n": 1}), "the stored version knows no m");
    let read = asked.get(&format!("{}/a", boats_path("v1"))).await.good();
    assert_eq!(read["spec"], json!({"n": 1}));
    let list = asked.get(&boats_path("v2")).await.good();
    assert_eq!(list["items"][0]["spec"], json!({"n": 1}), "a list reads as a get does");
}

#[tokio::test]
async fn an_unchanged_object_is_written_again_in_a_new_storage_version() {
    let asked = Asked::new();
    let spec = || json!({"n": {"type": "integer"}});
    asked.define(boats(json!([version("v1", true, spec()), version("v2", false, spec())]))).await;
    let path = format!("{}/a", boats_path("v1"));
    let created = asked.post(&boats_path("v1"), boat("v1", "a", json!({"n": 1}))).await.good();
    let same = asked.put(&path, created.clone()).await.good();
    assert_eq!(same["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let versions = json!([version("v1", false, spec()), version("v2", true, spec())]);
    let definition = format!("{DEFINITIONS}/boats.sea.example");
    let changed = asked.merge(&definition, json!({"spec": {"versions": versions}})).await.good();
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    let moved = asked.put(&path, created.clone()).await.good();
    assert_ne!(moved["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    assert_eq!(moved["metadata"]["generation"], 1);
    let again = asked.put(&path, moved.clone()).await.good();
    assert_eq!(again["metadata"]["resourceVersion"], moved["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_deprecated_version_names_a_better_one() {
    let asked = Asked::new();
    let mut old = version("v1beta1", false, json!({}));
    old["deprecated"] = true.into();
    let mut older = version("v1alpha1", false, json!({}));
    older["deprecated"] = true.into();
    older["deprecationWarning"] = "gone soon".into();
    asked.define(boats(json!([older, old, version("v1", true, json!({}))]))).await;
    let answer = asked.get(&boats_path("v1beta1")).await;
    assert_eq!(
        answer.warnings,
        ["299 - \"sea.example/v1beta1 Boat is deprecated; use sea.example/v1 Boat\""]
    );
    assert_eq!(asked.get(&boats_path("v1alpha1")).await.warnings, ["299 - \"gone soon\""]);
    assert!(asked.get(&boats_path("v1")).await.warnings.is_empty());
}
