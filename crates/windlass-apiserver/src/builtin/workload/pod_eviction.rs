//! Eviction: a deletion that asks the disruption budgets first.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::{budget, disruption};
use crate::builtin::Part;
use crate::handler::{Answer, Call, DeleteOptions, DryRun, Intent, Subresource, Write, success};
use crate::lookup::Lookup;
use crate::object;
use crate::resource::Gvk;
use crate::status::{GroupResource, Result, Status};

/// POST of `pods/NAME/eviction`.
pub(super) struct Eviction;

impl Subresource for Eviction {
    fn answer<'a>(&self, call: &'a Arc<Call>) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(evict(call))
    }
}

async fn evict(call: &Arc<Call>) -> Result<Answer> {
    let options = call.write_options("CreateOptions", false)?;
    let body = call.decode_as(&Gvk::new("policy", "v1", "Eviction"), &options)?;
    if object::name(&body) != call.info.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let body = call.admit_part(body, &options).await?;
    let delete = match &body["deleteOptions"] {
        Value::Null => call.read_delete_options(Some(json!({})))?,
        given => call.read_delete_options(Some(given.clone()))?,
    };
    let dry_run = options.dry_run == DryRun::All || delete.dry_run == DryRun::All;
    let on_pod = call.on_object(call.resource.clone(), &call.info.name);
    let entry = on_pod.entry()?;
    let pod = on_pod.object_of(&entry).await?;
    if !disruption::needs_no_budget(&pod) {
        let dry_run = if dry_run { DryRun::All } else { DryRun::No };
        ask_budgets(call, &pod, dry_run).await?;
    }
    if !dry_run {
        mark_evicted(&on_pod, &delete).await?;
    }
    let delete =
        DeleteOptions { dry_run: if dry_run { DryRun::All } else { DryRun::No }, ..delete };
    Write::delete(&on_pod, on_pod.key(), &delete).run().await?;
    Ok(Answer::Plain(201, success(201)))
}

/// Records in the pod why it is deleted, for its watchers.
async fn mark_evicted(call: &Arc<Call>, delete: &DeleteOptions) -> Result<()> {
    let uid = delete.uid.clone();
    let options = call.plain_options(DryRun::No);
    let stamp = call.server.clock.stamp();
    let make = |old: &Value| {
        if let Some(uid) = &uid
            && uid != object::uid(old)
        {
            return Err(Status::conflict(
                &GroupResource { group: "", resource: &call.resource.gvk.kind },
                &call.info.name,
                format!(
                    "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                    object::uid(old)
                ),
            ));
        }
        Ok(disruption::marked(old, &stamp))
    };
    let intent = Intent::Change { make: &make, versioned: false, tracked: false };
    let write = Write::change(call, Part::Status, intent, "UpdateOptions", &options);
    write.run().await.map(|_| ())
}

/// Takes one disruption off the budget that guards the pod, or refuses.
async fn ask_budgets(call: &Call, pod: &Value, dry_run: DryRun) -> Result<()> {
    let lookup: &dyn Lookup = &*call.server;
    let budgets = lookup.list(budget::GROUP, budget::PLURAL, Some(object::namespace(pod)));
    let Some(guard) = disruption::guard_of(&budgets, pod)? else { return Ok(()) };
    let budgets = call.server.registry.find(budget::GROUP, "v1", budget::PLURAL);
    let budgets = budgets.ok_or_else(Status::no_such_resource)?;
    let on_budget = call.on_object(budgets, object::name(&guard));
    let options = call.plain_options(dry_run);
    let stamp = call.server.clock.stamp();
    let make = |old: &Value| disruption::spend(old, object::name(pod), &stamp);
    let intent = Intent::Change { make: &make, versioned: false, tracked: true };
    let write = Write::change(&on_budget, Part::Status, intent, "UpdateOptions", &options);
    write.run().await.map(|_| ())
}
