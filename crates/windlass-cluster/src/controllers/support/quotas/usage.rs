//! Counting what objects use.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Pod, ReplicationController, ResourceQuota, ResourceQuotaSpec,
    Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::DynamicObject;
use kube::core::discovery::ApiResource;
use kube::discovery::{ApiCapabilities, Discovery, verbs};
use windlass::controller::Context;
use windlass::{Kind, List, Result};
use windlass_text::quantity::{Format, Quantity};

use super::Counted;
use super::claim as quota_claim;
use super::pod as quota_pod;
use crate::controllers::pod;

const CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";

/// The usage so far, for the names a quota has.
struct Usage<'a> {
    spec: &'a ResourceQuotaSpec,
    used: BTreeMap<String, Quantity>,
}

/// The kinds whose objects are counted as they change, by the name after `count/`.
pub fn counted() -> Vec<Counted> {
    vec![
        ("pods", Kind::of::<Pod>()),
        ("services", Kind::of::<Service>()),
        ("persistentvolumeclaims", Kind::of::<PersistentVolumeClaim>()),
        ("configmaps", Kind::of::<ConfigMap>()),
        ("secrets", Kind::of::<Secret>()),
        ("serviceaccounts", Kind::of::<ServiceAccount>()),
        ("replicationcontrollers", Kind::of::<ReplicationController>()),
        ("resourcequotas", Kind::of::<ResourceQuota>()),
        ("deployments.apps", Kind::of::<Deployment>()),
        ("replicasets.apps", Kind::of::<ReplicaSet>()),
        ("statefulsets.apps", Kind::of::<StatefulSet>()),
        ("daemonsets.apps", Kind::of::<DaemonSet>()),
        ("jobs.batch", Kind::of::<Job>()),
        ("cronjobs.batch", Kind::of::<CronJob>()),
        ("horizontalpodautoscalers.autoscaling", Kind::of::<HorizontalPodAutoscaler>()),
        ("ingresses.networking.k8s.io", Kind::of::<Ingress>()),
        ("networkpolicies.networking.k8s.io", Kind::of::<NetworkPolicy>()),
        ("poddisruptionbudgets.policy", Kind::of::<PodDisruptionBudget>()),
        ("leases.coordination.k8s.io", Kind::of::<Lease>()),
        ("roles.rbac.authorization.k8s.io", Kind::of::<Role>()),
        ("rolebindings.rbac.authorization.k8s.io", Kind::of::<RoleBinding>()),
    ]
}

/// Returns what the namespace of a quota uses, and the kinds among it that are not watched.
pub async fn of(
    cx: &Context<ResourceQuota>,
    spec: &ResourceQuotaSpec,
    now: Timestamp,
) -> Result<(BTreeMap<String, Quantity>, Vec<Kind>)> {
    let mut usage = Usage { spec, used: BTreeMap::new() };
    usage.pods(&cx.list::<Pod>().items()?, now);
    let scoped = spec.scopes.as_ref().is_some_and(|s| !s.is_empty())
        || spec.scope_selector.as_ref().is_some_and(|s| s.match_expressions.is_some());
    let mut claims = cx.list::<PersistentVolumeClaim>().items()?;
    claims.retain(|claim| quota_claim::in_scopes(claim, spec));
    usage.claims(&claims);
    let mut unwatched = Vec::new();
    if scoped {
        usage.add_count("count/persistentvolumeclaims", claims.len());
    } else {
        usage.services(&cx.list::<Service>().items()?);
        unwatched = usage.objects(cx).await?;
    }
    Ok((usage.used, unwatched))
}

// === impl Usage ===

