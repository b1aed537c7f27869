//! The log of an operator. Alone in its process: who listens to a span is process-wide state.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::DynamicObject;
use parking_lot::Mutex;
use windlass::clock::Clock;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Error, Manager};
use windlass_apiserver::fault::Fault;
use windlass_apiserver::{ApiServer, Status};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A type that no Secret decodes into.
#[derive(Clone, Debug, serde::Deserialize)]
struct Odd {
    #[allow(dead_code)]
    data: std::collections::BTreeMap<String, u8>,
}

/// Reads secrets as what they are not, and takes events and does not come back for more.
async fn spoil(server: &ApiServer) {
    let cache = windlass::cache::Cache::new(server.client());
    let kind = windlass::Kind::of::<Secret>();
    let informer = cache.informer_of::<Odd>(&kind, &windlass::cache::Scope::default());
    informer.synced(Duration::from_secs(60)).await.expect("synced");
    assert!(informer.reader().list().is_empty());
    let mut events = informer.subscribe();
    let _taken = events.recv().await.expect("there is a secret");
    let client = windlass::Client::new(server.client());
    for at in 0..40 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut secret = Secret::default();
        secret.metadata.name = Some(format!("s{at}"));
        secret.metadata.namespace = Some("default".into());
        client.api().create(&secret).await.expect("created");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Makes a reconcile panic, and the server fail every watch.
async fn harm(server: &ApiServer) {
    let client = windlass::Client::new(server.client());
    let mut map = ConfigMap::default();
    map.metadata.name = Some("panics".into());
    map.metadata.namespace = Some("default".into());
    client.api().create(&map).await.expect("created");
    server.inject(Some(Box::new(|request| Fault {
        fail: (request.verb == "watch").then(|| Status::internal("etcd is away")),
        ..Fault::default()
    })));
    // Longer than any watch lasts.
    tokio::time::sleep(Duration::from_secs(700)).await;
    server.inject(None);
}

/// Applies a secret every second of which the server stores something else than what is said.
async fn quarrel(server: &ApiServer) {
    let reconcile = |cx: Context<ConfigMap>| async move {
        if cx.name() != "a" {
            return Ok(Next::Done);
        }
        let mut child = Secret::default();
        child.metadata.name = Some("child".into());
        child.string_data = Some([("password".to_string(), "hunter2".to_string())].into());
        cx.apply(&child).await?;
        Ok(Next::After(Duration::from_secs(1)))
    };
    let controller = Controller::<ConfigMap>::builder("quarrels").owns::<Secret>();
    let manager = Manager::new(server.client()).namespaces(["default"]);
    let handle = manager.add(controller.build(reconcile)).spawn().expect("starts");
    tokio::time::sleep(Duration::from_secs(300)).await;
    handle.stop().await.expect("stops");
}

/// A manager with a controller that fails, one that is stuck, and one of a kind that is missing.
fn start(server: &ApiServer, clock: &Clock) -> Running {
    let reconcile = |cx: Context<ConfigMap>| async move {
        assert_ne!(cx.name(), "panics", "no luck");
        Err(Error::terminal("no size"))
    };
    let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
    let stuck = |cx: Context<Secret>| async move {
        if cx.name() == "a" {
            std::future::pending::<()>().await;
        }
        Ok(Next::Done)
    };
    let nope = windlass::Kind::new("example.com", "v1", "Nope", "nopes");
    Manager::new(server.client())
        .namespaces(["default"])
        .clock(clock.clone())
        .add(controller)
        .add(Controller::<Secret>::builder("stuck").build(stuck))
        .add(Controller::<DynamicObject>::of_kind("missing", &nope).build(async |_| Ok(Next::Done)))
        .spawn()
        .expect("starts")
}

#[tokio::test(start_paused = true)]
async fn logs_carry_the_conventional_keys() {
    use tracing_subscriber::layer::SubscriberExt;
    let lines = Lines::default();
    let writer = lines.clone();
    let layer = windlass::log::json(move || writer.clone());
    let filter = tracing_subscriber::EnvFilter::new("info");
    let subscriber = tracing_subscriber::Registry::default().with(filter).with(layer);
    let guard = tracing::subscriber::set_default(subscriber);
    let server = ApiServer::start();
    let clock = Clock::fixed("2026-01-01T00:00:00Z".parse().expect("a time"));
    let handle = start(&server, &clock);
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".into());
    map.metadata.namespace = Some("default".into());
    handle.client().api().create(&map).await.expect("created");
    let secret = Secret {
        metadata: map.metadata.clone(),
        string_data: Some([("password".to_string(), "hunter2".to_string())].into()),
        ..Secret::default()
    };
    // One that is done first, so that a task rests and is given the next key at once.
    let mut done = secret.clone();
    done.metadata.name = Some("done".into());
    handle.client().api().create(&done).await.expect("created");
    tokio::time::sleep(Duration::from_secs(30)).await;
    handle.client().api().create(&secret).await.expect("created");
    tokio::time::sleep(Duration::from_secs(66)).await;
    let text = String::from_utf8(lines.0.lock().clone()).expect("text");
    assert!(text.contains("Reconcile does not return"), "after little more than a minute: {text}");
    tokio::time::sleep(Duration::from_secs(134)).await;
    let odd = windlass::client::Patch::Merge(serde_json::json!({"nonsense": 1}));
    let maps = handle.client().api::<ConfigMap>();
    maps.patch(&windlass::Key::of(&map), &odd).await.expect("patched");
    clock.shift(jiff::SignedDuration::from_hours(1));
    spoil(&server).await;
    clock.shift(jiff::SignedDuration::from_mins(-30));
    harm(&server).await;
    quarrel(&server).await;
    handle.stop().await.expect("stops");
    drop(guard);
    let text = String::from_utf8(lines.0.lock().clone()).expect("text");
    check_reconciler_error(&text);
    check_watches_and_loops(&text);
    check_jumps(&text);
    for message in [
        "Starting EventSource",
        "Starting Controller",
        "Starting workers",
        "All workers finished",
        "Stopping and waiting for caches",
        "Reconcile does not return",
        "event handler does not return",
        "object does not decode, skipped",
        "the API server returned a warning",
    ] {
        assert!(text.contains(message), "{text}");
    }
    for hidden in ["hunter2", "aHVudGVyMg"] {
        assert!(!text.contains(hidden), "a secret is in the log");
    }
}

/// The line of a reconcile that failed has the keys of controller-runtime.
fn check_reconciler_error(text: &str) {
    let line = text.lines().find(|line| line.contains("Reconciler error")).expect("is there");
    let line: serde_json::Value = serde_json::from_str(line).expect("json");
    for (name, value) in [
        ("level", "error"),
        ("msg", "Reconciler error, not retried"),
        ("error", "terminal error: no size"),
        ("controller", "maps"),
        ("controllerGroup", ""),
        ("controllerKind", "ConfigMap"),
        ("namespace", "default"),
        ("name", "a"),
    ] {
        assert_eq!(line[name], value, "{line}");
    }
    assert_eq!(
        line["ConfigMap"],
        serde_json::json!({"name": "a", "namespace": "default"}),
        "{line}"
    );
    assert_eq!(line["reconcileID"].as_str().map(str::len), Some(36), "{line}");
    assert!(line["ts"].is_string() && line["logger"].is_string(), "{line}");
}

/// Watches that fail and objects that are written again and again are reported once.
fn check_watches_and_loops(text: &str) {
    let failed = |kind: &'static str| {
        let lines = text.lines().filter(|line| line.contains("watch failed"));
        lines.filter(move |line| line.contains(kind)).collect::<Vec<_>>()
    };
    let missing = failed(r#""kind":"Nope""#);
    assert_eq!(missing.len(), 1, "a kind that is not there is named, and only once: {missing:?}");
    assert!(missing[0].contains(r#""code":404"#));
    let away = failed(r#""kind":"ConfigMap""#);
    assert!(away[0].contains(r#""code":500"#) && away[0].contains("etcd is away"), "{away:?}");
    let loops: Vec<&str> = text.lines().filter(|line| line.contains("update loop: ")).collect();
    assert_eq!(loops.len(), 1, "one line within ten minutes: {loops:?}");
    for part in [
        r#""controller":"quarrels""#,
        r#""object":"default/child""#,
        r#""fields":"stringData"#,
        "the server stores something else than what is written",
    ] {
        assert!(loops.iter().all(|line| line.contains(part)), "{part} in {loops:?}");
    }
}

/// Panics and jumps of the clock are reported.
fn check_jumps(text: &str) {
    assert!(text.contains("no luck"), "a panic is logged: {text}");
    let jumped = text.lines().filter(|line| line.contains("the wall clock jumped"));
    let jumps: Vec<_> = jumped.map(|line| serde_json::from_str(line).expect("json")).collect();
    let shown = |line: &serde_json::Value| (line["direction"].clone(), line["seconds"].clone());
    let wanted = [("ahead".into(), 3600.0.into()), ("back".into(), (-1800.0).into())];
    assert_eq!(jumps.iter().map(shown).collect::<Vec<_>>(), wanted, "each once: {jumps:?}");
}
