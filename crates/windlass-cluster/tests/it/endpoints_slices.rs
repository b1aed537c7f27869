//! Services get slices and endpoints that follow their pods.

use serde_json::{Value, json};

use crate::support_world::World;

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices?labelSelector=\
                      kubernetes.io/service-name=web";

async fn service(world: &World, spec: Value) {
    world
        .create("/api/v1/namespaces/a/services", json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;
}

fn endpoints(slices: &Value) -> Vec<Value> {
    let all = slices["items"].as_array().cloned().unwrap_or_default();
    all.iter().flat_map(|s| s["endpoints"].as_array().cloned().unwrap_or_default()).collect()
}

#[tokio::test(start_paused = true)]
async fn slices_and_endpoints_follow_readiness_and_deletion() {
    let world = World::start().await;
    world.create("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    service(&world, json!({"ports": ports, "selector": {"app": "web"}})).await;
    let empty = world.until(SLICES, |s| s["items"].as_array().is_some_and(|l| l.len() == 1)).await;
    let name = empty["items"][0]["metadata"]["name"].clone();
    assert_eq!(empty["items"][0]["metadata"]["generateName"], "web-");
    assert_eq!(endpoints(&empty), Vec::<Value>::new());
    world.pod("one", "web", Some("n"), "10.0.0.1", true).await;
    world.pod("two", "web", Some("n"), "10.0.0.2", false).await;
    let ready = |s: &Value| {
        let found = endpoints(s);
        found.len() == 2 && found.iter().any(|e| e["conditions"]["ready"] == true)
    };
    let full = world.until(SLICES, ready).await;
    assert_eq!(full["items"][0]["metadata"]["name"], name, "the empty slice was filled");
    assert_eq!(
        full["items"][0]["ports"],
        json!([{"name": "http", "port": 8080, "protocol": "TCP"}])
    );
    let old = world
        .until("/api/v1/namespaces/a/endpoints/web", |e| {
            e["subsets"][0]["addresses"][0]["ip"] == "10.0.0.1"
                && e["subsets"][0]["notReadyAddresses"][0]["ip"] == "10.0.0.2"
        })
        .await;
    assert_eq!(
        old["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"],
        "endpoint-controller"
    );
    world.delete("/api/v1/namespaces/a/pods/one").await;
    world.delete("/api/v1/namespaces/a/pods/two").await;
    world.until(SLICES, |s| endpoints(s).is_empty() && s["items"][0]["ports"].is_null()).await;
    world.delete("/api/v1/namespaces/a/services/web").await;
    world.until("/api/v1/namespaces/a/endpoints/web", |e| e["code"] == 404).await;
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_an_unknown_node_is_left_out_and_reported() {
    let world = World::start().await;
    service(&world, json!({"ports": [{"port": 80}], "selector": {"app": "web"}})).await;
    world.pod("adrift", "web", Some("later"), "10.0.0.1", true).await;
    let events = world.events("a", "web").await;
    assert_eq!(
        events,
        ["FailedToUpdateEndpointSlices: Error updating Endpoint Slices for Service a/web: \
          skipping Pod adrift for Service a/web: Node later Not Found"]
    );
    world.create("/api/v1/nodes", json!({"metadata": {"name": "later"}})).await;
    world.until(SLICES, |s| endpoints(s).len() == 1).await;
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_prefers_its_node_hints_at_it_even_without_a_zone() {
    let world = World::start().await;
    world.create("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let spec = json!({
        "ports": [{"port": 80}], "selector": {"app": "web"},
        "trafficDistribution": "PreferSameNode",
    });
    service(&world, spec).await;
    world.pod("one", "web", Some("n"), "10.0.0.1", true).await;
    let found = world.until(SLICES, |s| endpoints(s).len() == 1).await;
    assert_eq!(endpoints(&found)[0]["hints"], json!({"forNodes": [{"name": "n"}]}));
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_with_the_labels_of_a_service_that_does_not_own_it_is_deleted() {
    let world = World::start().await;
    service(&world, json!({"ports": [{"port": 80}], "selector": {"app": "web"}})).await;
    world.until(SLICES, |s| s["items"].as_array().is_some_and(|l| l.len() == 1)).await;
    let labels = json!({
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    let path = "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices";
    let body = json!({
        "metadata": {"name": "stray", "labels": labels}, "addressType": "IPv4", "endpoints": [],
    });
    world.create(path, body).await;
    world
        .merge("/api/v1/namespaces/a/services/web", json!({"metadata": {"labels": {"x": "y"}}}))
        .await;
    world.until(&format!("{path}/stray"), |s| s["code"] == 404).await;
    world.cluster.stop().await;
}
