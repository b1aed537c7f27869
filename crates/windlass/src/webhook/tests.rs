//! Requests over HTTP, without a connection.

use ::http::{Request as HttpRequest, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;

use super::*;

mod hostile;

const PATH: &str = "/validate--v1-configmap";

fn review() -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "7", "operation": "CREATE", "object": object}})
}

fn accepting() -> Webhooks {
    Webhooks::new().add(Webhook::<ConfigMap>::new().validate(|_| async { Ok(Findings::new()) }))
}

fn request(path: &str, body: impl Into<Bytes>) -> HttpRequest<Full<Bytes>> {
    let request = HttpRequest::post(path).header(header::CONTENT_TYPE, "application/json");
    request.body(Full::new(body.into())).expect("a request")
}

async fn post(webhooks: &Webhooks, request: HttpRequest<Full<Bytes>>) -> (StatusCode, Value) {
    let response = webhooks.serve(request).await;
    let status = response.status();
    let body = response.into_body().collect().await.expect("no errors").to_bytes();
    (status, serde_json::from_slice(&body).expect("JSON"))
}

#[tokio::test(start_paused = true)]
async fn a_review_is_answered_and_everything_else_is_refused() {
    let webhooks = accepting();
    let (status, answer) = post(&webhooks, request(PATH, review().to_string())).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["response"], json!({"uid": "7", "allowed": true}));

    let mut get = request(PATH, "");
    *get.method_mut() = ::http::Method::GET;
    let mut text = request(PATH, review().to_string());
    text.headers_mut().insert(header::CONTENT_TYPE, "text/plain".parse().expect("valid"));
    for (request, code) in [
        (request("/nowhere", "{}"), 404),
        (get, 405),
        (text, 415),
        (request(PATH, vec![b' '; (7 << 20) + 1]), 413),
        (request(PATH, ""), 400),
        (request(PATH, "{\"kind\": "), 400),
        (request(PATH, "[".repeat(100_000)), 400),
    ] {
        let (status, answer) = post(&webhooks, request).await;
        assert_eq!((status.as_u16(), &answer["code"]), (code, &json!(code)), "{answer}");
        assert_eq!(answer["kind"], "Status");
    }
}

#[tokio::test(start_paused = true)]
async fn one_call_too_many_is_asked_to_come_again() {
    let webhooks =
        Webhooks::new().add(Webhook::<ConfigMap>::new().validate(|_| std::future::pending()));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..256 {
        let webhooks = webhooks.clone();
        running.spawn(async move { post(&webhooks, request(PATH, review().to_string())).await });
    }
    // All of them begin before time moves on.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    let response = webhooks.serve(request(PATH, review().to_string())).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    // The deadline of the others makes room.
    while running.join_next().await.is_some() {}
    let fast = request(&format!("{PATH}?timeout=1s"), review().to_string());
    let start = tokio::time::Instant::now();
    let (_, answer) = post(&webhooks, fast).await;
    assert_eq!(start.elapsed().as_secs(), 1);
    let text = "webhook validate.configmap.core: no answer within 1 s";
    assert_eq!(answer["response"]["status"]["message"], text);
}

#[tokio::test(start_paused = true)]
async fn large_requests_that_arrive_slowly_do_not_fill_the_memory() {
    type Frame = std::result::Result<http_body::Frame<Bytes>, std::convert::Infallible>;
    let slow = || {
        let body = http_body_util::StreamBody::new(futures::stream::pending::<Frame>());
        let request = HttpRequest::post("/convert").header("content-type", "application/json");
        request.body(body).expect("valid")
    };
    let webhooks = accepting().convert(|review| review);
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let mut call = Box::pin(webhooks.serve(slow()));
        assert!(futures::poll!(&mut call).is_pending());
        waiting.push(call);
    }
    let refused = webhooks.serve(slow()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    for call in waiting {
        assert_eq!(call.await.status(), StatusCode::REQUEST_TIMEOUT);
    }
    let (status, _) = post(&webhooks, request(PATH, review().to_string())).await;
    assert_eq!(status, StatusCode::OK, "there is room again");
}

