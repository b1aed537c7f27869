//! Cluster IPs and node ports of Services.
//!
//! What a request allocates is an [`Allocation`]: it is given back when it is dropped, and kept if
//! the request is committed. So a request that fails, or whose client disconnects, leaks nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::builtin::general::service;
use crate::handler::Call;
use crate::server::Inner;
use crate::status::{FieldError, Result, Status};
use crate::store::{ResourceKey, Store};
use crate::work;

/// The range of cluster IPs, `10.0.0.0/24`, without its first and last address.
const FIRST_IP: u32 = u32::from_be_bytes([10, 0, 0, 1]);
const LAST_IP: u32 = u32::from_be_bytes([10, 0, 0, 254]);
/// Addresses at the beginning of the range that are reserved for services that choose their own.
const CHOSEN_IPS: u32 = 16;
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// The addresses and ports in use.
#[derive(Clone, Default)]
pub(crate) struct Allocator(Arc<Mutex<Resources>>);

/// Addresses and ports. A port is used for all protocols.
#[derive(Default)]
struct Resources {
    ips: BTreeSet<u32>,
    ports: BTreeSet<i64>,
}

/// What one request allocates: given back when dropped, unless it is committed.
pub(crate) struct Allocation {
    allocator: Allocator,
    added: Resources,
    /// What the stored service uses and the new one does not.
    unused: Resources,
}

/// Why nothing was allocated.
enum Refusal {
    Field(FieldError),
    Internal(String),
}

// === impl Allocator ===

impl Allocator {
    /// Marks what the stored services use.
    pub fn load(&self, store: &Store) {
        let table = store.world().table(&ResourceKey::new("", "services"));
        for entry in table.items.values() {
            self.keep(&entry.object());
        }
    }

    /// Marks what a service uses.
    pub fn keep(&self, service: &Value) {
        let used = Resources::of(service);
        let mut all = self.0.lock();
        all.ips.extend(used.ips);
        all.ports.extend(used.ports);
    }

    /// Frees what a deleted service used.
    pub fn free(&self, service: &Value) {
        self.0.lock().remove(&Resources::of(service));
    }
}

// === impl Resources ===

impl Resources {
    /// What a service uses.
    fn of(service: &Value) -> Self {
        let spec = &service["spec"];
        let list = spec["clusterIPs"].as_array().into_iter().flatten();
        let ips = list.chain([&spec["clusterIP"]]).filter_map(parse_ip).collect();
        let ports = spec["ports"].as_array().into_iter().flatten();
        let ports = ports.map(|port| &port["nodePort"]).chain([&spec["healthCheckNodePort"]]);
        Self { ips, ports: ports.filter_map(port_number).collect() }
    }

    fn remove(&mut self, other: &Self) {
        for ip in &other.ips {
            self.ips.remove(ip);
        }
        for port in &other.ports {
            self.ports.remove(port);
        }
    }

    /// Allocates a port that is asked for.
    fn take_port(&mut self, port: i64, added: &mut Self) -> std::result::Result<(), &'static str> {
        if !NODE_PORTS.contains(&port) {
            return Err("provided port is not in the valid range. The range of valid ports is \
                        30000-32767");
        }
        if !self.ports.insert(port) {
            return Err("provided port is already allocated");
        }
        added.ports.insert(port);
        Ok(())
    }

    /// Allocates any port.
    fn next_port(&mut self, added: &mut Self) -> std::result::Result<i64, &'static str> {
        let port = NODE_PORTS.clone().find(|port| !self.ports.contains(port));
        let port = port.ok_or("range is full")?;
        self.ports.insert(port);
        added.ports.insert(port);
        Ok(port)
    }
}

fn parse_ip(value: &Value) -> Option<u32> {
    value.as_str()?.parse::<Ipv4Addr>().ok().map(u32::from)
}

fn port_number(value: &Value) -> Option<i64> {
    value.as_i64().filter(|number| *number > 0)
}

