//! Starting and deleting pods until as many run as should.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use windlass::Result;

use super::{Sync, backoff, indexed, pods, replaces_failed_only, suspended};
use crate::controllers::pod;

/// The most pods created or deleted in one reconcile.
const STEP_MAX: usize = 500;

// === impl Sync ===

impl Sync<'_> {
    /// Brings the number of running pods to what it should be.
    pub async fn manage(&mut self) -> Result<()> {
        if suspended(self.spec) {
            let all = self.surplus(self.active.len());
            return self.drop_pods(&all).await;
        }
        let active = self.counts.active;
        let parallelism = self.spec.parallelism.unwrap_or(1);
        let wanted = match self.spec.completions {
            None if self.succeeded > 0 => active,
            None => parallelism,
            Some(completions) => (completions - self.succeeded).min(parallelism).max(0),
        };
        let too_many = usize::try_from(active.saturating_sub(wanted)).unwrap_or(0);
        let mut surplus = self.surplus(too_many);
        surplus.truncate(STEP_MAX);
        if !surplus.is_empty() {
            return self.drop_pods(&surplus).await;
        }
        let going = if replaces_failed_only(self.spec) { self.counts.terminating } else { 0 };
        let missing = wanted.saturating_sub(active).saturating_sub(going);
        let missing = usize::try_from(missing).unwrap_or(0).min(STEP_MAX);
        if missing > 0 { self.start(missing).await } else { Ok(()) }
    }

    async fn start(&mut self, missing: usize) -> Result<()> {
        let per_index = self.spec.backoff_limit_per_index.is_some() && indexed(self.spec);
        if !per_index {
            let wait = self.record.remaining(self.now);
            if !wait.is_zero() {
                self.again_after(wait);
                return Ok(());
            }
        }
        let mut places: Vec<Option<i32>> = vec![None; missing];
        if indexed(self.spec) {
            let mut free = self.free_indexes(missing);
            if per_index {
                free = self.ripe(free);
            }
            places = free.into_iter().map(Some).collect();
        }
        for place in places {
            let wanted = self.new_pod(place)?;
            if pod::create(self.cx, &wanted).await?.is_some() {
                self.counts.active += 1;
            }
        }
        Ok(())
    }

    /// The first indexes that neither succeeded nor failed and have no pod.
    fn free_indexes(&self, count: usize) -> Vec<i32> {
        let mut taken: BTreeSet<i32> = self.active.iter().filter_map(|p| pods::index(p)).collect();
        if replaces_failed_only(self.spec) {
            let going = self.pods.iter().filter(|p| pod::is_terminating(p));
            let going = going.filter(|p| !pod::is_finished(p));
            taken.extend(going.filter_map(|p| pods::index(p)));
        }
        let free = |i: &i32| {
            let failed = self.failed_indexes.as_ref().is_some_and(|f| f.contains(*i));
            !taken.contains(i) && !self.indexes.contains(*i) && !failed
        };
        (0..self.spec.completions.unwrap_or(0)).filter(free).take(count).collect()
    }

    /// The indexes whose backoff after a failure is over; schedules a reconcile for the others.
    fn ripe(&mut self, free: Vec<i32>) -> Vec<i32> {
        let wait = |at: &i32| {
            let Some(last) = self.delayed.get(at) else { return Duration::ZERO };
            let (counted, ignored) = pods::failures(last);
            let failures = counted.saturating_add(ignored).saturating_add(1);
            backoff::remaining(failures, backoff::ended(last, self.now), self.now)
        };
        let waits: Vec<(i32, Duration)> = free.into_iter().map(|at| (at, wait(&at))).collect();
        let soonest = waits.iter().map(|(_, wait)| *wait).filter(|wait| !wait.is_zero()).min();
        if let Some(soonest) = soonest {
            self.again_after(soonest);
        }
        waits.into_iter().filter(|(_, wait)| wait.is_zero()).map(|(at, _)| at).collect()
    }

    /// Running pods to delete, at least the given number: those without a node first.
    fn surplus(&self, at_least: usize) -> Vec<Arc<Pod>> {
        let mut surplus = Vec::new();
        let mut left: Vec<Arc<Pod>> = self.active.clone();
        left.sort_by_cached_key(|p| rank(p));
        if indexed(self.spec) {
            let mut kept: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
            for running in std::mem::take(&mut left) {
                match pods::index(&running).filter(|_| self.has_place(&running)) {
                    // The last of those with the same index ranks highest and stays.
                    Some(at) => surplus.extend(kept.insert(at, running)),
                    None => surplus.push(running),
                }
            }
            left = kept.into_values().collect();
            left.sort_by_cached_key(|p| rank(p));
        }
        let more = at_least.saturating_sub(surplus.len());
        surplus.extend(left.into_iter().take(more));
        surplus
    }

    /// Reconciles again after a while, at the latest.
    pub fn again_after(&mut self, wait: Duration) {
        self.again = Some(self.again.map_or(wait, |earlier| earlier.min(wait)));
    }
}

/// The order in which pods are deleted: the lowest first.
fn rank(pod: &Pod) -> impl Ord + use<> {
    let assigned = pod.spec.as_ref().is_some_and(|s| s.node_name.is_some());
    let phase = match pod::phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let ready = pod::is_ready(pod);
    // The longer ready, the later to go.
    let since = pod::condition(pod, "Ready").and_then(|c| c.last_transition_time.as_ref());
    let since = ready.then(|| std::cmp::Reverse(since.map(|t| t.0)));
    let restarts = std::cmp::Reverse(pod::restarts(pod));
    let born = std::cmp::Reverse(pod.metadata.creation_timestamp.as_ref().map(|t| t.0));
    (assigned, phase, ready, since, restarts, born)
}
