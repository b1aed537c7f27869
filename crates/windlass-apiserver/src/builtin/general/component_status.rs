//! ComponentStatus: computed when it is read.

use serde_json::{Value, json};

use crate::builtin::Strategy;

const NAMES: [&str; 3] = ["controller-manager", "etcd-0", "scheduler"];

/// ComponentStatus.
pub(super) struct ComponentStatus;

impl Strategy for ComponentStatus {
    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 ComponentStatus is deprecated in v1.19+")
    }

    fn computed(&self, controllers_run: bool) -> Option<Vec<Value>> {
        Some(NAMES.iter().map(|name| status_of(name, controllers_run)).collect())
    }
}

fn status_of(name: &str, controllers_run: bool) -> Value {
    let (status, message) = match name == "etcd-0" || controllers_run {
        true => ("True", "ok"),
        false => ("False", "not started: the API server runs alone"),
    };
    json!({
        "apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": status, "message": message}],
    })
}
