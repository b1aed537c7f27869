//! How the server reaches webhooks: services, certificates, and paths of URLs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, pki};

use crate::tools::*;

const SERVICES: &str = "/api/v1/namespaces/ops/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/ops/endpointslices";

/// A server with the webhook `v` behind the service `ops/hook`, and the number of its calls.
async fn server_with_hook() -> (ApiServer, std::net::SocketAddr, Arc<AtomicUsize>) {
    let server = server();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let (address, ca) = webhook("hook.ops.svc", move |review: Value| {
        counted.fetch_add(1, Ordering::Relaxed);
        answer(&review, json!({"allowed": true})).to_string().into_bytes()
    })
    .await;
    made(&server, "/api/v1/namespaces", json!({"metadata": {"name": "ops"}})).await;
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    made(&server, SERVICES, service).await;
    let config = json!({"service": {"namespace": "ops", "name": "hook"}, "caBundle": ca});
    configure(&server, false, "v", config, json!({"timeoutSeconds": 1})).await;
    (server, address, calls)
}

/// A slice with an address that no machine has (RFC 5737).
fn slice(port: u16, mut endpoint: Value) -> Value {
    endpoint["addresses"] = json!(["192.0.2.1"]);
    json!({"metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": port}], "endpoints": [endpoint]})
}

async fn create_node(server: &ApiServer, name: &str, annotations: Value) {
    let node = json!({"metadata": {"name": name, "annotations": annotations}});
    made(server, "/api/v1/nodes", node).await;
}

