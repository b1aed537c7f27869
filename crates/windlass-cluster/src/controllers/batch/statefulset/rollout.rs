//! One step of a rollout: create, replace, delete and update pods, each in order.
//!
//! **Invariant:** unless the set is `Parallel`, at most one pod is made or deleted in a step, and
//! only when all pods before it are available.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use windlass::client::{Deletion, Patch};
use windlass::{Context, Key, Result};

use super::{Versions, claims, identity, revision_of};
use crate::controllers::{amount, pod};

/// The pods of one set on their way.
pub struct Rollout<'a> {
    cx: &'a Context<StatefulSet>,
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    versions: &'a Versions,
    now: Timestamp,
    replicas: Vec<Arc<Pod>>,
    condemned: Vec<Arc<Pod>>,
    /// Pods deleted for the update, which no longer count as current.
    replaced: usize,
}

/// Whether later pods may be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    On,
    Wait,
}

/// The update strategy of a set.
pub fn strategy(spec: &StatefulSetSpec) -> &str {
    let strategy = spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref());
    strategy.unwrap_or("RollingUpdate")
}

fn partition(spec: &StatefulSetSpec) -> Option<i32> {
    spec.update_strategy.as_ref()?.rolling_update.as_ref().map(|r| r.partition.unwrap_or(0))
}

// === impl Rollout ===

impl<'a> Rollout<'a> {
    pub fn new(
        cx: &'a Context<StatefulSet>,
        set: &'a StatefulSet,
        spec: &'a StatefulSetSpec,
        versions: &'a Versions,
        now: Timestamp,
    ) -> Self {
        let (replicas, condemned) = (Vec::new(), Vec::new());
        Self { cx, set, spec, versions, now, replicas, condemned, replaced: 0 }
    }

    /// Brings the pods one step on.
    pub async fn run(&mut self, pods: &[Arc<Pod>]) -> Result<()> {
        self.sort(pods)?;
        if self.set.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let ordered = self.spec.pod_management_policy.as_deref() != Some("Parallel");
        for at in 0..self.replicas.len() {
            if self.replica(at, ordered).await? == Step::Wait && ordered {
                return Ok(());
            }
        }
        for condemned in &self.condemned {
            claims::retain(self.cx, self.set, self.spec, condemned).await?;
        }
        let first_bad = self.first_unavailable();
        for at in 0..self.condemned.len() {
            if self.condemn(at, ordered, first_bad.as_ref()).await? == Step::Wait && ordered {
                return Ok(());
            }
        }
        if strategy(self.spec) == "OnDelete" {
            return Ok(());
        }
        self.update().await
    }

    /// Sorts pods by ordinal and plans those that are missing.
    fn sort(&mut self, pods: &[Arc<Pod>]) -> Result<()> {
        let first = identity::start(self.spec);
        let count = usize::try_from(self.spec.replicas.unwrap_or(1)).unwrap_or(0);
        let mut slots: Vec<Option<Arc<Pod>>> = vec![None; count];
        for found in pods {
            let Some(ordinal) = identity::ordinal(found) else { continue };
            let at = usize::try_from(i64::from(ordinal) - i64::from(first)).ok();
            match at.and_then(|at| slots.get_mut(at)) {
                Some(slot) => *slot = Some(found.clone()),
                None => self.condemned.push(found.clone()),
            }
        }
        self.condemned.sort_by_key(|p| std::cmp::Reverse(identity::ordinal(p)));
        for (at, slot) in slots.into_iter().enumerate() {
            let ordinal = first.saturating_add(amount::number(at));
            let replica = slot.map_or_else(|| self.plan(ordinal).map(Arc::new), Ok)?;
            self.replicas.push(replica);
        }
        Ok(())
    }

    fn plan(&self, ordinal: i32) -> Result<Pod> {
        let offset = ordinal.saturating_sub(identity::start(self.spec));
        let keep = match partition(self.spec) {
            Some(partition) => offset < partition,
            None => {
                let status = self.set.status.as_ref();
                let current = status.and_then(|s| s.current_replicas).unwrap_or(0);
                strategy(self.spec) == "RollingUpdate" && offset < current
            }
        };
        let version = if keep { &self.versions.current } else { &self.versions.update };
        identity::new_pod(self.set, self.spec, &version.template, version.name(), ordinal)
    }

    /// Looks after one living replica.
    async fn replica(&mut self, at: usize, ordered: bool) -> Result<Step> {
        let mut replica = self.replicas[at].clone();
        if pod::is_finished(&replica) {
            if !pod::is_terminating(&replica) {
                self.delete(&replica).await?;
            }
            return Ok(Step::Wait);
        }
        if pod::phase(&replica).is_empty() {
            if claims::stale(self.cx, self.set, self.spec, &replica)? {
                return Ok(Step::Wait);
            }
            replica = Arc::new(self.create(&replica).await?);
            self.replicas[at] = replica.clone();
            if ordered {
                return Ok(Step::Wait);
            }
        }
        if pod::phase(&replica) == "Pending" {
            claims::create(self.cx, self.set, self.spec, &replica).await?;
            claims::publish_conflicts(self.cx, self.set, self.spec, &replica)?;
            claims::retain(self.cx, self.set, self.spec, &replica).await?;
        }
        if ordered && (pod::is_terminating(&replica) || !self.available(&replica)) {
            return Ok(Step::Wait);
        }
        self.keep_identity(at).await?;
        if claims::retain(self.cx, self.set, self.spec, &self.replicas[at]).await? {
            self.publish("Update", &self.replicas[at], None);
        }
        Ok(Step::On)
    }

