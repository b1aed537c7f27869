//! Every verb of the client against the embedded server.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{DynamicObject, Expression, PartialObjectMeta};
use serde_json::json;
use windlass::client::{Deleted, Deletion, Patch};
use windlass::{Client, Kind, List, Manager, ResultExt};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, key};

#[tokio::test(start_paused = true)]
async fn verbs_of_the_client_do_what_they_say() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let made = client.api().create(&config_map("a", &[("k", "1")])).await.expect("created");
    let again = client.api().create(&config_map("a", &[])).await;
    assert!(again.ignore_already_exists().expect("no other error").is_none());

    let stale = made.clone();
    let mut next = made;
    next.data.get_or_insert_default().insert("k".into(), "2".into());
    let next = client.api().update(&next).await.expect("updated");
    let mut late = stale;
    late.data.get_or_insert_default().insert("k".into(), "3".into());
    let conflict = client.api().update(&late).await.expect_err("somebody was faster");
    assert!(conflict.is_conflict(), "{conflict}");

    let merged: ConfigMap = client
        .api()
        .patch(&key("a"), &Patch::Merge(json!({"data": {"k": null, "m": "4"}})))
        .await
        .expect("patched");
    assert_eq!(merged.data.expect("data"), [("m".to_string(), "4".to_string())].into());
    let ops = json!([{"op": "add", "path": "/data/j", "value": "5"}]);
    client.api::<ConfigMap>().patch(&key("a"), &Patch::Json(ops)).await.expect("patched");
    let strategic = Patch::Strategic(json!({"data": {"s": "6"}}));
    client.api::<ConfigMap>().patch(&key("a"), &strategic).await.expect("patched");

    let mut other = next.clone();
    other.metadata.uid = Some("other".into());
    let refused = client.api::<ConfigMap>().delete(Deletion::only(&other)).await;
    let refused = refused.expect_err("another object of the same name");
    assert!(refused.is_conflict(), "{refused}");
    let mine = Deletion::only(&next);
    let api = client.api::<ConfigMap>();
    assert_eq!(api.delete(mine.clone()).await.expect("deleted"), Deleted::Gone);
    assert_eq!(api.delete(mine).await.expect("gone"), Deleted::NotFound);
    assert!(client.api::<ConfigMap>().get(&key("a")).await.expect("read").is_none());
}

#[tokio::test(start_paused = true)]
async fn lists_page_select_and_limit() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    for at in 0..12 {
        let mut map = config_map(&format!("m{at:02}"), &[]);
        let parity = if at % 2 == 0 { "even" } else { "odd" };
        map.metadata.labels = Some([("parity".to_string(), parity.to_string())].into());
        client.api().create(&map).await.expect("created");
    }
    let all = client.api::<ConfigMap>().list().namespace("default");
    let count = async |list: List<ConfigMap, Client>| list.items().await.expect("listed").len();
    assert_eq!(count(all.clone().labels([("parity", "even")])).await, 6);
    assert_eq!(count(all.clone().limit(5)).await, 5);
    let third = Expression::Equal("metadata.name".into(), "m03".into());
    assert_eq!(count(all.clone().fields(third)).await, 1);
    let metadata =
        client.api::<PartialObjectMeta<ConfigMap>>().list().namespace("default").items().await;
    assert!(metadata.expect("listed").iter().any(|m| m.metadata.name.as_deref() == Some("m11")));
    let dynamic = client.api_of::<DynamicObject>(&Kind::of::<ConfigMap>());
    let dynamic = dynamic.list().namespace("default").items().await.expect("listed");
    assert!(dynamic.len() >= 12);
    let odd = all.labels([("parity", "odd")]);
    odd.delete(None).await.expect("deleted");
    assert_eq!(count(odd).await, 0);
}

#[tokio::test(start_paused = true)]
async fn dry_run_owner_and_validation_reach_the_server() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.dry_run().api().create(&config_map("a", &[])).await.expect("checked");
    assert!(client.api::<ConfigMap>().get(&key("a")).await.expect("read").is_none());

    let owned = client.field_owner("me").api().create(&config_map("a", &[("k", "v")])).await;
    let fields = owned.expect("created").metadata.managed_fields.expect("managed");
    assert_eq!(fields[0].manager.as_deref(), Some("me"));

    let strict = client.strict().api::<ConfigMap>();
    let unknown = Patch::Merge(json!({"nonsense": 1}));
    let refused = strict.patch(&key("a"), &unknown).await.expect_err("unknown field");
    assert!(refused.to_string().contains("nonsense"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn scale_and_status_are_subresources() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .expect("a deployment");
    let made = client.api().create(&deployment).await.expect("created");
    let api = client.api::<Deployment>();
    let scales = client.api_of::<Scale>(&Kind::of::<Deployment>()).subresource("scale");
    let mut scale = (*scales.get(&key("web")).await.expect("read").expect("exists")).clone();
    assert_eq!(scale.spec.as_ref().and_then(|spec| spec.replicas), Some(2));
    scale.spec = Some(ScaleSpec { replicas: Some(5) });
    let scale = scales.update(&scale).await.expect("updated");
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(5));
    assert!(scales.get(&key("none")).await.expect("read").is_none());
    let error = scales.delete(&key("web")).await.expect_err("refused").to_string();
    assert_eq!(error, "scale of default/web: a subresource cannot be deleted");
    let patch = Patch::Merge(json!({"status": {"replicas": 3}, "spec": {"replicas": 9}}));
    let after = api.subresource("status").patch(&key("web"), &patch).await.expect("patched");
    assert_eq!(after.status.and_then(|s| s.replicas), Some(3));
    assert_eq!(after.spec.and_then(|s| s.replicas), Some(5), "the spec is out of reach");
    assert_eq!(made.metadata.generation, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_given_up_after_the_deadline() {
    let server = ApiServer::start();
    server.inject(Some(Box::new(|_| windlass_apiserver::fault::Fault {
        delay: Duration::from_secs(3600),
        ..Default::default()
    })));
    let client = Client::new(server.client()).timeout(Duration::from_secs(3));
    let error = client.api::<ConfigMap>().get(&key("a")).await.expect_err("no answer");
    assert_eq!(error.to_string(), "get ConfigMap default/a: no answer within 3 s");
}

#[tokio::test(start_paused = true)]
async fn misses_of_discovery_are_remembered_for_a_while() {
    let server = ApiServer::start();
    let handle = Manager::new(server.client()).spawn().expect("starts");
    let client = handle.client();
    let found = client.kind_of("apps", "v1", "Deployment").await.expect("served");
    assert_eq!(found, Kind::of::<Deployment>());
    let namespace = client.kind_of("", "v1", "Namespace").await.expect("served");
    assert!(!namespace.namespaced());
    for _ in 0..20 {
        let error = client.kind_of("nope.example.com", "v1", "Nope").await.expect_err("unknown");
        assert!(error.to_string().contains("does not serve Nope.nope.example.com/v1"), "{error}");
    }
    let text = handle.metrics();
    let misses = r#"rest_client_requests_total{code="404",method="GET",host="kubernetes"} 1"#;
    assert!(text.contains(misses), "{text}");
}
