//! Who owns the replicas: the scale subresource and its parent share one field.

use serde_json::{Value, json};

use crate::asked::{Asked, boat, boats, boats_path, owned, version};

const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

fn web(replicas: Option<i64>) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = replicas.into();
    }
    object
}

#[tokio::test]
async fn a_scaler_takes_the_replicas_from_who_applied_them() {
    let asked = Asked::new();
    asked.apply(WEB, "team", web(Some(2))).await.good();
    let scale = format!("{WEB}/scale");
    let by_hpa = format!("{scale}?fieldManager=hpa");
    let scaled = asked.merge(&by_hpa, json!({"spec": {"replicas": 5}})).await.good();
    assert_eq!(scaled["metadata"].get("managedFields"), None);
    let object = asked.get(WEB).await.good();
    assert_eq!(
        owned(&object, "hpa", "Update", "scale"),
        Some(json!({"f:spec": {"f:replicas": {}}}))
    );
    let team = owned(&object, "team", "Apply", "").unwrap();
    assert_eq!(team["f:spec"].get("f:replicas"), None);
    let conflict = asked.apply(WEB, "team", web(Some(2))).await;
    assert_eq!(conflict.code, 409);
    assert!(conflict.message().contains("\"hpa\" with subresource \"scale\""));
    let kept = asked.apply(WEB, "team", web(None)).await.good();
    assert_eq!(kept["spec"]["replicas"], 5);
}

#[tokio::test]
async fn an_applied_scale_conflicts_with_another_scaler() {
    let asked = Asked::new();
    asked.apply(WEB, "team", web(None)).await.good();
    let scale = format!("{WEB}/scale");
    let wanted = |n: i64| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"},
            "spec": {"replicas": n}})
    };
    let first = asked.apply(&scale, "one", wanted(3)).await;
    assert!(first.message().contains("\"before-first-apply\""), "defaults have an owner, too");
    let forced = format!("{scale}?force=true");
    asked.apply(&forced, "one", wanted(3)).await.good();
    let conflict = asked.apply(&scale, "two", wanted(4)).await;
    assert_eq!(conflict.code, 409);
    assert!(conflict.message().contains("conflict with \"one\" with subresource \"scale\""));
    asked.apply(&forced, "two", wanted(4)).await.good();
    let object = asked.get(WEB).await.good();
    assert_eq!(owned(&object, "one", "Apply", "scale"), None);
    assert!(owned(&object, "two", "Apply", "scale").is_some());
    let wrong = json!({"metadata": {"uid": "7"}, "spec": {"replicas": 1}});
    assert_eq!(asked.merge(&scale, wrong).await.code, 409);
}

#[tokio::test]
async fn a_custom_kind_checks_its_replicas_itself() {
    let asked = Asked::new();
    let mut versions = version("v1", true, json!({"crew": {"type": "integer"}}));
    versions["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"}});
    asked.define(boats(json!([versions]))).await;
    asked.post(&boats_path("v1"), boat("v1", "a", json!({"crew": 1}))).await.good();
    let scale = format!("{}/a/scale", boats_path("v1"));
    let negative = asked.merge(&scale, json!({"spec": {"replicas": -1}})).await;
    assert!(negative.message().starts_with("Boat.sea.example \"a\" is invalid: .spec.crew: "));
    let scaled = asked.merge(&scale, json!({"spec": {"replicas": 3}})).await.good();
    assert_eq!(scaled["spec"], json!({"replicas": 3}));
    let object = asked.get(&format!("{}/a", boats_path("v1"))).await.good();
    assert_eq!(
        owned(&object, "tester", "Update", "scale"),
        Some(json!({"f:spec": {"f:crew": {}}}))
    );
}
