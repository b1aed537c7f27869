//! Discovery, schemas, version and health.

use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn groups_and_resources_are_listed() {
    let server = server();
    let core = ask(&server, "GET /api/v1", json!(null)).await.ok();
    assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let resources = core["resources"].as_array().unwrap();
    let pods = resources.iter().find(|r| r["name"] == "pods").unwrap();
    assert_eq!((&pods["namespaced"], &pods["kind"]), (&json!(true), &json!("Pod")));
    assert!(pods["verbs"].as_array().unwrap().contains(&json!("watch")));
    assert!(resources.iter().any(|r| r["name"] == "pods/eviction"));
    let groups = ask(&server, "GET /apis", json!(null)).await.ok();
    let groups = groups["groups"].as_array().unwrap();
    assert!(groups.iter().any(|g| g["name"] == "apps"));
    ask(&server, "GET /apis/apps/v1", json!(null)).await.ok();
    assert_eq!(ask(&server, "GET /apis/no.such/v1", json!(null)).await.code, 404);
}

#[tokio::test]
async fn everything_is_discovered_at_once() {
    let server = server();
    let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let all = accept(&server, "GET /apis", media).await.ok();
    assert_eq!(all["kind"], "APIGroupDiscoveryList");
    let apps = all["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "apps");
    let apps = apps.unwrap()["versions"][0]["resources"].as_array().unwrap().clone();
    assert!(apps.iter().any(|r| r["resource"] == "deployments"));
}

#[tokio::test]
async fn a_typed_client_discovers_all_groups() {
    let server = server();
    let client = server.client();
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.major, "1");
    let groups = client.list_api_groups().await.unwrap();
    for group in &groups.groups {
        for version in &group.versions {
            client.list_api_group_resources(&version.group_version).await.unwrap();
        }
    }
}

#[tokio::test]
async fn schemas_are_served_in_both_versions() {
    let server = server();
    let index = ask(&server, "GET /openapi/v3", json!(null)).await.ok();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let schema = ask(&server, &format!("GET {url}"), json!(null)).await.ok();
    let schemas = schema["components"]["schemas"].as_object().unwrap();
    assert!(schemas.contains_key("io.k8s.api.apps.v1.Deployment"));
    let old = ask(&server, "GET /openapi/v2", json!(null)).await.ok();
    assert_eq!(old["swagger"], "2.0");
}

#[tokio::test]
async fn health_needs_no_authentication() {
    let server = server();
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = ask_as(&server, "", &format!("GET {path}"), json!(null)).await;
        assert_eq!((answer.code.as_u16(), answer.text().as_str()), (200, "ok"), "{path}");
    }
    let verbose = ask(&server, "GET /readyz?verbose", json!(null)).await;
    assert!(verbose.text().ends_with("readyz check passed\n"), "{}", verbose.text());
}