    async fn create(&self, planned: &Pod) -> Result<Pod> {
        if let Err(error) = claims::create(self.cx, self.set, self.spec, planned).await {
            self.publish("Create", planned, Some(&error));
            return Err(error);
        }
        let result = self.cx.client().api().create(planned).await;
        self.publish("Create", planned, result.as_ref().err());
        result
    }

    /// Restores labels that were removed from a pod; volumes cannot be changed.
    async fn keep_identity(&mut self, at: usize) -> Result<()> {
        let replica = &self.replicas[at];
        let set_name = self.cx.name();
        let fits = identity::identity_fits(replica);
        if !identity::storage_fits(replica, self.spec, set_name) {
            claims::create(self.cx, self.set, self.spec, replica).await?;
        }
        let Some(ordinal) = identity::ordinal(replica).filter(|_| !fits) else { return Ok(()) };
        let mut wanted = (**replica).clone();
        identity::set_identity(&mut wanted, self.set, ordinal);
        let patch = json!({"metadata": {
            "uid": wanted.metadata.uid,
            "labels": wanted.metadata.labels,
        }});
        let key = Key::of(&wanted);
        let result = self.cx.client().api::<Pod>().patch(&key, &Patch::Merge(patch)).await;
        self.publish("Update", &wanted, result.as_ref().err());
        self.replicas[at] = Arc::new(result?);
        Ok(())
    }

    /// Deletes one pod that is too many.
    async fn condemn(
        &mut self,
        at: usize,
        ordered: bool,
        first_bad: Option<&Arc<Pod>>,
    ) -> Result<Step> {
        let condemned = self.condemned[at].clone();
        if pod::is_terminating(&condemned) {
            return Ok(Step::Wait);
        }
        let is_first = first_bad.is_some_and(|bad| Arc::ptr_eq(bad, &condemned));
        if ordered && !self.available(&condemned) && !is_first {
            return Ok(Step::Wait);
        }
        self.condemned[at] = self.delete(&condemned).await?;
        Ok(Step::Wait)
    }

    /// Replaces the highest pod of another revision, once all above it are available. (A
    /// `maxUnavailable` is not kept by the server, as its feature is off.)
    async fn update(&mut self) -> Result<()> {
        let first = usize::try_from(partition(self.spec).unwrap_or(0)).unwrap_or(0);
        for at in (first..self.replicas.len()).rev() {
            let replica = self.replicas[at].clone();
            let old = revision_of(&replica) != self.versions.update.name();
            if old && !pod::is_terminating(&replica) {
                let current = revision_of(&replica) == self.versions.current.name();
                self.delete(&replica).await?;
                self.replaced += usize::from(current);
                return Ok(());
            }
            if !self.healthy(&replica) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Deletes a pod; returns it as it is afterwards.
    async fn delete(&self, target: &Arc<Pod>) -> Result<Arc<Pod>> {
        let key = Key::of(&**target);
        let api = self.cx.client().api::<Pod>();
        let result = api.delete(Deletion::only(&**target)).await;
        self.publish("Delete", target, result.as_ref().err());
        result?;
        Ok(self.cx.client().cached().get::<Pod>(&key)?.unwrap_or_else(|| target.clone()))
    }

    fn publish(&self, verb: &str, about: &Pod, error: Option<&windlass::Error>) {
        let name = about.metadata.name.as_deref().unwrap_or_default();
        let head = format!("{verb} Pod {name} in StatefulSet {}", self.cx.name());
        match error {
            None => self.cx.event(&format!("Successful{verb}"), format!("{head} successful")),
            Some(error) if error.is_already_exists() => {}
            Some(error) => {
                let text = format!("{head} failed error: {}", pod::message(error));
                self.cx.warn(&format!("Failed{verb}"), text);
            }
        }
    }

    fn available(&self, replica: &Pod) -> bool {
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        pod::phase(replica) == "Running" && pod::is_available(replica, min_ready, self.now)
    }

    fn healthy(&self, replica: &Pod) -> bool {
        self.available(replica) && !pod::is_terminating(replica)
    }

    /// The unavailable pod with the lowest ordinal, replicas first.
    fn first_unavailable(&self) -> Option<Arc<Pod>> {
        let in_order = self.replicas.iter().chain(self.condemned.iter().rev());
        in_order.into_iter().find(|p| !self.healthy(p)).cloned()
    }

    /// The counts as they are now.
    pub fn into_status(self) -> StatefulSetStatus {
        let all = || self.replicas.iter().chain(&self.condemned);
        let count = |test: &dyn Fn(&Pod) -> bool| all().filter(|p| test(p)).count();
        let made = |p: &Pod| !pod::phase(p).is_empty();
        let stays = |p: &Pod| made(p) && !pod::is_terminating(p);
        let (current, update) = (self.versions.current.name(), self.versions.update.name());
        let ready = |p: &Pod| pod::phase(p) == "Running" && pod::is_ready(p);
        let of_current = count(&|p| stays(p) && revision_of(p) == current);
        StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            replicas: amount::number(count(&made)),
            ready_replicas: amount::counted(count(&ready)),
            available_replicas: Some(amount::number(count(&|p| self.available(p)))),
            current_replicas: amount::counted(of_current.saturating_sub(self.replaced)),
            updated_replicas: amount::counted(count(&|p| stays(p) && revision_of(p) == update)),
            current_revision: Some(current.into()),
            update_revision: Some(update.into()),
            collision_count: Some(self.versions.collisions),
            conditions: None,
        }
    }
}
