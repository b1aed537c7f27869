//! What was acknowledged is there after the process was killed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::support::*;

/// What the server said of each object: its version and value.
type Acknowledged = Arc<Mutex<BTreeMap<String, (u64, String)>>>;

fn version(object: &ConfigMap) -> u64 {
    object.resource_version().unwrap().parse().unwrap()
}

fn note(seen: &Acknowledged, object: &ConfigMap) {
    let value = object.data.as_ref().unwrap()["key"].clone();
    seen.lock().unwrap().insert(object.name_any(), (version(object), value));
}

/// Creates and changes objects until the server is gone.
async fn write(maps: Api<ConfigMap>, seen: Acknowledged, round: usize, writer: usize) {
    for index in 0.. {
        let name = format!("r{round}-w{writer}-{index}");
        match maps.create(&PostParams::default(), &map(&name, "1")).await {
            Ok(made) => note(&seen, &made),
            Err(_) => return,
        }
        let change = Patch::Merge(json!({"data": {"key": "2"}}));
        match maps.patch(&name, &PatchParams::default(), &change).await {
            Ok(changed) => note(&seen, &changed),
            Err(_) => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_write_survives_kill_9() {
    let dir = TempDir::new();
    let data = dir.join("data");
    let seen = Acknowledged::default();
    let mut token = None;
    for (round, millis) in [40, 5, 90, 17, 1].into_iter().enumerate() {
        let mut cluster = Cluster::start(dir.path(), &["--data-dir", &data]);
        let maps = cluster.maps().await;
        let text = std::fs::read_to_string(&cluster.kubeconfig).unwrap();
        let shown = text.lines().find(|l| l.contains("token:")).unwrap().to_owned();
        assert_eq!(token.get_or_insert(shown.clone()), &shown);
        check(&maps, &seen).await;
        let writers: Vec<_> = (0..4)
            .map(|writer| tokio::spawn(write(maps.clone(), seen.clone(), round, writer)))
            .collect();
        // Real time: the process is to be caught at an instant of its own.
        tokio::time::sleep(Duration::from_millis(millis)).await;
        cluster.kill();
        for writer in writers {
            writer.await.unwrap();
        }
    }
    let cluster = Cluster::start(dir.path(), &["--data-dir", &data]);
    check(&cluster.maps().await, &seen).await;
}

/// Everything acknowledged is there, as new as it was said to be, and versions go on.
async fn check(maps: &Api<ConfigMap>, seen: &Acknowledged) {
    let list = maps.list(&ListParams::default()).await.unwrap();
    let newest: u64 = list.metadata.resource_version.clone().unwrap().parse().unwrap();
    let found: BTreeMap<String, &ConfigMap> =
        list.items.iter().map(|object| (object.name_any(), object)).collect();
    let seen = seen.lock().unwrap().clone();
    for (name, (at, value)) in &seen {
        let object = found.get(name).unwrap_or_else(|| panic!("{name} is lost"));
        // A write that was under way at the end may have been done without an answer.
        assert!(version(object) >= *at, "{name} went back");
        if version(object) == *at {
            assert_eq!(&object.data.as_ref().unwrap()["key"], value);
        }
        assert!(newest >= *at);
    }
    let name = format!("check-{newest}");
    let made = maps.create(&PostParams::default(), &map(&name, "1")).await.unwrap();
    assert_eq!(version(&made), newest + 1);
}

#[tokio::test]
async fn a_second_process_on_the_same_data_is_refused() {
    let dir = TempDir::new();
    let data = dir.join("data");
    let _first = Cluster::start(dir.path(), &["--data-dir", &data]);
    let kubeconfig = dir.join("other");
    let ended =
        output(&["cluster", "--no-controllers", "--kubeconfig", &kubeconfig, "--data-dir", &data]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(one_line(&ended).ends_with("is in use by another process"));
}
