//! The operator on the embedded cluster, in virtual time.

#[path = "../../chapter.rs"]
mod chapter;

use std::time::Duration;

use guestbook_operator::{Alias, Guestbook, GuestbookSpec, GuestbookStatus, operator};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::{Key, Object, Result, condition};
use windlass_cluster::OperatorTest;

fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

fn named(name: &str) -> ObjectMeta {
    let (name, namespace) = (Some(name.into()), Some("default".into()));
    ObjectMeta { name, namespace, ..ObjectMeta::default() }
}

fn guestbook(size: i32) -> Guestbook {
    let spec = GuestbookSpec { size, config_map_name: "settings".into(), alias: Alias::Name };
    let mut guestbook = Guestbook::new("visitors", spec);
    guestbook.metadata = named("visitors");
    guestbook
}

fn settings(greeting: &str) -> ConfigMap {
    let data = Some([("GREETING".into(), greeting.into())].into());
    ConfigMap { metadata: named("settings"), data, ..ConfigMap::default() }
}

async fn merge<K: Object<DynamicType = ()>>(
    test: &OperatorTest,
    name: &str,
    patch: Value,
) -> Result<()> {
    test.client().api::<K>().patch(&key(name), &Patch::Merge(patch)).await.map(drop)
}

/// Waits until the status satisfies a condition.
async fn until(
    test: &OperatorTest,
    what: &str,
    holds: impl Fn(&GuestbookStatus) -> bool,
) -> Result<GuestbookStatus> {
    let holds = |guestbook: &Guestbook| guestbook.status.as_ref().is_some_and(&holds);
    let found = test.until(what, &key("visitors"), holds).await?;
    Ok(found.status.clone().unwrap_or_default())
}

fn complete(status: &GuestbookStatus, size: usize) -> bool {
    condition::is_true(&status.conditions, "Ready")
        && status.active.is_some()
        && status.standby.len() + 1 == size
}

fn lacks(status: &GuestbookStatus, pod: &String) -> bool {
    !status.standby.contains(pod) && status.active.as_ref() != Some(pod)
}

#[test]
fn the_definition_is_accepted() {
    windlass::manifests::crd::check::<Guestbook>().expect("no rule is wrong");
}

