//! What the tests share.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::ObjectMeta;
use windlass::Manager;
use windlass::cache::Key;
use windlass::manager::Handle;
use windlass_apiserver::ApiServer;

/// A manager that looks at namespace `default` only: the others are not empty.
pub fn manager(server: &ApiServer) -> Manager {
    Manager::new(server.client()).namespaces(["default"])
}

/// A config map of namespace `default`.
pub fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data: BTreeMap<String, String> =
        data.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect();
    ConfigMap { metadata: meta(name), data: Some(data), ..ConfigMap::default() }
}

/// A secret of namespace `default`.
pub fn secret(name: &str) -> Secret {
    Secret { metadata: meta(name), ..Secret::default() }
}

/// Metadata of an object of namespace `default`.
pub fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("default".into()),
        ..ObjectMeta::default()
    }
}

/// A key of namespace `default`.
pub fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

/// Waits in virtual time until something holds.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what} did not come true within 10 s");
}

/// Returns what the diagnostics page shows of the queue of a controller.
pub fn queue(handle: &Handle, controller: &str) -> serde_json::Value {
    let page = handle.diagnostics();
    let all = page["controllers"].as_array().expect("controllers are listed");
    let found = all.iter().find(|shown| shown["name"] == controller);
    found.unwrap_or_else(|| panic!("no controller {controller} in {page}"))["queue"].clone()
}

/// One line of the metrics, without its value.
pub fn metric(handle: &Handle, series: &str) -> f64 {
    let text = handle.metrics();
    let line = text.lines().find(|line| line.starts_with(series) && !line.starts_with('#'));
    let value = line.and_then(|line| line.rsplit(' ').next()).and_then(|v| v.parse().ok());
    value.unwrap_or_else(|| panic!("no series {series} in\n{text}"))
}
