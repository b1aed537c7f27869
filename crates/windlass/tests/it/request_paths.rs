//! Whatever text ends up in a request, the request addresses what was asked for or is not sent.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::client::Body;
use kube::core::{DynamicObject, Expression};
use proptest::prelude::*;
use serde_json::json;
use windlass::cache::{Cache, Scope};
use windlass::client::Patch;
use windlass::{Client, Error, Key, Kind};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, key, secret};

/// Texts that must never become a segment of a path.
const HOSTILE: [&str; 8] = [
    "default/secrets/victim?x=",
    "default/secrets?x=",
    ".",
    "..",
    "a/b",
    "a%2Fb",
    "../../../api/v1/namespaces/default",
    "%2e%2e",
];

/// Answers every request with an empty object and keeps its URL.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    pub fn kube(&self) -> kube::Client {
        let urls = self.0.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            urls.lock().unwrap().push(request.uri().to_string());
            let answer = Response::builder()
                .status(StatusCode::OK)
                .header("content-type", "application/json")
                .body(Full::new(Bytes::from_static(b"{\"metadata\":{},\"items\":[]}")));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        kube::Client::new(service, "default")
    }

    pub fn client(&self) -> Client {
        Client::new(self.kube())
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn named(namespace: &str, name: &str) -> ConfigMap {
    let mut map = config_map(name, &[]);
    map.metadata.namespace = Some(namespace.into());
    map
}

/// Sends every kind of request about one object; returns how each one ended.
async fn every_verb(client: &Client, namespace: &str, name: &str) -> Vec<Result<(), Error>> {
    let (maps, at) = (client.api::<ConfigMap>(), Key::namespaced(namespace, name));
    let (patch, map) = (Patch::Merge(json!({})), named(namespace, name));
    let status = maps.subresource("status");
    vec![
        maps.get(&at).await.map(drop),
        maps.update(&map).await.map(drop),
        status.get(&at).await.map(drop),
        status.create(&map).await.map(drop),
        status.update(&map).await.map(drop),
        maps.patch(&at, &patch).await.map(drop),
        status.patch(&at, &patch).await.map(drop),
        maps.apply(&map).await.map(drop),
        status.apply(&map).await.map(drop),
        maps.delete(&at).await.map(drop),
    ]
}

fn assert_refused(results: Vec<Result<(), Error>>, what: &str) {
    for (at, result) in results.into_iter().enumerate() {
        let error = result.expect_err("refused");
        assert!(matches!(error, Error::Invalid(_)), "{what}, request {at}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_cannot_redirect_a_delete_to_another_kind() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&secret("victim")).await.expect("created");
    let evil = Key::namespaced("default/secrets/victim?x=", "a");
    let error = client.api::<ConfigMap>().delete(&evil).await.expect_err("refused");
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert!(error.to_string().contains("\"default/secrets/victim?x=\""), "{error}");
    assert!(client.api::<Secret>().get(&key("victim")).await.expect("read").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_cannot_redirect_the_deletion_of_a_collection() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    for name in ["a", "b", "c"] {
        client.api().create(&secret(name)).await.expect("created");
    }
    let evil = client.api::<ConfigMap>().list().namespace("default/secrets?x=");
    let error = evil.delete(None).await.expect_err("refused");
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    let left = client.api::<Secret>().list().namespace("default").items().await.expect("listed");
    assert_eq!(left.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn names_and_namespaces_that_are_no_path_segments_are_refused_by_every_verb() {
    let recorder = Recorder::default();
    let client = recorder.client();
    for text in HOSTILE {
        assert_refused(every_verb(&client, text, "a").await, text);
        assert_refused(every_verb(&client, "default", text).await, text);
        let list = client.api::<ConfigMap>().list().namespace(text);
        assert_refused(
            vec![
                client.api().create(&named(text, "a")).await.map(drop),
                list.items().await.map(drop),
                list.delete(None).await,
            ],
            text,
        );
    }
    assert_eq!(recorder.take(), [""; 0], "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn subresources_that_are_no_path_segments_are_refused() {
    let recorder = Recorder::default();
    let pods = recorder.client().api::<Pod>();
    let patch = Patch::Merge(json!({}));
    let pod = Pod { metadata: named("default", "a").metadata, ..Pod::default() };
    for text in HOSTILE.into_iter().chain(["", "status/../.."]) {
        assert_refused(
            vec![
                pods.subresource(text).get(&key("a")).await.map(drop),
                pods.subresource(text).create(&pod).await.map(drop),
                pods.subresource(text).update(&pod).await.map(drop),
                pods.subresource(text).patch(&key("a"), &patch).await.map(drop),
            ],
            text,
        );
    }
    assert_eq!(recorder.take(), [""; 0], "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn kinds_whose_parts_are_no_path_segments_are_refused() {
    let recorder = Recorder::default();
    let client = recorder.client();
    for text in HOSTILE.into_iter().chain(["a?b/c"]) {
        for kind in [
            Kind::new(text, "v1", "Drive", "drives"),
            Kind::new("example.com", text, "Drive", "drives"),
            Kind::new("example.com", "v1", "Drive", text),
        ] {
            let drives = client.api_of::<DynamicObject>(&kind);
            let mut drive = DynamicObject::new("a", &(&kind).into());
            drive.metadata.namespace = Some("default".into());
            assert_refused(
                vec![
                    drives.get(&key("a")).await.map(drop),
                    drives.list().items().await.map(drop),
                    drives.create(&drive).await.map(drop),
                    drives.delete(&key("a")).await.map(drop),
                ],
                text,
            );
        }
        assert_refused(
            vec![
                client.kind_of(text, "v1", "Drive").await.map(drop),
                client.kind_of("example.com", text, "Drive").await.map(drop),
                client.kind_of("", text, "Drive").await.map(drop),
            ],
            text,
        );
    }
    assert_eq!(recorder.take(), [""; 0], "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_something_that_is_no_path_segment_sends_nothing() {
    let recorder = Recorder::default();
    for text in HOSTILE {
        let cache = Cache::new(recorder.kube());
        let by_namespace = cache.informer::<ConfigMap>(&Scope::default().namespace(text));
        let kind = Kind::new("example.com", "v1", "Drive", text);
        let by_plural = cache.informer_of::<DynamicObject>(&kind, &Scope::default());
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        for state in [by_namespace.state(), by_plural.state()] {
            assert!(format!("{state:?}").contains("path segment"), "{text}: {state:?}");
        }
    }
    assert_eq!(recorder.take(), [""; 0], "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn selectors_are_escaped() {
    let recorder = Recorder::default();
    let all = recorder.client().api::<ConfigMap>().list();
    let name = Expression::Equal("metadata.name".into(), "x&watch=true?/%".into());
    all.labels([("a.b/c", "d")]).fields(name).items().await.expect("listed");
    assert_eq!(
        recorder.take(),
        ["/api/v1/configmaps?labelSelector=a.b%2Fc%3Dd\
          &fieldSelector=metadata.name%3Dx%26watch%5C%3Dtrue%3F%2F%25&limit=500"]
    );
}

pub fn decoded(segment: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), segment.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let hex = std::str::from_utf8(&tail[..2]).unwrap();
            bytes.push(u8::from_str_radix(hex, 16).unwrap());
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z.%/?#&=:+ ]{0,8}",
        any::<String>(),
        prop::sample::select(&HOSTILE[..]).prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn a_request_addresses_exactly_what_was_asked_for_or_is_not_sent(
        group in text(), version in text(), plural in text(),
        namespace in text(), name in text(), subresource in text(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let recorder = Recorder::default();
            let kind = Kind::new(&group, &version, "Drive", &plural);
            let key = Key::namespaced(&namespace, &name);
            let drives = recorder.client().api_of::<DynamicObject>(&kind);
            let sent = drives.subresource(&subresource).get(&key).await;
            let mut wanted = vec![String::new()];
            if group.is_empty() {
                wanted.push("api".into());
            } else {
                wanted.extend(["apis".into(), group.clone()]);
            }
            wanted.extend([version.clone(), "namespaces".into(), namespace.clone()]);
            wanted.extend([plural.clone(), name.clone(), subresource.clone()]);
            match recorder.take().as_slice() {
                [] => assert!(matches!(sent, Err(Error::Invalid(_))), "{sent:?}"),
                [url] => {
                    let path = url.split(['?', '#']).next().unwrap();
                    let found: Vec<String> = path.split('/').map(decoded).collect();
                    assert_eq!(found, wanted, "{url}");
                }
                more => panic!("{more:?}"),
            }
        });
    }
}
