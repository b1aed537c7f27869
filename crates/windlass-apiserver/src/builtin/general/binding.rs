//! Binding: puts a pod onto a node.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::builtin::rules::conditions::set_condition;
use crate::builtin::{Part, Strategy};
use crate::handler::{Answer, Call, Intent, Subresource, Write, success};
use crate::object;
use crate::resource::Gvk;
use crate::status::{FieldError, GroupResource, Result, Status};

/// Binding.
pub(super) struct Binding;

impl Strategy for Binding {
    fn posted(&self) -> Option<&'static dyn Subresource> {
        Some(&Bind)
    }
}

/// POST of a binding, or of `pods/NAME/binding`.
pub struct Bind;

impl Subresource for Bind {
    fn answer<'a>(&self, call: &'a Arc<Call>) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(bind(call))
    }
}

async fn bind(call: &Arc<Call>) -> Result<Answer> {
    let options = call.write_options("CreateOptions", false)?;
    let mut binding = call.decode_as(&Gvk::new("", "v1", "Binding"), &options)?;
    call.place(&mut binding)?;
    let by_path = !call.info.subresource.is_empty();
    let name = object::name(&binding).to_owned();
    if by_path && name != call.info.name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let binding = call.admit_part(binding, &options).await?;
    check(&binding)?;
    let pods = match by_path {
        true => Some(call.resource.clone()),
        false => call.server.registry.find("", "v1", "pods"),
    };
    let on_pod = call.on_object(pods.ok_or_else(Status::no_such_resource)?, &name);
    let stamp = call.server.clock.stamp();
    let make = |old: &Value| bound(old, &binding, &stamp);
    // Nobody owns what a binding sets.
    let intent = Intent::Change { make: &make, versioned: false, tracked: true };
    Write::change(&on_pod, Part::Binding, intent, "CreateOptions", &options).run().await?;
    Ok(Answer::Plain(201, success(201)))
}

/// Refuses a binding that names no node.
fn check(binding: &Value) -> Result<()> {
    let target = &binding["target"];
    let kind = target["kind"].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    if !kind.is_empty() && kind != "Node" {
        let known = ["Node", "<empty>"];
        errors.push(FieldError::not_supported("target.kind", &json!(kind), &known));
    }
    if target["name"].as_str().is_none_or(str::is_empty) {
        errors.push(FieldError::required("target.name", ""));
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(Status::untyped(one.to_string())),
        many => {
            let texts: Vec<_> = many.iter().map(FieldError::to_string).collect();
            Err(Status::untyped(format!("[{}]", texts.join(", "))))
        }
    }
}

/// Returns the pod on its node.
fn bound(old: &Value, binding: &Value, stamp: &str) -> Result<Value> {
    let name = object::name(old);
    let gr = GroupResource { group: "", resource: "pods/binding" };
    if object::is_deleting(old) {
        return Err(Status::conflict(
            &gr,
            name,
            format!("pod {name} is being deleted, cannot be assigned to a host"),
        ));
    }
    let current = old["spec"]["nodeName"].as_str().unwrap_or_default();
    if !current.is_empty() {
        return Err(Status::conflict(
            &gr,
            name,
            format!("pod {name} is already assigned to node \"{current}\""),
        ));
    }
    let uid = object::uid(binding);
    if !uid.is_empty() && uid != object::uid(old) {
        return Err(Status::conflict(
            &gr,
            name,
            format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::uid(old)
            ),
        ));
    }
    let gates = old["spec"]["schedulingGates"].as_array();
    if gates.is_some_and(|g| !g.is_empty()) {
        return Err(Status::conflict(
            &gr,
            name,
            format!("pod {name} has non-empty .spec.schedulingGates"),
        ));
    }
    let mut new = old.clone();
    new["spec"]["nodeName"] = binding["target"]["name"].as_str().unwrap_or_default().into();
    for field in ["annotations", "labels"] {
        let given = object::meta(binding).get(field).and_then(Value::as_object);
        for (key, value) in given.into_iter().flatten() {
            new["metadata"][field][key] = value.clone();
        }
    }
    let condition = json!({
        "type": "PodScheduled", "status": "True",
        "lastProbeTime": null, "lastTransitionTime": stamp,
    });
    set_condition(&mut new, condition);
    Ok(new)
}
