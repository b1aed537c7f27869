//! Jobs that are over for long enough are deleted, with their pods.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;
use kube::api::PropagationPolicy;
use windlass::client::Deletion;
use windlass::{Context, Controller, Error, Manager, Next, Reconciler, Result};

use super::condition;
use crate::controllers::Shared;

/// Adds the controller.
pub fn add(builder: Manager, shared: &Shared) -> Manager {
    let ttl = Ttl { shared: shared.clone() };
    builder.add(Controller::<Job>::builder("ttl-after-finished-controller").build_with(ttl))
}

struct Ttl {
    shared: Shared,
}

impl Reconciler<Job> for Ttl {
    type Error = Error;

    async fn reconcile(&self, cx: Context<Job>) -> Result<Next, Error> {
        let Some(job) = cx.object() else { return Ok(Next::Done) };
        match self.left(&job) {
            None => Ok(Next::Done),
            Some(left) if !left.is_zero() => Ok(Next::After(left)),
            Some(_) => {
                // The time to live may have been raised since the cache saw it.
                let fresh = cx.client().api::<Job>().get(cx.key()).await?;
                let Some(fresh) = fresh.filter(|f| f.metadata.uid == job.metadata.uid) else {
                    return Ok(Next::Done);
                };
                match self.left(&fresh) {
                    Some(left) if left.is_zero() => {
                        let how =
                            Deletion::only(&*fresh).propagation(PropagationPolicy::Foreground);
                        cx.client().api::<Job>().delete(how).await?;
                        Ok(Next::Done)
                    }
                    other => Ok(other.map_or(Next::Done, Next::After)),
                }
            }
        }
    }
}

impl Ttl {
    /// The time until a finished job is deleted; `None` if it has not finished or has no time to
    /// live.
    fn left(&self, job: &Job) -> Option<Duration> {
        if job.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let ttl = job.spec.as_ref()?.ttl_seconds_after_finished?;
        let over = condition::finished(job.status.as_ref()?)?.last_transition_time.as_ref()?.0;
        let passed = self.shared.server.clock().now().duration_since(over);
        let left = SignedDuration::from_secs(i64::from(ttl)).checked_sub(passed)?;
        Some(Duration::try_from(left).unwrap_or_default())
    }
}
