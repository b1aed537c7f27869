//! The operator on the embedded cluster, in virtual time.

#[path = "../../chapter.rs"]
mod chapter;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};
use warpdrive_operator::{WarpdrivePool, WarpdrivePoolSpec, WarpdrivePoolStatus, operator};
use windlass::client::Patch;
use windlass::{Key, Kind, Result, condition};
use windlass_cluster::OperatorTest;

const NODES: usize = 3;

fn pool(replicas: i32) -> WarpdrivePool {
    let spec = WarpdrivePoolSpec {
        node_selector: BTreeMap::from([("disk".into(), "ssd".into())]),
        replicas,
        volumes_per_node: 2,
        volume_size: Quantity("10Gi".into()),
        agent_namespace: "kube-system".into(),
    };
    WarpdrivePool::new("fast", spec)
}

fn fast() -> Key {
    Key::cluster("fast")
}

/// A cluster with three nodes, of which the last two have the label of the pool.
async fn start() -> Result<OperatorTest> {
    let test = OperatorTest::with_nodes(NODES, operator).await?;
    let names = test.names::<Node>().await?;
    for name in &names[1..] {
        let label = Patch::Merge(json!({"metadata": {"labels": {"disk": "ssd"}}}));
        test.client().api::<Node>().patch(&Key::cluster(name), &label).await?;
    }
    Ok(test)
}

async fn merge(test: &OperatorTest, patch: Value) -> Result<()> {
    test.client().api::<WarpdrivePool>().patch(&fast(), &Patch::Merge(patch)).await.map(drop)
}

/// Waits until the status satisfies a condition.
async fn until(
    test: &OperatorTest,
    what: &str,
    holds: impl Fn(&WarpdrivePoolStatus) -> bool,
) -> Result<WarpdrivePoolStatus> {
    let holds = |pool: &WarpdrivePool| pool.status.as_ref().is_some_and(&holds);
    Ok(test.until(what, &fast(), holds).await?.status.clone().unwrap_or_default())
}

fn ready(status: &WarpdrivePoolStatus, volumes: i32) -> bool {
    condition::is_true(&status.conditions, "Ready") && status.volumes == Some(volumes)
}

/// Claims a volume by name.
async fn claim(test: &OperatorTest, volume: &str) -> Result<()> {
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
            "storageClassName": "fast",
            "volumeName": volume,
        },
    }))?;
    test.client().api().create(&claim).await?;
    until(test, "a volume in use", |status| status.volumes_in_use == Some(1)).await.map(drop)
}

#[test]
fn the_definition_is_accepted() {
    windlass::manifests::crd::check::<WarpdrivePool>().expect("no rule is wrong");
}

