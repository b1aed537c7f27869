//! What a Service is given: addresses of the cluster's range and node ports.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::handler::{Call, DryRun, WriteOptions};
use crate::server::Inner;
use crate::status::{FieldError, Result};
use crate::store::{ResourceKey, Store};

/// The services' range, `10.0.0.0/24`, without its first and last address.
const FIRST_IP: u32 = u32::from_be_bytes([10, 0, 0, 1]);
const LAST_IP: u32 = u32::from_be_bytes([10, 0, 0, 254]);
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// The addresses and ports that are taken.
#[derive(Default)]
pub(crate) struct Allocator(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    ips: BTreeSet<u32>,
    ports: BTreeSet<(String, i64)>,
}

/// What one request took, to give back if it fails.
#[derive(Default)]
pub(crate) struct Allocation {
    ips: Vec<u32>,
    ports: Vec<(String, i64)>,
}

// === impl Allocator ===

impl Allocator {
    /// Takes note of what the stored services have.
    pub fn load(&self, store: &Store) {
        let table = store.world().table(&ResourceKey::new("", "services"));
        let mut taken = self.0.lock();
        for entry in table.items.values() {
            taken.take(&entry.object());
        }
    }

    /// Takes note of what a service has.
    pub fn keep(&self, service: &Value) {
        self.0.lock().take(service);
    }

    /// Gives back what a deleted service had.
    pub fn free(&self, service: &Value) {
        let mut taken = self.0.lock();
        for ip in ips(service) {
            taken.ips.remove(&ip);
        }
        for port in node_ports(service) {
            taken.ports.remove(&port);
        }
    }
}

impl Taken {
    fn take(&mut self, service: &Value) {
        self.ips.extend(ips(service));
        self.ports.extend(node_ports(service));
    }
}

fn ips(service: &Value) -> Vec<u32> {
    let spec = &service["spec"];
    let list = spec["clusterIPs"].as_array().cloned().unwrap_or_default();
    let mut found: Vec<u32> =
        list.iter().chain([&spec["clusterIP"]]).filter_map(parse_ip).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn parse_ip(value: &Value) -> Option<u32> {
    value.as_str()?.parse::<Ipv4Addr>().ok().map(u32::from)
}

fn node_ports(service: &Value) -> Vec<(String, i64)> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let mut found: Vec<(String, i64)> = ports
        .filter_map(|port| {
            let number = port["nodePort"].as_i64().filter(|n| *n > 0)?;
            Some((port["protocol"].as_str().unwrap_or("TCP").to_owned(), number))
        })
        .collect();
    let health = service["spec"]["healthCheckNodePort"].as_i64().filter(|n| *n > 0);
    found.extend(health.map(|n| ("TCP".to_owned(), n)));
    found
}

impl Inner {
    /// Gives a service what it needs; other kinds need nothing.
    pub fn allocate(
        &self,
        call: &Call,
        object: &mut Value,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<Allocation> {
        let service = call.resource.gvk.group.is_empty() && &*call.resource.plural == "services";
        let mut allocation = Allocation::default();
        if !service || !call.info.subresource.is_empty() {
            return Ok(allocation);
        }
        let _ = options.dry_run == DryRun::All;
        let mut taken = self.allocator.0.lock();
        let had = old.map(ips).unwrap_or_default();
        let outcome = allocate_ip(&mut taken, object, &had, &mut allocation).and_then(|()| {
            let had = old.map(node_ports).unwrap_or_default();
            allocate_ports(&mut taken, object, &had, &mut allocation)
        });
        if let Err(error) = outcome {
            taken.give_back(&allocation);
            return Err(call.invalid_object(object, &[error]));
        }
        Ok(allocation)
    }

    /// Gives back what a failed request took.
    pub fn release(&self, allocation: Allocation) {
        self.allocator.0.lock().give_back(&allocation);
    }
}

impl Taken {
    fn give_back(&mut self, allocation: &Allocation) {
        for ip in &allocation.ips {
            self.ips.remove(ip);
        }
        for port in &allocation.ports {
            self.ports.remove(port);
        }
    }
}

fn allocate_ip(
    taken: &mut Taken,
    object: &mut Value,
    had: &[u32],
    allocation: &mut Allocation,
) -> std::result::Result<(), FieldError> {
    let spec = &mut object["spec"];
    if spec["type"].as_str() == Some("ExternalName") {
        return Ok(());
    }
    let wanted = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    if wanted == "None" {
        return Ok(());
    }
    let ip = if wanted.is_empty() {
        // The upper part of the range first: the lower one is kept for addresses people choose.
        let free = (FIRST_IP + 16..=LAST_IP).chain(FIRST_IP..FIRST_IP + 16);
        let found = free.into_iter().find(|ip| !taken.ips.contains(ip));
        found.ok_or_else(|| {
            FieldError::internal("spec.clusterIPs", "failed to allocate IP: range is full")
        })?
    } else {
        let Ok(ip) = wanted.parse::<Ipv4Addr>().map(u32::from) else { return Ok(()) };
        if had.contains(&ip) {
            return Ok(());
        }
        let fail = |why: &str| {
            FieldError::invalid(
                "spec.clusterIPs",
                &json!([wanted]),
                format!("failed to allocate IP {wanted}: {why}"),
            )
        };
        if !(FIRST_IP..=LAST_IP).contains(&ip) {
            return Err(fail(&format!(
                "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is \
                 10.96.0.0/16"
            )));
        }
        if taken.ips.contains(&ip) {
            return Err(fail("provided IP is already allocated"));
        }
        ip
    };
    taken.ips.insert(ip);
    allocation.ips.push(ip);
    let text = Ipv4Addr::from(ip).to_string();
    spec["clusterIP"] = text.clone().into();
    spec["clusterIPs"] = json!([text]);
    Ok(())
}

fn allocate_ports(
    taken: &mut Taken,
    object: &mut Value,
    had: &[(String, i64)],
    allocation: &mut Allocation,
) -> std::result::Result<(), FieldError> {
    let spec = &mut object["spec"];
    let balanced = spec["type"] == "LoadBalancer"
        && spec["allocateLoadBalancerNodePorts"].as_bool().unwrap_or(true);
    let wants = spec["type"] == "NodePort" || balanced;
    let Some(ports) = spec.get_mut("ports").and_then(Value::as_array_mut) else {
        return Ok(());
    };
    for (index, port) in ports.iter_mut().enumerate() {
        let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
        let number = port["nodePort"].as_i64().filter(|n| *n > 0);
        let chosen = match number {
            Some(number) if had.contains(&(protocol.clone(), number)) => continue,
            Some(number) => {
                let field = format!("spec.ports[{index}].nodePort");
                if !NODE_PORTS.contains(&number) {
                    let why = "provided port is not in the valid range. The range of valid ports is 30000-32767";
                    return Err(FieldError::invalid(field, &json!(number), why));
                }
                if taken.ports.contains(&(protocol.clone(), number)) {
                    let why = "provided port is already allocated";
                    return Err(FieldError::invalid(field, &json!(number), why));
                }
                number
            }
            None if wants => {
                let free =
                    NODE_PORTS.clone().find(|n| !taken.ports.contains(&(protocol.clone(), *n)));
                free.ok_or_else(|| {
                    FieldError::internal(
                        "spec.ports",
                        "failed to allocate a nodePort: range is full",
                    )
                })?
            }
            None => continue,
        };
        port["nodePort"] = chosen.into();
        taken.ports.insert((protocol.clone(), chosen));
        allocation.ports.push((protocol, chosen));
    }
    Ok(())
}
