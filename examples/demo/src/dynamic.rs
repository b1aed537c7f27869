//! The operator without a Rust type for the kind, nor for the Deployment: names and JSON.
//!
//! For kinds that are known at run time only. A wrong name of a field is found by the API server, or
//! by nobody.

use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use windlass::controller::Watch;
use windlass::finalizer::Finalizing;
use windlass::{Context, Controller, Kind, Next, Result};

use crate::{DEMO, FINALIZER, deployment};

/// The kind, by its names.
pub fn demos() -> Kind {
    Kind::new("example.com", "v1", "Demo", "demos")
}

fn deployments() -> Kind {
    Kind::new("apps", "v1", "Deployment", "deployments")
}

/// The controller, ready to be added to a manager.
pub fn controller() -> Controller<DynamicObject> {
    Controller::of_kind("demo", &demos())
        .watch(Watch::owned(deployments()))
        // What is applied is declared by its Rust type, if there is one.
        .applies::<k8s_openapi::api::apps::v1::Deployment>()
        .writes_status()
        .finalizes()
        .build(reconcile)
}

/// Brings the cluster to what one Demo asks for.
///
/// # Errors
///
/// Fails if the API server refuses a request; the manager retries.
pub async fn reconcile(cx: Context<DynamicObject>) -> Result<Next> {
    let Some(demo) = cx.object() else { return Ok(Next::Done) };
    let spec = &demo.data["spec"];
    let goodbye = || async {
        cx.event("Deleted", format!("{} pods are no longer needed", spec["replicas"]));
        Ok(())
    };
    if let Finalizing::Finalized = cx.finalize(FINALIZER, goodbye).await? {
        return Ok(Next::Done);
    }

    let image = spec["image"].as_str().unwrap_or_default();
    let mut wanted = deployment(cx.name(), image, spec["replicas"].as_i64().unwrap_or(0));
    wanted["metadata"]["namespace"] = json!(cx.namespace());
    wanted["metadata"]["ownerReferences"] = json!([{
        "apiVersion": demos().api_version(),
        "kind": demos().kind(),
        "name": cx.name(),
        "uid": demo.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    let wanted: DynamicObject = serde_json::from_value(wanted)?;
    let applied = cx.client().api_of::<DynamicObject>(&deployments()).apply(&wanted).await?;
    let current = &applied.data["status"];
    cx.status_as(|status: &mut Map<String, Value>| {
        status.insert("replicas".into(), json!(current["replicas"].as_i64().unwrap_or(0)));
        let available = current["availableReplicas"].as_i64().unwrap_or(0);
        status.insert("availableReplicas".into(), json!(available));
        status.insert("selector".into(), json!(format!("{DEMO}={}", cx.name())));
    })
    .await?;
    Ok(Next::Done)
}
