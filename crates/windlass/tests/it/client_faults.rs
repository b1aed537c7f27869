//! What goes wrong between the client and the server.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::client::Body;
use kube::core::DynamicObject;
use serde_json::json;
use windlass::{Client, Error, Kind, Manager};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::key;

/// A client whose requests get what `answer` makes of their address.
fn answering<F>(answer: F) -> Client
where
    F: Fn(String) -> (u16, String) + Send + Sync + 'static,
{
    Client::new(kube_answering(answer))
}

fn kube_answering<F>(answer: F) -> kube::Client
where
    F: Fn(String) -> (u16, String) + Send + Sync + 'static,
{
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body) = answer(request.uri().to_string());
        async move {
            let response = Response::builder().status(code).body(Body::from(body.into_bytes()));
            Ok::<_, Infallible>(response.expect("a response"))
        }
    });
    kube::Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_live_list_that_does_not_decode_is_named_counted_and_left_out() {
    let kube = kube_answering(|_| {
        let items = json!([
            {"metadata": {"name": "good", "namespace": "default"}},
            {"metadata": {"name": "bad", "namespace": "default"}, "data": "none"},
        ]);
        (200, json!({"kind": "ConfigMapList", "metadata": {}, "items": items}).to_string())
    });
    let handle = Manager::new(kube).spawn().expect("starts");
    let found = handle.client().api::<ConfigMap>().list().items().await.expect("the rest is kept");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].metadata.name.as_deref(), Some("good"));
    let text = handle.metrics();
    assert!(
        text.contains(r#"windlass_undecodable_objects_total{kind="ConfigMap.v1"} 1"#),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_of_nothing_may_say_null() {
    let client = answering(|_| (200, r#"{"metadata": {}, "items": null}"#.into()));
    assert!(client.api::<ConfigMap>().list().items().await.expect("listed").is_empty());
}

#[tokio::test(start_paused = true)]
async fn pages_that_expire_are_read_again_in_one_piece() {
    let item = |name: &str| json!({"metadata": {"name": name, "namespace": "default"}});
    let client = answering(move |uri| match (uri.contains("continue="), uri.contains("limit=")) {
        (true, _) => (410, json!({"kind": "Status", "status": "Failure", "code": 410}).to_string()),
        (false, true) => {
            let meta = json!({"continue": "t"});
            (200, json!({"metadata": meta, "items": [item("a")]}).to_string())
        }
        (false, false) => (200, json!({"items": [item("a"), item("b")]}).to_string()),
    });
    assert_eq!(client.api::<ConfigMap>().list().items().await.expect("listed").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_distinguished_from_a_missing_object() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let nope = client.api_of::<DynamicObject>(&Kind::new("example.com", "v1", "Nope", "nopes"));
    for error in [
        nope.get(&key("a")).await.expect_err("no kind"),
        nope.list().items().await.expect_err("no kind"),
        nope.delete(&key("a")).await.expect_err("no kind"),
    ] {
        assert!(matches!(error, Error::NoKind { .. }) && error.is_not_found(), "{error}");
        assert!(error.to_string().contains("does not serve Nope.example.com/v1"), "{error}");
    }
    assert!(client.api::<ConfigMap>().get(&key("a")).await.expect("only the object").is_none());
}

#[tokio::test(start_paused = true)]
async fn secrets_do_not_show_in_errors() {
    let client = answering(|_| {
        let body = json!({"metadata": {"name": "s"}, "data": "hunter2", "stringData": "hunter2"});
        (200, body.to_string())
    });
    let error = client.api::<Secret>().get(&key("s")).await.expect_err("does not decode");
    assert!(format!("{error:?}").contains("invalid type: string, expected"), "{error:?}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

fn definition() -> DynamicObject {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "carts.shop.io"},
        "spec": {
            "group": "shop.io", "scope": "Namespaced",
            "names": {"plural": "carts", "singular": "cart", "kind": "Cart", "listKind": "CartList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    }))
    .expect("a definition")
}

#[tokio::test(start_paused = true)]
async fn kinds_of_others_are_found_soon_after_they_appear_and_not_after_they_went() {
    let server = ApiServer::start();
    let (client, other) = (Client::new(server.client()), Client::new(server.client()));
    let definitions = Kind::new(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
    .cluster_scoped();
    let find = || client.kind_of("shop.io", "v1", "Cart");
    assert!(matches!(find().await.expect_err("not yet"), Error::NoKind { .. }));
    other.api_of::<DynamicObject>(&definitions).create(&definition()).await.expect("created");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let cart = find().await.expect("appeared");
    assert!(client.api_of::<DynamicObject>(&cart).list().items().await.expect("served").is_empty());
    let name = windlass::Key::cluster("carts.shop.io");
    other.api_of::<DynamicObject>(&definitions).delete(&name).await.expect("deleted");
    let mut tries = 0;
    while client.api_of::<DynamicObject>(&cart).list().items().await.is_ok() {
        tries += 1;
        assert!(tries < 50, "still served");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(matches!(find().await.expect_err("gone"), Error::NoKind { .. }));
}

#[tokio::test(start_paused = true)]
async fn many_who_miss_a_kind_at_once_ask_the_server_once() {
    let server = ApiServer::start();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    server.inject(Some(Box::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Fault { delay: Duration::from_millis(100), ..Fault::default() }
    })));
    let client = Client::new(server.client());
    let lookups = (0..50).map(|_| client.kind_of("nope.example.com", "v1", "Nope"));
    let found = futures::future::join_all(lookups).await;
    assert!(found.iter().all(Result::is_err));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn waits_without_end_are_no_overflow() {
    let server = ApiServer::start();
    let client = Client::new(server.client()).timeout(Duration::MAX);
    client.api().create(&crate::common::config_map("a", &[])).await.expect("created");
    windlass::wait::until("a", Duration::MAX, Duration::MAX, || async { Ok(true) })
        .await
        .expect("at once");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_hangs_does_not_hold_up_others() {
    let server = ApiServer::start();
    server.inject(Some(Box::new(|request| {
        let hangs = request.group == "apps" || request.path.contains("/apis/apps");
        let delay = if hangs { Duration::from_secs(3600) } else { Duration::ZERO };
        Fault { delay, ..Fault::default() }
    })));
    let client = Client::new(server.client());
    let hanging = client.kind_of("apps", "v1", "Deployment");
    let other = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.kind_of("batch", "v1", "Job").await
    };
    let (hung, found) = futures::future::join(hanging, async {
        tokio::time::timeout(Duration::from_secs(5), other).await
    })
    .await;
    assert!(matches!(hung.expect_err("given up"), Error::Timeout { .. }));
    assert!(found.expect("in time").expect("served").namespaced());
}
