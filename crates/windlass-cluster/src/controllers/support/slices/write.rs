//! Carrying out what was planned for slices.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass::controller::Context;
use windlass::{Key, Kind, Object, Result, ResultExt};

use super::plan::{Plan, Slice};
use crate::controllers::support::{annotate, trigger};

/// Makes, changes and deletes the slices of the reconciled object, which owns them.
pub async fn carry_out<K: Object>(
    cx: &Context<K>,
    api_version: &str,
    family: &str,
    plan: &Plan,
    trigger: Option<&str>,
) -> Result<()> {
    let kind = Kind::of::<EndpointSlice>();
    let api = cx.client().api_of::<DynamicObject>(&kind);
    let uid = cx.object().and_then(|owner| owner.meta().uid.clone());
    for slice in &plan.create {
        let mut object = json!({
            "metadata": {
                "generateName": prefix(cx.name()), "namespace": cx.namespace(),
                "ownerReferences": [{
                    "apiVersion": api_version, "kind": cx.kind().kind(), "name": cx.name(),
                    "uid": uid, "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": family,
        });
        fill(&mut object, slice, trigger);
        api.create(&serde_json::from_value::<DynamicObject>(object)?).await?;
    }
    for slice in &plan.update {
        let key = Key::new(cx.namespace(), &slice.name);
        let Some(mut object) = cx.client().cached().json(&kind, &key)? else { continue };
        fill(&mut object, slice, trigger);
        let object = serde_json::from_value::<DynamicObject>(object)?;
        api.update(&object).await.ignore_not_found()?;
    }
    for slice in &plan.delete {
        delete(cx, slice).await?;
    }
    Ok(())
}

/// Deletes a slice.
pub async fn delete<K: Object>(cx: &Context<K>, slice: &Slice) -> Result<()> {
    cx.client()
        .api::<EndpointSlice>()
        .delete(&Key::new(cx.namespace(), &slice.name))
        .await
        .map(drop)
}

/// Puts what a slice should be into its object.
fn fill(object: &mut Value, slice: &Slice, trigger: Option<&str>) {
    let list = |items: &Vec<Value>| if items.is_empty() { Value::Null } else { json!(items) };
    object["apiVersion"] = json!("discovery.k8s.io/v1");
    object["kind"] = json!("EndpointSlice");
    object["endpoints"] = list(&slice.endpoints);
    object["ports"] = list(&slice.ports);
    object["metadata"]["labels"] = json!(slice.labels);
    annotate(object, trigger::ANNOTATION, trigger);
}

/// The prefix of the names of slices; without the dash if it would be too long.
fn prefix(owner: &str) -> String {
    let prefix = format!("{owner}-");
    if prefix.len() > 253 { owner.to_string() } else { prefix }
}
