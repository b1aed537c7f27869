//! ReplicaSets and ReplicationControllers: as many pods as asked for.
//!
//! Both kinds do the same; [`Replicated`] hides where they keep their fields.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    Pod, PodTemplateSpec, ReplicationController, ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass::cache::{Index, Selection};
use windlass::clock::Clock;
use windlass::condition::ConditionBuilder;
use windlass::controller::{Context, Controller, Next};
use windlass::{Error, Kind, Manager, Object, Result, owner};

use crate::controllers::Shared;
use crate::controllers::orphans;
use crate::controllers::{amount, pod};

/// The longest wait for a pod to become available before it is looked at again.
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(3600);
/// How long a status with a few more ready pods waits for the others.
const HOLD: Duration = Duration::from_millis(50);
/// The condition that says why pods cannot be created or deleted.
const FAILURE: &str = "ReplicaFailure";

/// Adds the controller of ReplicaSets.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    builder.add(controller::<ReplicaSet>("replicaset-controller"))
}

/// Adds the controller of ReplicationControllers.
pub fn add_replication_controller(builder: Manager, _: &Shared) -> Manager {
    builder.add(controller::<ReplicationController>("replication-controller"))
}

fn controller<K: Replicated>(name: &str) -> Controller<K> {
    let selectors: Index<K, Selection> = Index::selectors("selector", Replicated::selector);
    Controller::<K>::builder(name)
        .owns::<Pod>()
        .watch(orphans::watch(Kind::of::<Pod>(), &selectors))
        .workers(5)
        .build(|cx: Context<K>| async move { reconcile(&cx).await })
}

/// An object that asks for a number of pods.
pub trait Replicated: Object<DynamicType = ()> {
    /// How many pods.
    fn replicas(&self) -> usize;
    /// How long a pod has to be ready to count as available.
    fn min_ready_seconds(&self) -> i32;
    /// Which pods.
    fn selector(&self) -> Option<LabelSelector>;
    /// What a pod looks like.
    fn template(&self) -> Option<&PodTemplateSpec>;
    /// The counters and the failure now stored.
    fn counters(&self) -> Counters;
    /// The object with other counters.
    fn with_counters(&self, counters: Counters, clock: &Clock) -> Self;
}

/// The counters of a status.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    replicas: i32,
    fully_labeled: i32,
    ready: i32,
    available: i32,
    terminating: i32,
    observed_generation: i64,
    failure: Option<Failure>,
}

/// Why pods cannot be created or deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    reason: String,
    message: String,
}

// === impl Counters ===

impl Counters {
    /// Returns `true` if nothing happened but that more pods are ready, and more are to follow.
    fn only_grew(&self, stored: &Self, wanted: usize) -> bool {
        let same =
            Self { ready: stored.ready, available: stored.available, ..self.clone() } == *stored;
        same && self.ready >= stored.ready
            && self.available >= stored.available
            && self.failure.is_none()
            && usize::try_from(self.ready).is_ok_and(|ready| ready < wanted)
    }
}

// === impl Failure ===

impl Failure {
    fn read(reason: &Option<String>, message: &Option<String>) -> Self {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        Self { reason: text(reason), message: text(message) }
    }

    fn condition(self, clock: &Clock) -> ConditionBuilder {
        ConditionBuilder::new(FAILURE, true, clock).reason(self.reason).message(self.message)
    }
}

async fn reconcile<K: Replicated>(cx: &Context<K>) -> Result<Next> {
    let Some(set) = cx.object() else { return Ok(Next::Done) };
    let (Some(selector), Some(template)) = (set.selector(), set.template()) else {
        return Ok(Next::Done);
    };
    // Pods that ended or go are neither taken nor released.
    let mut active = cx.claim(selector.clone(), None, pod::is_active).await?;
    let mut leaving = cx.list::<Pod>().owned().matching(selector.clone()).items()?;
    leaving.retain(|p| pod::is_terminating(p) && !pod::is_finished(p));
    let mut outcome = Ok(());
    if set.meta().deletion_timestamp.is_none() {
        outcome = scale(cx, &*set, template, &active).await;
        if outcome.is_ok() && active.len() != set.replicas() {
            // The cache shows what was just written.
            active = cx.list::<Pod>().owned().matching(selector.clone()).items()?;
            active.retain(|p| pod::is_active(p));
        }
    }
    let now = cx.clock().now();
    let counters = count(&*set, &active, leaving.len(), outcome.as_ref().err(), now);
    let next = set.with_counters(counters, cx.clock());
    let (stored, known) = (set.counters(), next.counters());
    if known != stored {
        if let Some(wait) = wait(cx, known.only_grew(&stored, set.replicas())) {
            return Ok(Next::After(wait));
        }
        cx.client().api().subresource("status").update(&next).await?;
    }
    outcome?;
    let waits = active.iter().filter_map(|p| pod::available_after(p, set.min_ready_seconds(), now));
    let next = waits.min();
    Ok(next.map_or(Next::Done, |wait| Next::After(wait.min(LOOK_AGAIN_MAX))))
}

