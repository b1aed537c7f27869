//! The controller on the embedded cluster, in virtual time.

#[path = "../../chapter.rs"]
mod chapter;

use std::time::Duration;

use appservice_controller::{AppService, AppServiceSpec, operator};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::{Key, Object, Result, owner};
use windlass_cluster::OperatorTest;

fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

fn named(name: &str) -> ObjectMeta {
    let (name, namespace) = (Some(name.into()), Some("default".into()));
    ObjectMeta { name, namespace, ..ObjectMeta::default() }
}

fn service(replicas: i32) -> AppService {
    let spec = AppServiceSpec { deployment_name: "web".into(), replicas };
    AppService { metadata: named("app"), spec, status: None }
}

async fn merge<K: Object<DynamicType = ()>>(
    test: &OperatorTest,
    name: &str,
    patch: Value,
) -> Result<()> {
    test.client().api::<K>().patch(&key(name), &Patch::Merge(patch)).await.map(drop)
}

fn available(service: &AppService, replicas: i32) -> bool {
    let status = service.status.as_ref();
    status.and_then(|status| status.available_replicas) == Some(replicas)
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref().and_then(|spec| spec.replicas)
}

#[test]
fn the_definition_is_accepted() {
    windlass::manifests::crd::check::<AppService>().expect("no rule is wrong");
}

#[tokio::test(start_paused = true)]
async fn an_app_service_is_scaled_renamed_and_deleted_and_its_role_is_exact() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let all = test.client().api::<AppService>();
    all.create(&service(2)).await?;
    test.until("two pods", &key("app"), |app| available(app, 2)).await?;
    merge::<AppService>(&test, "app", json!({"spec": {"replicas": 4}})).await?;
    test.until("four pods", &key("app"), |app| available(app, 4)).await?;

    merge::<AppService>(&test, "app", json!({"spec": {"deploymentName": "site"}})).await?;
    let site = test.until("the new name", &key("site"), |site| replicas(site) == Some(4)).await?;
    assert_eq!(owner::controller_of(&*site).map(|owner| owner.name.as_str()), Some("app"));
    test.until("four pods again", &key("app"), |app| available(app, 4)).await?;
    assert_eq!(test.names::<Deployment>().await?, ["site"], "the old one is deleted");

    all.delete(&key("app")).await?;
    test.until_none::<Deployment>().await?;
    test.until_none::<Pod>().await?;
    if let Err(report) = test.role().check() {
        panic!("{report}");
    }
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_scaled_or_deleted_by_somebody_else_is_put_right() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    test.client().api().create(&service(2)).await?;
    test.until("two pods", &key("app"), |app| available(app, 2)).await?;
    merge::<Deployment>(&test, "web", json!({"spec": {"replicas": 0}})).await?;
    test.until("two replicas", &key("web"), |web| replicas(web) == Some(2)).await?;
    let web =
        test.until("two pods again", &key("web"), |web: &Deployment| web.status.is_some()).await?;
    test.client().api::<Deployment>().delete(&key("web")).await?;
    let another = |new: &Deployment| new.metadata.uid != web.metadata.uid;
    test.until("another Deployment", &key("web"), another).await?;
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_deployment_of_somebody_else_is_left_alone_until_it_is_gone() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let foreign: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "other"}},
            "template": {
                "metadata": {"labels": {"app": "other"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))?;
    test.client().api().create(&foreign).await?;
    test.client().api().create(&service(3)).await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let web = test.client().api::<Deployment>().get(&key("web")).await?.expect("is there");
    assert_eq!((replicas(&web), owner::controller_of(&*web)), (Some(1), None));
    let events = test.client().api::<Event>().list().namespace("default").items().await?;
    let mut notes = events.iter().filter_map(|event| event.note.as_deref());
    assert!(notes.any(|note| note == "Deployment web exists and is not ours"));

    test.client().api::<Deployment>().delete(&key("web")).await?;
    test.until("three pods", &key("app"), |app| available(app, 3)).await?;
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn the_chapter_shows_what_happens() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    test.client().api().create(&service(3)).await?;
    test.until("three pods", &key("app"), |app| available(app, 3)).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut printed = Vec::new();
    let show = async |resource: &str, group: &str| {
        let path = format!("/apis/{group}/namespaces/default/{resource}");
        let table = test.cluster().table(&path).await.expect("can be listed");
        format!("$ kubectl get {resource}\n{table}")
    };
    printed.push(show("appservices", "appcontroller.k8s.io/v1alpha1").await);
    printed.push(show("deployments", "apps/v1").await);
    chapter::assert_shows(include_str!("../README.md"), &printed);
    test.stop().await
}
