//! The `Scale` view of controllers.

use serde_json::{Value, json};

use crate::builtin::rules::selector;
use crate::builtin::rules::value::int;
use crate::resource::Gvk;

/// Returns `true` if a kind has a built-in scale.
fn is_scalable(gvk: &Gvk) -> bool {
    matches!(
        (&*gvk.group, &*gvk.kind),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("", "ReplicationController")
    )
}

/// Returns the `autoscaling/v1` scale of a built-in controller; `None` for kinds without one.
pub fn scale_of(gvk: &Gvk, object: &Value) -> Option<Value> {
    if !is_scalable(gvk) {
        return None;
    }
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    // Go leaves a replica count of 0 out of the spec, but not out of the status.
    let mut spec = json!({});
    if let Some(replicas) = int(object, "spec.replicas").filter(|r| *r != 0) {
        spec["replicas"] = replicas.into();
    }
    let mut status = json!({"replicas": int(object, "status.replicas").unwrap_or_default()});
    let query = match &*gvk.kind {
        "ReplicationController" => {
            selector::to_query(&json!({"matchLabels": object["spec"]["selector"]}))
        }
        _ => selector::to_query(&object["spec"]["selector"]),
    };
    if !query.is_empty() {
        status["selector"] = query.into();
    }
    Some(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": metadata, "spec": spec, "status": status,
    }))
}

/// Sets the replicas of a built-in controller; does nothing for kinds without a scale.
pub fn set_scale(gvk: &Gvk, object: &mut Value, replicas: i64) {
    if is_scalable(gvk) && object["spec"].is_object() {
        object["spec"]["replicas"] = replicas.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shows_replicas_and_selector() {
        let gvk = Gvk::new("apps", "v1", "StatefulSet");
        let mut object = json!({"metadata": {"name": "s", "labels": {"x": "y"}},
            "spec": {"replicas": 3, "selector": {"matchExpressions": [
                {"key": "k", "operator": "Exists"}]}}, "status": {"replicas": 2}});
        let scale = scale_of(&gvk, &object).unwrap();
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "k"}));
        assert_eq!(scale["metadata"], json!({"name": "s"}));
        set_scale(&gvk, &mut object, 0);
        assert_eq!(scale_of(&gvk, &object).unwrap()["spec"], json!({}));
        assert_eq!(scale_of(&Gvk::new("apps", "v1", "DaemonSet"), &object), None);
    }
}
