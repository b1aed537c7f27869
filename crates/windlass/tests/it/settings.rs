//! Settings of a manager in a file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Client, Manager};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, eventually, manager, metric};
use crate::proxy::Log;

/// A file that is removed with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("windlass-settings-{}-{name}.yaml", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("written");
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn quiet() -> Controller<ConfigMap> {
    Controller::<ConfigMap>::builder("maps").build(|_: Context<ConfigMap>| async { Ok(Next::Done) })
}

fn problem(running: &Running) -> Value {
    running.diagnostics()["settings"]["problem"].clone()
}

/// Waits until the file has been read again.
async fn read_again() {
    tokio::time::sleep(Duration::from_secs(25)).await;
}

#[tokio::test(start_paused = true)]
async fn the_number_of_workers_follows_the_file() {
    let (server, file) = (ApiServer::start(), File::new("workers", "workers: 2\n"));
    let (active, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let go = Arc::new(Semaphore::new(0));
    let (now, peak, gate) = (active.clone(), most.clone(), go.clone());
    let controller =
        Controller::<ConfigMap>::builder("maps").build(move |_: Context<ConfigMap>| {
            let (now, peak, gate) = (now.clone(), peak.clone(), gate.clone());
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                gate.acquire().await.expect("open").forget();
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(Next::Done)
            }
        });
    let client = Client::new(server.client());
    for n in 0..40 {
        client.api().create(&config_map(&format!("m{n}"), &[])).await.expect("created");
    }
    let running = manager(&server).add(controller).settings_file(&file.0).spawn().expect("starts");
    let counted = &active;
    let busy = |n: usize| eventually("that many", move || counted.load(Ordering::SeqCst) == n);
    busy(2).await;
    file.write("workers: 2\ncontrollers: {maps: {workers: 5}}\n");
    read_again().await;
    busy(5).await;
    let limit = "controller_runtime_max_concurrent_reconciles{controller=\"maps\"}";
    assert_eq!(metric(&running, limit), 5.0);
    // Those that run may end, and then there is one.
    file.write("");
    read_again().await;
    assert_eq!(active.load(Ordering::SeqCst), 5);
    go.add_permits(5);
    busy(1).await;
    most.store(0, Ordering::SeqCst);
    go.add_permits(100);
    eventually("all", || running.diagnostics()["controllers"][0]["reconciles"]["success"] == 40)
        .await;
    assert_eq!(most.load(Ordering::SeqCst), 1, "as the program says");
    assert_eq!(problem(&running), Value::Null);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_not_valid_changes_nothing_and_is_named() {
    let (log, _guard) = Log::start();
    let (server, file) = (ApiServer::start(), File::new("bad", "workers: 3\n"));
    let running = manager(&server).add(quiet()).settings_file(&file.0).spawn().expect("starts");
    running.ready().await;
    let workers = || running.diagnostics()["controllers"][0]["workers"].clone();
    for (text, said) in [
        ("workers: none\n", "workers: expected a number from 1 to 100000"),
        (
            "controllers: {map: {workers: 1}}\n",
            "controllers.map: there is no such controller, only maps",
        ),
        ("workers: [\n", "not YAML"),
    ] {
        file.write(text);
        read_again().await;
        let problem = problem(&running);
        let problem = problem.as_str().unwrap_or_default();
        assert!(problem.starts_with("settings in ") && problem.contains(said), "{problem}");
        assert_eq!(log.lines(&["settings not changed", said]).len(), 1, "once");
        assert_eq!(workers(), 3);
    }
    std::fs::remove_file(&file.0).expect("removed");
    read_again().await;
    assert!(problem(&running).as_str().is_some_and(|text| text.contains("cannot be read")));
    assert_eq!(workers(), 3);
    file.write("workers: 3\n");
    read_again().await;
    assert_eq!(problem(&running), Value::Null);
    file.write("workers: 4\n");
    read_again().await;
    assert_eq!((workers(), problem(&running)), (json!(4), Value::Null));
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_not_valid_at_the_start_is_an_error() {
    let (server, file) = (ApiServer::start(), File::new("start", "log: windlass=loud\n"));
    let manager = Manager::new(server.client()).settings_file(&file.0);
    let error = manager.spawn().expect_err("not valid").to_string();
    assert!(error.contains("log: the log filter \"windlass=loud\" is not valid"), "{error}");
    file.write(&"#".repeat(2 << 20));
    let error = Manager::new(server.client()).settings_file(&file.0).spawn().expect_err("large");
    assert!(error.to_string().ends_with("is larger than 1048576 bytes"), "{error}");
}

/// The namespaces of the cached maps.
fn cached(running: &Running) -> BTreeSet<String> {
    let keys = running.client().cached().list::<ConfigMap>().keys().unwrap_or_default();
    keys.iter().filter_map(|key| key.namespace().map(str::to_string)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_namespaces_follow_the_file_and_what_needs_a_restart_says_so() {
    let (server, file) = (ApiServer::start(), File::new("namespaces", "namespaces: [a, b]\n"));
    let client = Client::new(server.client());
    for name in ["a", "b", "c"] {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"team": name}}}))
                .expect("a namespace");
        client.api().create(&namespace).await.expect("created");
        let mut map = config_map("map", &[]);
        map.metadata.namespace = Some(name.into());
        client.api().create(&map).await.expect("created");
    }
    let manager = Manager::new(server.client()).add(quiet()).settings_file(&file.0);
    let running = manager.spawn().expect("starts");
    running.ready().await;
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(cached(&running), names(&["a", "b"]));
    file.write("namespaces: [b, c]\n");
    read_again().await;
    assert_eq!(cached(&running), names(&["b", "c"]));
    file.write("namespaceSelector: {matchLabels: {team: a}}\n");
    read_again().await;
    assert_eq!(cached(&running), names(&["a"]));
    file.write("workers: 2\n");
    read_again().await;
    assert_eq!(cached(&running), names(&["a"]));
    let said = "namespaces: from all namespaces to a choice, or back, needs a restart";
    assert!(problem(&running).as_str().is_some_and(|problem| problem.ends_with(said)));
    assert_eq!(running.diagnostics()["controllers"][0]["workers"], 2, "the rest is in effect");
    running.stop().await.expect("stops");
}
