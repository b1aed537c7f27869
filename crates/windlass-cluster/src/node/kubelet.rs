//! The kubelets: take the pods of simulated nodes through their [`life`](super::life).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use windlass::client::Deletion;
use windlass::controller::{Context, Controller, Next, Watch};
use windlass::events::{EventType, Recorder};
use windlass::{Key, Kind, Manager, Result, ResultExt};

use super::config::{self, Missing};
use super::life::{self, Place, PodEvent};
use super::steer::{Health, health};
use crate::controllers::pod;
use crate::controllers::support::by_node;

/// Adds the kubelets of all simulated nodes.
pub fn add(builder: Manager) -> Manager {
    let addresses = Arc::new(Mutex::new(Addresses::default()));
    let controller = Controller::<Pod>::builder("kubelet")
        .watch(Watch::changes(Kind::of::<Node>(), |change, cache| {
            cache.list::<Pod>().by(&by_node(), change.key().name()).keys().unwrap_or_default()
        }))
        .index(&by_node())
        .workers(8)
        .build(move |cx: Context<Pod>| {
            let addresses = addresses.clone();
            async move { reconcile(&cx, &addresses).await }
        });
    builder.add(controller)
}

async fn reconcile(cx: &Context<Pod>, addresses: &Mutex<Addresses>) -> Result<Next> {
    let Some(pod) = cx.object() else {
        addresses.lock().free(cx.key());
        return Ok(Next::Done);
    };
    let Some(name) = pod::node(&pod) else { return Ok(Next::Done) };
    let Some(node) = cx.get::<Node>(name)? else { return Ok(Next::Done) };
    if !matches!(health(&node), Some(Health::Ready | Health::NotReady)) {
        return Ok(Next::Done);
    }
    let host_ip = host_ip(&node);
    let on_host = pod.spec.as_ref().and_then(|s| s.host_network) == Some(true);
    let known = pod.status.as_ref().and_then(|s| s.pod_ip.clone());
    let pod_ip =
        if on_host { host_ip.clone() } else { addresses.lock().of(cx.key(), known.as_deref()) };
    let missing = match awaits_config(&pod) {
        true => config::missing(cx, &pod).await?,
        false => Missing::default(),
    };
    let step = life::step(&pod, &Place { host_ip, pod_ip }, &missing, cx.clock().now());
    if let Some(status) = step.status {
        let wanted = Pod { status: Some(status), ..(*pod).clone() };
        cx.client().api().subresource("status").update(&wanted).await.ignore_not_found()?;
    }
    if !step.events.is_empty() {
        let recorder = cx.recorder().reporting_as("kubelet", name);
        step.events.into_iter().for_each(|event| publish(&recorder, &pod, event));
    }
    if step.remove {
        let how = Deletion::only(&*pod).grace_seconds(0);
        match cx.client().api::<Pod>().delete(how).await {
            // Another pod of that name by now.
            Err(error) if error.is_conflict() => {}
            other => drop(other?),
        }
    }
    Ok(step.again.map_or(Next::Done, Next::After))
}

/// Returns `true` if a container of a pod may start that needs a ConfigMap or a Secret.
fn awaits_config(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
    let running = statuses.filter(|s| s.state.as_ref().is_some_and(|s| s.running.is_some()));
    let all = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
    pod::is_active(pod) && running.count() < all && config::has_references(pod)
}

fn publish(recorder: &Recorder, pod: &Pod, event: PodEvent) {
    let mut regarding = Key::of(pod).object_reference(&Kind::of::<Pod>());
    regarding.uid = pod.metadata.uid.clone();
    regarding.field_path = event.field;
    let event_type = if event.warning { EventType::Warning } else { EventType::Normal };
    recorder.publish(event_type, regarding, event.reason, "Reconcile", event.text);
}

fn host_ip(node: &Node) -> String {
    let addresses = node.status.as_ref().and_then(|s| s.addresses.as_ref());
    let internal = addresses.into_iter().flatten().find(|a| a.type_ == "InternalIP");
    internal.map(|a| a.address.clone()).unwrap_or_default()
}

/// The addresses of pods: 10.244.0.0/16, one each.
#[derive(Debug, Default)]
struct Addresses {
    pods: BTreeMap<Key, Ipv4Addr>,
    used: BTreeMap<Ipv4Addr, Key>,
    last: u32,
}

// === impl Addresses ===

impl Addresses {
    /// The address of a pod: the one it has, or a free one.
    fn of(&mut self, key: &Key, known: Option<&str>) -> String {
        if let Some(address) = self.pods.get(key) {
            return address.to_string();
        }
        let known = known.and_then(|text| text.parse().ok());
        let address = known.unwrap_or_else(|| self.next());
        self.pods.insert(key.clone(), address);
        self.used.insert(address, key.clone());
        address.to_string()
    }

    fn next(&mut self) -> Ipv4Addr {
        // The first and the last address stay free; once around, addresses are shared.
        for _ in 0..65_534 {
            self.last = self.last % 65_534 + 1;
            let [high, low] = u16::try_from(self.last).unwrap_or(1).to_be_bytes();
            let address = Ipv4Addr::new(10, 244, high, low);
            if !self.used.contains_key(&address) {
                return address;
            }
        }
        Ipv4Addr::new(10, 244, 255, 254)
    }

    fn free(&mut self, key: &Key) {
        if let Some(address) = self.pods.remove(key)
            && self.used.get(&address) == Some(key)
        {
            self.used.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_keeps_its_address_and_a_free_one_is_used_again() {
        let mut addresses = Addresses::default();
        let (a, b) = (Key::namespaced("n", "a"), Key::namespaced("n", "b"));
        let first = addresses.of(&a, None);
        assert_eq!(first, "10.244.0.1");
        assert_eq!(addresses.of(&a, None), first);
        assert_eq!(addresses.of(&b, None), "10.244.0.2");
        addresses.free(&a);
        assert_eq!(addresses.of(&a, Some("10.244.0.1")), "10.244.0.1");
    }
}