#[tokio::test(start_paused = true)]
async fn a_pool_takes_the_nodes_it_selects_grows_and_accounts_for_its_volumes() -> Result<()> {
    let test = start().await?;
    test.client().api().create(&pool(1)).await?;
    let status = until(&test, "two volumes", |status| ready(status, 2)).await?;
    assert_eq!((status.replicas, status.nodes), (Some(1), vec!["node-2".to_owned()]));
    assert_eq!(status.capacity, Some(Quantity("20Gi".into())));
    assert_eq!(test.names::<PersistentVolume>().await?, ["fast-node-2-0", "fast-node-2-1"]);
    assert_eq!(test.names::<StorageClass>().await?, ["fast", "standard"]);
    let pods = test.client().api::<Pod>().list().namespace("kube-system").items().await?;
    let nodes = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
    assert_eq!(nodes.collect::<Vec<_>>(), ["node-2"], "the agent is where the volumes are");

    merge(&test, json!({"spec": {"volumesPerNode": 3}})).await?;
    until(&test, "three volumes", |status| ready(status, 3)).await?;
    let kind = Kind::of::<WarpdrivePool>();
    let scale = test.client().api_of::<Scale>(&kind).subresource("scale");
    scale.patch(&fast(), &Patch::Merge(json!({"spec": {"replicas": 2}}))).await?;
    let status = until(&test, "six volumes", |status| ready(status, 6)).await?;
    assert_eq!(status.free, Some(Quantity("60Gi".into())));
    let seen = scale.get(&fast()).await?.and_then(|scale| scale.status.clone()).expect("is there");
    assert_eq!((seen.replicas, seen.selector.as_deref()), (2, Some("tos.transwarp.io/pool=fast")));

    merge(&test, json!({"spec": {"replicas": 3}})).await?;
    let short = |status: &WarpdrivePoolStatus| {
        let found = status.conditions.iter().find(|c| c.type_ == "NodesFound");
        found.is_some_and(|found| found.message == "2 of 3 nodes are there")
    };
    until(&test, "a report", short).await?;
    let label = Patch::Merge(json!({"metadata": {"labels": {"disk": "ssd"}}}));
    test.client().api::<Node>().patch(&Key::cluster("node-1"), &label).await?;
    until(&test, "nine volumes", |status| ready(status, 9)).await?;
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_pool_in_use_is_protected_and_its_role_is_exact() -> Result<()> {
    let test = start().await?;
    test.client().api().create(&pool(2)).await?;
    until(&test, "four volumes", |status| ready(status, 4)).await?;
    claim(&test, "fast-node-3-1").await?;

    merge(&test, json!({"spec": {"replicas": 1}})).await?;
    let status = until(&test, "one node", |status| ready(status, 2)).await?;
    assert_eq!(status.nodes, ["node-3"], "the one with the claim");
    merge(&test, json!({"spec": {"replicas": 0}})).await?;
    let status = until(&test, "no node", |status| ready(status, 1)).await?;
    assert_eq!(status.free, Some(Quantity("0".into())));
    assert_eq!(test.names::<PersistentVolume>().await?, ["fast-node-3-1"]);

    test.client().api::<WarpdrivePool>().delete(&fast()).await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(test.names::<PersistentVolume>().await?, ["fast-node-3-1"], "it is still used");
    let events = test.client().api::<Event>().list().items().await?;
    let mut notes = events.iter().filter_map(|event| event.note.as_deref());
    assert!(notes.any(|note| note == "1 of 1 volumes belong to a claim"));

    let data = Key::namespaced("default", "data");
    test.client().api::<PersistentVolumeClaim>().delete(&data).await?;
    let released = |volume: &PersistentVolume| {
        volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released")
    };
    let volume = Key::cluster("fast-node-3-1");
    test.until("a released volume", &volume, released).await?;
    assert_eq!(test.names::<WarpdrivePool>().await?, ["fast"], "its data may still be wanted");
    let reclaimed = Patch::Merge(json!({"spec": {"claimRef": null}}));
    test.client().api::<PersistentVolume>().patch(&volume, &reclaimed).await?;
    test.until_none::<WarpdrivePool>().await?;
    assert!(test.names::<PersistentVolume>().await?.is_empty());
    assert!(test.names::<DaemonSet>().await?.is_empty());
    assert_eq!(test.names::<StorageClass>().await?, ["standard"]);
    let settings = Key::namespaced("kube-system", "fast-agent");
    assert!(test.client().api::<ConfigMap>().get(&settings).await?.is_none());
    if let Err(report) = test.role().check() {
        panic!("{report}");
    }
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_deleted_volume_comes_back_and_changes_that_lose_data_are_refused() -> Result<()> {
    let test = start().await?;
    test.client().api().create(&pool(1)).await?;
    until(&test, "two volumes", |status| ready(status, 2)).await?;
    let volume = Key::cluster("fast-node-2-0");
    let before = test.client().api::<PersistentVolume>().get(&volume).await?.expect("is there");
    test.client().api::<PersistentVolume>().delete(&volume).await?;
    let another = |new: &PersistentVolume| new.metadata.uid != before.metadata.uid;
    test.until("another volume", &volume, another).await?;

    let fewer = merge(&test, json!({"spec": {"volumesPerNode": 1}})).await;
    let fewer = fewer.expect_err("is refused").to_string();
    assert!(fewer.contains("volumes can be added, not removed"), "{fewer}");
    let smaller = merge(&test, json!({"spec": {"volumeSize": "1Gi"}})).await;
    assert!(smaller.expect_err("is refused").to_string().contains("spec.volumeSize"));
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn the_chapter_shows_what_happens() -> Result<()> {
    let test = start().await?;
    test.client().api().create(&pool(2)).await?;
    until(&test, "four volumes", |status| ready(status, 4)).await?;
    claim(&test, "fast-node-2-0").await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut printed = Vec::new();
    let show = async |resource: &str, path: &str| {
        let table = test.cluster().table(path).await.expect("can be listed");
        format!("$ kubectl get {resource}\n{table}")
    };
    printed.push(show("wdp", "/apis/tos.transwarp.io/v1alpha1/warpdrivepools").await);
    printed.push(show("pv", "/api/v1/persistentvolumes").await);
    printed.push(show("pvc", "/api/v1/namespaces/default/persistentvolumeclaims").await);
    let agents = "/apis/apps/v1/namespaces/kube-system/daemonsets";
    printed.push(show("daemonsets -n kube-system", agents).await);
    chapter::assert_shows(include_str!("../README.md"), &printed);
    test.stop().await
}