/// How long to wait with a status that may be held back; `None` if it is to be written now.
///
/// While the pods of a set become ready one after the other, a status for each would cost more
/// than the pods; so an intermediate status waits a moment for the next pods.
fn wait<K: Replicated>(cx: &Context<K>, may_wait: bool) -> Option<Duration> {
    let held = cx.memory::<Mutex<Option<Instant>>>();
    let mut since = held.lock();
    if may_wait {
        let left = HOLD.saturating_sub(since.get_or_insert_with(Instant::now).elapsed());
        if !left.is_zero() {
            return Some(left);
        }
    }
    *since = None;
    None
}

async fn scale<K: Replicated>(
    cx: &Context<K>,
    set: &K,
    template: &PodTemplateSpec,
    active: &[Arc<Pod>],
) -> Result<()> {
    let wanted = set.replicas();
    if active.len() < wanted {
        let missing = (wanted - active.len()).min(pod::BURST_MAX);
        let pod = &pod::from_template(template, set)?;
        return pod::slow_start(missing, |_| async move { pod::create(cx, pod).await.map(drop) })
            .await;
    }
    let surplus = (active.len() - wanted).min(pod::BURST_MAX);
    let chosen = chosen(cx, set, active, surplus)?;
    let deletes = chosen.iter().map(|pod| pod::delete(cx, pod));
    futures::future::join_all(deletes).await.into_iter().collect()
}

/// The pods to delete; those on nodes with many pods of the same owner first.
fn chosen<K: Replicated>(
    cx: &Context<K>,
    set: &K,
    active: &[Arc<Pod>],
    surplus: usize,
) -> Result<Vec<Arc<Pod>>> {
    if surplus == 0 || surplus >= active.len() {
        return Ok(active.iter().take(surplus).cloned().collect());
    }
    let related = related(cx, set)?;
    let now = cx.clock().now();
    let crowd = |pod: &Pod| {
        let node = pod::node(pod);
        related.iter().filter(|other| pod::is_active(other) && pod::node(other) == node).count()
    };
    let mut ranked: Vec<_> = active.iter().map(|pod| (pod, crowd(pod))).collect();
    ranked.sort_by(|a, b| pod::deletion_order((a.0, a.1), (b.0, b.1), now));
    Ok(ranked.into_iter().take(surplus).map(|(pod, _)| pod.clone()).collect())
}

/// The pods of all sets that the same object controls.
fn related<K: Replicated>(cx: &Context<K>, set: &K) -> Result<Vec<Arc<Pod>>> {
    let family = match owner::controller_of(set) {
        None => vec![set.meta().uid.clone().unwrap_or_default()],
        Some(parent) => {
            let sets = cx.list::<K>().owned_by(&parent.uid).items()?;
            sets.iter().filter_map(|s| s.meta().uid.clone()).collect()
        }
    };
    let mut found = Vec::new();
    for uid in family {
        found.extend(cx.list::<Pod>().owned_by(&uid).items()?);
    }
    Ok(found)
}

