//! Eviction: a deletion that asks the disruption budgets first.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_text::select::LabelSelector;

use super::success;
use crate::builtin::budget;
use crate::builtin::rules::conditions::set_condition;
use crate::handler::delete::DeleteOptions;
use crate::handler::write::{Intent, Part, Write, write_failure};
use crate::handler::{Answer, Call, DryRun};
use crate::lookup::Lookup;
use crate::object;
use crate::resource::Gvk;
use crate::status::{Cause, Details, GroupResource, Result, Status};
use crate::store::{Change, Key, ResourceKey, WriteError};

/// Entries of pods a budget has let go but not seen gone.
const DISRUPTED_MAX: usize = 2000;

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
        if !needs_no_budget(&pod) {
            self.ask_budgets(&pod, dry_run)?;
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
            let mut new = old.clone();
            set_condition(
                &mut new,
                json!({
                    "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": stamp, "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                }),
            );
            Ok(new)
        };
        let intent = Intent::Change { make: &make, versioned: false, tracked: false };
        let write = Write::change(self, Part::Status, intent, "UpdateOptions", &options);
        write.run().await.map(|_| ())
    }

    /// Takes one disruption off the budget that guards the pod, or refuses.
    fn ask_budgets(&self, pod: &Value, dry_run: bool) -> Result<()> {
        let namespace = object::namespace(pod);
        let lookup: &dyn Lookup = &*self.server;
        let budgets = lookup.list(budget::GROUP, budget::PLURAL, Some(namespace));
        let guards: Vec<_> = budgets
            .iter()
            .filter(|budget| {
                let selector = LabelSelector::from_object(&budget["spec"]["selector"]);
                selector.is_ok_and(|s| s.matches_object(pod))
            })
            .collect();
        let budget = match guards.as_slice() {
            [] => return Ok(()),
            [one] => one,
            _ => {
                return Err(Status::untyped(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let policy = budget["spec"]["unhealthyPodEvictionPolicy"].as_str();
        let ready = is_ready(pod);
        let status = &budget["status"];
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        if !ready {
            let healthy = count("currentHealthy") >= count("desiredHealthy");
            if policy == Some("AlwaysAllow") || (healthy && count("desiredHealthy") > 0) {
                return Ok(());
            }
        }
        self.take_disruption(budget, object::name(pod), dry_run)
    }

    fn take_disruption(&self, budget: &Value, pod: &str, dry_run: bool) -> Result<()> {
        let name = object::name(budget);
        let generation = object::meta(budget)["generation"].as_i64().unwrap_or(0);
        let status = &budget["status"];
        if status["observedGeneration"].as_i64().unwrap_or(0) < generation {
            return Err(refused(
                name,
                format!("The disruption budget {name} is still being processed by the server."),
                10,
            ));
        }
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        if allowed < 0 {
            return Err(refused(name, "pdb disruptions allowed is negative".into(), 0));
        }
        let waiting = status["disruptedPods"].as_object().map_or(0, serde_json::Map::len);
        if waiting > DISRUPTED_MAX {
            return Err(refused(
                name,
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
                    .into(),
                0,
            ));
        }
        if allowed == 0 {
            let count = |field: &str| status[field].as_i64().unwrap_or(0);
            return Err(refused(
                name,
                format!(
                    "The disruption budget {name} needs {} healthy pods and has {} currently",
                    count("desiredHealthy"),
                    count("currentHealthy")
                ),
                0,
            ));
        }
        if dry_run {
            return Ok(());
        }
        self.store_disruption(budget, pod, allowed - 1)
    }

    fn store_disruption(&self, budget: &Value, pod: &str, allowed: i64) -> Result<()> {
        let storage = ResourceKey::new(budget::GROUP, budget::PLURAL);
        let key = Key::new(object::namespace(budget), object::name(budget));
        let mut new = budget.clone();
        new["status"]["disruptionsAllowed"] = allowed.into();
        new["status"]["disruptedPods"][pod] = self.server.clock.stamp().into();
        let version = object::meta_str(budget, "resourceVersion").parse().ok();
        object::strip_type(&mut new);
        let change = Change::Put { object: new, fields: Vec::new() };
        match self.server.store.write(&storage, &key, version, change) {
            Ok(_) => Ok(()),
            Err(WriteError::Conflict) => Err(refused(
                object::name(budget),
                format!(
                    "The disruption budget {} is still being processed by the server.",
                    key.name
                ),
                10,
            )),
            Err(error) => Err(write_failure(&error)),
        }
    }
}

/// Returns `true` if a pod may be evicted without a budget: it does not run, or is already being
/// deleted.
fn needs_no_budget(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending" | "") || object::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn refused(budget: &str, why: String, retry_after: u32) -> Status {
    let _ = budget;
    Status::new(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    .with_details(Details {
        causes: vec![Cause {
            reason: "DisruptionBudget".into(),
            message: why,
            field: String::new(),
        }],
        retry_after,
        ..Details::default()
    })
}
