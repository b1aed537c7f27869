//! Slices for Endpoints that people wrote by hand, for services without a selector.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use windlass::cache::Change;
use windlass::controller::{Context, Watch};
use windlass::{Controller, Kind, Manager, Next, Result};

use super::slices::plan::{self, Groups, Slice};
use super::slices::{MANAGED_BY, SERVICE_NAME, write};
use crate::controllers::Shared;

const ME: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
const MADE_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Addresses taken from one subset.
const MAX: usize = 1000;

/// Adds the controller.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    let same_name = |change: &Change| vec![change.key().clone()];
    builder.add(
        Controller::<Endpoints>::builder("endpointslice-mirroring-controller")
            .owns::<EndpointSlice>()
            .watch(Watch::changes(Kind::of::<Service>(), move |change, _| same_name(change)))
            .build(reconcile),
    )
}

async fn reconcile(cx: Context<Endpoints>) -> Result<Next> {
    let service = cx.get::<Service>(cx.name())?;
    let bare = service.is_some_and(|s| {
        s.spec.as_ref().and_then(|s| s.selector.as_ref()).is_none_or(BTreeMap::is_empty)
    });
    let endpoints = cx.object().filter(|endpoints| bare && is_mirrored(endpoints));
    let found = cx
        .list::<EndpointSlice>()
        .labels([(SERVICE_NAME, cx.name())])
        .labels([(MANAGED_BY, ME)])
        .items()?;
    let mut by_type: BTreeMap<String, Vec<Slice>> = BTreeMap::new();
    for slice in found.iter().filter(|slice| slice.metadata.deletion_timestamp.is_none()) {
        by_type.entry(slice.address_type.clone()).or_default().push(Slice::of(slice)?);
    }
    let mut wanted: BTreeMap<&str, Groups> = BTreeMap::new();
    let mut labels = BTreeMap::new();
    if let Some(endpoints) = &endpoints {
        labels = endpoints.metadata.labels.clone().unwrap_or_default();
        labels.insert(SERVICE_NAME.into(), cx.name().into());
        labels.insert(MANAGED_BY.into(), ME.into());
        for subset in endpoints.subsets.iter().flatten() {
            mirror(subset, &mut wanted);
        }
    }
    for family in ["IPv4", "IPv6"] {
        let existing = by_type.remove(family).unwrap_or_default();
        let groups = wanted.remove(family).unwrap_or_default();
        let plan = plan::plan(existing, groups, &labels, false);
        write::carry_out(&cx, "v1", family, &plan, None).await?;
    }
    Ok(Next::Done)
}

/// Returns `true` if the addresses are maintained by something other than a controller.
fn is_mirrored(endpoints: &Endpoints) -> bool {
    let label = |name: &str| endpoints.metadata.labels.as_ref().and_then(|l| l.get(name));
    let annotations = endpoints.metadata.annotations.as_ref();
    endpoints.metadata.deletion_timestamp.is_none()
        && label(SKIP).is_none_or(|value| value != "true")
        && label(MADE_BY).is_none()
        && !annotations.is_some_and(|a| a.contains_key(LEADER))
}

fn mirror(subset: &EndpointSubset, wanted: &mut BTreeMap<&str, Groups>) {
    let ports: Vec<Value> = subset
        .ports
        .iter()
        .flatten()
        .map(|port| {
            let mut found = json!({
                "name": port.name.as_deref().unwrap_or_default(),
                "port": port.port,
                "protocol": port.protocol.as_deref().unwrap_or("TCP"),
            });
            if let Some(protocol) = &port.app_protocol {
                found["appProtocol"] = json!(protocol);
            }
            found
        })
        .collect();
    let ready = subset.addresses.iter().flatten().map(|address| (address, true));
    let others = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
    for (address, ready) in ready.chain(others).take(MAX) {
        let family = if address.ip.contains(':') { "IPv6" } else { "IPv4" };
        wanted.entry(family).or_default().add(ports.clone(), endpoint(address, ready));
    }
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Value {
    let mut endpoint = json!({"addresses": [address.ip], "conditions": {"ready": ready}});
    if let Some(reference) = &address.target_ref {
        endpoint["targetRef"] = json!(reference);
    }
    if let Some(node) = &address.node_name {
        endpoint["nodeName"] = json!(node);
    }
    if let Some(hostname) = address.hostname.as_ref().filter(|name| !name.is_empty()) {
        endpoint["hostname"] = json!(hostname);
    }
    endpoint
}
