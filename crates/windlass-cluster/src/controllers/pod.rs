//! What controllers know about pods: their phase, how they are created and deleted, and in which
//! order.

use std::cmp::Ordering;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass::client::{Deleted, Deletion};
use windlass::{Context, Error, Key, Object, Result, owner};

/// Most pods one reconcile creates or deletes.
pub const BURST_MAX: usize = 500;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The name of a pod.
pub fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// The node a pod is bound to.
pub fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// The phase; empty for a pod that is not stored yet.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// Returns `true` if the pod is being deleted.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Returns `true` if the pod has succeeded or failed.
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns `true` if the pod is active: neither finished nor being deleted.
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// A condition of the pod.
pub fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|c| c.type_ == type_)
}

/// Returns `true` if the pod is ready.
pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|c| c.status == "True")
}

/// Returns `true` if the pod has been ready for long enough.
pub fn is_available(pod: &Pod, min_ready: i32, now: Timestamp) -> bool {
    is_ready(pod) && available_after(pod, min_ready, now).is_none()
}

/// Returns how much longer a ready pod has to stay ready to count as available.
pub fn available_after(pod: &Pod, min_ready: i32, now: Timestamp) -> Option<Duration> {
    let ready = condition(pod, "Ready").filter(|c| c.status == "True")?;
    if min_ready <= 0 {
        return None;
    }
    let wanted = SignedDuration::from_secs(i64::from(min_ready));
    let since = ready.last_transition_time.as_ref().map_or(now, |t| t.0);
    let left = wanted.checked_sub(now.duration_since(since))?;
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// The addresses of a pod; the first is the main one.
pub fn addresses(pod: &Pod) -> Vec<&str> {
    let Some(status) = &pod.status else { return Vec::new() };
    let many: Vec<&str> = status.pod_ips.iter().flatten().map(|ip| &*ip.ip).collect();
    if many.is_empty() { status.pod_ip.as_deref().into_iter().collect() } else { many }
}

/// A pod made from a template for its managing controller; the server completes the name.
pub fn from_template<O>(template: &PodTemplateSpec, owner: &O) -> Result<Pod>
where
    O: Object<DynamicType = ()>,
{
    let meta = template.metadata.clone().unwrap_or_default();
    let name = owner.meta().name.clone().unwrap_or_default();
    let mut pod = Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: owner.meta().namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    };
    owner::set_controller(owner, &mut pod)?;
    Ok(pod)
}

/// Creates a pod and publishes an event. Returns `None` if the namespace is being deleted, so that
/// nothing can be created in it.
pub async fn create<O: Object>(cx: &Context<O>, pod: &Pod) -> Result<Option<Pod>> {
    match cx.client().api().create(pod).await {
        Ok(made) => {
            let name = made.metadata.name.clone().unwrap_or_default();
            cx.event("SuccessfulCreate", format!("Created pod: {name}"));
            Ok(Some(made))
        }
        Err(error) if namespace_is_terminating(&error) => Ok(None),
        Err(error) => {
            cx.warn("FailedCreate", format!("Error creating: {}", message(&error)));
            Err(error)
        }
    }
}

/// Deletes a pod and publishes an event.
pub async fn delete<O: Object>(cx: &Context<O>, pod: &Pod) -> Result<()> {
    let key = Key::of(pod);
    match cx.client().api::<Pod>().delete(Deletion::only(pod)).await {
        Ok(Deleted::NotFound) => Ok(()),
        Ok(_) => {
            cx.event("SuccessfulDelete", format!("Deleted pod: {}", key.name()));
            Ok(())
        }
        // Another pod of that name by now.
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => {
            cx.warn("FailedDelete", format!("Error deleting: {}", message(&error)));
            Err(error)
        }
    }
}

/// Returns `true` if a request failed because the namespace is being deleted.
pub fn namespace_is_terminating(error: &Error) -> bool {
    let details = error.status().and_then(|s| s.details.as_ref());
    details.is_some_and(|d| d.causes.iter().any(|c| c.reason == "NamespaceTerminating"))
}

/// The message of a failed request, for events and conditions.
pub fn message(error: &Error) -> String {
    error.status().map_or_else(|| format!("{error:?}"), |s| s.message.clone())
}

/// Calls `make` in batches of 1, 2, 4, ... and stops after a batch with a failure.
///
/// # Errors
///
/// Fails with the first failure.
pub async fn slow_start<F: Future<Output = Result<()>>>(
    count: usize,
    make: impl Fn(usize) -> F,
) -> Result<()> {
    let (mut done, mut batch) = (0, 1);
    while done < count {
        let size = batch.min(count - done);
        let outcomes = futures::future::join_all((done..done + size).map(&make)).await;
        outcomes.into_iter().collect::<Result<Vec<()>>>()?;
        done += size;
        batch *= 2;
    }
    Ok(())
}

