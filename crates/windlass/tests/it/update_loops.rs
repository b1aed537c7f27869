//! Writes without end: found where there are some, and only there.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::clock::Clock;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::{Handle, Running};
use windlass::{Client, Error, Kind, Result};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, key, manager, metric, secret};

const SECOND: Duration = Duration::from_secs(1);

fn found(handle: &Handle) -> f64 {
    metric(handle, r#"windlass_update_loops_total{controller="maps"}"#)
}

fn shown(handle: &Handle) -> Value {
    handle.diagnostics()["controllers"][0]["updateLoops"].clone()
}

/// What the operator of these tests wants to be there.
fn wanted(mode: &str) -> Secret {
    let mut wanted = secret("child");
    wanted.metadata.annotations = Some([("example.com/mode".to_string(), mode.to_string())].into());
    wanted
}

async fn apply(cx: Context<ConfigMap>) -> Result<Next> {
    if cx.object().is_some() {
        cx.apply(&wanted("ours")).await?;
    }
    Ok(Next::Done)
}

/// Somebody who annotates the child every second.
async fn rival(server: &ApiServer, annotation: &str, seconds: usize) {
    let client = Client::new(server.client()).field_owner("rival");
    for at in 0..seconds {
        tokio::time::sleep(SECOND).await;
        let patch = json!({"metadata": {"annotations": {annotation: format!("theirs {at}")}}});
        client.api::<Secret>().patch(&key("child"), &Patch::Merge(patch)).await.expect("patched");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_writer_that_reverts_is_logged_once_in_ten_minutes_and_shown_while_it_lasts() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(apply);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(SECOND).await;
    rival(&server, "example.com/mode", 20).await;
    assert_eq!((found(&handle), shown(&handle)), (0.0, json!([])));
    rival(&server, "example.com/mode", 20).await;
    assert_eq!(found(&handle), 1.0);
    let entry = &shown(&handle)[0];
    assert_eq!(entry["kind"], Kind::of::<Secret>().to_string());
    assert_eq!(entry["object"], "default/child");
    assert_eq!(entry["fields"], "metadata.annotations[example.com/mode]");
    assert_eq!(entry["cause"], "somebody else undoes what is written");
    rival(&server, "example.com/mode", 500).await;
    assert_eq!(found(&handle), 1.0, "within ten minutes");
    rival(&server, "example.com/mode", 150).await;
    assert_eq!(found(&handle), 2.0, "it continues");
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(shown(&handle), json!([]), "it is over");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_second_writer_of_a_kind_that_is_not_cached_is_found_too() {
    let server = ApiServer::start();
    let reconcile = |cx: Context<ConfigMap>| async move {
        if cx.object().is_some() {
            cx.client().api().apply(&wanted("ours")).await?;
        }
        Ok(Next::After(SECOND))
    };
    let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(SECOND / 2).await;
    rival(&server, "example.com/mode", 40).await;
    assert_eq!(found(&handle), 1.0);
    assert_eq!(shown(&handle)[0]["cause"], "the same states are written again and again");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_normalises_is_written_on_every_pass_and_logged() {
    let server = ApiServer::start();
    let reconcile = |cx: Context<ConfigMap>| async move {
        let metadata = json!({"name": "child", "namespace": "default"});
        let quota = json!({"metadata": metadata, "spec": {"hard": {"cpu": "1000m"}}});
        let quota: ResourceQuota = serde_json::from_value(quota).expect("a quota");
        let stored = cx.client().api().apply(&quota).await?;
        let hard = stored.spec.as_ref().and_then(|spec| spec.hard.as_ref()).expect("is there");
        assert_eq!(hard["cpu"].0, "1");
        Ok(Next::After(SECOND))
    };
    let controller = Controller::<ConfigMap>::builder("maps").owns::<ResourceQuota>();
    let handle = manager(&server).add(controller.build(reconcile)).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(40 * SECOND).await;
    assert_eq!(found(&handle), 1.0);
    let entry = &shown(&handle)[0];
    assert_eq!(entry["cause"], "the server stores something else than what is written");
    assert_eq!(entry["fields"], "spec.hard.cpu");
    handle.stop().await.expect("stops");
}

fn deployment(replicas: i32) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .expect("a deployment")
}

/// A manager of a controller that changes the status of a Deployment every second.
async fn with_status(
    server: &ApiServer,
    change: impl Fn(&mut DeploymentStatus, i32, Clock) + Copy + Send + Sync + 'static,
) -> Running {
    let passes = Arc::new(AtomicI32::new(0));
    let reconcile = move |cx: Context<Deployment>| {
        let pass = passes.load(Ordering::SeqCst);
        let passes = passes.clone();
        async move {
            let clock = cx.clock().clone();
            if cx.status_as(|status| change(status, pass, clock.clone())).await? {
                passes.fetch_add(1, Ordering::SeqCst);
            }
            tokio::time::sleep(SECOND).await;
            Ok(Next::After(SECOND))
        }
    };
    let clock = Clock::fixed(Timestamp::from_second(1_000_000).expect("in range"));
    let controller = Controller::<Deployment>::builder("maps").build(reconcile);
    let handle = manager(server).clock(clock).add(controller).spawn().expect("starts");
    handle.ready().await;
    handle.client().api().create(&deployment(50)).await.expect("created");
    tokio::time::sleep(90 * SECOND).await;
    handle
}

#[tokio::test(start_paused = true)]
async fn a_status_with_the_present_time_in_it_is_a_loop() {
    let server = ApiServer::start();
    let handle = with_status(&server, |status, _, clock| {
        let condition = DeploymentCondition {
            type_: "Progressing".into(),
            status: "True".into(),
            last_update_time: Some(clock.time()),
            ..DeploymentCondition::default()
        };
        status.conditions = Some(vec![condition]);
    })
    .await;
    assert_eq!(found(&handle), 1.0);
    let entry = &shown(&handle)[0];
    assert_eq!(entry["cause"], "only timestamps change from one write to the next");
    assert_eq!(entry["fields"], "status.conditions[0].lastUpdateTime");
    assert_eq!(entry["subresource"], "status");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_follows_the_world_is_no_loop() {
    let server = ApiServer::start();
    // Pods become ready one by one.
    let handle = with_status(&server, |status, pass, _| status.replicas = Some(pass + 1)).await;
    assert_eq!((found(&handle), shown(&handle)), (0.0, json!([])));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_status_whose_parts_return_while_the_whole_does_not_is_no_loop() {
    let server = ApiServer::start();
    // A rolling update: one pod goes, and comes back as an updated one.
    let handle = with_status(&server, |status, pass, _| {
        status.replicas = Some(50);
        status.ready_replicas = Some(50 - pass % 2);
        status.updated_replicas = Some(pass / 2);
    })
    .await;
    assert_eq!((found(&handle), shown(&handle)), (0.0, json!([])));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn objects_that_follow_their_author_are_no_loop() {
    let server = ApiServer::start();
    let reconcile = |cx: Context<Deployment>| async move {
        let Some(object) = cx.object() else { return Ok(Next::Done) };
        let replicas = object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
        cx.apply(&wanted(&replicas.to_string())).await?;
        cx.status_as(|status: &mut DeploymentStatus| status.replicas = Some(replicas)).await?;
        Ok(Next::Done)
    };
    let controller = Controller::<Deployment>::builder("maps").owns::<Secret>().build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let client = Client::new(server.client());
    client.api().create(&deployment(1)).await.expect("created");
    for at in 0..60 {
        tokio::time::sleep(SECOND).await;
        let patch = Patch::Merge(json!({"spec": {"replicas": at % 2}}));
        client.api::<Deployment>().patch(&key("web"), &patch).await.expect("patched");
    }
    tokio::time::sleep(SECOND).await;
    let child = client.api::<Secret>().get(&key("child")).await.expect("read").expect("is there");
    let annotations = child.metadata.annotations.as_ref().expect("has some");
    assert_eq!(annotations["example.com/mode"], "1", "it followed");
    assert_eq!((found(&handle), shown(&handle)), (0.0, json!([])));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_healthy_operator_is_not_accused_of_what_others_write() {
    let server = ApiServer::start();
    let reconcile = |cx: Context<ConfigMap>| async move {
        if cx.object().is_some() {
            cx.apply(&wanted("ours")).await?;
            // Always sent, and changes nothing.
            let wanted = serde_json::to_value(wanted("ours")).expect("json");
            let mut wanted: DynamicObject = serde_json::from_value(wanted).expect("an object");
            cx.adopt(&Kind::of::<Secret>(), &mut wanted)?;
            cx.client().api_of::<DynamicObject>(&Kind::of::<Secret>()).apply(&wanted).await?;
        }
        Ok(Next::After(SECOND / 2))
    };
    let controller = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(SECOND).await;
    rival(&server, "example.com/other", 60).await;
    assert_eq!((found(&handle), shown(&handle)), (0.0, json!([])));
    handle.stop().await.expect("stops");
}

/// Collects what is logged on this thread.
#[derive(Clone, Default)]
struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs a reconcile that always leads to another one, until the timeout of a test would fire. Returns
/// the entry of the diagnostics page and the line of the log about it.
async fn without_end<F>(
    passes_max: i32,
    reconcile: impl Fn(Context<ConfigMap>, i32) -> F + Copy + Send + Sync + 'static,
) -> (Value, String)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = ApiServer::start();
    let passes = Arc::new(AtomicI32::new(0));
    let count = passes.clone();
    let run = move |cx: Context<ConfigMap>| {
        let count = count.clone();
        async move {
            if cx.object().is_some() && cx.name() == "a" {
                reconcile(cx, count.fetch_add(1, Ordering::SeqCst)).await?;
            }
            Ok::<_, Error>(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(run);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");

    let never = tokio::time::timeout(60 * SECOND, std::future::pending::<()>()).await;
    assert!(never.is_err(), "the timeout of a test fires");
    let passes = passes.load(Ordering::SeqCst);
    assert!((100..passes_max).contains(&passes), "{passes}");
    assert_eq!(found(&handle), 1.0);
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).expect("text");
    let line = log.lines().find(|line| line.contains("ERROR")).unwrap_or_else(|| panic!("{log}"));
    for part in ["without any time passing", "controller=maps", "default/a"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    let entry = shown(&handle)[0].clone();
    handle.stop().await.expect("stops");
    (entry, line.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_write_on_every_pass_does_not_keep_paused_time_from_advancing() {
    let (entry, line) = without_end(600, |cx, pass| async move {
        let patch = Patch::Merge(json!({"data": {"pass": pass.to_string()}}));
        cx.client().api::<ConfigMap>().patch(cx.key(), &patch).await.map(drop)
    })
    .await;
    assert_eq!(entry["fields"], "data.pass");
    assert!(line.contains("data.pass"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_created_and_deleted_in_turn_does_not_keep_paused_time_from_advancing() {
    let (entry, line) = without_end(1700, |cx, _| async move {
        match cx.get::<Secret>("child")? {
            Some(_) => cx.client().api::<Secret>().delete(&key("child")).await.map(drop),
            None => cx.create(&secret("child")).await.map(drop),
        }
    })
    .await;
    assert_eq!(entry["cause"], "it is reconciled again and again without any time passing");
    assert_eq!(entry["object"], "default/a");
    assert!(line.contains(" Secret default/child"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn a_new_child_on_every_pass_does_not_keep_paused_time_from_advancing() {
    let (entry, line) = without_end(1700, |cx, _| async move {
        let mut child = secret("");
        (child.metadata.name, child.metadata.generate_name) = (None, Some("child-".into()));
        cx.create(&child).await.map(drop)
    })
    .await;
    assert_eq!(entry["kind"], Kind::of::<ConfigMap>().to_string());
    assert!(line.contains("create Secret default/child-"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn many_objects_that_are_reconciled_at_one_instant_are_no_loop() {
    let server = ApiServer::start();
    let passes = Arc::new(AtomicI32::new(0));
    let count = passes.clone();
    let controller =
        Controller::<ConfigMap>::builder("maps").build(move |_: Context<ConfigMap>| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, Error>(Next::Done) }
        });
    let began = tokio::time::Instant::now();
    let handle = manager(&server).add(controller).spawn().expect("starts");
    for at in 0..2500 {
        let map = config_map(&format!("m{at}"), &[]);
        handle.client().api().create(&map).await.expect("created");
    }
    crate::common::eventually("the reconciles", || passes.load(Ordering::SeqCst) >= 2500).await;
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    assert_eq!(found(&handle), 0.0);
    handle.stop().await.expect("stops");
}
