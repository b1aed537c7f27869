//! EndpointSlices: the addresses behind a service, at most a hundred to a slice.

mod endpoint;
pub(super) mod plan;
pub(super) mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::Selector;
use parking_lot::Mutex;
use windlass::cache::{Index, Selection};
use windlass::controller::{Context, Watch};
use windlass::{Controller, Error, Key, Kind, Manager, Next, Reconciler, Result};

use super::trigger;
use crate::controllers::Shared;

use crate::controllers::pod;
pub(super) use endpoint::{find_port, hostname, is_headless, may_be_endpoint};
use plan::{Groups, Slice};

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const ME: &str = "endpointslice-controller.k8s.io";
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

/// Adds the controller.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    let state = Arc::new(Slices::default());
    let nodes = state.clone();
    builder.add(
        Controller::<Service>::builder("endpointslice-controller")
            .workers(4)
            .owns::<EndpointSlice>()
            .watch(Watch::selected_by(Kind::of::<Pod>(), &by_selector()))
            .watch(Watch::changes(Kind::of::<Node>(), move |_, _| nodes.waiting()))
            .build_with(Handle(state)),
    )
}

#[derive(Default)]
struct Slices {
    /// Services with a pod on a node that is not there yet.
    adrift: Mutex<BTreeSet<Key>>,
}

struct Handle(Arc<Slices>);

impl Reconciler<Service> for Handle {
    type Error = Error;

    async fn reconcile(&self, cx: Context<Service>) -> Result<Next, Error> {
        self.0.reconcile(&cx).await
    }
}

// === impl Slices ===

impl Slices {
    fn waiting(&self) -> Vec<Key> {
        self.adrift.lock().iter().cloned().collect()
    }

    async fn reconcile(&self, cx: &Context<Service>) -> Result<Next> {
        let selected = cx.object().and_then(|service| {
            let selector = selector(service.spec.as_ref()?)?.clone();
            Some((service, selector))
        });
        let Some((service, selector)) = selected else {
            trigger::forget(cx);
            self.adrift.lock().remove(cx.key());
            return Ok(Next::Done);
        };
        let pods = cx.list::<Pod>().labels(&selector).items()?;
        let found = cx
            .list::<EndpointSlice>()
            .labels([(SERVICE_NAME, cx.name())])
            .labels([(MANAGED_BY, ME)])
            .items()?;
        let found = found.into_iter().filter(|s| s.metadata.deletion_timestamp.is_none());
        let mut by_type: BTreeMap<String, Vec<Slice>> = BTreeMap::new();
        let mut foreign = Vec::new();
        for slice in found {
            if is_of(&slice, &service) {
                by_type.entry(slice.address_type.clone()).or_default().push(Slice::of(&slice)?);
            } else {
                foreign.push(Slice::of(&slice)?);
            }
        }
        let trigger = trigger::step(cx, &service, &pods);
        let labels = labels(&service);
        let mut lost = Vec::new();
        for family in families(&service) {
            let groups = self.groups(cx, &service, &pods, family, &mut lost)?;
            let existing = by_type.remove(family).unwrap_or_default();
            let plan = plan::plan(existing, groups, &labels, true);
            write::carry_out(cx, "v1", family, &plan, trigger.as_deref()).await?;
        }
        for slice in by_type.into_values().flatten().chain(foreign) {
            write::delete(cx, &slice).await?;
        }
        self.report(cx, &lost);
        Ok(Next::Done)
    }

    /// The endpoints by the ports they have.
    fn groups(
        &self,
        cx: &Context<Service>,
        service: &Service,
        pods: &[Arc<Pod>],
        family: &str,
        lost: &mut Vec<String>,
    ) -> Result<Groups> {
        let mut groups = Groups::default();
        let spec = service.spec.clone().unwrap_or_default();
        let publish = spec.publish_not_ready_addresses == Some(true);
        for pod in pods.iter().filter(|pod| may_be_endpoint(pod, true)) {
            let name = pod::node(pod).unwrap_or_default();
            let node = cx.get::<Node>(name)?;
            if node.is_none() && !publish {
                let text = format!(
                    "skipping Pod {} for Service {}: Node {name} Not Found",
                    pod::name(pod),
                    cx.key(),
                );
                if !lost.contains(&text) {
                    lost.push(text);
                }
                continue;
            }
            if let Some(endpoint) = endpoint::endpoint(pod, node.as_deref(), service, family) {
                groups.add(endpoint::ports(&spec, pod), endpoint);
            }
        }
        Ok(groups)
    }

    fn report(&self, cx: &Context<Service>, lost: &[String]) {
        let mut adrift = self.adrift.lock();
        if lost.is_empty() {
            adrift.remove(cx.key());
            return;
        }
        adrift.insert(cx.key().clone());
        let text = match lost {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        cx.warn(
            "FailedToUpdateEndpointSlices",
            format!("Error updating Endpoint Slices for Service {}: {text}", cx.key()),
        );
    }
}

/// Services by their selectors.
pub(super) fn by_selector() -> Index<Service, Selection> {
    Index::selectors("selector", |service: &Service| {
        let labels = selector(service.spec.as_ref()?)?.clone();
        Some(labels.into_iter().collect::<Selector>())
    })
}

/// The selector of a service whose endpoints are made for it.
pub(super) fn selector(spec: &ServiceSpec) -> Option<&BTreeMap<String, String>> {
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    spec.selector.as_ref().filter(|selector| !selector.is_empty())
}

/// The labels of a slice: those of the service, with the reserved ones set here.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.retain(|key, _| !matches!(key.as_str(), SERVICE_NAME | MANAGED_BY | HEADLESS));
    if is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels.insert(SERVICE_NAME.into(), service.metadata.name.clone().unwrap_or_default());
    labels.insert(MANAGED_BY.into(), ME.into());
    labels
}

/// Returns `true` if a slice with the labels of a service's slices belongs to this very service.
fn is_of(slice: &EndpointSlice, service: &Service) -> bool {
    let mut owners = slice.metadata.owner_references.iter().flatten();
    owners.any(|o| o.kind == "Service" && Some(&o.uid) == service.metadata.uid.as_ref())
}

/// The address types a service has slices for.
fn families(service: &Service) -> Vec<&'static str> {
    let spec = service.spec.as_ref();
    let given = spec.and_then(|s| s.ip_families.clone()).unwrap_or_default();
    if !given.is_empty() {
        return given.iter().map(|f| if f == "IPv6" { "IPv6" } else { "IPv4" }).collect();
    }
    match spec.and_then(|s| s.cluster_ip.as_deref()) {
        Some("None") => vec!["IPv4", "IPv6"],
        Some(ip) if ip.contains(':') => vec!["IPv6"],
        _ => vec!["IPv4"],
    }
}
