//! The cells of services, endpoints and the kinds of `networking.k8s.io`.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::cells::{created, list, or_text, text};
use super::selector_text::{labels, none_if_empty, selector};

/// Addresses, ports and hosts shown before `+ N more...`.
const SHOWN_MAX: usize = 3;

/// The cells of a service.
pub(super) fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &service["spec"];
    let ports: Vec<String> = list(&spec["ports"])
        .iter()
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or_default();
            match port["nodePort"].as_i64() {
                Some(node_port) if node_port > 0 => {
                    format!("{}:{node_port}/{protocol}", port["port"])
                }
                _ => format!("{}/{protocol}", port["port"]),
            }
        })
        .collect();
    vec![
        service["metadata"]["name"].clone(),
        text(&spec["type"]),
        or_text(&spec["clusterIPs"][0], spec["clusterIP"].as_str().unwrap_or("<none>")),
        external_ip(service).into(),
        none_if_empty(ports.join(",")).into(),
        age::age(service, now),
        labels(&spec["selector"]).into(),
    ]
}

fn external_ip(service: &Value) -> String {
    let spec = &service["spec"];
    let given = join(list(&spec["externalIPs"]), ",");
    match spec["type"].as_str().unwrap_or_default() {
        "ExternalName" => spec["externalName"].as_str().unwrap_or_default().to_owned(),
        "LoadBalancer" => {
            let balanced = balancer(&service["status"]["loadBalancer"]);
            match (balanced.is_empty(), given.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (true, false) => given,
                (false, true) => balanced,
                (false, false) => format!("{balanced},{given}"),
            }
        }
        "ClusterIP" | "NodePort" => none_if_empty(given),
        _ => "<unknown>".to_owned(),
    }
}

fn balancer(status: &Value) -> String {
    let mut found: Vec<&str> = list(&status["ingress"])
        .iter()
        .filter_map(|i| i["ip"].as_str().filter(|ip| !ip.is_empty()).or(i["hostname"].as_str()))
        .collect();
    found.sort_unstable();
    found.dedup();
    found.join(",")
}

/// The addresses and ports of endpoints.
pub(super) fn endpoints(object: &Value) -> String {
    let mut found = Vec::new();
    for subset in list(&object["subsets"]) {
        let addresses = list(&subset["addresses"]).iter().filter_map(|a| a["ip"].as_str());
        let addresses: Vec<&str> = addresses.collect();
        let ports = list(&subset["ports"]);
        if ports.is_empty() {
            found.extend(addresses.iter().map(|ip| (*ip).to_owned()));
        }
        for port in ports {
            let with_port = |ip: &&str| match ip.contains(':') {
                true => format!("[{ip}]:{}", port["port"]),
                false => format!("{ip}:{}", port["port"]),
            };
            found.extend(addresses.iter().map(with_port));
        }
    }
    none_if_empty(first_few(&found))
}

/// The ports and the addresses of an endpoint slice.
pub(super) fn slice(slice: &Value) -> (String, String) {
    let unset = |text: String| if text.is_empty() { "<unset>".to_owned() } else { text };
    let ports: Vec<String> = list(&slice["ports"])
        .iter()
        .map(|port| match (port["port"].as_i64(), port["name"].as_str()) {
            (Some(number), _) => number.to_string(),
            (None, name) => name.unwrap_or("*").to_owned(),
        })
        .collect();
    let addresses: Vec<String> = list(&slice["endpoints"])
        .iter()
        .flat_map(|e| list(&e["addresses"]))
        .filter_map(|a| a.as_str().map(str::to_owned))
        .collect();
    (unset(first_few(&ports)), unset(first_few(&addresses)))
}

/// The cells of a kind of `networking.k8s.io`.
pub(super) fn networking(plural: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let age = age::age(object, now);
    let spec = &object["spec"];
    match plural {
        "ingresses" => {
            let hosts: Vec<String> = list(&spec["rules"])
                .iter()
                .filter_map(|rule| rule["host"].as_str().filter(|h| !h.is_empty()))
                .map(str::to_owned)
                .collect();
            let hosts = if hosts.is_empty() { "*".to_owned() } else { first_few(&hosts) };
            let secure = !list(&spec["tls"]).is_empty();
            vec![
                name,
                or_text(&spec["ingressClassName"], "<none>"),
                hosts.into(),
                balancer(&object["status"]["loadBalancer"]).into(),
                if secure { "80, 443" } else { "80" }.into(),
                age,
            ]
        }
        "ingressclasses" => {
            let parameters = &spec["parameters"];
            let shown = match parameters.is_null() {
                true => "<none>".to_owned(),
                false => {
                    let get = |key: &str| parameters[key].as_str().unwrap_or_default();
                    let dot = if get("apiGroup").is_empty() { "" } else { "." };
                    format!("{}{dot}{}/{}", get("kind"), get("apiGroup"), get("name"))
                }
            };
            vec![name, text(&spec["controller"]), shown.into(), age]
        }
        "ipaddresses" => {
            let parent = &spec["parentRef"];
            let keys = ["group", "resource", "namespace", "name"];
            let parts: Vec<&str> = keys
                .iter()
                .filter_map(|key| parent[*key].as_str().filter(|part| !part.is_empty()))
                .collect();
            vec![name, none_if_empty(parts.join("/")).into()]
        }
        "networkpolicies" => vec![name, selector(&spec["podSelector"]).into(), age],
        "servicecidrs" => vec![name, join(list(&spec["cidrs"]), ",").into(), age],
        _ => vec![name, created(object)],
    }
}

/// Up to three texts and how many more there are.
fn first_few(texts: &[String]) -> String {
    let shown = texts[..texts.len().min(SHOWN_MAX)].join(",");
    match texts.len().checked_sub(SHOWN_MAX) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

fn join<'a>(values: impl IntoIterator<Item = &'a Value>, by: &str) -> String {
    let texts: Vec<&str> = values.into_iter().filter_map(Value::as_str).collect();
    texts.join(by)
}
