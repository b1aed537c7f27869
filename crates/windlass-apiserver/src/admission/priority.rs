//! Priority: pods are given the number and the policy of their class.

use std::sync::Arc;

use serde_json::Value;

use super::{Review, text};
use crate::custom::put;
use crate::lookup::Lookup;
use crate::object;
use crate::server::Inner;
use crate::status::Result;

const GROUP: &str = "scheduling.k8s.io";

impl Inner {
    pub(super) fn give_priority(&self, review: &mut Review<'_>) -> Result<()> {
        if !review.writes("", "pods") {
            return Ok(());
        }
        if review.is_update() {
            keep(review);
            return Ok(());
        }
        let Some(pod) = &review.object else { return Ok(()) };
        let wanted = text(pod, &["spec", "priorityClassName"]);
        let class = if wanted.is_empty() {
            self.default_priority_class()
        } else {
            let found = self.get(GROUP, "priorityclasses", "", wanted);
            let missing =
                || review.forbidden(format!("no PriorityClass with name {wanted} was found"));
            Some(found.ok_or_else(missing)?)
        };
        let value = class.as_ref().map_or(0, |class| class["value"].as_i64().unwrap_or(0));
        let policy = match &class {
            Some(class) => class["preemptionPolicy"].as_str(),
            None => Some("PreemptLowerPriority"),
        };
        if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != value) {
            return Err(review.forbidden(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
            )));
        }
        let given = pod["spec"]["preemptionPolicy"].as_str();
        if let (Some(given), Some(policy)) = (given, policy)
            && given != policy
        {
            return Err(review.forbidden(format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            )));
        }
        let policy = policy.map(str::to_owned);
        let Some(pod) = &mut review.object else { return Ok(()) };
        if let Some(class) = &class {
            put(pod, &["spec", "priorityClassName"], object::name(class).into());
        }
        put(pod, &["spec", "priority"], value.into());
        if let Some(policy) = policy {
            put(pod, &["spec", "preemptionPolicy"], policy.into());
        }
        Ok(())
    }

    /// One class at most is everybody's.
    pub(super) fn check_default_priority(&self, review: &Review<'_>) -> Result<()> {
        let Some(class) = &review.object else { return Ok(()) };
        if !review.writes(GROUP, "priorityclasses") || class["globalDefault"] != true {
            return Ok(());
        }
        let Some(default) = self.default_priority_class() else { return Ok(()) };
        let name = object::name(&default);
        if review.is_create() || name != object::name(class) {
            return Err(review.forbidden(format!(
                "PriorityClass {name} is already marked as default. Only one default can exist"
            )));
        }
        Ok(())
    }

    /// The class of pods that name none; the lowest, should there be several.
    fn default_priority_class(&self) -> Option<Arc<Value>> {
        let classes = self.list(GROUP, "priorityclasses", None).into_iter();
        let defaults = classes.filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64().unwrap_or(0))
    }
}

/// An update that leaves the computed fields out means them to stay.
fn keep(review: &mut Review<'_>) {
    let (Some(pod), Some(old)) = (&mut review.object, &review.old) else { return };
    for field in ["priority", "preemptionPolicy"] {
        if pod["spec"][field].is_null() && !old["spec"][field].is_null() {
            put(pod, &["spec", field], old["spec"][field].clone());
        }
    }
}
