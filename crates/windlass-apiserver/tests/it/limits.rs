//! What a request may cost: before it is known who sends it, in time, and in the size of its answer.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use windlass_apiserver::serve::Limits;

use crate::https::Listening;
use crate::support::*;

/// Sends the head of a request whose body never comes, and reads the first line of the answer.
async fn first_line(listening: &Listening, authorization: &str) -> String {
    let mut stream = TcpStream::connect(listening.address).await.unwrap();
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\n{authorization}content-length: 3000000\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    String::from_utf8_lossy(&start).into_owned()
}

#[tokio::test]
async fn a_stranger_is_refused_before_the_body_arrives() {
    let listening = Listening::start(false, Limits::default()).await;
    let wrong = first_line(&listening, "authorization: Bearer wrong\r\n").await;
    assert_eq!(wrong, "HTTP/1.1 401");
    let forbidden = first_line(&listening, "authorization: Bearer alice\r\n").await;
    assert_eq!(forbidden, "HTTP/1.1 403");
    listening.end().await;
}

#[tokio::test]
async fn a_large_object_is_written_over_a_connection() {
    let listening = Listening::start(false, Limits::default()).await;
    let body = map("big", &"x".repeat(200_000)).to_string();
    let mut stream = TcpStream::connect(listening.address).await.unwrap();
    let request = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{}", &answer[..answer.len().min(500)]);
    listening.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_without_time_is_answered_with_504() {
    let server = server();
    let list = ask(&server, &format!("GET {MAPS}?timeout=1ns"), json!(null)).await;
    let why = "Timeout: request did not complete within the allotted timeout";
    assert_eq!(list.fails(504), why);
    let create = ask(&server, &format!("POST {MAPS}?timeout=1ns"), map("a", "1")).await;
    let why = "Timeout: request did not complete within requested timeout - context deadline \
               exceeded";
    assert_eq!(create.fails(504), why);
    let wrong = ask(&server, &format!("GET {MAPS}?timeout=soon"), json!(null)).await;
    assert!(wrong.fails(400).starts_with("invalid timeout specified in the request URL"));
    ask(&server, &format!("GET {MAPS}?timeout=5s"), json!(null)).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_a_webhook_has_a_deadline() {
    let server = server();
    server.register_webhook("https://hook.example.com/", |_| std::future::pending());
    let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "slow"},
        "webhooks": [{"name": "slow.example.com", "sideEffects": "None", "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://hook.example.com/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE"]}]}]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    ask(&server, &format!("POST {path}"), hook).await.ok();
    let begin = Instant::now();
    let answer = ask(&server, &format!("POST {MAPS}?timeout=3s"), map("a", "1")).await;
    assert!(answer.fails(504).starts_with("Timeout: "));
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
    assert_eq!(ask(&server, &format!("GET {MAPS}/a"), json!(null)).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_very_many_errors_gets_a_bounded_answer() {
    let server = pod_server().await;
    let containers: Vec<_> = (0..20_000).map(|_| json!({})).collect();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    let answer = ask(&server, &format!("POST {PODS}"), pod).await;
    answer.fails(422);
    assert_eq!(answer.json()["details"]["causes"].as_array().unwrap().len(), 1_000);
    assert!(answer.bytes.len() < 1 << 20, "{}", answer.bytes.len());
}
