//! Faults between the requests of a running operator and the API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Error, Manager};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, eventually, key, metric, secret};
use crate::proxy::{Log, Meddle, Proxy};

fn answer(code: u16, media: &'static str, body: &str) -> Meddle {
    Meddle::Answer(code, media, body.as_bytes().to_vec())
}

/// Every way in which a request can fail: what happens, a part of the error, the `code` it counts.
fn faults() -> [(Meddle, &'static str, &'static str); 8] {
    [
        (Meddle::Away, "connection refused", "<error>"),
        (Meddle::Hang, "no answer within", "<error>"),
        (answer(500, "text/plain", "etcd is away"), "etcd is away (500 InternalError)", "500"),
        (answer(429, "text/plain", "too many"), "too many (429 TooManyRequests)", "429"),
        (answer(401, "text/plain", "who?"), "who? (401 Unauthorized)", "401"),
        (answer(403, "text/plain", "not you"), "not you (403 Forbidden)", "403"),
        (answer(200, "text/html", "<html>"), "got text/html instead of JSON", "200"),
        (answer(200, "application/json", "{\"meta"), "does not fit the Rust type", "200"),
    ]
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_a_request_is_an_error_that_says_what_and_is_counted() {
    let server = ApiServer::start();
    for (meddle, says, code) in faults() {
        let proxy = Proxy::new(&server);
        let handle = Manager::new(proxy.client()).spawn().expect("starts");
        let client = handle.client();
        proxy.meddle(move |_| Some(meddle.clone()));
        let mut errors: Vec<Error> = Vec::new();
        errors.push(client.api::<ConfigMap>().get(&key("a")).await.expect_err(says));
        errors.push(client.api::<ConfigMap>().list().items().await.expect_err(says));
        errors.push(client.api().create(&config_map("a", &[])).await.expect_err(says));
        for error in errors {
            assert!(format!("{error:?}").contains(says), "{says}: {error:?}");
            let named = format!("{error:?}").to_lowercase().contains("configmap");
            assert!(named, "{says}: {error:?}");
        }
        let found = client.kind_of("shop.io", "v1", "Cart").await.expect_err(says);
        assert!(!matches!(found, Error::NoKind { .. }), "{says}: nobody said so: {found:?}",);
        let text = handle.metrics();
        for method in ["GET", "POST"] {
            let series = format!(r#"rest_client_requests_total{{code="{code}",method="{method}""#);
            assert!(text.contains(&series), "{says}: no {series} in\n{text}");
        }
        proxy.heal();
        client.kind_of("apps", "v1", "Deployment").await.expect(says);
        assert!(client.api::<ConfigMap>().get(&key("a")).await.expect(says).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_every_write_is_tried_until_it_takes_them() {
    for (meddle, says, _) in faults() {
        let (log, _guard) = Log::start();
        let server = ApiServer::start();
        let (proxy, tries) = (Proxy::new(&server), Arc::new(AtomicUsize::new(0)));
        let count = tries.clone();
        let reconcile = move |cx: Context<ConfigMap>| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                cx.apply(&secret(cx.name())).await?;
                Ok(Next::Done)
            }
        };
        let controller = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(reconcile);
        let handle = Manager::new(proxy.client())
            .namespaces(["default"])
            .add(controller)
            .spawn()
            .expect("starts");
        assert!(handle.ready().await, "{says}");
        proxy.meddle(move |request| (request.method() != Method::GET).then(|| meddle.clone()));
        let others = Client::new(server.client());
        others.api().create(&config_map("a", &[])).await.expect("created");
        tokio::time::sleep(Duration::from_secs(300)).await;
        let failed = metric(&handle, "controller_runtime_reconcile_errors_total");
        assert!(failed >= 2.0, "{says}: {failed}");
        let logged = log.lines(&["Reconciler error", "default", says.split(" (").next().unwrap()]);
        assert!((2..=40).contains(&logged.len()), "{says}: {} lines", logged.len());
        let queue = &handle.diagnostics()["controllers"][0];
        assert!(queue["reconciles"]["errors"].as_u64() >= Some(2), "{says}: {queue}");
        assert!(handle.readyz().await.is_ok(), "{says}: its caches are well");
        proxy.heal();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(others.api::<Secret>().get(&key("a")).await.expect("read").is_some(), "{says}");
        assert_eq!(handle.diagnostics()["controllers"][0]["queue"]["waiting"], 0, "{says}");
        handle.stop().await.expect("stops");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_events_are_logged_and_counted_and_delay_nothing() {
    let (log, _guard) = Log::start();
    let server = ApiServer::start();
    let (proxy, runs) = (Proxy::new(&server), Arc::new(AtomicUsize::new(0)));
    proxy.meddle(|request| {
        request.uri().path().contains("/events").then(|| answer(500, "text/plain", "no room"))
    });
    let count = runs.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            cx.event("Seen", "it is there");
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
    let handle = Manager::new(proxy.client())
        .namespaces(["default"])
        .add(controller)
        .spawn()
        .expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("a run", || runs.load(Ordering::SeqCst) == 1).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(metric(&handle, r#"windlass_events_dropped_total{reason="refused"}"#), 1.0);
    let logged = log.lines(&["event not published", "it is there", "no room"]);
    assert_eq!(logged.len(), 1, "{logged:#?}");
    handle.stop().await.expect("stops");
}
