//! From one metric to a number of replicas.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{MetricSpec, MetricStatus, MetricTarget};
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};
use windlass_text::quantity::Quantity;

use super::Metrics;
use super::replicas::{self, Sample};
use crate::controllers::pod;
use crate::controllers::support::wording;

/// How long after its start a pod's load is not typical.
const INITIALIZATION: SignedDuration = SignedDuration::from_secs(300);
/// How long after its start a pod that was never ready is not counted.
const READINESS_DELAY: SignedDuration = SignedDuration::from_secs(30);

/// What metrics are looked at with.
pub struct View<'a> {
    pub metrics: Option<&'a dyn Metrics>,
    pub namespace: &'a str,
    pub pods: &'a [Arc<Pod>],
    pub current: i32,
    pub now: Timestamp,
}

/// What a metric asks for.
pub struct Found {
    pub replicas: i32,
    pub name: String,
    pub status: MetricStatus,
}

/// Why a metric says nothing.
#[derive(Debug)]
pub struct Failure {
    pub reason: &'static str,
    pub prefix: String,
    pub text: String,
}

// === impl View ===

impl View<'_> {
    /// Returns what one metric asks for.
    pub fn evaluate(&self, spec: &MetricSpec) -> Result<Found, Failure> {
        if let Some(source) = &spec.resource {
            let prefix = format!("failed to get {} resource metric value: ", source.name);
            return self.resource(&source.name, None, &source.target).map_err(|text| Failure {
                reason: "FailedGetResourceMetric",
                prefix,
                text,
            });
        }
        if let Some(source) = &spec.container_resource {
            let prefix = format!("failed to get {} container metric value: ", source.container);
            return self.resource(&source.name, Some(&source.container), &source.target).map_err(
                |text| Failure { reason: "FailedGetContainerResourceMetric", prefix, text },
            );
        }
        if let Some(source) = &spec.pods {
            let prefix = "failed to get pods metric value: ".to_string();
            return self.custom(&source.metric.name, &source.target).map_err(|text| Failure {
                reason: "FailedGetPodsMetric",
                prefix,
                text,
            });
        }
        if let Some(source) = &spec.object {
            let (name, object) = (&source.metric.name, &source.described_object);
            let mut prefix = "failed to get object metric value: ".to_string();
            if source.target.value.is_none() {
                prefix += &format!("failed to get {name} object metric: ");
            }
            let found = self.of_object(&object.kind, &object.name, name);
            let current = json!({"describedObject": object, "metric": source.metric});
            let label = match &source.target.value {
                Some(_) => format!("{} metric {name}", object.kind),
                None => external(name, source.metric.selector.as_ref()),
            };
            return found
                .and_then(|usage| self.total(usage, &source.target, "Object", current, label))
                .map_err(|text| Failure { reason: "FailedGetObjectMetric", prefix, text });
        }
        if let Some(source) = &spec.external {
            let name = &source.metric.name;
            let mut prefix = format!("failed to get {name} external metric value: ");
            prefix += &match &source.target.average_value {
                Some(_) => format!("failed to get {name} external metric: "),
                None => format!("failed to get external metric {name}: "),
            };
            let found = self.of_external(name, source.metric.selector.as_ref());
            let current = json!({"metric": source.metric});
            let label = external(name, source.metric.selector.as_ref());
            return found
                .and_then(|usage| self.total(usage, &source.target, "External", current, label))
                .map_err(|text| Failure { reason: "FailedGetExternalMetric", prefix, text });
        }
        let text = format!("unknown metric source type {:?}", spec.type_);
        Err(Failure { reason: "InvalidMetricSourceType", prefix: String::new(), text })
    }

    fn resource(
        &self,
        name: &str,
        container: Option<&str>,
        target: &MetricTarget,
    ) -> Result<Found, String> {
        let by_share = target.average_utilization.filter(|_| target.average_value.is_none());
        let wrap = |text: String| match by_share {
            Some(_) => format!("failed to get {name} utilization: {text}"),
            None => format!("failed to get {name} usage: {text}"),
        };
        let samples = self.samples(name, container).map_err(wrap)?;
        let noun = if container.is_some() { "container resource" } else { "resource" };
        let (replicas, current, label) = match (by_share, &target.average_value) {
            (Some(share), _) => {
                let requests = self.requests(name, container).map_err(wrap)?;
                let (replicas, used, average) =
                    replicas::by_share(&samples, &requests, share, self.current).map_err(wrap)?;
                let current = json!({
                    "averageUtilization": used,
                    "averageValue": Quantity::from_millis(average).to_string(),
                });
                (replicas, current, format!("{name} {noun} utilization (percentage of request)"))
            }
            (None, Some(value)) => {
                let (replicas, average) =
                    replicas::by_average(&samples, millis(&value.0), self.current).map_err(wrap)?;
                let current = json!({"averageValue": Quantity::from_millis(average).to_string()});
                (replicas, current, format!("{name} {noun}"))
            }
            (None, None) => {
                return Err("invalid resource metric source: neither an average utilization \
                            target nor an average value (usage) target was set"
                    .into());
            }
        };
        let (type_, field) = match container {
            None => ("Resource", "resource"),
            Some(_) => ("ContainerResource", "containerResource"),
        };
        let mut status = json!({"name": name, "current": current});
        if let Some(container) = container {
            status["container"] = json!(container);
        }
        found(replicas, label, json!({"type": type_, (field): status}))
    }

    fn samples(&self, name: &str, container: Option<&str>) -> Result<Vec<Sample>, String> {
        let lead = format!("unable to get metrics for resource {name}: ");
        let Some(metrics) = self.metrics else {
            return Err(format!(
                "{lead}unable to fetch metrics from resource metrics API: the server could not \
                 find the requested resource (get pods.metrics.k8s.io)"
            ));
        };
        let value = |pod: &Pod| metrics.resource(self.namespace, pod::name(pod), container, name);
        let samples = self.collect(value, name == "cpu");
        if samples.iter().all(|sample| sample.value.is_none()) {
            return Err(format!("{lead}no metrics returned from resource metrics API"));
        }
        Ok(samples)
    }

    fn custom(&self, name: &str, target: &MetricTarget) -> Result<Found, String> {
        let lead = format!("unable to get metric {name}: ");
        let Some(metrics) = self.metrics else {
            return Err(format!(
                "{lead}unable to fetch metrics from custom metrics API: no custom metrics API \
                 (custom.metrics.k8s.io) registered"
            ));
        };
        let samples = self.collect(|pod| metrics.pod(self.namespace, pod::name(pod), name), false);
        if samples.iter().all(|sample| sample.value.is_none()) {
            return Err(format!("{lead}no metrics returned from custom metrics API"));
        }
        let value = target.average_value.as_ref().map_or(0, |value| millis(&value.0));
        let (replicas, average) = replicas::by_average(&samples, value, self.current)?;
        let current = json!({"averageValue": Quantity::from_millis(average).to_string()});
        let status =
            json!({"type": "Pods", "pods": {"metric": {"name": name}, "current": current}});
        found(replicas, format!("pods metric {name}"), status)
    }

    fn of_object(&self, kind: &str, object: &str, name: &str) -> Result<i64, String> {
        let lead = format!("unable to get metric {name}: {kind} on {} {object}/", self.namespace);
        let Some(metrics) = self.metrics else {
            return Err(format!(
                "{lead}unable to fetch metrics from custom metrics API: no custom metrics API \
                 (custom.metrics.k8s.io) registered"
            ));
        };
        let value = metrics.object(self.namespace, kind, object, name);
        value.ok_or_else(|| format!("{lead}no metrics returned from custom metrics API"))
    }

    fn of_external(&self, name: &str, selector: Option<&LabelSelector>) -> Result<i64, String> {
        let selector = wording::selector(selector);
        let lead = format!("unable to get external metric {}/{name}/{selector}: ", self.namespace);
        let Some(metrics) = self.metrics else {
            return Err(format!(
                "{lead}unable to fetch metrics from external metrics API: no external metrics \
                 API (external.metrics.k8s.io) registered"
            ));
        };
        let value = metrics.external(self.namespace, name);
        value.ok_or_else(|| format!("{lead}no metrics returned from external metrics API"))
    }

    /// Replicas for one number that belongs to no pod.
    fn total(
        &self,
        usage: i64,
        target: &MetricTarget,
        type_: &str,
        mut status: Value,
        label: String,
    ) -> Result<Found, String> {
        let replicas = if let Some(value) = &target.value {
            status["current"] = json!({"value": Quantity::from_millis(usage).to_string()});
            let ready = self.pods.iter().filter(|pod| pod::is_ready(pod)).count();
            replicas::by_ratio(usage, millis(&value.0), self.current, ready)
        } else if let Some(value) = &target.average_value {
            let average = usage / i64::from(self.current.max(1));
            status["current"] = json!({"averageValue": Quantity::from_millis(average).to_string()});
            replicas::by_share_of_total(usage, millis(&value.0), self.current)
        } else {
            return Err(format!(
                "invalid {} metric source: neither a value target nor an average \
                                value target was set",
                type_.to_lowercase()
            ));
        };
        found(replicas, label, json!({"type": type_, (type_.to_lowercase()): status}))
    }

    fn collect(&self, value: impl Fn(&Pod) -> Option<i64>, cpu: bool) -> Vec<Sample> {
        let counted = self.pods.iter().filter(|p| !pod::is_terminating(p));
        let counted = counted.filter(|pod| pod::phase(pod) != "Failed");
        counted
            .map(|pod| Sample {
                pod: pod::name(pod).to_string(),
                value: value(pod),
                unready: self.is_unready(pod, cpu),
            })
            .collect()
    }

    /// Returns `true` if the load of a pod says nothing yet.
    fn is_unready(&self, pod: &Pod, cpu: bool) -> bool {
        if pod::phase(pod) == "Pending" {
            return true;
        }
        if !cpu {
            return false;
        }
        let start = pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map(|t| t.0);
        let (Some(ready), Some(start)) = (pod::condition(pod, "Ready"), start) else {
            return true;
        };
        if start.checked_add(INITIALIZATION).is_ok_and(|end| end > self.now) {
            return ready.status == "False";
        }
        let changed = ready.last_transition_time.as_ref().map(|t| t.0);
        let early = start.checked_add(READINESS_DELAY).ok();
        ready.status == "False" && changed < early
    }

    /// The requests of each pod in thousandths.
    fn requests(&self, name: &str, only: Option<&str>) -> Result<BTreeMap<String, i64>, String> {
        let mut requests = BTreeMap::new();
        for pod in self.pods {
            let spec = pod.spec.clone().unwrap_or_default();
            let sidecars = spec.init_containers.iter().flatten();
            let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
            let wanted = |c: &&Container| only.is_none_or(|only| c.name == only);
            let mut sum = 0i64;
            for container in spec.containers.iter().chain(sidecars).filter(wanted) {
                let list = container.resources.as_ref().and_then(|r| r.requests.as_ref());
                let Some(text) = list.and_then(|list| list.get(name)) else {
                    return Err(format!(
                        "missing request for {name} in container {} of Pod {}",
                        container.name,
                        pod::name(pod)
                    ));
                };
                sum = sum.saturating_add(millis(&text.0));
            }
            requests.insert(pod::name(pod).to_string(), sum);
        }
        Ok(requests)
    }
}

/// What a metric from outside is called in messages.
fn external(name: &str, selector: Option<&LabelSelector>) -> String {
    format!("external metric {name}({})", wording::selector(selector))
}

fn found(replicas: i32, name: String, status: Value) -> Result<Found, String> {
    let status = serde_json::from_value(status).map_err(|error| error.to_string())?;
    Ok(Found { replicas, name, status })
}

fn millis(text: &str) -> i64 {
    text.parse::<Quantity>().map_or(0, |quantity| quantity.milli_value())
}
