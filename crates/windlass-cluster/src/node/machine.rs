//! The Node objects: created at the start, with a status that follows their annotations.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeStatus, NodeSystemInfo};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::core::ObjectMeta;
use windlass::clock::Clock;
use windlass::condition::ConditionBuilder;
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Manager, Result, ResultExt};

use super::SIMULATED;
use super::steer::{Health, health};

const VERSION: &str = "v1.36.4";

/// Creates the nodes `node-1` to `node-N`; existing ones are left unchanged.
///
/// # Errors
///
/// Fails if the server refuses an object.
pub async fn register(client: &Client, clock: &Clock, count: usize) -> Result<()> {
    let client = client.clone().field_owner("kubelet");
    client.api().create(&storage_class()).await.ignore_already_exists()?;
    for number in 1..=count {
        let made = client.api().create(&node(number)).await.ignore_already_exists()?;
        if let Some(mut made) = made {
            client.api().create(&lease(&made, clock)).await.ignore_already_exists()?;
            made.status = Some(status(&made, Health::Ready, clock));
            let mut made = client.api().subresource("status").update(&made).await?;
            // New nodes are kept free until they are ready, which this one is.
            if let Some(spec) = made.spec.as_mut()
                && let Some(taints) = spec.taints.as_mut()
            {
                taints.retain(|taint| taint.key != "node.kubernetes.io/not-ready");
                client.api().update(&made).await?;
            }
        }
    }
    Ok(())
}

/// Adds the controller that keeps the conditions of simulated nodes.
pub fn add(builder: Manager) -> Manager {
    let controller = Controller::<Node>::builder("kubelet-status")
        .build(|cx: Context<Node>| async move { reconcile(&cx).await });
    builder.add(controller)
}

async fn reconcile(cx: &Context<Node>) -> Result<Next> {
    let Some(node) = cx.object() else { return Ok(Next::Done) };
    let Some(health) = health(&node) else { return Ok(Next::Done) };
    let status = status(&node, health, cx.clock());
    if node.status.as_ref() != Some(&status) {
        let wanted = Node { status: Some(status), ..(*node).clone() };
        cx.client().api().subresource("status").update(&wanted).await.ignore_not_found()?;
    }
    Ok(Next::Done)
}

/// Storage for claims that name no class, as clusters for development have it.
fn storage_class() -> StorageClass {
    let default = ("storageclass.kubernetes.io/is-default-class".into(), "true".into());
    StorageClass {
        metadata: ObjectMeta {
            name: Some("standard".into()),
            annotations: Some([default].into()),
            ..ObjectMeta::default()
        },
        provisioner: "windlass.dev/simulated".into(),
        reclaim_policy: Some("Delete".into()),
        volume_binding_mode: Some("Immediate".into()),
        ..StorageClass::default()
    }
}

/// The lease of a node; a simulated node does not have to renew it.
fn lease(node: &Node, clock: &Clock) -> Lease {
    let name = node.metadata.name.clone();
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.clone().unwrap_or_default(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    Lease {
        metadata: ObjectMeta {
            name: name.clone(),
            namespace: Some("kube-node-lease".into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: name,
            lease_duration_seconds: Some(40),
            renew_time: Some(MicroTime(clock.now())),
            ..LeaseSpec::default()
        }),
    }
}

fn node(number: usize) -> Node {
    let name = format!("node-{number}");
    let text = |k: &str, v: &str| (k.to_string(), v.to_string());
    Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(
                [
                    text("kubernetes.io/hostname", &name),
                    text("kubernetes.io/os", "linux"),
                    text("kubernetes.io/arch", arch()),
                    text("beta.kubernetes.io/os", "linux"),
                    text("beta.kubernetes.io/arch", arch()),
                ]
                .into(),
            ),
            annotations: Some([text(SIMULATED, "true")].into()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    }
}

fn arch() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

/// The status of a node in this health; fields that it does not concern are kept.
fn status(node: &Node, health: Health, clock: &Clock) -> NodeStatus {
    let mut status = node.status.clone().unwrap_or_default();
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let resources = || {
        let all = [
            ("cpu", "256"),
            ("memory", "1Ti"),
            ("pods", "10000"),
            ("ephemeral-storage", "1Ti"),
            ("hugepages-1Gi", "0"),
            ("hugepages-2Mi", "0"),
        ];
        all.map(|(name, amount)| (name.to_string(), Quantity(amount.to_string()))).into()
    };
    status.capacity.get_or_insert_with(resources);
    let capacity = status.capacity.clone();
    status.allocatable = status.allocatable.or(capacity);
    status.addresses.get_or_insert_with(|| {
        let address = |type_: &str, address: String| NodeAddress { type_: type_.into(), address };
        vec![address("InternalIP", host_ip(name)), address("Hostname", name.into())]
    });
    status.node_info = status.node_info.filter(|info| !info.kubelet_version.is_empty());
    status.node_info.get_or_insert_with(system);
    put_conditions(&mut status, health, clock);
    status
}

fn system() -> NodeSystemInfo {
    NodeSystemInfo {
        architecture: arch().into(),
        container_runtime_version: "windlass://0.1.0".into(),
        kernel_version: "simulated".into(),
        kubelet_version: VERSION.into(),
        operating_system: "linux".into(),
        os_image: "windlass simulated node".into(),
        ..NodeSystemInfo::default()
    }
}

fn put_conditions(status: &mut NodeStatus, health: Health, clock: &Clock) {
    for (type_, bad, good) in [
        ("MemoryPressure", "KubeletHasSufficientMemory", "sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "sufficient PID available"),
    ] {
        let text = format!("kubelet has {good}");
        match health {
            Health::Offline => unknown(status, type_, clock),
            _ => put(status, ConditionBuilder::new(type_, false, clock).reason(bad), &text),
        }
    }
    match health {
        Health::Ready => {
            let text = "kubelet is posting ready status";
            put(status, ConditionBuilder::new("Ready", true, clock).reason("KubeletReady"), text);
        }
        Health::NotReady => {
            let text = "the annotations of the node say that it is not ready";
            let ready = ConditionBuilder::new("Ready", false, clock);
            put(status, ready.reason("KubeletNotReady"), text);
        }
        Health::Offline => unknown(status, "Ready", clock),
    }
}

fn unknown(status: &mut NodeStatus, type_: &str, clock: &Clock) {
    let text = "Kubelet stopped posting node status.";
    put(status, ConditionBuilder::new(type_, None, clock).reason("NodeStatusUnknown"), text);
}

fn put(status: &mut NodeStatus, condition: ConditionBuilder, message: &str) {
    condition.message(message).set(status.conditions.get_or_insert_default());
}

/// An address that is the same in every run: `node-7` is 192.168.0.7.
fn host_ip(name: &str) -> String {
    let digits = name.rsplit('-').next().and_then(|n| n.parse::<u32>().ok());
    let hashed = || name.bytes().fold(7_u32, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
    let number = digits.unwrap_or_else(hashed) % 65_536;
    format!("192.168.{}.{}", number / 256, number % 256)
}
