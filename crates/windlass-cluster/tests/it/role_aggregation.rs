//! Aggregated roles follow the roles they gather.

use serde_json::json;

use crate::support_world::World;

#[tokio::test(start_paused = true)]
async fn rules_follow_labels_and_deletion() {
    let world = World::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rule = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "sum"}}]});
    world
        .create(roles, json!({"metadata": {"name": "sum"}, "rules": [], "aggregationRule": rule}))
        .await;
    let rules = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    for (name, verb) in [("one", "get"), ("two", "list")] {
        let role = json!({
            "metadata": {"name": name, "labels": {"to": "sum"}}, "rules": rules(verb),
        });
        world.create(roles, role).await;
    }
    let sum = format!("{roles}/sum");
    world.until(&sum, |r| r["rules"].as_array().is_some_and(|l| l.len() == 2)).await;
    world.merge(&format!("{roles}/two"), json!({"metadata": {"labels": {"to": null}}})).await;
    world.until(&sum, |r| r["rules"] == rules("get")).await;
    world.delete(&format!("{roles}/one")).await;
    world.until(&sum, |r| r["rules"].as_array().is_none_or(Vec::is_empty)).await;
    world.cluster.stop().await;
}
