//! Eviction: a deletion that asks the disruption budgets first.

use std::sync::Arc;

use serde_json::{Value, json};

use super::success;
use crate::builtin::{budget, disruption};
use crate::handler::delete::DeleteOptions;
use crate::handler::write::{Intent, Part, Write};
use crate::handler::{Answer, Call, DryRun};
use crate::lookup::Lookup;
use crate::object;
use crate::resource::Gvk;
use crate::status::{GroupResource, Result, Status};

impl Call {
    pub(super) async fn evict(self: &Arc<Self>) -> Result<Answer> {
        let options = self.write_options("CreateOptions", false)?;
        let body = self.decode_as(&Gvk::new("policy", "v1", "Eviction"), &options)?;
        if object::name(&body) != self.info.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let body = self.admit_part(body, &options).await?;
        let delete = match &body["deleteOptions"] {
            Value::Null => self.read_delete_options(Some(json!({})))?,
            given => self.read_delete_options(Some(given.clone()))?,
        };
        let dry_run = options.dry_run == DryRun::All || delete.dry_run == DryRun::All;
        let call = self.on_object(self.resource.clone(), &self.info.name);
        let entry = call.entry()?;
        let pod = call.object_of(&entry).await?;
        if !disruption::needs_no_budget(&pod) {
            let dry_run = if dry_run { DryRun::All } else { DryRun::No };
            self.ask_budgets(&pod, dry_run).await?;
        }
        if !dry_run {
            call.mark_evicted(&delete).await?;
        }
        let delete =
            DeleteOptions { dry_run: if dry_run { DryRun::All } else { DryRun::No }, ..delete };
        Write::delete(&call, call.key(), &delete).run().await?;
        Ok(Answer::Plain(201, success(201)))
    }

    /// Records in the pod why it is deleted, for its watchers.
    async fn mark_evicted(self: &Arc<Self>, delete: &DeleteOptions) -> Result<()> {
        let uid = delete.uid.clone();
        let options = self.plain_options(DryRun::No);
        let stamp = self.server.clock.stamp();
        let make = |old: &Value| {
            if let Some(uid) = &uid
                && uid != object::uid(old)
            {
                return Err(Status::conflict(
                    &GroupResource { group: "", resource: &self.resource.gvk.kind },
                    &self.info.name,
                    format!(
                        "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                        object::uid(old)
                    ),
                ));
            }
            Ok(disruption::marked(old, &stamp))
        };
        let intent = Intent::Change { make: &make, versioned: false, tracked: false };
        let write = Write::change(self, Part::Status, intent, "UpdateOptions", &options);
        write.run().await.map(|_| ())
    }

    /// Takes one disruption off the budget that guards the pod, or refuses.
    async fn ask_budgets(&self, pod: &Value, dry_run: DryRun) -> Result<()> {
        let lookup: &dyn Lookup = &*self.server;
        let budgets = lookup.list(budget::GROUP, budget::PLURAL, Some(object::namespace(pod)));
        let Some(guard) = disruption::guard_of(&budgets, pod)? else { return Ok(()) };
        let budgets = self.server.registry.find(budget::GROUP, "v1", budget::PLURAL);
        let budgets = budgets.ok_or_else(Status::no_such_resource)?;
        let call = self.on_object(budgets, object::name(&guard));
        let options = self.plain_options(dry_run);
        let stamp = self.server.clock.stamp();
        let make = |old: &Value| disruption::spend(old, object::name(pod), &stamp);
        let intent = Intent::Change { make: &make, versioned: false, tracked: true };
        let write = Write::change(&call, Part::Status, intent, "UpdateOptions", &options);
        write.run().await.map(|_| ())
    }
}
