//! Sizes: when the Deployment was scaled, how that is spread, and what is cleaned up.

use k8s_openapi::api::apps::v1::ReplicaSet;
use windlass::Result;
use windlass::client::Deletion;

use super::revision::{DESIRED, MAX, revision, set_sizes};
use super::{Rollout, actual, annotation, available, numbers, wanted};

// === impl Rollout ===

impl Rollout<'_> {
    /// The Deployment's size changed since its ReplicaSets were last scaled.
    pub(super) fn scaled(&self) -> bool {
        let active = self.sets.iter().filter(|set| wanted(set) > 0);
        let mut desired = active.filter_map(|set| annotation(set, DESIRED)?.parse::<i32>().ok());
        desired.any(|desired| desired != self.replicas())
    }

    /// Brings the ReplicaSets to the Deployment's size, in proportion during a rollout.
    pub(super) async fn scale(&mut self, synced: bool) -> Result<()> {
        if !synced {
            self.sync_revision(false).await?;
        }
        if let Some(only) = self.active_or_latest() {
            return self.resize(only, self.replicas()).await.map(drop);
        }
        let current = self.current();
        if current.is_some_and(|at| self.saturated(&self.sets[at])) {
            for at in self.old() {
                if wanted(&self.sets[at]) > 0 {
                    self.resize(at, 0).await?;
                }
            }
            return Ok(());
        }
        let strategy = self.spec().strategy.as_ref().and_then(|s| s.type_.as_deref());
        if strategy == Some("Recreate") {
            return Ok(());
        }
        for (at, size) in self.shares() {
            self.set_size(at, size).await?;
        }
        Ok(())
    }

    /// The sizes that spread the Deployment's size over its active ReplicaSets.
    fn shares(&self) -> Vec<(usize, i32)> {
        let (surge, _) = numbers::bounds(self.spec());
        let replicas = self.replicas();
        let allowed = if replicas > 0 { replicas + surge } else { 0 };
        let mut active: Vec<usize> =
            (0..self.sets.len()).filter(|at| wanted(&self.sets[*at]) > 0).collect();
        let total: i32 = active.iter().map(|at| wanted(&self.sets[*at])).sum();
        let to_add = allowed - total;
        let age = |at: &usize| {
            let meta = &self.sets[*at].metadata;
            (meta.creation_timestamp.as_ref().map(|t| t.0), meta.name.clone())
        };
        // The largest first; of equals the newer one grows and the older one shrinks.
        active.sort_by(|a, b| {
            let size = wanted(&self.sets[*b]).cmp(&wanted(&self.sets[*a]));
            let newer = if to_add > 0 { age(b).cmp(&age(a)) } else { age(a).cmp(&age(b)) };
            size.then(newer)
        });
        let status = self.deployment.status.as_ref().and_then(|s| s.replicas).unwrap_or(0);
        let mut added = 0;
        let mut sizes = Vec::new();
        for at in active {
            let set = &self.sets[at];
            let before = annotation(set, MAX).and_then(|t| t.parse().ok()).filter(|n| *n != 0);
            let before = before.unwrap_or(status);
            let size = wanted(set);
            let share = numbers::share(replicas, size, replicas + surge, before, to_add - added);
            added += share;
            sizes.push((at, size + share));
        }
        if let Some((_, first)) = sizes.first_mut() {
            *first = (*first + to_add - added).max(0);
        }
        sizes
    }

    /// The only active ReplicaSet, or the newest if none is.
    fn active_or_latest(&self) -> Option<usize> {
        let mut active = (0..self.sets.len()).filter(|at| wanted(&self.sets[*at]) > 0);
        match (active.next(), active.next()) {
            (Some(only), None) => Some(only),
            (Some(_), Some(_)) => None,
            (None, _) => self.current().or_else(|| self.old().last().copied()),
        }
    }

    fn saturated(&self, set: &ReplicaSet) -> bool {
        let desired = annotation(set, DESIRED).and_then(|text| text.parse::<i32>().ok());
        let all = self.replicas();
        desired == Some(all) && wanted(set) == all && available(set) == all
    }

    /// Sets the size of a ReplicaSet, and returns `true` if that changed it.
    pub(super) async fn resize(&mut self, at: usize, size: i32) -> Result<bool> {
        if wanted(&self.sets[at]) == size {
            return Ok(false);
        }
        self.set_size(at, size).await?;
        Ok(true)
    }

    async fn set_size(&mut self, at: usize, size: i32) -> Result<()> {
        let (surge, _) = numbers::bounds(self.spec());
        let mut set = self.sets[at].clone();
        let before = wanted(&set);
        let annotations = set.metadata.annotations.get_or_insert_default();
        let noted = set_sizes(annotations, self.replicas(), self.replicas() + surge);
        if before == size && !noted {
            return Ok(());
        }
        if let Some(spec) = set.spec.as_mut() {
            spec.replicas = Some(size);
        }
        self.save_set(at, &set).await?;
        if before != size {
            let way = if before < size { "up" } else { "down" };
            let name = set.metadata.name.as_deref().unwrap_or_default();
            let text = format!("Scaled {way} replica set {name} from {before} to {size}");
            self.cx.event("ScalingReplicaSet", text);
        }
        Ok(())
    }

    /// Deletes the oldest empty ReplicaSets beyond the history limit.
    pub(super) async fn clean_up(&self) -> Result<()> {
        let limit = match self.spec().revision_history_limit {
            None | Some(i32::MAX) => return Ok(()),
            Some(limit) => usize::try_from(limit).unwrap_or(0),
        };
        let alive = |at: &usize| self.sets[*at].metadata.deletion_timestamp.is_none();
        let mut old: Vec<usize> = self.old().into_iter().filter(alive).collect();
        let Some(surplus) = old.len().checked_sub(limit).filter(|n| *n > 0) else {
            return Ok(());
        };
        // Sets of one revision stay in the order of their age.
        old.sort_by_key(|at| revision(&self.sets[*at]));
        for at in old.into_iter().take(surplus) {
            let set = &self.sets[at];
            let observed = set.status.as_ref().and_then(|s| s.observed_generation).unwrap_or(0);
            let behind = set.metadata.generation.unwrap_or(0) > observed;
            if actual(set) != 0 || wanted(set) != 0 || behind {
                continue;
            }
            let api = self.cx.client().api::<ReplicaSet>();
            api.delete(Deletion::only(set)).await?;
        }
        Ok(())
    }

    /// What the current ReplicaSet may grow to from `size` right now.
    pub(super) fn room_for(&self, size: i32) -> i32 {
        let replicas = self.replicas();
        let strategy = self.spec().strategy.as_ref().and_then(|s| s.type_.as_deref());
        if strategy == Some("Recreate") {
            return replicas;
        }
        let (surge, _) = numbers::bounds(self.spec());
        let room = replicas + surge - self.sets.iter().map(wanted).sum::<i32>();
        if room <= 0 { size } else { size + room.min(replicas - size) }
    }
}
