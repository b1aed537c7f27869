//! StatefulSets: pods with names and claims of their own, in order.
//!
//! One reconcile takes the pods and revisions that belong to the set, finds the current and the
//! update revision, brings the pods one step on ([`rollout`]), writes the status and drops old
//! revisions.

mod claims;
mod identity;
mod rollout;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{
    ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};
use windlass::cache::Key;
use windlass::{Context, Controller, Error, Kind, Manager, Next, Reconciler, Result, Watch};

use super::history;
use crate::controllers::Shared;

use crate::controllers::pod;
use rollout::Rollout;

/// The label of pods with the name of their revision.
const REVISION_LABEL: &str = "controller-revision-hash";

/// Adds the controller.
pub fn add(builder: Manager, shared: &Shared) -> Manager {
    let controller = Controller::<StatefulSet>::builder("statefulset-controller")
        .owns::<Pod>()
        .watch(orphans())
        .owns::<ControllerRevision>()
        .reads::<PersistentVolumeClaim>()
        .build_with(StatefulSets { shared: shared.clone() });
    builder.add(controller)
}

/// Pods without a controller, by the set that their name fits.
fn orphans() -> Watch {
    Watch::changes(Kind::of::<Pod>(), |change, _| {
        let Some(entry) = &change.new else { return Vec::new() };
        if entry.owners.iter().any(|o| o.controller) {
            return Vec::new();
        }
        let parent = identity::split(entry.key.name()).map(|(parent, _)| parent);
        parent.map(|parent| Key::new(entry.key.namespace(), parent)).into_iter().collect()
    })
}

struct StatefulSets {
    shared: Shared,
}

/// A revision with what it stores.
struct Version {
    revision: Arc<ControllerRevision>,
    template: PodTemplateSpec,
}

/// The revisions of a set and the two that matter.
struct Versions {
    all: Vec<Arc<ControllerRevision>>,
    current: Version,
    update: Version,
    collisions: i32,
}

// === impl StatefulSets ===

impl Reconciler<StatefulSet> for StatefulSets {
    type Error = Error;

    async fn reconcile(&self, cx: Context<StatefulSet>) -> Result<Next, Error> {
        let cx = &cx;
        let Some(set) = cx.object() else { return Ok(Next::Done) };
        let Some(spec) = set.spec.clone() else { return Ok(Next::Done) };
        let parent = cx.name().to_string();
        let member = |pod: &Pod| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            identity::split(name).is_some_and(|(stem, _)| stem == parent)
        };
        let versions = versions(cx, &set, &spec).await?;
        let pods = cx.claim(spec.selector.clone(), None, member).await?;
        let now = self.shared.server.clock().now();
        let mut rollout = Rollout::new(cx, &set, &spec, &versions, now);
        let outcome = rollout.run(&pods).await;
        let mut status = rollout.into_status();
        complete(&spec, &mut status);
        cx.status_as::<StatefulSetStatus>(|stored| {
            status.conditions = stored.conditions.take();
            *stored = status.clone();
        })
        .await?;
        outcome?;
        truncate(cx, &spec, &versions, &status, &pods).await?;
        let min_ready = spec.min_ready_seconds.unwrap_or(0);
        let soon = pods.iter().filter_map(|p| pod::available_after(p, min_ready, now)).min();
        Ok(soon.map_or(Next::Done, Next::After))
    }
}

/// Finds or creates the revision of the template, and finds the current revision of the pods.
async fn versions(
    cx: &Context<StatefulSet>,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
) -> Result<Versions> {
    let mut all = history::list(cx, &spec.selector).await?;
    let status = set.status.clone().unwrap_or_default();
    let mut collisions = status.collision_count.unwrap_or(0);
    let data = history::data(cx)?;
    let number = history::next_number(&all);
    let newest = all.last().filter(|r| history::stores(r, &data)).cloned();
    let equal = all.iter().rfind(|r| history::stores(r, &data)).cloned();
    let update = match (newest, equal) {
        (Some(newest), _) => newest,
        (None, Some(equal)) => history::renumber(cx, &equal, number).await?,
        (None, None) => {
            let meta = spec.template.metadata.clone().unwrap_or_default();
            let draft = history::Draft {
                label: history::HASH_LABEL,
                labels: meta.labels.unwrap_or_default(),
                data: &data,
                number,
            };
            Arc::new(history::create(cx, set, draft, &mut collisions).await?)
        }
    };
    all.retain(|r| history::name(r) != history::name(&update));
    all.push(update.clone());
    history::sort(&mut all);
    let wanted = status.current_revision.unwrap_or_default();
    let current = all.iter().find(|r| history::name(r) == wanted).cloned();
    let current = current.unwrap_or_else(|| update.clone());
    Ok(Versions { all, current: version(current)?, update: version(update)?, collisions })
}

fn version(revision: Arc<ControllerRevision>) -> Result<Version> {
    let template = history::template(&revision)?;
    Ok(Version { revision, template })
}

// === impl Version ===

impl Version {
    fn name(&self) -> &str {
        history::name(&self.revision)
    }
}

/// Ends a rolling update that reached every pod.
fn complete(spec: &StatefulSetSpec, status: &mut StatefulSetStatus) {
    let updated = status.updated_replicas.unwrap_or(0) == status.replicas;
    let ready = status.ready_replicas.unwrap_or(0) == status.replicas;
    if rollout::strategy(spec) == "RollingUpdate" && updated && ready {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
}

async fn truncate(
    cx: &Context<StatefulSet>,
    spec: &StatefulSetSpec,
    versions: &Versions,
    status: &StatefulSetStatus,
    pods: &[Arc<Pod>],
) -> Result<()> {
    let mut used: BTreeSet<String> = pods.iter().map(|p| revision_of(p).to_string()).collect();
    used.insert(versions.update.name().to_string());
    used.insert(versions.current.name().to_string());
    used.extend(status.current_revision.clone());
    history::truncate(cx, &versions.all, &used, spec.revision_history_limit.unwrap_or(10)).await
}

/// The name of the revision a pod was made from.
fn revision_of(pod: &Pod) -> &str {
    let labels = pod.metadata.labels.as_ref();
    labels.and_then(|l| l.get(REVISION_LABEL)).map_or("", String::as_str)
}
