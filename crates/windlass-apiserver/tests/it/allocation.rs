//! Cluster IPs and node ports of services are freed as soon as nothing uses them.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::support::*;

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A service with one port that is open on all nodes.
fn node_port(name: &str, port: i64) -> Value {
    let ports = json!([{"port": 80, "nodePort": port}]);
    service(name, json!({"type": "NodePort", "ports": ports}))
}

async fn create(server: &ApiServer, service: Value) -> Answer {
    ask(server, &format!("POST {SERVICES}"), service).await
}

async fn change(server: &ApiServer, name: &str, spec: Value) -> Value {
    let path = format!("{SERVICES}/{name}");
    patch(server, &path, STRATEGIC_PATCH, json!({"spec": spec})).await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_node_port_that_is_changed_is_free_for_others() {
    let server = server();
    create(&server, node_port("a", 30001)).await.ok();
    assert_eq!(
        create(&server, node_port("b", 30001)).await.fails(422),
        "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is \
         already allocated"
    );
    change(&server, "a", json!({"ports": [{"port": 80, "nodePort": 30002}]})).await;
    create(&server, node_port("b", 30001)).await.ok();
    create(&server, node_port("c", 30002)).await.fails(422);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_changes_its_type_frees_what_it_no_longer_uses() {
    let server = server();
    let made = create(&server, node_port("a", 30001)).await.ok();
    let ip = made["spec"]["clusterIP"].clone();
    let inner = change(&server, "a", json!({"type": "ClusterIP"})).await;
    assert!(inner["spec"]["ports"][0].get("nodePort").is_none(), "{inner}");
    assert_eq!(inner["spec"]["clusterIP"], ip);
    create(&server, node_port("b", 30001)).await.ok();

    let taken = service("c", json!({"clusterIP": ip, "ports": [{"port": 80}]}));
    create(&server, taken.clone()).await.fails(422);
    change(&server, "a", json!({"type": "ExternalName", "externalName": "example.com"})).await;
    create(&server, taken).await.ok();
}

#[tokio::test(start_paused = true)]
async fn an_update_that_is_refused_or_only_tried_changes_no_allocation() {
    let server = server();
    create(&server, node_port("a", 30001)).await.ok();
    let other = json!({"spec": {"ports": [{"port": 80, "nodePort": 30002}]}});
    let path = format!("{SERVICES}/a?dryRun=All");
    patch(&server, &path, STRATEGIC_PATCH, other.clone()).await.ok();
    create(&server, node_port("b", 30001)).await.fails(422);
    create(&server, node_port("b", 30002)).await.ok();
    let refused = patch(&server, &format!("{SERVICES}/a"), STRATEGIC_PATCH, other).await;
    assert!(refused.fails(422).contains("provided port is already allocated"));
    create(&server, node_port("c", 30001)).await.fails(422);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_while_a_webhook_is_asked_leaves_nothing_allocated() {
    let server = server();
    server.register_webhook("https://hook.example/", |_| std::future::pending());
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let hook = json!({
        "metadata": {"name": "slow"},
        "webhooks": [{
            "name": "slow.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30, "clientConfig": {"url": "https://hook.example/"},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["services"],
            }],
        }],
    });
    ask(&server, &format!("POST {hooks}"), hook).await.ok();
    let mut wanted = node_port("a", 30001);
    wanted["spec"]["clusterIP"] = "10.0.0.7".into();
    let asked = create(&server, wanted.clone());
    tokio::time::timeout(Duration::from_secs(1), asked).await.unwrap_err();
    ask(&server, &format!("DELETE {hooks}/slow"), Value::Null).await.ok();
    create(&server, wanted).await.ok();
}

#[tokio::test(start_paused = true)]
async fn addresses_and_ports_outside_of_their_ranges_are_refused_as_by_the_real_server() {
    let server = server();
    for ip in ["10.96.0.5", "10.0.0.0", "10.0.0.255"] {
        let outside = service("a", json!({"clusterIP": ip, "ports": [{"port": 80}]}));
        assert_eq!(
            create(&server, outside).await.fails(422),
            format!(
                "Service \"a\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to \
                 allocate IP {ip}: the provided network does not match the current range"
            )
        );
    }
    assert_eq!(
        create(&server, node_port("a", 29999)).await.fails(422),
        "Service \"a\" is invalid: spec.ports[0].nodePort: Invalid value: 29999: provided port is \
         not in the valid range. The range of valid ports is 30000-32767"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_port_is_one_number_for_all_protocols() {
    let server = server();
    let ports = json!([
        {"name": "a", "port": 53, "protocol": "TCP"}, {"name": "b", "port": 53, "protocol": "UDP"},
    ]);
    let made = create(&server, service("a", json!({"type": "NodePort", "ports": ports}))).await;
    let ports = made.ok()["spec"]["ports"].clone();
    assert_eq!(ports[0]["nodePort"], ports[1]["nodePort"]);
    let mut other = node_port("b", ports[0]["nodePort"].as_i64().unwrap());
    other["spec"]["ports"][0]["protocol"] = "UDP".into();
    create(&server, other).await.fails(422);
}

#[tokio::test(start_paused = true)]
async fn a_health_check_port_is_allocated_and_freed() {
    let server = server();
    let local = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}],
    });
    let made = create(&server, service("a", local)).await.ok();
    let port = made["spec"]["healthCheckNodePort"].as_i64().unwrap();
    create(&server, node_port("b", port)).await.fails(422);
    change(&server, "a", json!({"externalTrafficPolicy": "Cluster"})).await;
    create(&server, node_port("b", port)).await.ok();
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_allocated_is_reported_before_other_mistakes() {
    let server = server();
    let wrong = json!([{"port": 0}]);
    for (spec, why) in [
        (
            json!({"clusterIP": "1.2.3.4", "type": "Bad"}),
            "spec.clusterIPs: Invalid value: [\"1.2.3.4\"]: failed to allocate IP 1.2.3.4: the \
             provided network does not match the current range",
        ),
        (
            json!({"clusterIP": "10.0.0.1"}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: failed to allocate IP 10.0.0.1: \
             provided IP is already allocated",
        ),
        (
            json!({"clusterIP": "x"}),
            "spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 \
             or 2001:db8::ffff)",
        ),
        (
            json!({"clusterIP": "10.0.0.50", "clusterIPs": ["10.0.0.51"]}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.51\"]: first value must match `clusterIP`",
        ),
        (
            json!({"clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5", "10.0.0.6"]}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.5\",\"10.0.0.6\"]: may specify no more than \
             one IP for each IP family",
        ),
        (
            json!({"clusterIP": "None", "clusterIPs": ["None", "10.0.0.5"]}),
            "spec.clusterIPs: Invalid value: [\"None\",\"10.0.0.5\"]: 'None' must be the first and \
             only value",
        ),
        (
            json!({"clusterIP": "fd00::1"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this \
             cluster",
        ),
        (
            json!({"clusterIP": "fd00::1", "ipFamilies": ["IPv4"]}),
            "spec.clusterIPs[0]: Invalid value: \"fd00::1\": expected an IPv4 value as indicated by \
             `ipFamilies[0]`",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
    ] {
        let mut spec = spec;
        spec["ports"] = wrong.clone();
        let answer = create(&server, service("a", spec)).await;
        assert_eq!(answer.fails(422), format!("Service \"a\" is invalid: {why}"));
    }
    let ports = json!([{"port": 0, "nodePort": 5}]);
    let answer = create(&server, service("a", json!({"type": "NodePort", "ports": ports}))).await;
    assert_eq!(
        answer.fails(422),
        "Service \"a\" is invalid: spec.ports[0].nodePort: Invalid value: 5: provided port is not \
         in the valid range. The range of valid ports is 30000-32767"
    );
    // What a refused service was given is free again.
    let chosen = json!({"clusterIP": "10.0.0.9", "ports": wrong});
    create(&server, service("a", chosen)).await.fails(422);
    let chosen = json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]});
    create(&server, service("a", chosen)).await.ok();
}

#[tokio::test(start_paused = true)]
async fn an_update_does_not_allocate_another_address() {
    let server = server();
    create(&server, service("a", json!({"ports": [{"port": 80}]}))).await.ok();
    let other = json!({"spec": {"clusterIP": "1.2.3.4"}});
    assert_eq!(
        patch(&server, &format!("{SERVICES}/a"), MERGE_PATCH, other).await.fails(422),
        "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"1.2.3.4\"]: may not change \
         once set"
    );
}