fn count<K: Replicated>(
    set: &K,
    active: &[Arc<Pod>],
    leaving: usize,
    error: Option<&Error>,
    now: Timestamp,
) -> Counters {
    let labels = set.template().and_then(|t| t.metadata.as_ref()).and_then(|m| m.labels.clone());
    let template: Selector = labels.unwrap_or_default().into_iter().collect();
    let number =
        |test: &dyn Fn(&Pod) -> bool| amount::number(active.iter().filter(|pod| test(pod)).count());
    let before = set.counters().failure;
    let failure = error.map(|error| {
        before.unwrap_or_else(|| Failure {
            reason: if active.len() < set.replicas() { "FailedCreate" } else { "FailedDelete" }
                .into(),
            message: pod::message(error),
        })
    });
    Counters {
        replicas: number(&|_| true),
        fully_labeled: number(&|pod| template.matches(pod.labels())),
        ready: number(&pod::is_ready),
        available: number(&|pod| pod::is_available(pod, set.min_ready_seconds(), now)),
        terminating: amount::number(leaving),
        observed_generation: set.meta().generation.unwrap_or(0),
        failure,
    }
}

fn size(replicas: Option<i32>) -> usize {
    usize::try_from(replicas.unwrap_or(1)).unwrap_or(0)
}

impl Replicated for ReplicaSet {
    fn replicas(&self) -> usize {
        size(self.spec.as_ref().and_then(|s| s.replicas))
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|s| s.min_ready_seconds).unwrap_or(0)
    }

    fn selector(&self) -> Option<LabelSelector> {
        self.spec.as_ref().map(|s| s.selector.clone())
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().and_then(|s| s.template.as_ref())
    }

    fn counters(&self) -> Counters {
        let Some(status) = &self.status else { return Counters::default() };
        let failed = status.conditions.iter().flatten().find(|c| c.type_ == FAILURE);
        Counters {
            replicas: status.replicas,
            fully_labeled: status.fully_labeled_replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
            terminating: status.terminating_replicas.unwrap_or(-1),
            observed_generation: status.observed_generation.unwrap_or(0),
            failure: failed.map(|c| Failure::read(&c.reason, &c.message)),
        }
    }

    fn with_counters(&self, counters: Counters, clock: &Clock) -> Self {
        let old = self.status.clone().unwrap_or_default();
        let mut conditions = old.conditions.unwrap_or_default();
        match counters.failure {
            Some(failure) => drop(failure.condition(clock).set(&mut conditions)),
            None => conditions.retain(|c| c.type_ != FAILURE),
        }
        let status = ReplicaSetStatus {
            replicas: counters.replicas,
            fully_labeled_replicas: amount::non_zero(counters.fully_labeled),
            ready_replicas: amount::non_zero(counters.ready),
            available_replicas: amount::non_zero(counters.available),
            terminating_replicas: Some(counters.terminating),
            observed_generation: Some(counters.observed_generation),
            conditions: Some(conditions).filter(|c| !c.is_empty()),
        };
        Self { status: Some(status), ..self.clone() }
    }
}

impl Replicated for ReplicationController {
    fn replicas(&self) -> usize {
        size(self.spec.as_ref().and_then(|s| s.replicas))
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|s| s.min_ready_seconds).unwrap_or(0)
    }

    fn selector(&self) -> Option<LabelSelector> {
        let labels = self.spec.as_ref().and_then(|s| s.selector.clone())?;
        Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() })
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().and_then(|s| s.template.as_ref())
    }

    fn counters(&self) -> Counters {
        let Some(status) = &self.status else { return Counters::default() };
        let failed = status.conditions.iter().flatten().find(|c| c.type_ == FAILURE);
        Counters {
            replicas: status.replicas,
            fully_labeled: status.fully_labeled_replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
            terminating: 0,
            observed_generation: status.observed_generation.unwrap_or(0),
            failure: failed.map(|c| Failure::read(&c.reason, &c.message)),
        }
    }

    fn with_counters(&self, counters: Counters, clock: &Clock) -> Self {
        let old = self.status.clone().unwrap_or_default();
        let mut conditions = old.conditions.unwrap_or_default();
        match counters.failure {
            Some(failure) => drop(failure.condition(clock).set(&mut conditions)),
            None => conditions.retain(|c| c.type_ != FAILURE),
        }
        let status = ReplicationControllerStatus {
            replicas: counters.replicas,
            fully_labeled_replicas: amount::non_zero(counters.fully_labeled),
            ready_replicas: amount::non_zero(counters.ready),
            available_replicas: amount::non_zero(counters.available),
            observed_generation: Some(counters.observed_generation),
            conditions: Some(conditions).filter(|c| !c.is_empty()),
        };
        Self { status: Some(status), ..self.clone() }
    }
}
