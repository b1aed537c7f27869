//! PodDisruptionBudgets: how many pods may be disrupted at once.
//!
//! The eviction subresource takes from `disruptionsAllowed` and notes the pod; this controller
//! counts again. Both write with the version they read, so neither undoes the other.

mod pods;
mod scale;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::Selector;
use windlass::cache::{Index, Selection};
use windlass::controller::{Context, Watch};
use windlass::events::EventType;
use windlass::{Controller, Error, Key, Kind, Manager, Next, Reconciler, Result, ResultExt};

use super::wording;
use crate::controllers::Shared;
use crate::controllers::pod;

/// How long the deletion of an evicted pod may take to become visible.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);

/// Adds the controller.
pub fn add(builder: Manager, shared: &Shared) -> Manager {
    let builder = builder.add(pods::controller(shared));
    builder.add(
        Controller::<PodDisruptionBudget>::builder("disruption-controller")
            .reports_as("controllermanager")
            .workers(2)
            .watch(Watch::selected_by(Kind::of::<Pod>(), &by_selector()))
            .reads::<ReplicaSet>()
            .reads::<Deployment>()
            .reads::<StatefulSet>()
            .reads::<ReplicationController>()
            .build_with(Budgets { shared: shared.clone() }),
    )
}

/// Budgets by their selectors.
fn by_selector() -> Index<PodDisruptionBudget, Selection> {
    Index::selectors("selector", |budget: &PodDisruptionBudget| {
        budget.spec.as_ref()?.selector.clone()
    })
}

struct Budgets {
    shared: Shared,
}

/// The numbers of pods of a budget.
struct Counts {
    expected: i32,
    desired: i32,
    unmanaged: usize,
}

impl Reconciler<PodDisruptionBudget> for Budgets {
    type Error = Error;

    async fn reconcile(&self, cx: Context<PodDisruptionBudget>) -> Result<Next, Error> {
        let cx = &cx;
        let Some(budget) = cx.object() else { return Ok(Next::Done) };
        let spec = budget.spec.clone().unwrap_or_default();
        let found = match spec.selector.clone().map(Selector::try_from) {
            Some(Ok(selector)) => cx.list::<Pod>().matching(selector).items()?,
            // Without a selector a budget guards nothing.
            _ => Vec::new(),
        };
        if found.is_empty() {
            cx.event("NoPods", "No matching pods found");
        }
        let counts = match self.count(cx, &budget, &found).await {
            Ok(counts) => counts,
            Err(error) => return self.fail_safe(cx, &budget, &error.to_string()).await,
        };
        if counts.unmanaged > 0 {
            cx.warn("UnmanagedPods", unmanaged(spec.selector.as_ref()));
        }
        let now = self.shared.server.clock().now();
        let (disrupted, recheck) = self.disrupted(cx, &budget, &found, now);
        let healthy = count(found.iter().filter(|pod| {
            pod::is_ready(pod)
                && !pod::is_terminating(pod)
                && !disrupted.contains_key(pod::name(pod))
        }));
        let allowed = if counts.expected <= 0 { 0 } else { (healthy - counts.desired).max(0) };
        let status = PodDisruptionBudgetStatus {
            current_healthy: Some(healthy),
            desired_healthy: Some(counts.desired),
            expected_pods: Some(counts.expected),
            disruptions_allowed: Some(allowed),
            disrupted_pods: Some(disrupted).filter(|map| !map.is_empty()),
            observed_generation: budget.metadata.generation,
            conditions: None,
        };
        let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
        self.write(cx, &budget, status, reason, "").await?;
        Ok(recheck.map_or(Next::Done, Next::After))
    }
}

// === impl Budgets ===

impl Budgets {
    async fn count(
        &self,
        cx: &Context<PodDisruptionBudget>,
        budget: &PodDisruptionBudget,
        found: &[Arc<Pod>],
    ) -> Result<Counts> {
        let spec = budget.spec.clone().unwrap_or_default();
        if let Some(most) = spec.max_unavailable {
            let (expected, unmanaged) = self.expected(cx, found).await?;
            let desired = (expected - scaled(&most, expected)?).max(0);
            return Ok(Counts { expected, desired, unmanaged });
        }
        match spec.min_available {
            Some(IntOrString::Int(least)) => {
                Ok(Counts { expected: count(found.iter()), desired: least, unmanaged: 0 })
            }
            Some(percent) => {
                let (expected, unmanaged) = self.expected(cx, found).await?;
                let desired = scaled(&percent, expected)?;
                Ok(Counts { expected, desired, unmanaged })
            }
            None => Ok(Counts { expected: 0, desired: 0, unmanaged: 0 }),
        }
    }

