//! The readiness of any object, computed from its JSON.
//!
//! The rules are those of kstatus, which `kubectl`, Flux and Helm use, so an operator agrees with
//! them about what is ready. They differ from kstatus where kstatus reports an object as ready that
//! is not; the table at [`Readiness`] lists these differences.
//!
//! **Invariant:** no input panics, and an object about which nothing is known is never ready.

mod conditions;
mod core;
mod summary;
mod workloads;

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use self::conditions::{Condition, condition};

/// Whether an object has become what its spec asks for.
///
/// The first rule that applies decides:
///
/// 1. An object with a `deletionTimestamp` is [`Terminating`](Self::Terminating).
/// 2. If `status.observedGeneration` differs from `metadata.generation`, the object is
///    [`InProgress`](Self::InProgress).
/// 3. A condition `Stalled` that is `True` makes it [`Failed`](Self::Failed), and a condition
///    `Reconciling` that is `True` makes it `InProgress`.
/// 4. The rules of the built-in kind in the table below.
/// 5. A condition `Ready`: `True` is [`Ready`](Self::Ready), anything else is `InProgress`.
/// 6. Other built-in kinds are ready as soon as they exist. Other custom kinds are
///    [`Unknown`](Self::Unknown), because nothing in them says whether their controller has seen
///    them.
///
/// A condition whose own `observedGeneration` is older than the object is ignored in step 3, and
/// makes the object `InProgress` in step 5.
///
/// | kind | ready when | failed when |
/// |---|---|---|
/// | Deployment | all replicas are updated, available and ready, and none is left over | its progress deadline has passed |
/// | StatefulSet | all replicas are ready, and updated as far as its partition allows | |
/// | DaemonSet | all scheduled pods are updated, available and ready | |
/// | ReplicaSet, ReplicationController | all replicas are labeled, available and ready, and none is left over | |
/// | Job | it is complete | it has failed |
/// | Pod | it is ready or has succeeded | it has failed, crashes repeatedly, or cannot be scheduled for 15 s |
/// | PersistentVolumeClaim | it is bound | its volume is lost |
/// | Service | it exists; a load balancer once it has a cluster IP, with or without an external address | |
/// | CustomResourceDefinition | it is established | its names are not accepted |
/// | HorizontalPodAutoscaler | it can scale | it has no metrics or no target |
/// | APIService | it is available | |
/// | PodDisruptionBudget | its controller has seen this generation | |
/// | Namespace | it is active | |
///
/// Differences to kstatus: a running Job is not ready, a failed Pod and a lost claim have failed, and
/// a suspended Job or paused Deployment is `Unknown` with the reason `Suspended`. A workload that its
/// controller has never seen is `InProgress`, and a StatefulSet that is updated on deletion is ready
/// only with its replicas. A ReplicationController needs its replicas, too. `Stalled` takes precedence over `Reconciling` whatever their order.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::batch::v1::Job;
/// use serde_json::json;
/// use windlass::Readiness;
/// use windlass::clock::Clock;
///
/// let now = Clock::default().now();
/// let running: Job = serde_json::from_value(json!({
///     "metadata": {"name": "backup"},
///     "status": {"startTime": "2026-01-01T00:00:00Z", "active": 1},
/// }))?;
/// let readiness = Readiness::of(&running, now);
/// assert!(!readiness.is_ready());
/// assert_eq!(readiness.reason(), "JobInProgress");
/// assert_eq!(readiness.message(), "job runs: 1 active, 0 succeeded, 0 failed");
///
/// // Any JSON will do, for example of a kind that is known at run time only.
/// let certificate = json!({
///     "apiVersion": "cert-manager.io/v1",
///     "kind": "Certificate",
///     "metadata": {"name": "web", "generation": 2},
///     "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]},
/// });
/// assert_eq!(Readiness::of(&certificate, now), Readiness::Ready);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// The object is what its spec asks for.
    Ready,
    /// The object is not ready yet, and its controller works on it.
    InProgress {
        /// One word for programs, such as `LessReady`.
        reason: String,
        /// A sentence for people.
        message: String,
    },
    /// The object will not become ready by itself in the near future.
    Failed {
        /// One word for programs, such as `JobFailed`.
        reason: String,
        /// A sentence for people.
        message: String,
    },
    /// The object is being deleted.
    Terminating,
    /// Nothing in the object says whether it is ready.
    Unknown {
        /// One word for programs, such as `Suspended`.
        reason: String,
        /// A sentence for people.
        message: String,
    },
}

