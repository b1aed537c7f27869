//! Going back to an earlier revision that an annotation names.
//!
//! `kubectl rollout undo` patches the template itself; the annotation is what remains of the field
//! that older clients used, and controllers still follow it.

use std::collections::BTreeMap;

use windlass::Result;

use super::revision::{ROLLBACK, is_own, revision};
use super::{Rollout, template};

// === impl Rollout ===

impl Rollout<'_> {
    /// The revision to roll back to; 0 is the one before the current.
    pub(super) fn rollback_to(&self) -> Option<i64> {
        self.deployment.metadata.annotations.as_ref()?.get(ROLLBACK)?.parse().ok()
    }

    /// Rolls back to a revision, and removes the request in any case.
    pub(super) async fn roll_back(&mut self, to: i64) -> Result<()> {
        const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
        self.sync_revision(true).await?;
        let to = if to == 0 { self.last_revision() } else { Some(to) };
        let Some(to) = to else {
            self.cx.warn(NOT_FOUND, "Unable to find last revision.");
            return self.clear_rollback().await;
        };
        let Some(set) = self.sets.iter().find(|set| revision(set) == to).cloned() else {
            self.cx.warn(NOT_FOUND, "Unable to find the revision to rollback to.");
            return self.clear_rollback().await;
        };
        let wanted = set.spec.and_then(|spec| spec.template).unwrap_or_default();
        if template::same(&wanted, &self.spec().template) {
            let text = format!(
                "The rollback revision contains the same template as current deployment {:?}",
                self.name()
            );
            self.cx.warn("DeploymentRollbackTemplateUnchanged", text);
            return self.clear_rollback().await;
        }
        if let Some(spec) = self.deployment.spec.as_mut() {
            spec.template = template::without_hash(wanted);
        }
        let ours = self.deployment.metadata.annotations.take().unwrap_or_default();
        let theirs = set.metadata.annotations.unwrap_or_default();
        self.deployment.metadata.annotations = Some(restored(ours, theirs));
        self.clear_rollback().await?;
        let text = format!("Rolled back deployment {:?} to revision {to}", self.name());
        self.cx.event("DeploymentRollback", text);
        Ok(())
    }

    /// The revision before the highest one.
    fn last_revision(&self) -> Option<i64> {
        let mut all: Vec<i64> = self.sets.iter().map(revision).collect();
        all.sort_unstable();
        all.into_iter().rev().nth(1).filter(|number| *number > 0)
    }

    async fn clear_rollback(&mut self) -> Result<()> {
        self.deployment.metadata.annotations.get_or_insert_default().remove(ROLLBACK);
        self.deployment = self.cx.client().api().update(&self.deployment).await?;
        Ok(())
    }
}

/// The annotations of people as they were with a ReplicaSet; those of controllers stay.
fn restored(
    ours: BTreeMap<String, String>,
    theirs: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let kept = ours.into_iter().filter(|(name, _)| is_own(name));
    kept.chain(theirs.into_iter().filter(|(name, _)| !is_own(name))).collect()
}
