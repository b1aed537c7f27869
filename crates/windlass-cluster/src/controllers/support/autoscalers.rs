//! HorizontalPodAutoscalers: replicas that follow metrics.
//!
//! The numbers come from [`Metrics`], which tests and simulated clusters inject. Without it an
//! autoscaler finds what it finds in a cluster without a metrics server.

mod metric;
mod replicas;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus,
    MetricStatus,
};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use parking_lot::Mutex;
use serde_json::json;
use windlass::cache::{Cache, Change};
use windlass::client::Patch;
use windlass::controller::{Context, Predicate, Watch};
use windlass::{
    Controller, Error, Index, Key, Kind, Manager, Next, Object, Reconciler, Result, ResultExt,
};
use windlass_text::select::LabelSelector;

use crate::controllers::Shared;
use rules::History;

/// How often metrics are looked at.
const SYNC_EVERY: Duration = Duration::from_secs(15);

/// The metrics that autoscalers use, in thousandths; `None` where there is no number.
pub trait Metrics: fmt::Debug + Send + Sync {
    /// What a pod, or one of its containers, uses of a resource.
    fn resource(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        resource: &str,
    ) -> Option<i64> {
        let _ = (namespace, pod, container, resource);
        None
    }

    /// A metric of a pod.
    fn pod(&self, namespace: &str, pod: &str, metric: &str) -> Option<i64> {
        let _ = (namespace, pod, metric);
        None
    }

    /// A metric of any object.
    fn object(&self, namespace: &str, kind: &str, name: &str, metric: &str) -> Option<i64> {
        let _ = (namespace, kind, name, metric);
        None
    }

    /// A metric from outside of the cluster; the sum of its series.
    fn external(&self, namespace: &str, metric: &str) -> Option<i64> {
        let _ = (namespace, metric);
        None
    }
}

/// Adds the controller.
pub fn add(builder: Manager, shared: &Shared) -> Manager {
    let state = Arc::new(State::default());
    let rivals = state.clone();
    let rivals = Watch::changes(Kind::of::<HorizontalPodAutoscaler>(), move |change, _| {
        rivals.rivals_of(change)
    });
    builder.add(
        Controller::<HorizontalPodAutoscaler>::builder("horizontal-pod-autoscaler")
            .workers(2)
            .when(Predicate::generation_changed())
            .watch(rivals)
            .watch(target::<Deployment>())
            .watch(target::<ReplicaSet>())
            .watch(target::<StatefulSet>())
            .watch(target::<ReplicationController>())
            .index(&by_target())
            .reads::<Pod>()
            .build_with(Autoscalers { shared: shared.clone(), state }),
    )
}

/// Autoscalers by the kind and key of what they scale.
fn by_target() -> Index<HorizontalPodAutoscaler, (String, Key)> {
    Index::new("scale-target", |scaler: &HorizontalPodAutoscaler| {
        let target = &scaler.spec.scale_target_ref;
        let key = Key::new(scaler.metadata.namespace.as_deref(), &target.name);
        vec![(target.kind.clone(), key)]
    })
}

/// Changes of the wanted state of a kind that is often scaled.
fn target<K: Object<DynamicType = ()>>() -> Watch {
    let kind = Kind::of::<K>();
    let name = kind.kind().to_string();
    let map = move |change: &Change, cache: &Cache| {
        let target = (name.clone(), change.key().clone());
        cache.list::<HorizontalPodAutoscaler>().by(&by_target(), target).keys()
    };
    Watch::changes(kind, map).when(Predicate::generation_changed())
}

/// What autoscalers know of each other.
///
/// This is neither an index nor the memory of one key: selectors come from the scale of a target,
/// which is read and not cached, and each autoscaler asks for the selectors of all others.
#[derive(Debug, Default)]
struct State {
    /// The pods each autoscaler looked at last.
    selectors: Mutex<BTreeMap<Key, LabelSelector>>,
    /// The autoscalers that share a pod with each.
    rivals: Mutex<BTreeMap<Key, BTreeSet<Key>>>,
}