// === impl Allocation ===

impl Allocation {
    /// Keeps what was allocated, and frees what the service no longer uses.
    pub fn commit(mut self) {
        self.added = Resources::default();
        self.allocator.0.lock().remove(&self.unused);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if !self.added.ips.is_empty() || !self.added.ports.is_empty() {
            self.allocator.0.lock().remove(&self.added);
        }
    }
}

impl Inner {
    /// Returns the allocation of a request that needs nothing.
    pub fn no_allocation(&self) -> Allocation {
        Allocation {
            allocator: self.allocator.clone(),
            added: Resources::default(),
            unused: Resources::default(),
        }
    }

    /// Allocates what a new or changed service needs; other kinds need nothing.
    pub fn allocate(
        &self,
        call: &Call,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Allocation> {
        let mut allocation = self.no_allocation();
        if !call.rules().hooks().allocates() || !call.info.subresource.is_empty() {
            return Ok(allocation);
        }
        if service::has_cluster_ips(object) {
            let wrong = service::validate_cluster_ips(object);
            if !wrong.is_empty() {
                return Err(call.invalid_object(object, &wrong));
            }
        }
        let had = old.map(Resources::of).unwrap_or_default();
        // Another address than before is refused by the rules.
        let keeps_ip = old.is_some_and(service::has_cluster_ips);
        let outcome = {
            let mut all = self.allocator.0.lock();
            let ip = match keeps_ip {
                true => Ok(()),
                false => allocate_ip(&mut all, object, &had, &mut allocation.added),
            };
            ip.and_then(|()| match old {
                None => create_ports(&mut all, object, &mut allocation.added),
                Some(_) => update_ports(&mut all, object, &had, &mut allocation.added),
            })
            .and_then(|()| {
                let had = old.is_some_and(service::needs_health_check_port);
                allocate_health_port(&mut all, object, had, &mut allocation.added)
            })
        };
        match outcome {
            Ok(()) => {}
            Err(Refusal::Field(error)) => return Err(call.invalid_object(object, &[error])),
            Err(Refusal::Internal(why)) => return Err(Status::internal(why)),
        }
        allocation.unused = had;
        allocation.unused.remove(&Resources::of(object));
        Ok(allocation)
    }
}

fn allocate_ip(
    all: &mut Resources,
    object: &mut Value,
    had: &Resources,
    added: &mut Resources,
) -> std::result::Result<(), Refusal> {
    if !service::has_cluster_ips(object) || service::is_headless(object) {
        return Ok(());
    }
    let asked = object["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
    let ip = if asked.is_empty() {
        let mut free = (FIRST_IP + CHOSEN_IPS..=LAST_IP).chain(FIRST_IP..FIRST_IP + CHOSEN_IPS);
        let found = free.find(|ip| !all.ips.contains(ip));
        found.ok_or_else(|| {
            let name = crate::status::quote(crate::object::name(object));
            Refusal::Internal(format!(
                "failed to allocate a serviceIP for Service {name}: range is full"
            ))
        })?
    } else {
        let Ok(ip) = asked.parse::<Ipv4Addr>().map(u32::from) else { return Ok(()) };
        if had.ips.contains(&ip) {
            return Ok(());
        }
        let refused = |why: &str| {
            let why = format!("failed to allocate IP {asked}: {why}");
            Err(Refusal::Field(FieldError::invalid("spec.clusterIPs", &json!([asked]), why)))
        };
        if !(FIRST_IP..=LAST_IP).contains(&ip) {
            return refused("the provided network does not match the current range");
        }
        if all.ips.contains(&ip) {
            return refused("provided IP is already allocated");
        }
        ip
    };
    all.ips.insert(ip);
    added.ips.insert(ip);
    let text = Ipv4Addr::from(ip).to_string();
    let spec = &mut object["spec"];
    spec["clusterIP"] = text.clone().into();
    spec["clusterIPs"] = json!([text]);
    Ok(())
}

/// Allocates the node ports of a new service. Entries for the same port share a node port.
fn create_ports(
    all: &mut Resources,
    object: &mut Value,
    added: &mut Resources,
) -> std::result::Result<(), Refusal> {
    let automatic = service::needs_node_port(object);
    if !matches!(object["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        return Ok(());
    }
    let Some(ports) = object["spec"]["ports"].as_array_mut() else { return Ok(()) };
    let mut asked: BTreeMap<i64, i64> = BTreeMap::new();
    for port in ports.iter() {
        work::spent(1);
        if let (Some(number), Some(node)) = (port["port"].as_i64(), port_number(&port["nodePort"]))
        {
            asked.entry(number).or_insert(node);
        }
    }
    let mut chosen: BTreeMap<i64, i64> = BTreeMap::new();
    for (at, port) in ports.iter_mut().enumerate() {
        work::spent(1);
        let (number, own) = (port["port"].as_i64().unwrap_or(0), port_number(&port["nodePort"]));
        if own.is_none() && !automatic {
            continue;
        }
        let node = match (chosen.get(&number).copied(), own) {
            (Some(shared), None) => shared,
            (Some(shared), Some(own)) if shared == own => continue,
            (Some(_), Some(own)) => take_port(all, at, own, added)?,
            (None, _) => {
                let node = match asked.get(&number) {
                    Some(node) => take_port(all, at, *node, added)?,
                    None => next_port(all, added)?,
                };
                chosen.insert(number, node);
                node
            }
        };
        port["nodePort"] = node.into();
    }
    Ok(())
}

/// Allocates the node ports that a changed service did not have.
fn update_ports(
    all: &mut Resources,
    object: &mut Value,
    had: &Resources,
    added: &mut Resources,
) -> std::result::Result<(), Refusal> {
    let automatic = service::needs_node_port(object);
    if !matches!(object["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        return Ok(());
    }
    let Some(ports) = object["spec"]["ports"].as_array_mut() else { return Ok(()) };
    for (at, port) in ports.iter_mut().enumerate() {
        work::spent(1);
        match port_number(&port["nodePort"]) {
            Some(node) if had.ports.contains(&node) || added.ports.contains(&node) => {}
            Some(node) => {
                take_port(all, at, node, added)?;
            }
            None if automatic => port["nodePort"] = next_port(all, added)?.into(),
            None => {}
        }
    }
    Ok(())
}

fn allocate_health_port(
    all: &mut Resources,
    object: &mut Value,
    had: bool,
    added: &mut Resources,
) -> std::result::Result<(), Refusal> {
    if had || !service::needs_health_check_port(object) {
        return Ok(());
    }
    let spec = &mut object["spec"];
    if let Some(port) = port_number(&spec["healthCheckNodePort"]) {
        return all.take_port(port, added).map_err(|why| {
            Refusal::Internal(format!(
                "failed to allocate requested HealthCheck NodePort {port}: {why}"
            ))
        });
    }
    let port = all.next_port(added).map_err(|why| {
        Refusal::Internal(format!("failed to allocate a HealthCheck NodePort 0: {why}"))
    })?;
    spec["healthCheckNodePort"] = port.into();
    Ok(())
}

fn take_port(
    all: &mut Resources,
    at: usize,
    port: i64,
    added: &mut Resources,
) -> std::result::Result<i64, Refusal> {
    all.take_port(port, added).map_err(|why| {
        let field = format!("spec.ports[{at}].nodePort");
        Refusal::Field(FieldError::invalid(field, &json!(port), why))
    })?;
    Ok(port)
}

fn next_port(all: &mut Resources, added: &mut Resources) -> std::result::Result<i64, Refusal> {
    all.next_port(added)
        .map_err(|why| Refusal::Internal(format!("failed to allocate a nodePort: {why}")))
}
