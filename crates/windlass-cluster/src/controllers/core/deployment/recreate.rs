//! Recreation: all old pods are deleted before the first new one is created.

use k8s_openapi::api::core::v1::Pod;
use windlass::Result;

use super::{Rollout, actual, wanted};
use crate::controllers::pod;

// === impl Rollout ===

impl Rollout<'_> {
    pub(super) async fn recreate(&mut self) -> Result<()> {
        let mut shrunk = false;
        for at in self.old() {
            if wanted(&self.sets[at]) > 0 {
                shrunk |= self.resize(at, 0).await?;
            }
        }
        if shrunk || self.old_pods_run()? {
            return Ok(());
        }
        if self.current().is_none() {
            self.sync_revision(true).await?;
        }
        if let Some(at) = self.current() {
            self.resize(at, self.replicas()).await?;
        }
        if self.complete_as_stored() { self.clean_up().await } else { Ok(()) }
    }

    fn old_pods_run(&self) -> Result<bool> {
        let old = self.old();
        if old.iter().any(|at| actual(&self.sets[*at]) > 0) {
            return Ok(true);
        }
        for at in old {
            let uid = self.sets[at].metadata.uid.as_deref().unwrap_or_default();
            let pods = self.cx.list::<Pod>().owned_by(uid).items()?;
            if pods.iter().any(|pod| !pod::is_finished(pod)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