    /// The sum of the replicas of all controllers of the pods, and how many pods have none.
    async fn expected(
        &self,
        cx: &Context<PodDisruptionBudget>,
        found: &[Arc<Pod>],
    ) -> Result<(i32, usize)> {
        let mut scales: BTreeMap<String, i32> = BTreeMap::new();
        let mut known: BTreeMap<String, ()> = BTreeMap::new();
        let mut unmanaged = 0;
        for pod in found {
            let Some(owner) = windlass::owner::controller_of(&**pod) else {
                unmanaged += 1;
                continue;
            };
            if known.insert(owner.uid.clone(), ()).is_some() {
                continue;
            }
            let Some((uid, replicas)) = scale::of(cx, owner).await? else {
                let name = pod::name(pod);
                return Err(Error::other(format!("found no controllers for pod {name:?}")));
            };
            scales.insert(uid, replicas);
        }
        Ok((scales.values().fold(0, |sum, n| sum.saturating_add(*n)), unmanaged))
    }

    /// The evicted pods that still exist, and when to look again.
    fn disrupted(
        &self,
        cx: &Context<PodDisruptionBudget>,
        budget: &PodDisruptionBudget,
        found: &[Arc<Pod>],
        now: Timestamp,
    ) -> (BTreeMap<String, Time>, Option<Duration>) {
        let noted = budget.status.as_ref().and_then(|s| s.disrupted_pods.as_ref());
        let mut kept = BTreeMap::new();
        let mut recheck: Option<Duration> = None;
        for pod in found.iter().filter(|pod| !pod::is_terminating(pod)) {
            let Some(time) = noted.and_then(|noted| noted.get(pod::name(pod))) else { continue };
            let end = time.0.checked_add(DELETION_TIMEOUT).unwrap_or(time.0);
            if end < now {
                // Kubernetes names the namespace twice.
                let place = cx.namespace().unwrap_or_default();
                let text =
                    format!("Pod was expected by PDB {place}/{place} to be deleted but it wasn't");
                super::publish(cx.recorder(), EventType::Warning, &**pod, "NotDeleted", text);
                continue;
            }
            kept.insert(pod::name(pod).to_string(), time.clone());
            let wait = Duration::try_from(end.duration_since(now)).unwrap_or_default();
            let wait = wait + Duration::from_secs(1);
            recheck = Some(recheck.map_or(wait, |earlier| earlier.min(wait)));
        }
        (kept, recheck)
    }

    /// Allows nothing, since the pods cannot be counted.
    async fn fail_safe(
        &self,
        cx: &Context<PodDisruptionBudget>,
        budget: &PodDisruptionBudget,
        text: &str,
    ) -> Result<Next> {
        let note = format!("Failed to calculate the number of expected pods: {text}");
        cx.warn("CalculateExpectedPodCountFailed", note);
        let old = budget.status.clone().unwrap_or_default();
        let status = PodDisruptionBudgetStatus { disruptions_allowed: Some(0), ..old };
        self.write(cx, budget, status, "SyncFailed", text).await?;
        Ok(Next::After(Duration::from_secs(5)))
    }

    async fn write(
        &self,
        cx: &Context<PodDisruptionBudget>,
        budget: &PodDisruptionBudget,
        mut status: PodDisruptionBudgetStatus,
        reason: &str,
        message: &str,
    ) -> Result<()> {
        let old = budget.status.clone().unwrap_or_default();
        let mut conditions = old.conditions.clone().unwrap_or_default();
        let allowed = cx.condition("DisruptionAllowed", status.disruptions_allowed > Some(0));
        allowed.reason(reason).message(message).set(&mut conditions);
        status.conditions = Some(conditions);
        if budget.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let changed = PodDisruptionBudget { status: Some(status), ..budget.clone() };
        cx.client().api().subresource("status").update(&changed).await.ignore_not_found()?;
        Ok(())
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> i32 {
    i32::try_from(items.count()).unwrap_or(i32::MAX)
}

/// A number, or a percentage of `total` rounded up.
fn scaled(value: &IntOrString, total: i32) -> Result<i32> {
    match value {
        IntOrString::Int(number) => Ok(*number),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|t| t.parse::<i64>().ok());
            let Some(percent) = percent else {
                return Err(Error::other(format!("invalid value for IntOrString: {text:?}")));
            };
            let share = (percent.saturating_mul(i64::from(total)).saturating_add(99)) / 100;
            Ok(i32::try_from(share).unwrap_or(i32::MAX))
        }
    }
}

fn unmanaged(selector: Option<&LabelSelector>) -> String {
    let text = wording::selector(selector);
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {text}) were found to be unmanaged. \
         As a result, the status of the PDB cannot be calculated correctly, which may result in \
         undefined behavior. To account for these pods please set \".spec.minAvailable\" field of \
         the PDB to an integer value."
    )
}

/// The key of an owner in the namespace of the budget.
fn sibling(cx: &Context<PodDisruptionBudget>, name: &str) -> Key {
    Key::new(cx.namespace(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up() {
        let percent = |text: &str, total| scaled(&IntOrString::String(text.into()), total);
        assert_eq!(percent("50%", 3).ok(), Some(2));
        assert_eq!(percent("0%", 3).ok(), Some(0));
        assert_eq!(percent("100%", 3).ok(), Some(3));
        assert!(percent("half", 3).is_err());
    }
}
