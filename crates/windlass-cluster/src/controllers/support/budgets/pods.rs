//! What budgets have to say about single pods: one that several guard, and one that was to go and
//! did not.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Deserialize;
use serde_json::json;
use windlass::cache::Entry;
use windlass::controller::{Context, Predicate, Watch};
use windlass::{Controller, Error, Kind, Next, Reconciler, Result};

use super::by_selector;
use crate::controllers::support::pods::{TARGET, disruption, patch_status};
use crate::controllers::{Shared, pod};

/// For how long the deletion of an evicted pod is expected.
const STALE_AFTER: SignedDuration = SignedDuration::from_secs(120);

/// The controller of pods that budgets have something to say about.
pub fn controller(shared: &Shared) -> Controller<Pod> {
    let target = Predicate::new(|change| change.new.as_ref().is_some_and(|pod| is_target(pod)));
    let several = Watch::changes(Kind::of::<Pod>(), |change, cache| {
        let Some(pod) = &change.new else { return Ok(Vec::new()) };
        let namespace = change.key().namespace().unwrap_or_default();
        let budgets = cache.list::<PodDisruptionBudget>().namespace(namespace);
        let budgets = budgets.selecting(&by_selector(), pod.labels()).limit(2).keys()?;
        Ok::<_, Error>(if budgets.len() > 1 { vec![change.key().clone()] } else { Vec::new() })
    });
    Controller::<Pod>::builder("disruption-pod-controller")
        .reports_as("controllermanager")
        .when(target)
        .watch(several)
        .reads::<PodDisruptionBudget>()
        .index(&by_selector())
        .build_with(Pods { shared: shared.clone() })
}

struct Pods {
    shared: Shared,
}

/// The conditions of a pod, cheap to decode.
#[derive(Debug, Deserialize)]
struct Brief {
    #[serde(default)]
    status: BriefStatus,
}

#[derive(Debug, Default, Deserialize)]
struct BriefStatus {
    #[serde(default)]
    conditions: Vec<BriefCondition>,
}

#[derive(Debug, Deserialize)]
struct BriefCondition {
    r#type: String,
    status: String,
}

fn is_target(entry: &Entry) -> bool {
    let brief = entry.decode::<Brief>();
    brief.is_ok_and(|pod| {
        pod.status.conditions.iter().any(|c| c.r#type == TARGET && c.status == "True")
    })
}

impl Reconciler<Pod> for Pods {
    type Error = Error;

    async fn reconcile(&self, cx: Context<Pod>) -> Result<Next, Error> {
        let cx = &cx;
        let Some(pod) = cx.object() else { return Ok(Next::Done) };
        publish_several(cx, &pod)?;
        match self.stale_after(&pod) {
            None => Ok(Next::Done),
            Some(wait) if !wait.is_zero() => Ok(Next::After(wait)),
            Some(_) => {
                let condition = disruption(&pod, cx.clock(), None);
                patch_status(cx.client(), &pod, &json!({"conditions": [condition]})).await?;
                Ok(Next::Done)
            }
        }
    }
}

// === impl Pods ===

impl Pods {
    /// For how long an eviction of the pod is still expected; `None` if there was no eviction, or
    /// the pod is already being deleted.
    fn stale_after(&self, pod: &Pod) -> Option<Duration> {
        if pod::is_terminating(pod) || pod::is_finished(pod) {
            return None;
        }
        let target = pod::condition(pod, TARGET).filter(|c| c.status == "True")?;
        if target.reason.as_deref() == Some("TerminationByKubelet") {
            return None;
        }
        let since = target.last_transition_time.as_ref()?.0;
        let passed = self.shared.server.clock().now().duration_since(since);
        Some(Duration::try_from(STALE_AFTER.checked_sub(passed)?).unwrap_or_default())
    }
}

fn publish_several(cx: &Context<Pod>, pod: &Pod) -> Result<()> {
    let labels = pod.metadata.labels.iter().flatten();
    let budgets = cx.list::<PodDisruptionBudget>().selecting(&by_selector(), labels).keys()?;
    if let [first, _, ..] = budgets.as_slice() {
        let text = format!(
            "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
            cx.namespace().unwrap_or_default(),
            cx.name(),
            first.name(),
        );
        cx.warn("MultiplePodDisruptionBudgets", text);
    }
    Ok(())
}