// === impl State ===

impl State {
    /// Stores the selector of an autoscaler, and returns all autoscalers that select one of the
    /// pods.
    fn select(&self, key: &Key, selector: LabelSelector, pods: &[Arc<Pod>]) -> BTreeSet<Key> {
        let mut selectors = self.selectors.lock();
        selectors.insert(key.clone(), selector);
        let none = BTreeMap::new();
        let here = selectors.iter().filter(|(other, _)| other.namespace() == key.namespace());
        let selecting = here.filter(|(_, selector)| {
            pods.iter().any(|pod| selector.matches(pod.metadata.labels.as_ref().unwrap_or(&none)))
        });
        let selecting: BTreeSet<Key> = selecting.map(|(key, _)| key.clone()).collect();
        self.rivals.lock().insert(key.clone(), selecting.clone());
        selecting
    }

    /// The autoscalers of the same pods, which have to be reconciled when one of them changes.
    fn rivals_of(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let mut rivals = self.rivals.lock();
        let mut found = rivals.get(key).cloned().unwrap_or_default();
        found.remove(key);
        if change.new.is_none() {
            rivals.remove(key);
            self.selectors.lock().remove(key);
        }
        found.into_iter().collect()
    }
}

struct Autoscalers {
    shared: Shared,
    state: Arc<State>,
}

type Cx = Context<HorizontalPodAutoscaler>;

/// The scale subresource of a target.
struct Scale {
    kind: Kind,
    key: Key,
    wanted: i32,
    selector: String,
}

impl Reconciler<HorizontalPodAutoscaler> for Autoscalers {
    type Error = Error;

    async fn reconcile(&self, cx: Cx) -> Result<Next, Error> {
        let cx = &cx;
        let Some(scaler) = cx.object() else {
            self.state.selectors.lock().remove(cx.key());
            self.state.rivals.lock().remove(cx.key());
            return Ok(Next::Done);
        };
        let mut status = scaler.status.clone().unwrap_or_default();
        let step = self.step(cx, &scaler, &mut status).await;
        let mut written = Ok(());
        if scaler.status.as_ref() != Some(&status) {
            let changed = HorizontalPodAutoscaler { status: Some(status), ..(*scaler).clone() };
            written = cx
                .client()
                .api()
                .subresource("status")
                .update(&changed)
                .await
                .ignore_not_found()
                .map(drop);
        }
        step?;
        written?;
        Ok(Next::After(SYNC_EVERY))
    }
}

// === impl Autoscalers ===

impl Autoscalers {
    /// Looks at the target and the metrics once, and records what it finds in `status`.
    async fn step(
        &self,
        cx: &Cx,
        scaler: &HorizontalPodAutoscaler,
        status: &mut HorizontalPodAutoscalerStatus,
    ) -> Result<()> {
        let spec = scaler.spec.clone();
        let scale = match self.scale(cx, &spec).await {
            Ok(scale) => scale,
            Err(text) => {
                cx.warn("FailedGetScale", text.clone());
                let text = format!(
                    "the HPA controller was unable to get the target's current scale: {text}"
                );
                set(cx, status, "AbleToScale", false, "FailedGetScale", text);
                return Ok(());
            }
        };
        let text = "the HPA controller was able to get the target's current scale";
        set(cx, status, "AbleToScale", true, "SucceededGetScale", text.into());
        let least = spec.min_replicas.unwrap_or(1);
        let current = scale.wanted;
        self.with_history(cx, |history| history.begin(current));
        let mut computed = false;
        let (desired, reason) = if current == 0 && least != 0 {
            let text = "scaling is disabled since the replica count of the target is zero";
            set(cx, status, "ScalingActive", false, "ScalingDisabled", text.into());
            (0, String::new())
        } else if current > spec.max_replicas {
            (spec.max_replicas, "Current number of replicas above Spec.MaxReplicas".into())
        } else if current < least {
            (least, "Current number of replicas below Spec.MinReplicas".into())
        } else {
            computed = true;
            status.current_replicas = Some(current);
            let found = self.by_metrics(cx, &spec, &scale, status)?;
            let Some((proposed, metric)) = found else { return Ok(()) };
            let reason = match proposed.cmp(&current) {
                std::cmp::Ordering::Greater => format!("{metric} above target"),
                std::cmp::Ordering::Less => "All metrics below target".to_string(),
                std::cmp::Ordering::Equal => String::new(),
            };
            let bounded = self.with_history(cx, |h| h.bound(&spec, current, proposed));
            for (type_, value, reason, text) in bounded.conditions {
                set(cx, status, type_, value, reason, text.into());
            }
            (bounded.replicas, reason)
        };
        if !computed {
            status.current_metrics = None;
        }
        status.current_replicas = Some(current);
        status.desired_replicas = desired;
        if desired != current {
            self.rescale(cx, &scale, desired, &reason, status).await?;
        }
        Ok(())
    }

