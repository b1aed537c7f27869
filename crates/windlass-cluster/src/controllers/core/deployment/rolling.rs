//! The rolling update: new pods within the surge, old ones away within the unavailability.

use windlass::Result;

use super::{Rollout, available, numbers, wanted};

// === impl Rollout ===

impl Rollout<'_> {
    pub(super) async fn roll(&mut self) -> Result<()> {
        self.sync_revision(true).await?;
        if self.grow().await? || self.shrink().await? {
            return Ok(());
        }
        if self.complete_as_stored() { self.clean_up().await } else { Ok(()) }
    }

    /// Brings the current ReplicaSet nearer to its full size. Returns `true` if that changed it.
    async fn grow(&mut self) -> Result<bool> {
        let Some(at) = self.current() else { return Ok(false) };
        let (size, all) = (wanted(&self.sets[at]), self.replicas());
        let next = if size >= all { all } else { self.room_for(size) };
        self.resize(at, next).await
    }

    /// Removes pods from the old ReplicaSets. Returns `true` if any were removed.
    async fn shrink(&mut self) -> Result<bool> {
        let Some(current) = self.current() else { return Ok(false) };
        let old: Vec<usize> =
            self.old().into_iter().filter(|at| wanted(&self.sets[*at]) > 0).collect();
        if old.is_empty() {
            return Ok(false);
        }
        let (_, unavailable) = numbers::bounds(self.spec());
        let least = self.replicas() - unavailable;
        let all: i32 = self.sets.iter().map(wanted).sum();
        let coming = wanted(&self.sets[current]) - available(&self.sets[current]);
        let most = all - least - coming;
        if most <= 0 {
            return Ok(false);
        }
        let sick = self.shrink_sick(&old, most).await?;
        let healthy = self.shrink_healthy(&old, least).await?;
        Ok(sick + healthy > 0)
    }

    /// Deletes pods that are not available, which does no harm.
    async fn shrink_sick(&mut self, old: &[usize], most: i32) -> Result<i32> {
        let mut gone = 0;
        for at in old {
            let (size, works) = (wanted(&self.sets[*at]), available(&self.sets[*at]));
            let count = (most - gone).min(size - works);
            if count > 0 {
                self.resize(*at, size - count).await?;
                gone += count;
            }
        }
        Ok(gone)
    }

    /// Deletes available pods as long as enough others remain.
    async fn shrink_healthy(&mut self, old: &[usize], least: i32) -> Result<i32> {
        let works: i32 = self.sets.iter().map(available).sum();
        let most = works - least;
        let mut gone = 0;
        for at in old {
            let size = wanted(&self.sets[*at]);
            let count = (most - gone).min(size);
            if count > 0 {
                self.resize(*at, size - count).await?;
                gone += count;
            }
        }
        Ok(gone)
    }
}
