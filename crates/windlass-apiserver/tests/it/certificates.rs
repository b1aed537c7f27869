//! Certificate signing requests: what may be asked for, and who may approve and sign.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::support::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn params(name: &str, groups: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    params
}

/// A request for a certificate, as the API takes it.
pub fn request(name: &str, groups: &[&str]) -> String {
    let key = KeyPair::generate().unwrap();
    STANDARD.encode(params(name, groups).serialize_request(&key).unwrap().pem().unwrap())
}

fn certificate() -> String {
    let key = KeyPair::generate().unwrap();
    params("alice", &[]).self_signed(&key).unwrap().pem()
}

fn body(signer: &str, request: &str) -> Value {
    json!({
        "metadata": {"name": "r"},
        "spec": {"request": request, "signerName": signer, "usages": ["client auth"]},
    })
}

/// Lets alice do something, as an addition to what she may do already.
async fn allow(server: &ApiServer, name: &str, rules: Value) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": name}, "rules": rules});
    ask(server, &format!("POST {rbac}/clusterroles"), role).await.ok();
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    ask(server, &format!("POST {rbac}/clusterrolebindings"), binding).await.ok();
}

/// Lets alice write all parts of requests.
async fn writer() -> ApiServer {
    let server = server();
    let parts =
        ["", "/approval", "/status"].map(|part| format!("certificatesigningrequests{part}"));
    let rules = json!([{
        "apiGroups": ["certificates.k8s.io"], "resources": parts, "verbs": ["*"],
    }]);
    allow(&server, "writer", rules).await;
    server
}

/// Lets alice use a verb on a signer.
async fn allow_signer(server: &ApiServer, verb: &str, signer: &str) {
    let rules = json!([{
        "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "resourceNames": [signer], "verbs": [verb],
    }]);
    allow(server, &format!("{verb}-signer"), rules).await;
}

async fn put_part(server: &ApiServer, part: &str, status: Value) -> Answer {
    let mut stored = ask(server, &format!("GET {REQUESTS}/r"), Value::Null).await.ok();
    stored["status"] = status;
    ask_as(server, "alice", &format!("PUT {REQUESTS}/r/{part}"), stored).await
}

fn approved() -> Value {
    json!({"conditions": [{"type": "Approved", "status": "True"}]})
}

#[tokio::test(start_paused = true)]
async fn nobody_asks_for_a_client_certificate_of_the_masters() {
    let server = server();
    let masters = request("eve", &["dev", "system:masters"]);
    let create = format!("POST {REQUESTS}");
    assert_eq!(
        ask(&server, &create, body(CLIENT_SIGNER, &masters)).await.fails(403),
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of \
         kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    );
    ask(&server, &create, body("example.com/other", &masters)).await.ok();
}

#[tokio::test(start_paused = true)]
async fn approval_needs_the_right_to_approve_for_the_signer() {
    let server = writer().await;
    let create = format!("POST {REQUESTS}");
    ask(&server, &create, body(CLIENT_SIGNER, &request("alice", &[]))).await.ok();
    assert_eq!(
        put_part(&server, "approval", approved()).await.fails(403),
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to \
         approve requests with signerName \"kubernetes.io/kube-apiserver-client\""
    );
    allow_signer(&server, "approve", CLIENT_SIGNER).await;
    put_part(&server, "approval", approved()).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_right_to_all_signers_of_a_domain_is_enough() {
    let server = writer().await;
    let create = format!("POST {REQUESTS}");
    ask(&server, &create, body("example.com/own", &request("alice", &[]))).await.ok();
    allow_signer(&server, "approve", "example.com/*").await;
    put_part(&server, "approval", approved()).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_certificate_needs_the_right_to_sign_and_is_one() {
    let server = writer().await;
    let create = format!("POST {REQUESTS}");
    ask(&server, &create, body(CLIENT_SIGNER, &request("alice", &[]))).await.ok();
    let signed = |pem: &str| json!({"certificate": STANDARD.encode(pem)});
    let good = certificate();
    assert_eq!(
        put_part(&server, "status", signed(&good)).await.fails(403),
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to \
         sign requests with signerName \"kubernetes.io/kube-apiserver-client\""
    );
    // Without a change of certificate and conditions there is nothing to sign.
    put_part(&server, "status", json!({})).await.ok();
    allow_signer(&server, "sign", CLIENT_SIGNER).await;
    let bad = [
        ("nothing", "must contain at least one CERTIFICATE PEM block"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "x509: malformed certificate",
        ),
        (
            "-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n",
            "only CERTIFICATE PEM blocks are allowed, found \"KEY\"",
        ),
        (
            "-----BEGIN CERTIFICATE-----\na: b\n\nAAAA\n-----END CERTIFICATE-----\n",
            "no PEM block headers are permitted",
        ),
        (
            "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
            "found CERTIFICATE PEM block containing 0 certificates",
        ),
    ];
    for (pem, why) in bad {
        assert_eq!(
            put_part(&server, "status", signed(pem)).await.fails(422),
            format!(
                "CertificateSigningRequest.certificates.k8s.io \"r\" is invalid: \
                 status.certificate: Invalid value: \"<certificate data>\": {why}"
            )
        );
    }
    put_part(&server, "status", signed(&format!("{good}{}", certificate()))).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_one_is_refused() {
    let server = server();
    let pem = |kind: &str| {
        STANDARD.encode(format!("-----BEGIN {kind}-----\nAA==\n-----END {kind}-----\n"))
    };
    let create = format!("POST {REQUESTS}");
    let other = ask(&server, &create, body("example.com/own", &pem("CERTIFICATE"))).await;
    assert!(other.fails(422).contains("PEM block type must be CERTIFICATE REQUEST"));
    let broken = ask(&server, &create, body("example.com/own", &pem("CERTIFICATE REQUEST"))).await;
    assert!(broken.fails(422).contains("asn1: structure error"));
}