    /// The target's scale, or the reason why it cannot be read.
    async fn scale(&self, cx: &Cx, spec: &HorizontalPodAutoscalerSpec) -> Result<Scale, String> {
        let target = &spec.scale_target_ref;
        let api_version = target.api_version.as_deref().unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = match cx.client().kind_of(group, version, &target.kind).await {
            Ok(kind) => kind,
            Err(Error::NoKind { .. }) => {
                return Err(format!("no matches for kind {:?} in group {group:?}", target.kind));
            }
            Err(error) => return Err(message(&error)),
        };
        let key = Key::new(cx.namespace(), &target.name);
        let api = cx.client().api_of::<autoscaling::v1::Scale>(&kind).subresource("scale");
        let found = api.get(&key).await.map_err(|error| message(&error))?;
        let Some(found) = found else {
            let resource = super::qualified(kind.plural(), group);
            return Err(format!("{resource} {:?} not found", target.name));
        };
        let selector = found.status.as_ref().and_then(|status| status.selector.clone());
        Ok(Scale {
            kind,
            key,
            wanted: found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0),
            selector: selector.unwrap_or_default(),
        })
    }

    /// The largest number of replicas any metric asks for; `None` if no metric is available.
    fn by_metrics(
        &self,
        cx: &Cx,
        spec: &HorizontalPodAutoscalerSpec,
        scale: &Scale,
        status: &mut HorizontalPodAutoscalerStatus,
    ) -> Result<Option<(i32, String)>> {
        let pods = match self.pods(cx, scale, status)? {
            Ok(pods) => pods,
            Err(why) => {
                status.current_metrics = None;
                cx.warn("FailedComputeMetricsReplicas", why);
                return Ok(None);
            }
        };
        let view = metric::View {
            metrics: self.shared.settings.metrics.as_deref(),
            namespace: cx.namespace().unwrap_or_default(),
            pods: &pods,
            current: scale.wanted,
            now: self.shared.server.clock().now(),
        };
        let specs = spec.metrics.as_deref().unwrap_or_default();
        let mut best: Option<(i32, String)> = None;
        let mut failures = Vec::new();
        let mut seen = Vec::new();
        for spec in specs {
            match view.evaluate(spec) {
                Ok(found) => {
                    seen.push(found.status);
                    if best.as_ref().is_none_or(|(most, _)| found.replicas > *most) {
                        best = Some((found.replicas, found.name));
                    }
                }
                Err(failure) => {
                    cx.warn(failure.reason, failure.text.clone());
                    failures.push(failure);
                    seen.push(MetricStatus::default());
                }
            }
        }
        status.current_metrics = Some(seen).filter(|list| !list.is_empty());
        let unsure = best.as_ref().is_none_or(|(replicas, _)| *replicas < scale.wanted);
        if let (true, Some(first)) = (unsure, failures.first()) {
            let text = format!("the HPA was unable to compute the replica count: {}", first.text);
            set(cx, status, "ScalingActive", false, first.reason, text);
            let text = format!(
                "invalid metrics ({} invalid out of {}), first error is: {}{}",
                failures.len(),
                specs.len(),
                first.prefix,
                first.text,
            );
            cx.warn("FailedComputeMetricsReplicas", text);
            return Ok(None);
        }
        if let Some((_, name)) = &best {
            let text =
                format!("the HPA was able to successfully calculate a replica count from {name}");
            set(cx, status, "ScalingActive", true, "ValidMetricFound", text);
        }
        Ok(best)
    }

    /// The pods of the target, or the reason why they are unknown, which the conditions then show.
    fn pods(
        &self,
        cx: &Cx,
        scale: &Scale,
        status: &mut HorizontalPodAutoscalerStatus,
    ) -> Result<Result<Vec<Arc<Pod>>, String>> {
        if scale.selector.is_empty() {
            let why = "selector is required";
            cx.warn("SelectorRequired", why);
            let text = "the HPA target's scale is missing a selector";
            set(cx, status, "ScalingActive", false, "InvalidSelector", text.into());
            return Ok(Err(why.into()));
        }
        let selector = match LabelSelector::parse(&scale.selector) {
            Ok(selector) => selector,
            Err(error) => {
                let why = format!(
                    "couldn't convert selector into a corresponding internal selector object: \
                     {error}"
                );
                cx.warn("InvalidSelector", why.clone());
                set(cx, status, "ScalingActive", false, "InvalidSelector", why.clone());
                return Ok(Err(why));
            }
        };
        let mut pods = cx.list::<Pod>().items()?;
        pods.retain(|pod| selector.matches(&pod.metadata.labels.clone().unwrap_or_default()));
        let rivals = self.state.select(cx.key(), selector, &pods);
        if rivals.len() > 1 {
            let names = rivals
                .iter()
                .map(|key| format!("{{{} {}}}", key.name(), key.namespace().unwrap_or_default()));
            let why = format!(
                "pods by selector {} are controlled by multiple HPAs: [{}]",
                scale.selector,
                names.collect::<Vec<_>>().join(" "),
            );
            cx.warn("AmbiguousSelector", why.clone());
            set(cx, status, "ScalingActive", false, "AmbiguousSelector", why.clone());
            return Ok(Err(why));
        }
        Ok(Ok(pods))
    }

    async fn rescale(
        &self,
        cx: &Cx,
        scale: &Scale,
        desired: i32,
        reason: &str,
        status: &mut HorizontalPodAutoscalerStatus,
    ) -> Result<()> {
        let api = cx.client().api_of::<autoscaling::v1::Scale>(&scale.kind).subresource("scale");
        let patch = Patch::Merge(json!({"spec": {"replicas": desired}}));
        if let Err(error) = api.patch(&scale.key, &patch).await {
            let why = message(&error);
            let text = format!("New size: {desired}; reason: {reason}; error: {why}");
            cx.warn("FailedRescale", text);
            let text = format!("the HPA controller was unable to update the target scale: {why}");
            set(cx, status, "AbleToScale", false, "FailedUpdateScale", text);
            return Ok(());
        }
        let text = format!("the HPA controller was able to update the target scale to {desired}");
        set(cx, status, "AbleToScale", true, "SucceededRescale", text);
        cx.event("SuccessfulRescale", format!("New size: {desired}; reason: {reason}"));
        status.last_scale_time = Some(super::time(&self.shared));
        self.with_history(cx, |history| history.scaled(scale.wanted, desired));
        Ok(())
    }

    fn with_history<T>(&self, cx: &Cx, step: impl FnOnce(&mut History) -> T) -> T {
        // What this autoscaler recommended and did.
        step(&mut cx.memory::<Mutex<History>>().lock())
    }
}

fn set(
    cx: &Cx,
    status: &mut HorizontalPodAutoscalerStatus,
    type_: &str,
    holds: bool,
    reason: &str,
    message: String,
) {
    let condition = cx.condition(type_, holds).reason(reason).message(message);
    condition.set(status.conditions.get_or_insert_default());
}

/// The server's own message.
fn message(error: &Error) -> String {
    error.status().map_or_else(|| format!("{error:?}"), |status| status.message.clone())
}
