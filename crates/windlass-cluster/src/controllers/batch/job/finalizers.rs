//! Removes the tracking finalizer from pods whose job is deleted or finished and will not count
//! them.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use windlass::cache::Entry;
use windlass::controller::Predicate;
use windlass::{Context, Controller, Next, Result, owner};

use super::{condition, ours, pods};

const JOB_LABEL: &str = "batch.kubernetes.io/job-name";

/// The controller of these pods.
pub fn controller() -> Controller<Pod> {
    let of_job = |entry: &Entry| {
        entry.labels().any(|(name, _)| name == JOB_LABEL)
            || entry.owners.iter().any(|o| &*o.kind == "Job")
    };
    let concerns = Predicate::new(move |change| {
        change.new.is_some() && [&change.old, &change.new].into_iter().flatten().any(|e| of_job(e))
    });
    Controller::<Pod>::builder("job-pod-finalizer-controller").when(concerns).reads::<Job>().build(
        |cx: Context<Pod>| async move {
            if let Some(pod) = cx.object()
                && pods::is_tracked(&pod)
                && is_left_alone(&cx, &pod)?
            {
                pods::release(cx.client(), &pod).await?;
            }
            Ok(Next::Done)
        },
    )
}

/// Returns `true` if no job will ever count the pod.
fn is_left_alone(cx: &Context<Pod>, pod: &Pod) -> Result<bool> {
    let Some(controller) = owner::controller_of(pod) else { return Ok(true) };
    if controller.kind != "Job" || controller.api_version != "batch/v1" {
        return Ok(false);
    }
    let job = cx.get::<Job>(&controller.name)?.filter(|job| pods::is_of_job(job, pod));
    Ok(job.is_none_or(|job| {
        let over = job.status.as_ref().is_some_and(condition::is_finished);
        over && job.spec.as_ref().is_some_and(ours)
    }))
}

/// Removes the finalizer from the pods of a deleted job.
pub async fn release_of(cx: &Context<Job>) -> Result<()> {
    for pod in cx.list::<Pod>().labels([(JOB_LABEL, cx.name())]).items()? {
        let mine = owner::controller_of(&*pod);
        if mine.is_some_and(|o| o.kind == "Job" && o.name == cx.name()) {
            pods::release(cx.client(), &pod).await?;
        }
    }
    Ok(())
}