impl Usage<'_> {
    fn wants(&self, name: &str) -> bool {
        self.spec.hard.as_ref().is_some_and(|hard| hard.contains_key(name))
    }

    fn add(&mut self, name: &str, amount: &Quantity) {
        if self.wants(name) {
            let sum = self.used.entry(name.to_string()).or_insert_with(Quantity::zero);
            *sum = sum.add(amount);
        }
    }

    fn add_count(&mut self, name: &str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.add(name, &Quantity::from_units(count, Format::DecimalSi));
    }

    fn pods(&mut self, found: &[Arc<Pod>], now: Timestamp) {
        let names: Vec<String> = self.spec.hard.iter().flatten().map(|(n, _)| n.clone()).collect();
        for name in names.iter().filter(|name| quota_pod::counts(name)) {
            self.add(name, &Quantity::zero());
        }
        for pod in found.iter().filter(|pod| quota_pod::in_scopes(pod, self.spec)) {
            self.add_count("count/pods", 1);
            if !is_active(pod, now) {
                continue;
            }
            self.add_count("pods", 1);
            for (name, amount) in quota_pod::resources(pod) {
                self.add(&name, &amount);
            }
        }
    }

    fn services(&mut self, found: &[Arc<Service>]) {
        let (mut balancers, mut ports) = (0, 0);
        for service in found {
            let Some(spec) = &service.spec else { continue };
            let all = spec.ports.as_ref().map_or(0, Vec::len);
            match spec.type_.as_deref() {
                Some("NodePort") => ports += all,
                Some("LoadBalancer") => {
                    balancers += 1;
                    let given = spec.ports.iter().flatten();
                    let given = given.filter(|p| p.node_port.is_some_and(|n| n != 0)).count();
                    let allocates = spec.allocate_load_balancer_node_ports != Some(false);
                    ports += if allocates { all } else { given };
                }
                _ => {}
            }
        }
        self.add_count("services", found.len());
        self.add_count("services.loadbalancers", balancers);
        self.add_count("services.nodeports", ports);
    }

    fn claims(&mut self, found: &[Arc<PersistentVolumeClaim>]) {
        let names: Vec<String> = self.spec.hard.iter().flatten().map(|(n, _)| n.clone()).collect();
        let storage = |name: &&String| *name == "requests.storage" || name.contains(CLASS_SUFFIX);
        for name in names.iter().filter(storage) {
            self.add(name, &Quantity::zero());
        }
        self.add_count("persistentvolumeclaims", found.len());
        for claim in found {
            let class = super::super::volumes::class(claim);
            let size = super::super::volumes::request(claim);
            self.add("requests.storage", &size);
            if !class.is_empty() {
                self.add(&format!("{class}{CLASS_SUFFIX}requests.storage"), &size);
                self.add_count(&format!("{class}{CLASS_SUFFIX}persistentvolumeclaims"), 1);
            }
        }
    }

    /// Counts objects by kind; returns the kinds that were listed but are not watched.
    async fn objects(&mut self, cx: &Context<ResourceQuota>) -> Result<Vec<Kind>> {
        let watched = counted();
        for (name, kind) in &watched {
            let counted = format!("count/{name}");
            let plain = matches!(
                *name,
                "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas"
            );
            // Pods are counted with their scopes.
            let wanted = self.wants(&counted) || (plain && self.wants(name));
            if *name == "pods" || !wanted {
                continue;
            }
            let count = all_of(cx, kind).keys()?.len();
            self.add_count(&counted, count);
            if plain {
                self.add_count(name, count);
            }
        }
        let names: Vec<String> = self.spec.hard.iter().flatten().map(|(n, _)| n.clone()).collect();
        let mut unwatched = Vec::new();
        for name in &names {
            let Some(resource) = name.strip_prefix("count/") else { continue };
            if watched.iter().any(|(known, _)| *known == resource) {
                continue;
            }
            if let Some(kind) = served_kind(cx, resource).await? {
                let all = cx.client().api_of::<DynamicObject>(&kind).list();
                let here = all.namespace(cx.namespace().unwrap_or_default());
                self.add_count(name, here.items().await?.len());
                unwatched.push(kind);
            }
        }
        Ok(unwatched)
    }
}

/// The cached objects of a kind in the namespace of the quota.
fn all_of(cx: &Context<ResourceQuota>, kind: &Kind) -> List<DynamicObject> {
    cx.client().cached().list_of(kind).namespace(cx.namespace().unwrap_or_default())
}

/// The kind that is served under a name like `widgets.example.com`.
async fn served_kind(cx: &Context<ResourceQuota>, resource: &str) -> Result<Option<Kind>> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let discovery = Discovery::new(cx.client().kube()).run_aggregated().await?;
    let found = discovery.groups().find(|known| known.name() == group);
    let mut kinds = found.into_iter().flat_map(|group| group.resources_by_stability());
    let fits = |(found, able): &(ApiResource, ApiCapabilities)| {
        let all = [verbs::LIST, verbs::WATCH];
        found.plural == plural && all.iter().all(|verb| able.supports_operation(verb))
    };
    let found = kinds.find(fits).map(|found| Kind::from(&found));
    Ok(found.filter(Kind::namespaced))
}

/// Returns `true` if a pod still uses anything: not ended, and not deleted beyond its grace period.
fn is_active(pod: &Pod, now: Timestamp) -> bool {
    if pod::is_finished(pod) {
        return false;
    }
    let meta = &pod.metadata;
    match (&meta.deletion_timestamp, meta.deletion_grace_period_seconds) {
        (Some(deleted), Some(grace)) => {
            let grace = SignedDuration::from_secs(grace);
            deleted.0.checked_add(grace).is_ok_and(|end| now <= end)
        }
        _ => true,
    }
}
