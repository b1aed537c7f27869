//! Quotas report what is used.

use serde_json::json;

use crate::support_world::World;

#[tokio::test(start_paused = true)]
async fn usage_follows_pods_and_objects() {
    let world = World::start().await;
    let path = "/api/v1/namespaces/a/resourcequotas/q";
    let hard = json!({
        "pods": "5", "requests.cpu": "1", "count/configmaps": "10", "services": "3",
        "requests.storage": "10Gi",
    });
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    world.create("/api/v1/namespaces/a/resourcequotas", quota).await;
    world.until(path, |q| q["status"]["used"]["pods"] == "0").await;
    world.pod("a", "x", Some("far"), "10.0.0.1", true).await;
    world.pod("b", "x", Some("far"), "10.0.0.2", true).await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    world.create("/api/v1/namespaces/a/persistentvolumeclaims", claim).await;
    let quota = world
        .until(path, |q| {
            let used = &q["status"]["used"];
            used["pods"] == "2" && used["requests.storage"] == "1Gi"
        })
        .await;
    assert_eq!(quota["status"]["used"]["requests.cpu"], "200m");
    assert_eq!(quota["status"]["used"]["services"], "0");
    assert_eq!(quota["status"]["hard"], quota["spec"]["hard"]);
    world
        .merge("/api/v1/namespaces/a/pods/a/status", json!({"status": {"phase": "Succeeded"}}))
        .await;
    world.delete("/api/v1/namespaces/a/pods/b").await;
    let quota = world.until(path, |q| q["status"]["used"]["pods"] == "0").await;
    assert_eq!(quota["status"]["used"]["requests.cpu"], "0");
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scopes_choose_which_pods_count() {
    let world = World::start().await;
    for scope in ["BestEffort", "NotBestEffort"] {
        let name = scope.to_lowercase();
        let spec = json!({"hard": {"pods": "5"}, "scopes": [scope]});
        let quota = json!({"metadata": {"name": name}, "spec": spec});
        world.create("/api/v1/namespaces/a/resourcequotas", quota).await;
    }
    world.pod("a", "x", Some("far"), "10.0.0.1", true).await;
    let path = |name: &str| format!("/api/v1/namespaces/a/resourcequotas/{name}");
    world.until(&path("notbesteffort"), |q| q["status"]["used"]["pods"] == "1").await;
    world.until(&path("besteffort"), |q| q["status"]["used"]["pods"] == "0").await;
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_admission_booked_stays_until_something_is_given_back() {
    let world = World::start().await;
    let path = "/api/v1/namespaces/a/resourcequotas/q";
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}});
    world.create("/api/v1/namespaces/a/resourcequotas", quota).await;
    world.until(path, |q| q["status"]["used"]["pods"] == "0").await;
    // As if two pods were admitted that are not stored yet.
    world.merge(&format!("{path}/status"), json!({"status": {"used": {"pods": "2"}}})).await;
    world.pod("a", "x", Some("far"), "10.0.0.1", true).await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    world.until(path, |q| q["status"]["used"]["pods"] == "3").await;
    world.delete("/api/v1/namespaces/a/pods/a").await;
    world.until(path, |q| q["status"]["used"]["pods"] == "0").await;
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_any_kind_can_be_counted_and_are_given_back_at_once() {
    let world = World::start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
    }});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.create(path, definition).await;
    let hard = json!({"count/widgets.example.com": "3", "count/podtemplates": "2"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    world.create("/api/v1/namespaces/a/resourcequotas", quota).await;
    let path = "/api/v1/namespaces/a/resourcequotas/q";
    let used = |q: &serde_json::Value| q["status"]["used"]["count/widgets.example.com"].clone();
    let quota = world.until(path, |q| used(q) == "0").await;
    assert_eq!(quota["status"]["used"]["count/podtemplates"], "0");
    let widgets = "/apis/example.com/v1/namespaces/a/widgets";
    for name in ["one", "two"] {
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
        });
        world.create(widgets, widget).await;
    }
    world.until(path, |q| used(q) == "2").await;
    world.delete(&format!("{widgets}/one")).await;
    let begun = tokio::time::Instant::now();
    world.until(path, |q| used(q) == "1").await;
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    world.cluster.stop().await;
}