/// Which of two pods is deleted first when there are too many; `rank` is the number of pods on its
/// node.
pub fn deletion_order(a: (&Pod, usize), b: (&Pod, usize), now: Timestamp) -> Ordering {
    let ((a, rank_a), (b, rank_b)) = (a, b);
    let phase_order = |pod: &Pod| match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        "Running" => 2,
        _ => 3,
    };
    node(a)
        .is_some()
        .cmp(&node(b).is_some())
        .then_with(|| phase_order(a).cmp(&phase_order(b)))
        .then_with(|| is_ready(a).cmp(&is_ready(b)))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| rank_b.cmp(&rank_a))
        .then_with(|| match (ready_since(a), ready_since(b)) {
            (Some(x), Some(y)) if x != y => by_age(x, y, a, b, now),
            _ => Ordering::Equal,
        })
        .then_with(|| restarts_max(b).cmp(&restarts_max(a)))
        .then_with(|| match (&a.metadata.creation_timestamp, &b.metadata.creation_timestamp) {
            (Some(x), Some(y)) if x.0 != y.0 => by_age(x.0, y.0, a, b, now),
            _ => Ordering::Equal,
        })
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|c| c.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// Younger first, by orders of magnitude; within one the UID decides.
fn by_age(x: Timestamp, y: Timestamp, a: &Pod, b: &Pod, now: Timestamp) -> Ordering {
    let magnitude = |then: Timestamp| match now.duration_since(then).as_nanos() {
        nanos if nanos <= 0 => -1,
        nanos => i64::from(nanos.ilog2()),
    };
    magnitude(x).cmp(&magnitude(y)).then_with(|| a.metadata.uid.cmp(&b.metadata.uid))
}

fn deletion_cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(DELETION_COST)).and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// The most restarts of one container.
fn restarts_max(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|s| s.restart_count).max().unwrap_or(0)
}

/// Returns how often containers of the pod were started again.
pub fn restarts(pod: &Pod) -> i32 {
    let Some(status) = &pod.status else { return 0 };
    let inits = status.init_container_statuses.iter().flatten();
    let all = inits.chain(status.container_statuses.iter().flatten());
    all.fold(0, |sum: i32, c| sum.saturating_add(c.restart_count))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn pod(node: Option<&str>, ready: bool, cost: Option<&str>) -> Pod {
        let spec = PodSpec { node_name: node.map(Into::into), ..PodSpec::default() };
        let mut pod = Pod { spec: Some(spec), ..Pod::default() };
        pod.metadata.annotations =
            cost.map(|c| [(DELETION_COST.to_string(), c.to_string())].into());
        let ready = PodCondition {
            type_: "Ready".into(),
            status: if ready { "True" } else { "False" }.into(),
            last_transition_time: Some(Time(Timestamp::from_second(100).expect("in range"))),
            ..PodCondition::default()
        };
        pod.status = Some(PodStatus {
            phase: Some("Running".into()),
            conditions: Some(vec![ready]),
            ..PodStatus::default()
        });
        pod
    }

    #[test]
    fn unassigned_then_unready_then_cheap_pods_go_first() {
        let now = Timestamp::from_second(200).expect("in range");
        let first = |a: &Pod, b: &Pod| deletion_order((a, 0), (b, 0), now) == Ordering::Less;
        let node = Some("n");
        assert!(first(&pod(None, true, None), &pod(node, false, None)));
        assert!(first(&pod(node, false, None), &pod(node, true, Some("-9"))));
        assert!(first(&pod(node, true, Some("-1")), &pod(node, true, None)));
        let crowded = deletion_order((&pod(node, true, None), 3), (&pod(node, true, None), 1), now);
        assert_eq!(crowded, Ordering::Less);
    }

    fn ready_since_second(second: i64) -> Pod {
        let mut pod = pod(Some("n"), true, None);
        let conditions = pod.status.as_mut().and_then(|s| s.conditions.as_mut());
        conditions.expect("has some")[0].last_transition_time =
            Some(Time(Timestamp::from_second(second).expect("in range")));
        pod
    }

    #[test]
    fn a_pod_is_available_after_it_was_ready_for_long_enough() {
        let now = Timestamp::from_second(100).unwrap();
        assert!(is_available(&ready_since_second(100), 0, now));
        assert!(is_available(&ready_since_second(90), 10, now));
        assert!(!is_available(&ready_since_second(91), 10, now));
        assert_eq!(available_after(&ready_since_second(91), 10, now), Some(Duration::from_secs(1)));
        assert!(!is_available(&Pod::default(), 0, now));
    }

    #[tokio::test]
    async fn a_slow_start_stops_after_the_batch_that_failed() {
        let calls = std::cell::Cell::new(0);
        let outcome = slow_start(100, |at| {
            calls.set(calls.get() + 1);
            async move { if at == 2 { Err("no".into()) } else { Ok(()) } }
        })
        .await;
        assert!(outcome.is_err());
        assert_eq!(calls.get(), 3, "one, then two");
    }
}