/// An object as the rules see it.
struct Subject<'a> {
    object: &'a Value,
    kind: &'a str,
    generation: Option<i64>,
    now: Timestamp,
}

// === impl Readiness ===

impl Readiness {
    /// Returns the readiness of an object: a Rust type of any kind, or its JSON.
    ///
    /// The time decides for how long a pod may be unschedulable; a reconcile has it from
    /// [`Context::clock`](crate::Context::clock). An object that cannot be serialized is `Unknown`.
    pub fn of(object: &impl Serialize, now: Timestamp) -> Self {
        match serde_json::to_value(object) {
            Ok(object) => Self::of_json(&object, now),
            Err(_) => Self::unknown("Malformed", "the object cannot be serialized"),
        }
    }

    /// Returns the readiness of an object that is JSON already.
    pub(crate) fn of_json(object: &Value, now: Timestamp) -> Self {
        let kind = text(object, "/kind").unwrap_or("object");
        let generation = number(object, "/metadata/generation");
        let subject = Subject { object, kind, generation, now };
        if object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
            return Self::Terminating;
        }
        let found = subject.of_generation().or_else(|| subject.of_abnormal_conditions());
        if let Some(found) = found {
            return found;
        }
        let api_version = text(object, "/apiVersion").unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let found = subject.of_workload(group).or_else(|| subject.of_core_kind(group));
        found.or_else(|| subject.of_ready_condition()).unwrap_or_else(|| subject.of_nothing(group))
    }

    /// Returns `true` if the object is ready.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }

    /// Returns one word for programs, as the reason of a condition.
    pub fn reason(&self) -> &str {
        match self {
            Self::Ready => "Ready",
            Self::Terminating => "Terminating",
            Self::InProgress { reason, .. }
            | Self::Failed { reason, .. }
            | Self::Unknown { reason, .. } => reason,
        }
    }

    /// Returns a sentence for people; empty if the object is ready.
    pub fn message(&self) -> &str {
        match self {
            Self::Ready => "",
            Self::Terminating => "the object is being deleted",
            Self::InProgress { message, .. }
            | Self::Failed { message, .. }
            | Self::Unknown { message, .. } => message,
        }
    }

    pub(crate) fn in_progress(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::InProgress { reason: reason.into(), message: message.into() }
    }

    pub(crate) fn failed(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into(), message: message.into() }
    }

    pub(crate) fn unknown(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into(), message: message.into() }
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message() {
            "" => f.write_str(self.reason()),
            message => write!(f, "{message} ({})", self.reason()),
        }
    }
}

// === impl Subject ===

impl Subject<'_> {
    fn text(&self, pointer: &str) -> Option<&str> {
        text(self.object, pointer)
    }

    fn number(&self, pointer: &str) -> Option<i64> {
        number(self.object, pointer)
    }

    /// Returns a count; 0 if it is missing, since the API leaves out zeros.
    fn count(&self, pointer: &str) -> i64 {
        self.number(pointer).unwrap_or(0)
    }

    fn condition(&self, type_: &str) -> Option<Condition<'_>> {
        condition(self.object, type_)
    }

    /// Decides about an object whose controller has not seen its newest generation.
    fn of_generation(&self) -> Option<Readiness> {
        let (generation, observed) = (self.generation?, self.number("/status/observedGeneration")?);
        (generation != observed).then(|| {
            self.unobserved(&format!("generation {observed} was observed, {generation} is current"))
        })
    }

    fn unobserved(&self, message: &str) -> Readiness {
        Readiness::in_progress("LatestGenerationNotObserved", format!("{}: {message}", self.kind))
    }

    /// Decides about a kind whose controller always writes `status.observedGeneration`.
    fn never_observed(&self) -> Option<Readiness> {
        self.number("/status/observedGeneration")
            .is_none()
            .then(|| self.unobserved("its controller has not seen it yet"))
    }

    fn of_nothing(&self, group: &str) -> Readiness {
        if is_built_in(group) {
            return Readiness::Ready;
        }
        Readiness::unknown("NoReadyCondition", format!("{} has no condition Ready", self.kind))
    }
}

/// Returns `true` for the API groups of Kubernetes itself. Other groups of `k8s.io` are those of
/// custom resources.
pub(crate) fn is_built_in(group: &str) -> bool {
    const GROUPS: [&str; 18] = [
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    ];
    !group.contains('.') || GROUPS.contains(&group)
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str()
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer)?.as_i64()
}

#[cfg(test)]
mod tests;
