//! Both operators on the embedded cluster, in virtual time.

#[path = "../../chapter.rs"]
mod chapter;

use std::time::Duration;

use demo_operator::dynamic::demos;
use demo_operator::v2::{self, Image};
use demo_operator::{Demo, DemoSpec, dynamic_operator, operator};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::api::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::json;
use windlass::client::Patch;
use windlass::{Key, Operator, Result, owner};
use windlass_cluster::OperatorTest;

fn web() -> Key {
    Key::namespaced("default", "web")
}

fn demo(image: &str, replicas: i32) -> Demo {
    let (name, namespace) = (Some("web".into()), Some("default".into()));
    let metadata = ObjectMeta { name, namespace, ..ObjectMeta::default() };
    Demo { metadata, spec: DemoSpec { image: image.into(), replicas }, status: None }
}

fn available(demo: &Demo, replicas: i32) -> bool {
    demo.status.as_ref().is_some_and(|status| status.available_replicas == replicas)
}

#[test]
fn the_definition_and_the_types_fit_together() {
    windlass::manifests::crd::check::<Demo>().expect("no rule is wrong");
    let names = Demo::crd().spec.names;
    assert_eq!((names.kind.as_str(), names.plural.as_str()), (demos().kind(), demos().plural()));
    assert_eq!(names.short_names.as_deref(), Some(&["dm".to_owned()][..]));
    assert_eq!(Demo::crd().metadata.name.as_deref(), Some(Demo::crd_name()));
}

#[test]
fn the_definition_that_people_apply_is_the_one_that_the_operator_installs() -> Result<()> {
    let by_hand: CustomResourceDefinition =
        serde_saphyr::from_str(include_str!("../crd.yaml")).expect("is a definition");
    let installed = operator().model()?.definitions().remove(0);
    let installed: CustomResourceDefinition = serde_json::from_value(installed)?;
    assert_eq!(by_hand.spec, installed.spec);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_and_written_in_both_versions() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let (first, second) = (test.client().api::<Demo>(), test.client().api::<v2::Demo>());
    first.create(&demo("nginx:1.29-alpine", 1)).await?;
    let read = second.get(&web()).await?.expect("exists");
    assert_eq!(read.spec.image, Image::parse("nginx:1.29-alpine"));
    assert_eq!(read.spec.image.tag.as_deref(), Some("1.29-alpine"));
    second.patch(&web(), &Patch::Merge(json!({"spec": {"image": {"tag": "1.30"}}}))).await?;
    assert_eq!(first.get(&web()).await?.expect("exists").spec.image, "nginx:1.30");
    let runs = |deployment: &Deployment| {
        let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        pod.is_some_and(|pod| pod.containers[0].image.as_deref() == Some("nginx:1.30"))
    };
    test.until("the new image", &web(), runs).await?;
    let wrong = Patch::Merge(json!({"spec": {"image": {"repository": "Not An Image"}}}));
    let refused = second.patch(&web(), &wrong).await.expect_err("does not match the pattern");
    assert!(refused.to_string().contains("spec.image.repository"), "{refused}");
    test.stop().await
}

/// What an operator does from the creation to the deletion of a Demo.
async fn lives_and_dies(operator: fn() -> Operator) -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    test.client().api().create(&demo("nginx", 2)).await?;
    test.until("two pods", &web(), |demo| available(demo, 2)).await?;

    let scale = test.client().api_of::<Scale>(&demos()).subresource("scale");
    scale.patch(&web(), &Patch::Merge(json!({"spec": {"replicas": 3}}))).await?;
    test.until("three pods", &web(), |demo| available(demo, 3)).await?;
    let seen = scale.get(&web()).await?.and_then(|scale| scale.status.clone()).expect("is there");
    assert_eq!((seen.replicas, seen.selector.as_deref()), (3, Some("example.com/demo=web")));

    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    test.client().api::<Deployment>().patch(&web(), &none).await?;
    let repaired = |deployment: &Deployment| {
        deployment.spec.as_ref().and_then(|spec| spec.replicas) == Some(3)
    };
    let deployment = test.until("three replicas again", &web(), repaired).await?;
    assert_eq!(owner::controller_of(&*deployment).map(|owner| owner.name.as_str()), Some("web"));

    test.client().api::<Demo>().delete(&web()).await?;
    test.until_none::<Demo>().await?;
    test.until_none::<Deployment>().await?;
    test.until_none::<Pod>().await?;
    let events = test.client().api::<Event>().list().namespace("default").items().await?;
    let mut notes = events.iter().filter_map(|event| event.note.as_deref());
    assert!(notes.any(|note| note == "3 pods are no longer needed"), "the finalizer ran");
    if let Err(report) = test.role().check() {
        panic!("{report}");
    }
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn the_typed_operator_does_its_work_with_an_exact_role() -> Result<()> {
    lives_and_dies(operator).await
}

#[tokio::test(start_paused = true)]
async fn the_dynamic_operator_does_the_same() -> Result<()> {
    lives_and_dies(dynamic_operator).await
}

#[tokio::test(start_paused = true)]
async fn the_typed_and_the_dynamic_client_read_and_write_the_same_object() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let typed = test.client().api::<Demo>();
    let dynamic = test.client().api_of::<DynamicObject>(&demos());

    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "example.com/v1",
        "kind": "Demo",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"image": "nginx"},
    }))?;
    dynamic.create(&object).await?;
    let read = typed.get(&web()).await?.expect("was created");
    assert_eq!((read.spec.image.as_str(), read.spec.replicas), ("nginx", 1), "with its default");

    let change = Patch::Merge(json!({"spec": {"image": "nginx:1.29-alpine"}}));
    typed.patch(&web(), &change).await?;
    let read = dynamic.get(&web()).await?.expect("is there");
    assert_eq!(read.data["spec"]["image"], "nginx:1.29-alpine");
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn the_chapter_shows_what_happens() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let mut printed = Vec::new();
    let refused = test.client().api().create(&demo("Not An Image", 1)).await;
    let refused = refused.expect_err("does not match the pattern");
    let message = refused.status().map(|status| status.message.clone()).unwrap_or_default();
    printed.push(message);
    test.client().api().create(&demo("nginx:1.29-alpine", 2)).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    for (name, version) in [("demos", "v2"), ("demos.v1.example.com", "v1")] {
        let path = format!("/apis/example.com/{version}/namespaces/default/demos");
        let table = test.cluster().table(&path).await?;
        printed.push(format!("$ kubectl get {name}\n{table}"));
    }
    chapter::assert_shows(include_str!("../README.md"), &printed);
    test.stop().await
}
