//! Evictions: what a disruption budget says to them, and what they leave in the pod.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_text::select::LabelSelector;

use crate::builtin::rules::conditions::set_condition;
use crate::object;
use crate::status::{Cause, Details, Result, Status};

/// Entries of pods a budget has let go but not seen gone.
const DISRUPTED_MAX: usize = 2000;

/// Returns the budget that an eviction of the pod has to ask, if there is one.
///
/// # Errors
/// More than one budget guards the pod.
pub fn guard_of(budgets: &[Arc<Value>], pod: &Value) -> Result<Option<Arc<Value>>> {
    let guards = |budget: &&Arc<Value>| {
        let selector = LabelSelector::from_object(&budget["spec"]["selector"]);
        selector.is_ok_and(|selector| selector.matches_object(pod))
    };
    let mut found = budgets.iter().filter(guards);
    let guard = found.next();
    if found.next().is_some() {
        return Err(Status::untyped(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    Ok(guard.filter(|budget| !lets_go(budget, pod)).cloned())
}

/// Returns `true` if a budget does not care for a pod that is not ready.
fn lets_go(budget: &Value, pod: &Value) -> bool {
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let policy = budget["spec"]["unhealthyPodEvictionPolicy"].as_str();
    let healthy = count("currentHealthy") >= count("desiredHealthy");
    !is_ready(pod) && (policy == Some("AlwaysAllow") || (healthy && count("desiredHealthy") > 0))
}

/// Returns the budget after it has allowed one disruption.
///
/// # Errors
/// 429 if it does not allow it now.
pub fn spend(budget: &Value, pod: &str, now: &str) -> Result<Value> {
    let name = object::name(budget);
    let generation = object::meta(budget)["generation"].as_i64().unwrap_or(0);
    let status = &budget["status"];
    if status["observedGeneration"].as_i64().unwrap_or(0) < generation {
        return Err(refused(
            format!("The disruption budget {name} is still being processed by the server."),
            10,
        ));
    }
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
    if allowed < 0 {
        return Err(refused("pdb disruptions allowed is negative".into(), 0));
    }
    let waiting = status["disruptedPods"].as_object().map_or(0, serde_json::Map::len);
    if waiting > DISRUPTED_MAX {
        return Err(refused(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller".into(),
            0,
        ));
    }
    if allowed == 0 {
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        return Err(refused(
            format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                count("desiredHealthy"),
                count("currentHealthy")
            ),
            0,
        ));
    }
    let mut new = budget.clone();
    new["status"]["disruptionsAllowed"] = (allowed - 1).into();
    new["status"]["disruptedPods"][pod] = now.into();
    Ok(new)
}

/// Returns the pod with the condition that says why it is deleted.
pub fn marked(pod: &Value, now: &str) -> Value {
    let mut new = pod.clone();
    set_condition(
        &mut new,
        json!({
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": now, "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }),
    );
    new
}

/// Returns `true` if a pod may be evicted without a budget: it does not run, or is already being
/// deleted.
pub fn needs_no_budget(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending" | "") || object::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn refused(why: String, retry_after: u32) -> Status {
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