#[tokio::test(start_paused = true)]
async fn a_raw_handler_can_neither_lie_about_the_uid_nor_answer_without_bounds() {
    let entry = |path: &str| {
        let name = format!("{}.raw.example.com", path.trim_start_matches('/'));
        model::Webhook::new(true, &name, path)
    };
    let raw = |path: &str, answer: Value| {
        Webhook::raw(entry(path), move |_| {
            let answer = answer.clone();
            async move { Ok(answer) }
        })
    };
    let webhooks = Webhooks::new()
        .add(raw("/lies", json!({"uid": "8", "allowed": true})))
        .add(raw("/junk", json!(["what"])))
        .add(raw("/large", json!({"allowed": true, "patch": "x".repeat(10_000_000)})));
    let call = async |path: &str| post(&webhooks, request(path, review().to_string())).await;
    assert_eq!(call("/lies").await.1["response"]["uid"], "7");
    let (_, junk) = call("/junk").await;
    assert_eq!(junk["response"]["status"]["code"], 500);
    assert_eq!(junk["response"]["uid"], "7");
    let (status, large) = call("/large").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(large["message"], "the answer of the webhook has more than 7340032 bytes");
}

#[tokio::test(start_paused = true)]
async fn conversions_are_served_and_their_panics_contained() {
    let webhooks = Webhooks::new().convert(|review| {
        assert!(review["request"]["objects"] != json!(["bomb"]), "on purpose");
        json!({"response": review["request"]["uid"]})
    });
    assert_eq!(webhooks.paths().collect::<Vec<_>>(), ["/convert"]);
    let review = |object: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "7", "objects": [object]}})
    };
    let call = async |review: Value| post(&webhooks, request("/convert", review.to_string())).await;
    assert_eq!(call(review("egg")).await, (StatusCode::OK, json!({"response": "7"})));
    let (status, failed) = call(review("bomb")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(failed["response"]["result"]["status"], "Failure");
    assert_eq!(
        (&failed["response"]["uid"], &failed["kind"]),
        (&json!("7"), &json!("ConversionReview"))
    );
    assert_eq!(call(json!({"kind": "ConversionReview"})).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_conversion_that_hangs_harms_its_own_request_only() {
    let (release, hang) = std::sync::mpsc::channel::<()>();
    let hang = parking_lot::Mutex::new(hang);
    let webhooks = accepting().convert(move |review| {
        let _ = hang.lock().recv();
        review
    });
    let conversion = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "7", "objects": []}});
    let mut call = Box::pin(post(&webhooks, request("/convert", conversion.to_string())));
    assert!(futures::poll!(&mut call).is_pending(), "it runs on a thread of its own");
    let (status, _) = post(&webhooks, request(PATH, review().to_string())).await;
    assert_eq!(status, StatusCode::OK, "others are answered");
    tokio::time::advance(std::time::Duration::from_secs(29)).await;
    assert!(futures::poll!(&mut call).is_pending());
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    let (status, failed) = call.await;
    assert_eq!(status, StatusCode::OK);
    let result = json!({"status": "Failure",
        "message": "the conversion did not answer within 30 s"});
    assert_eq!((&failed["response"]["uid"], &failed["response"]["result"]), (&json!("7"), &result));
    drop(release);
}

#[test]
fn names_and_paths_are_those_of_controller_runtime() {
    let webhook = Webhook::<Scale>::new().validate(|_| async { Ok(Findings::new()) });
    let entry = &webhook.into_served()[0].entry;
    assert_eq!(entry.path, "/validate-autoscaling-v1-scale");
    assert_eq!(entry.entry.name, "validate.scale.autoscaling");
    let mutating = super::entry::<ConfigMap>(true);
    assert_eq!(mutating.path, "/mutate--v1-configmap");
    assert!(!mutating.everywhere, "a built-in kind");
    let namespaces = super::entry::<Namespace>(false);
    let rules = namespaces.entry.rules.expect("has rules");
    assert_eq!(rules[0].scope.as_deref(), Some("Cluster"));
    assert!(is_builtin("apps") && is_builtin("batch") && is_builtin("policy.k8s.io"));
    assert!(!is_builtin("cache.example.com"));
}
