//! The operator of `docs/memcached-side-by-side.md` is the one that runs here.

#[path = "../examples/short.rs"]
#[allow(dead_code)]
mod short;

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::CustomResourceExt;
use serde_json::json;
use short::{Memcached, MemcachedSpec, MemcachedStatus, controller};
use windlass::client::Patch;
use windlass::{Client, Key, Manager, condition};
use windlass_cluster::Cluster;

const PAGE: &str = include_str!("../../../docs/memcached-side-by-side.md");
const CODE: &str = include_str!("../examples/short.rs");

/// Lines that are neither blank nor comments.
fn lines(code: &str) -> usize {
    code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// The code below a heading of the page.
fn block(heading: &str) -> &'static str {
    let rest = PAGE.split_once(&format!("\n## {heading}\n")).expect("the heading is there").1;
    let (_, rest) = rest.split_once("\n```").expect("code begins");
    let (_, rest) = rest.split_once('\n').expect("and has a language");
    rest.split_once("\n```").expect("code ends").0
}

#[test]
fn the_page_shows_what_runs_and_counts_well() {
    let (_, code) = CODE.split_once("\n\n").expect("a comment first");
    assert_eq!(block("windlass").trim(), code.trim());
    let counts = ["windlass", "controller-runtime", "kube-rs"].map(|name| lines(block(name)));
    for (name, count) in ["windlass", "controller-runtime", "kube-rs"].iter().zip(counts) {
        let row = format!("| {name} | {count} |");
        assert!(PAGE.contains(&row), "the page says something else than {row}");
    }
    assert!(counts[0] < counts[1] && counts[0] < counts[2], "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn the_short_operator_creates_repairs_and_reports() {
    let cluster = Cluster::start().await;
    let client = Client::new(cluster.client());
    client.api().create(&Memcached::crd()).await.expect("the definition is valid");
    let operator = Manager::new(cluster.client()).add(controller()).spawn().expect("starts");
    let mut sample = Memcached::new("sample", MemcachedSpec { size: 3 });
    sample.metadata.namespace = Some("default".into());
    client.api().create(&sample).await.expect("created");
    let key = Key::namespaced("default", "sample");
    let settled = async || {
        for _ in 0..1_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let found = client.api::<Memcached>().get(&key).await.expect("read").expect("is there");
            let status: MemcachedStatus = found.status.clone().unwrap_or_default();
            let ready = condition::is_true(&status.conditions, "Available");
            if status.nodes.len() == 3 && ready {
                return;
            }
        }
        panic!("did not settle within 10 s");
    };
    settled().await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    client.api::<Deployment>().patch(&key, &patch).await.expect("scaled by somebody else");
    tokio::time::sleep(Duration::from_secs(1)).await;
    settled().await;
    client.api::<Deployment>().delete(&key).await.expect("deleted by somebody else");
    tokio::time::sleep(Duration::from_secs(1)).await;
    settled().await;
    operator.stop().await.expect("stops");
    cluster.stop().await;
}
