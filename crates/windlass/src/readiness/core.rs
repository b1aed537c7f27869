//! The rules of the other built-in kinds.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::conditions::condition;
use super::{Readiness, Subject};

/// For how long a pod may be unschedulable before it counts as failed.
const UNSCHEDULABLE_MAX: SignedDuration = SignedDuration::from_secs(15);

/// The annotation with the conditions of an autoscaler in version v1.
const AUTOSCALER_CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// Reasons with which an autoscaler says that it cannot do its work.
const AUTOSCALER_FAILURES: [&str; 8] = [
    "FailedGetScale",
    "FailedUpdateScale",
    "FailedGetResourceMetric",
    "FailedGetObjectMetric",
    "FailedGetPodsMetric",
    "FailedGetExternalMetric",
    "FailedComputeMetricsReplicas",
    "InvalidSelector",
];

// === impl Subject ===

impl Subject<'_> {
    /// Decides about a built-in kind that runs no pods of its own; `None` for all other kinds.
    pub(super) fn of_core_kind(&self, group: &str) -> Option<Readiness> {
        let problem = match (group, self.kind) {
            ("", "Pod") => self.pod(),
            ("", "PersistentVolumeClaim") => self.claim(),
            ("", "Service") => self.service(),
            ("", "Namespace") => self.namespace(),
            ("policy", "PodDisruptionBudget") => self.never_observed(),
            ("autoscaling", "HorizontalPodAutoscaler") => self.autoscaler(),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => self.definition(),
            ("apiregistration.k8s.io", "APIService") => self.api_service(),
            _ => return None,
        };
        Some(problem.unwrap_or(Readiness::Ready))
    }

    fn pod(&self) -> Option<Readiness> {
        match self.text("/status/phase") {
            None => Some(Readiness::in_progress("PodNotObserved", "the pod has no phase yet")),
            Some("Succeeded") => None,
            Some("Failed") => {
                let message = self.text("/status/message").unwrap_or("the pod has failed");
                Some(Readiness::failed("PodFailed", message))
            }
            Some("Running") => self.running_pod(),
            Some("Pending") => Some(self.pending_pod()),
            Some(_) => {
                Some(Readiness::unknown("PodPhaseUnknown", "the phase of the pod is unknown"))
            }
        }
    }

    fn running_pod(&self) -> Option<Readiness> {
        if self.condition("Ready").is_some_and(|c| c.is("True")) {
            return None;
        }
        let containers = self.object.pointer("/status/containerStatuses");
        let crashing: Vec<&str> = containers
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|container| container["state"]["waiting"]["reason"] == "CrashLoopBackOff")
            .filter_map(|container| container["name"].as_str())
            .collect();
        if !crashing.is_empty() {
            let text = format!("containers that crash repeatedly: {}", crashing.join(", "));
            return Some(Readiness::failed("ContainerCrashLooping", text));
        }
        Some(Readiness::in_progress("PodRunningNotReady", "the pod runs and is not ready yet"))
    }

    fn pending_pod(&self) -> Readiness {
        let scheduled = self.condition("PodScheduled");
        let Some(stuck) = scheduled.filter(|c| c.is("False") && c.reason() == "Unschedulable")
        else {
            return Readiness::in_progress("PodPending", "the pod has not started yet");
        };
        let late =
            stuck.time().is_some_and(|since| self.now.duration_since(since) > UNSCHEDULABLE_MAX);
        match late {
            true => Readiness::failed("PodUnschedulable", stuck.message()),
            false => Readiness::in_progress("PodNotScheduled", stuck.message()),
        }
    }

    fn claim(&self) -> Option<Readiness> {
        match self.text("/status/phase") {
            Some("Bound") => None,
            Some("Lost") => Some(Readiness::failed("ClaimLost", "the volume of the claim is lost")),
            _ => Some(Readiness::in_progress("NotBound", "the claim is not bound to a volume yet")),
        }
    }

    /// A load balancer may have no ingress for ever: some controllers never report one.
    fn service(&self) -> Option<Readiness> {
        let balances = self.text("/spec/type") == Some("LoadBalancer");
        let address = self.text("/spec/clusterIP").is_some_and(|address| !address.is_empty());
        let text = "the service has no cluster IP yet";
        (balances && !address).then(|| Readiness::in_progress("NoIPAssigned", text))
    }

    fn namespace(&self) -> Option<Readiness> {
        let active = self.text("/status/phase") == Some("Active");
        let text = "the namespace is not active";
        (!active).then(|| Readiness::in_progress("NotActive", text))
    }

    fn autoscaler(&self) -> Option<Readiness> {
        let old = self.old_conditions();
        let condition = |type_: &&str| condition(old.as_ref().unwrap_or(self.object), type_);
        let types = ["AbleToScale", "ScalingActive", "ScalingLimited"];
        let mut found = types.iter().filter_map(condition);
        if let Some(broken) = found.find(|c| AUTOSCALER_FAILURES.contains(&c.reason())) {
            return Some(Readiness::failed(broken.reason(), broken.message()));
        }
        let able = ["AbleToScale", "ScalingLimited"].iter();
        if able.filter_map(condition).any(|c| c.is("True")) {
            return None;
        }
        Some(Readiness::in_progress("NotAbleToScale", "the autoscaler cannot scale yet"))
    }

    /// Returns an object with the conditions of an autoscaler in version v1, which has them in an
    /// annotation; `None` for other versions.
    fn old_conditions(&self) -> Option<Value> {
        let annotations = self.object.pointer("/metadata/annotations")?;
        let text = annotations.get(AUTOSCALER_CONDITIONS)?.as_str()?;
        if self.text("/apiVersion") != Some("autoscaling/v1") {
            return None;
        }
        let conditions: Value = serde_json::from_str(text).ok()?;
        Some(json!({"status": {"conditions": conditions}}))
    }

    fn definition(&self) -> Option<Readiness> {
        if let Some(refused) = self.condition("NamesAccepted").filter(|c| c.is("False")) {
            return Some(Readiness::failed(
                named(refused.reason(), "NamesNotAccepted"),
                refused.message(),
            ));
        }
        match self.condition("Established") {
            Some(established) if established.is("True") => None,
            Some(refused) if refused.is("False") && refused.reason() != "Installing" => Some(
                Readiness::failed(named(refused.reason(), "NotEstablished"), refused.message()),
            ),
            _ => Some(Readiness::in_progress("Installing", "the definition is being installed")),
        }
    }

    fn api_service(&self) -> Option<Readiness> {
        let unknown =
            || Readiness::in_progress("NotAvailable", "its availability is not known yet");
        let found = self.of_positive_condition("Available").unwrap_or_else(unknown);
        (!found.is_ready()).then_some(found)
    }
}

/// Returns a reason, or `otherwise` if it is empty.
fn named<'a>(reason: &'a str, otherwise: &'a str) -> &'a str {
    if reason.is_empty() { otherwise } else { reason }
}