#[tokio::test]
async fn a_pod_of_a_simulated_node_is_never_dialled() {
    let (server, address, calls) = server_with_hook().await;
    create_node(&server, "node-1", json!({"windlass.dev/simulated": "true"})).await;
    made(&server, SLICES, slice(address.port(), json!({"nodeName": "node-1"}))).await;
    let refused = post(&server, MAPS, config_map("a")).await;
    assert_eq!(refused.code, 500);
    assert_eq!(
        refused.message(),
        "Internal error occurred: failed calling webhook \"v.example.com\": failed to call webhook: Post \"https://hook.ops.svc:443/?timeout=1s\": service \"hook\" is simulated: its pods run on no machine; register a route for the service ops/hook"
    );
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    server.route_service("ops", "hook", address);
    assert_eq!(post(&server, MAPS, config_map("a")).await.code, 201);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_endpoint_that_names_a_pod_is_dialled_only_if_the_pod_has_a_real_node() {
    let (server, address, calls) = server_with_hook().await;
    create_node(&server, "real", json!({})).await;
    create_node(&server, "node-1", json!({"windlass.dev/simulated": "true"})).await;
    let target = json!({"targetRef": {"kind": "Pod", "namespace": "default", "name": "p"}});
    made(&server, SLICES, slice(address.port(), target)).await;
    let refused = post(&server, MAPS, config_map("a")).await;
    assert!(refused.message().contains("service \"hook\" is simulated"), "{refused:?}");
    made(
        &server,
        "/api/v1/namespaces/default/serviceaccounts",
        json!({"metadata": {"name": "default"}}),
    )
    .await;
    for (node, is_simulated) in [("node-1", true), ("real", false)] {
        let mut pod = pod("p");
        pod["spec"]["nodeName"] = node.into();
        made(&server, PODS, pod).await;
        let answer = post(&server, MAPS, config_map("a")).await;
        assert_eq!(answer.code, 500, "{node}: {answer:?}");
        assert_eq!(answer.message().contains("is simulated"), is_simulated, "{node}: {answer:?}");
        send(&server, "DELETE", &format!("{PODS}/p?gracePeriodSeconds=0"), Value::Null).await;
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_address_that_was_written_by_hand_is_dialled() {
    let (server, address, calls) = server_with_hook().await;
    made(&server, SLICES, slice(address.port(), json!({}))).await;
    let failed = post(&server, MAPS, config_map("a")).await;
    assert_eq!(failed.code, 500, "nobody answers there");
    assert!(!failed.message().contains("is simulated"), "{failed:?}");
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn old_endpoints_of_simulated_pods_are_not_dialled() {
    let (server, address, calls) = server_with_hook().await;
    create_node(&server, "node-1", json!({"windlass.dev/simulated": "true"})).await;
    let endpoints = json!({"metadata": {"name": "hook"}, "subsets": [{
        "addresses": [{"ip": "10.244.0.1", "nodeName": "node-1"}],
        "ports": [{"port": address.port()}]}]});
    made(&server, "/api/v1/namespaces/ops/endpoints", endpoints).await;
    let refused = post(&server, MAPS, config_map("a")).await;
    assert!(refused.message().contains("service \"hook\" is simulated"), "{refused:?}");
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

/// Serves a webhook that allows everything with this certificate; returns its address.
async fn serve_with(identity: &pki::Identity) -> std::net::SocketAddr {
    webhook_with(identity, |review: Value| {
        answer(&review, json!({"allowed": true})).to_string().into_bytes()
    })
    .await
}

/// The answer to a write while a webhook at this address is configured with a `caBundle`.
async fn call_with_bundle(address: std::net::SocketAddr, host: &str, bundle: &str) -> Answer {
    let server = server();
    let url = format!("https://{host}:{}/x", address.port());
    let config = json!({"url": url, "caBundle": STANDARD.encode(bundle)});
    configure(&server, false, "v", config, json!({})).await;
    post(&server, MAPS, config_map("a")).await
}

#[tokio::test]
async fn a_self_signed_ca_certificate_serves_and_is_its_own_bundle() {
    let identity = self_signed(&["127.0.0.1", "localhost"], true, 1);
    let address = serve_with(&identity).await;
    let allowed = call_with_bundle(address, "127.0.0.1", &identity.certificate).await;
    assert_eq!(allowed.code, 201, "{allowed:?}");
}

#[tokio::test]
async fn a_bundle_with_the_leaf_certificate_is_enough() {
    let ca = pki::Ca::generate("webhook", jiff::Timestamp::now()).unwrap();
    let serving = ca.serving(&["127.0.0.1".to_owned()]).unwrap();
    let address = serve_with(&serving).await;
    let allowed = call_with_bundle(address, "127.0.0.1", &serving.certificate).await;
    assert_eq!(allowed.code, 201, "{allowed:?}");
}

#[tokio::test]
async fn a_certificate_of_the_bundle_still_needs_the_name_the_time_and_the_usage() {
    let verify = "tls: failed to verify certificate: x509: ";
    let other_name = self_signed(&["other.example.com"], true, 1);
    let expired = self_signed(&["127.0.0.1"], true, -1);
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let client = pki::Identity { certificate, key: key.serialize_pem() };
    for (identity, why) in [
        (
            other_name,
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (expired, "certificate has expired or is not yet valid"),
        (client, "certificate specifies an incompatible key usage"),
    ] {
        let address = serve_with(&identity).await;
        let refused = call_with_bundle(address, "127.0.0.1", &identity.certificate).await;
        assert_eq!(refused.code, 500);
        assert!(refused.message().contains(&format!("{verify}{why}")), "{refused:?}");
    }
}

#[tokio::test]
async fn a_self_signed_certificate_outside_of_the_bundle_is_refused() {
    let served = self_signed(&["127.0.0.1"], true, 1);
    let other = self_signed(&["127.0.0.1"], true, 1);
    let address = serve_with(&served).await;
    for bundle in [other.certificate.as_str(), ""] {
        let refused = call_with_bundle(address, "127.0.0.1", bundle).await;
        assert!(
            refused.message().contains("x509: certificate signed by unknown authority"),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn the_path_of_a_url_is_cleaned_before_the_call() {
    for (path, wanted) in
        [("//mutate", "/mutate"), ("/a/../b/", "/b"), ("", "/"), ("/a//./b", "/a/b")]
    {
        let server = server();
        server
            .register_webhook(&format!("https://hook.example.com{wanted}"), |review| async move {
                answer(&review, json!({"allowed": false}))
            });
        let config = json!({"url": format!("https://hook.example.com{path}")});
        configure(&server, false, "v", config, json!({})).await;
        let refused = post(&server, MAPS, config_map("a")).await;
        assert_eq!(refused.code, 400, "{path}: {refused:?}");
    }
    let server = server();
    let config = json!({"url": "https://hook.invalid//path"});
    configure(&server, false, "v", config, json!({})).await;
    let refused = post(&server, MAPS, config_map("a")).await;
    assert!(
        refused.message().contains("Post \"https://hook.invalid/path?timeout=10s\""),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_webhook_that_asks_for_it_is_called_again() {
    // How often it refuses, with which status, and whether it says when to come again.
    for (refusals, code, says_when, answered, called) in [
        (2, 429, true, 201, 3),
        (2, 503, true, 201, 3),
        (1, 429, false, 500, 1),
        (1, 400, true, 500, 1),
        (usize::MAX, 500, true, 500, 11),
    ] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let identity = self_signed(&["127.0.0.1"], true, 1);
        let address = webhook_responding(&identity, move |review: Value| {
            let body = answer(&review, json!({"allowed": true})).to_string();
            let mut response = http::Response::new(body.into());
            if counted.fetch_add(1, Ordering::Relaxed) < refusals {
                *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
                if says_when {
                    response.headers_mut().insert("retry-after", "0".parse().unwrap());
                }
            }
            response
        })
        .await;
        let outcome = call_with_bundle(address, "127.0.0.1", &identity.certificate).await;
        assert_eq!(outcome.code, answered, "{refusals} times {code}: {outcome:?}");
        assert_eq!(calls.load(Ordering::Relaxed), called, "{refusals} times {code}");
    }
}

#[tokio::test]
async fn an_answer_of_ten_megabytes_is_a_failed_call_wherever_it_comes_from() {
    let long = "x".repeat(10 << 20);
    for (policy, code) in [("Fail", 500), ("Ignore", 201)] {
        for mutating in [true, false] {
            let server = server();
            let text = long.clone();
            server.register_webhook("https://hook.example.com/path", move |review| {
                let answer = answer(&review, json!({"allowed": true, "warnings": [text]}));
                async move { answer }
            });
            let config = json!({"url": "https://hook.example.com/path"});
            configure(&server, mutating, "v", config, json!({"failurePolicy": policy})).await;
            let outcome = post(&server, MAPS, config_map("a")).await;
            assert_eq!(outcome.code, code, "{policy} {mutating}");
            let named = outcome.message().contains("the answer has more than 8388608 bytes");
            assert_eq!(named, code == 500, "{policy} {mutating}: {outcome:?}");
        }
    }
}
