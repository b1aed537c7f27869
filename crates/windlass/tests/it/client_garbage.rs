//! Answers no API server should give.

use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use windlass::{Client, Error};

use crate::common::{config_map, key};

/// A client whose every request gets this answer.
fn answering(code: u16, body: &'static str) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        let response = Response::builder().status(code).body(Body::from(body.as_bytes().to_vec()));
        Ok::<_, std::convert::Infallible>(response.expect("a response"))
    });
    Client::new(kube::Client::new(service, "default"))
}

#[tokio::test(start_paused = true)]
async fn garbage_and_half_answers_are_errors_that_name_the_object() {
    for body in ["", "{", "<html>", "[]", r#"{"metadata": {"name": 7}}"#, "\u{0}"] {
        let client = answering(200, body);
        let error = client.api::<ConfigMap>().get(&key("a")).await.expect_err(body);
        assert_eq!(error.to_string(), "ConfigMap.v1 default/a does not fit the Rust type");
        client.api::<ConfigMap>().list().items().await.expect_err(body);
        client.api().create(&config_map("a", &[])).await.expect_err(body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_without_a_status_still_says_what_happened() {
    let client = answering(502, "bad gateway");
    let error = client.api::<ConfigMap>().get(&key("a")).await.expect_err("fails");
    assert_eq!(error.to_string(), "get ConfigMap default/a: bad gateway (502 InternalError)");
    let error = answering(409, "{}").api().update(&config_map("a", &[])).await.expect_err("fails");
    assert!(error.is_conflict(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_after_the_time_it_names() {
    let tries = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = tries.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let first = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        async move {
            let answer = if first {
                Response::builder().status(429).header("retry-after", "3").body(Body::empty())
            } else {
                let body = r#"{"metadata": {"name": "a", "namespace": "default"}}"#;
                let response = Response::builder().header("warning", r#"299 - "it is old""#);
                response.body(Body::from(body.as_bytes().to_vec()))
            };
            Ok::<_, std::convert::Infallible>(answer.expect("a response"))
        }
    });
    let client = Client::new(kube::Client::new(service, "default"));
    let began = tokio::time::Instant::now();
    assert!(client.api::<ConfigMap>().get(&key("a")).await.expect("answered").is_some());
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    assert_eq!(tries.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_pages_do_not_end_is_given_up() {
    let turning = answering(200, r#"{"metadata": {"continue": "t"}, "items": []}"#);
    let error = turning.api::<ConfigMap>().list().items().await.expect_err("gives up");
    assert_eq!(
        format!("{error:?}"),
        "list of ConfigMap.v1 does not fit the Rust type: the server sends pages without end"
    );

    let pages = std::sync::atomic::AtomicUsize::new(0);
    let service = tower::service_fn(move |_: Request<Body>| {
        let page = pages.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let body = format!(r#"{{"metadata": {{"continue": "t{page}"}}, "items": []}}"#);
        async move { Ok::<_, std::convert::Infallible>(Response::new(Body::from(body.into_bytes()))) }
    });
    let client = Client::new(kube::Client::new(service, "default"));
    client.api::<ConfigMap>().list().items().await.expect_err("gives up");
}

#[tokio::test(start_paused = true)]
async fn everyone_who_asks_for_a_kind_waits_no_longer_than_its_own_deadline() {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
    });
    let client = Client::new(kube::Client::new(service, "default"));
    let began = tokio::time::Instant::now();
    let ask = |seconds| {
        let client = client.timeout(Duration::from_secs(seconds));
        async move {
            let error = client.kind_of("", "v1", "Pod").await.expect_err("nobody answers");
            assert!(matches!(error, Error::Timeout { .. }), "{error}");
            began.elapsed().as_secs()
        }
    };
    let took = tokio::join!(ask(60), ask(3), ask(60), ask(10));
    assert_eq!(took, (60, 3, 60, 10));
}
