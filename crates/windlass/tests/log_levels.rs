//! The log levels of single objects, and of a file of settings, in the log of a process of its own:
//! this test binary, started once more.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Key, Manager, Result};
use windlass_apiserver::ApiServer;

const FILE: &str = "WINDLASS_LOG_LEVELS_FILE";

/// Logs in which phase it runs, and sends a request.
async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    let Some(map) = cx.object() else { return Ok(Next::Done) };
    let phase = map.data.as_ref().and_then(|data| data.get("phase").cloned()).unwrap_or_default();
    tracing::debug!(phase, "details");
    tracing::info!(phase, "summary");
    cx.client().api::<ConfigMap>().get(cx.key()).await?;
    Ok(Next::Done)
}

/// The operator, which goes through phases: the level of object `a`, then several files.
#[tokio::test(start_paused = true)]
async fn child() {
    let Ok(file) = std::env::var(FILE) else { return };
    assert!(windlass::log::init());
    let server = ApiServer::start();
    let client = Client::new(server.client());
    std::fs::write(&file, "workers: 1\n").expect("written");
    let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
    let manager = Manager::new(server.client()).namespaces(["default"]).settings_file(&file);
    let running = manager.add(controller).spawn().expect("starts");
    running.ready().await;
    let log = |directives: &str| std::fs::write(&file, directives).expect("written");
    let phase = async |phase: &str| {
        // The file is read every ten seconds.
        tokio::time::sleep(Duration::from_secs(25)).await;
        for name in ["a", "b"] {
            let patch = Patch::Merge(json!({"data": {"phase": phase}}));
            client.api::<ConfigMap>().patch(&key(name), &patch).await.expect("patched");
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    for name in ["a", "b"] {
        let map = json!({"metadata": {"name": name, "namespace": "default"}});
        let map: ConfigMap = serde_json::from_value(map).expect("a map");
        client.api().create(&map).await.expect("created");
    }
    let level = async |level: Value| {
        let level = json!({"metadata": {"annotations": {"windlass.dev/log-level": level}}});
        client.api::<ConfigMap>().patch(&key("a"), &Patch::Merge(level)).await.expect("patched");
    };
    phase("first").await;
    level(json!("debug")).await;
    phase("annotated").await;
    log("log: warn\n");
    phase("warn").await;
    level(Value::Null).await;
    phase("quiet").await;
    log("log: info,log_levels=debug\n");
    phase("debug").await;
    log("log: info,log_levels=loud\n");
    phase("invalid").await;
    log("workers: 1\n");
    phase("last").await;
    running.stop().await.expect("stops");
}

fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

/// A file that is removed with the test.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn one_object_and_a_file_of_settings_change_what_a_process_logs() {
    let name = format!("windlass-log-levels-{}.yaml", std::process::id());
    let file = File(std::env::temp_dir().join(name));
    let me = std::env::current_exe().expect("has a path");
    let done = Command::new(me)
        .args(["--exact", "child", "--nocapture"])
        .env(FILE, &file.0)
        .env("RUST_LOG", "info")
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{text}");
    let lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |name: &str, message: &str| -> Vec<String> {
        let meant = |line: &&Value| line["name"] == name && line["msg"] == message;
        let phase = |line: &Value| line["phase"].as_str().unwrap_or_default().to_string();
        let mut phases: Vec<String> = lines.iter().filter(meant).map(phase).collect();
        phases.dedup();
        phases.retain(|phase| !phase.is_empty());
        phases
    };
    let all = ["first", "annotated", "debug", "invalid", "last"];
    assert_eq!(of("b", "summary"), all, "not while the file says warn\n{text}");
    assert_eq!(of("b", "details"), ["debug", "invalid"], "{text}");
    // The object's own level stays, whatever the file says.
    let own = ["first", "annotated", "warn", "debug", "invalid"];
    assert_eq!(of("a", "details"), own, "{text}");
    let sent = |name: &str| {
        let request = format!("get ConfigMap default/{name}");
        lines.iter().filter(|line| line["name"] == name && line["request"] == *request).count()
    };
    assert!(sent("a") >= 2 && sent("b") == 0, "requests are shown of that object alone\n{text}");
    let invalid = "settings not changed, those before stay in effect";
    assert_eq!(lines.iter().filter(|line| line["msg"] == invalid).count(), 1, "{text}");
}