#[tokio::test(start_paused = true)]
async fn a_guestbook_waits_for_its_settings_and_then_serves() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    test.client().api().create(&guestbook(3)).await?;
    let waiting = until(&test, "a report", |status| !status.conditions.is_empty()).await?;
    let found = waiting.conditions.iter().find(|c| c.type_ == "ConfigFound").expect("is reported");
    assert_eq!(found.message, "there is no ConfigMap settings");
    assert!(test.names::<Deployment>().await?.is_empty());

    test.client().api().create(&settings("welcome")).await?;
    let status = until(&test, "three pods", |status| complete(status, 3)).await?;
    assert!(status.active.is_some_and(|active| !status.standby.contains(&active)));
    assert_eq!(test.names::<Service>().await?, ["kubernetes", "visitors", "visitors-store"]);
    assert_eq!(test.names::<StatefulSet>().await?, ["visitors-store"]);
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn changed_settings_replace_the_pods() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    test.client().api().create(&settings("welcome")).await?;
    test.client().api().create(&guestbook(2)).await?;
    let before = until(&test, "two pods", |status| complete(status, 2)).await?;
    merge::<ConfigMap>(&test, "settings", json!({"data": {"GREETING": "hello"}})).await?;
    let replaced = |status: &GuestbookStatus| {
        let mut old = before.standby.iter().chain(&before.active);
        complete(status, 2) && old.all(|pod| lacks(status, pod))
    };
    let after = until(&test, "other pods", replaced).await?;
    let pod = key(&after.active.expect("one is active"));
    let pod = test.client().api::<Pod>().get(&pod).await?.expect("exists");
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut variables = containers.flat_map(|container| container.env.iter().flatten());
    let greeting = variables.find(|variable| variable.name == "GREETING");
    assert_eq!(greeting.and_then(|variable| variable.value.as_deref()), Some("hello"));
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn another_pod_becomes_active_when_the_active_one_is_gone() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    test.client().api().create(&settings("welcome")).await?;
    test.client().api().create(&guestbook(2)).await?;
    let before = until(&test, "two pods", |status| complete(status, 2)).await?;
    let active = before.active.expect("one is active");
    test.client().api::<Pod>().delete(&key(&active)).await?;
    let moved = |status: &GuestbookStatus| complete(status, 2) && lacks(status, &active);
    let after = until(&test, "another one", moved).await?;
    assert_eq!(after.active.as_ref(), before.standby.first(), "the one that was ready");
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_guestbook_whose_settings_are_gone_can_be_deleted_and_its_role_is_exact() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    test.client().api().create(&settings("welcome")).await?;
    test.client().api().create(&guestbook(1)).await?;
    until(&test, "one pod", |status| complete(status, 1)).await?;
    test.client().api::<ConfigMap>().delete(&key("settings")).await?;
    let missing = |status: &GuestbookStatus| !condition::is_true(&status.conditions, "ConfigFound");
    until(&test, "a report", missing).await?;
    assert_eq!(test.names::<Deployment>().await?, ["visitors"], "what runs is left alone");

    test.client().api::<Guestbook>().delete(&key("visitors")).await?;
    test.until_none::<Guestbook>().await?;
    test.until_none::<Pod>().await?;
    assert_eq!(test.names::<Service>().await?, ["kubernetes"]);
    assert!(test.names::<Deployment>().await?.is_empty());
    assert!(test.names::<StatefulSet>().await?.is_empty());
    if let Err(report) = test.role().check() {
        panic!("{report}");
    }
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn the_api_server_refuses_what_the_schema_forbids() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let refusal = async |change: &dyn Fn(&mut Guestbook)| {
        let mut wrong = guestbook(1);
        change(&mut wrong);
        let error = test.client().api().create(&wrong).await.expect_err("is refused");
        error.to_string()
    };
    let large = refusal(&|wrong| wrong.spec.size = 11).await;
    assert!(large.contains("should be less than or equal to 10"), "{large}");
    let name = refusal(&|wrong| wrong.spec.config_map_name = "No".into()).await;
    assert!(name.contains("spec.configMapName in body should match"), "{name}");
    let long = refusal(&|wrong| wrong.metadata.name = Some("x".repeat(47))).await;
    assert!(long.contains("at most 46 characters"), "{long}");
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn the_chapter_shows_what_happens() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let mut printed = Vec::new();
    let show = async |resource: &str, group: &str| {
        let path = format!("/{group}/namespaces/default/{resource}");
        let table = test.cluster().table(&path).await.expect("can be listed");
        format!("$ kubectl get {resource}\n{table}")
    };
    let (webapp, core, apps) = ("apis/webapp.tutorial.kubebuilder.io/v1", "api/v1", "apis/apps/v1");
    let ten_seconds = async || tokio::time::sleep(Duration::from_secs(10)).await;

    test.client().api().create(&guestbook(3)).await?;
    ten_seconds().await;
    printed.push(show("guestbooks", webapp).await);
    test.client().api().create(&settings("welcome")).await?;
    ten_seconds().await;
    printed.push(show("guestbooks", webapp).await);
    for resource in ["deployments", "statefulsets"] {
        printed.push(show(resource, apps).await);
    }
    for resource in ["services", "pods"] {
        printed.push(show(resource, core).await);
    }
    let status = until(&test, "three pods", |status| complete(status, 3)).await?;
    test.client().api::<Pod>().delete(&key(&status.active.expect("one is active"))).await?;
    ten_seconds().await;
    printed.push(show("guestbooks", webapp).await);

    chapter::assert_shows(include_str!("../README.md"), &printed);
    test.stop().await
}
