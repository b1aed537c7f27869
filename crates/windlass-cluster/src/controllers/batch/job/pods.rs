//! The pods of a job: which ended, which index they have, how a new one looks.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use serde_json::json;
use windlass::client::Patch;
use windlass::{Client, Key, Result, ResultExt};

use super::{FINALIZER, INDEX, Sync, indexed, policy, replaces_failed_only};
use crate::controllers::pod;

const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// Names are cut so that five random letters fit.
const PREFIX_MAX: usize = 58;

/// Returns `true` if a pod has not been counted yet.
pub fn is_tracked(of: &Pod) -> bool {
    of.metadata.finalizers.iter().flatten().any(|f| f == FINALIZER)
}

/// The index of a pod.
pub fn index(of: &Pod) -> Option<i32> {
    let annotations = of.metadata.annotations.as_ref()?;
    annotations.get(INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// Returns `true` if a pod counts as failed, which includes one that is deleted before it ends.
pub fn is_failed(of: &Pod, spec: &JobSpec) -> bool {
    match pod::phase(of) {
        "Failed" => true,
        "Succeeded" => false,
        _ => !replaces_failed_only(spec) && pod::is_terminating(of),
    }
}

/// Returns how often the index of a pod failed before: counted and ignored failures.
pub fn failures(of: &Pod) -> (u32, u32) {
    let annotations = of.metadata.annotations.as_ref();
    let read = |name: &str| annotations.and_then(|a| a.get(name)?.parse().ok()).unwrap_or(0);
    (read(FAILURES), read(IGNORED))
}

/// Removes the finalizer of a pod; a deleted pod is not an error.
pub async fn release(client: &Client, of: &Pod) -> Result<()> {
    if !is_tracked(of) {
        return Ok(());
    }
    let patch = json!({"metadata": {
        "uid": of.metadata.uid,
        "$deleteFromPrimitiveList/finalizers": [FINALIZER],
    }});
    let (pods, key) = (client.api::<Pod>(), Key::of(of));
    match pods.patch(&key, &Patch::Strategic(patch)).await.ignore_not_found() {
        Err(error)
            if error.is_conflict() || error.status().is_some_and(|status| status.code == 422) =>
        {
            // Another pod of that name by now, or a write at the same time, which is repeated.
            let found = pods.get(&key).await?;
            match found.is_some_and(|found| found.metadata.uid == of.metadata.uid) {
                true => Err(error),
                false => Ok(()),
            }
        }
        other => other.map(drop),
    }
}

// === impl Sync ===

impl Sync<'_> {
    /// Returns `true` if the index of a pod is one of this job.
    pub fn has_place(&self, of: &Pod) -> bool {
        !indexed(self.spec) || index(of).is_some_and(|i| i < self.spec.completions.unwrap_or(0))
    }

    /// A new pod, for an index if the job has them.
    pub fn new_pod(&self, at: Option<i32>) -> Result<Pod> {
        let mut made = pod::from_template(&self.spec.template, self.job)?;
        let finalizers = made.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|f| f == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
        let Some(at) = at else { return Ok(made) };
        let name = self.cx.name();
        let tail = format!("-{at}-");
        let room = PREFIX_MAX.saturating_sub(tail.len());
        let stem: String = name.chars().take(room).collect();
        made.metadata.generate_name = Some(format!("{stem}{tail}"));
        made.metadata.labels.get_or_insert_default().insert(INDEX.into(), at.to_string());
        let annotations = made.metadata.annotations.get_or_insert_default();
        annotations.insert(INDEX.into(), at.to_string());
        if self.spec.backoff_limit_per_index.is_some() {
            let (counted, ignored) = self.failures_before(at);
            annotations.insert(FAILURES.into(), counted.to_string());
            if ignored > 0 {
                annotations.insert(IGNORED.into(), ignored.to_string());
            }
        }
        if let Some(inner) = &mut made.spec {
            inner.hostname = Some(format!("{name}-{at}"));
            let inits = inner.init_containers.iter_mut().flatten();
            inits.chain(&mut inner.containers).for_each(add_index);
        }
        Ok(made)
    }

    /// The failures a new pod of an index starts with.
    fn failures_before(&self, at: i32) -> (u32, u32) {
        let Some(last) = self.delayed.get(&at) else { return (0, 0) };
        let (counted, ignored) = failures(last);
        if policy::of_failure(self.spec, last).counts() {
            (counted.saturating_add(1), ignored)
        } else {
            (counted, ignored.saturating_add(1))
        }
    }

    /// Deletes pods that are too many; they count neither as failed nor as succeeded.
    pub async fn drop_pods(&mut self, surplus: &[Arc<Pod>]) -> Result<()> {
        let mut outcome = Ok(());
        for running in surplus {
            let gone = match release(self.cx.client(), running).await {
                Ok(()) => pod::delete(self.cx, running).await,
                Err(error) => Err(error),
            };
            match gone {
                Ok(()) => {
                    self.counts.active -= 1;
                    self.counts.ready -= i32::from(pod::is_ready(running));
                    self.counts.terminating += 1;
                }
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }
}

/// Adds the index to the environment of a container, unless the author has set it.
fn add_index(container: &mut Container) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let env = container.env.get_or_insert_default();
    if env.iter().any(|e| e.name == NAME) {
        return;
    }
    let field = ObjectFieldSelector {
        api_version: None,
        field_path: format!("metadata.labels['{INDEX}']"),
    };
    env.push(EnvVar {
        name: NAME.into(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        ..EnvVar::default()
    });
}

/// Returns `true` if the job controls the pod.
pub fn is_of_job(job: &Job, of: &Pod) -> bool {
    windlass::owner::is_controlled_by(of, job)
}
