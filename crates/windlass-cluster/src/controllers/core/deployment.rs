//! Deployments: one ReplicaSet per template, and the way from one to the next.
//!
//! A reconcile is one `Rollout`: it finds the ReplicaSets of the Deployment, decides in
//! `rolling` or `recreate` what to scale, and reports the progress in `status`.

mod numbers;
mod recreate;
mod revision;
mod rollback;
mod rolling;
mod scale;
mod status;
mod template;

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use windlass::cache::{Cache, Change, Index};
use windlass::controller::{Context, Controller, Next, Watch};
use windlass::{Key, Kind, Manager, Result};

use crate::controllers::Shared;
use crate::controllers::orphans;

/// Adds the controller.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    let selectors = Index::selectors("selector", |deployment: &Deployment| {
        deployment.spec.as_ref().map(|spec| spec.selector.clone())
    });
    let controller = Controller::<Deployment>::builder("deployment-controller")
        .owns::<ReplicaSet>()
        .watch(orphans::watch(Kind::of::<ReplicaSet>(), &selectors))
        .watch(Watch::changes(Kind::of::<Pod>(), of_deleted_pod))
        .workers(5)
        .build(|cx: Context<Deployment>| async move { reconcile(&cx).await });
    builder.add(controller)
}

/// One reconcile of one Deployment.
struct Rollout<'a> {
    cx: &'a Context<Deployment>,
    /// The Deployment as last read or written.
    deployment: Deployment,
    /// All its ReplicaSets, oldest first.
    sets: Vec<ReplicaSet>,
}

/// A Deployment that recreates waits until its last pod is deleted.
fn of_deleted_pod(change: &Change, cache: &Cache) -> Vec<Key> {
    if change.new.is_some() {
        return Vec::new();
    }
    let pod = change.entry();
    let namespace = pod.key.namespace();
    let set = pod.owners.iter().find(|o| o.controller && &*o.kind == "ReplicaSet");
    let set = set.and_then(|set| {
        let key = Key::new(namespace, &set.name);
        cache.get::<ReplicaSet>(&key).ok().flatten()
    });
    let owner = set.as_deref().and_then(windlass::owner::controller_of);
    owner.map(|owner| Key::new(namespace, &owner.name)).into_iter().collect()
}

async fn reconcile(cx: &Context<Deployment>) -> Result<Next> {
    let Some(deployment) = cx.object() else { return Ok(Next::Done) };
    let Some(spec) = &deployment.spec else { return Ok(Next::Done) };
    if spec.selector == LabelSelector::default() {
        cx.warn(
            "SelectingAll",
            "This deployment is selecting all pods. A non-empty selector is required.",
        );
        return Ok(Next::Done);
    }
    let sets = cx.claim(spec.selector.clone(), None, |_: &ReplicaSet| true).await?;
    let sets = sets.iter().map(|set| (**set).clone()).collect();
    let mut rollout = Rollout { cx, deployment: (*deployment).clone(), sets };
    rollout.sort();
    rollout.run().await
}

// === impl Rollout ===

impl Rollout<'_> {
    async fn run(mut self) -> Result<Next> {
        if self.deployment.metadata.deletion_timestamp.is_some() {
            self.write_status(false).await?;
            return Ok(Next::Done);
        }
        self.note_pause().await?;
        if self.spec().paused == Some(true) {
            self.scale(false).await?;
            self.clean_up().await?;
            self.write_status(false).await?;
            return Ok(Next::Done);
        }
        if let Some(revision) = self.rollback_to() {
            self.roll_back(revision).await?;
            return Ok(Next::Done);
        }
        self.sync_revision(false).await?;
        if self.scaled() {
            self.scale(true).await?;
            self.write_status(false).await?;
            return Ok(Next::Done);
        }
        let strategy = self.spec().strategy.as_ref().and_then(|s| s.type_.as_deref());
        match strategy {
            Some("Recreate") => self.recreate().await?,
            _ => self.roll().await?,
        }
        self.write_status(true).await
    }

    fn spec(&self) -> &DeploymentSpec {
        self.deployment.spec.as_ref().expect("a reconcile begins only with a spec")
    }

    fn name(&self) -> &str {
        self.cx.name()
    }

    fn replicas(&self) -> i32 {
        self.spec().replicas.unwrap_or(1)
    }

    /// The ReplicaSet of the present template: the oldest one that fits.
    fn current(&self) -> Option<usize> {
        let wanted = &self.spec().template;
        self.sets.iter().position(|set| {
            let found = set.spec.as_ref().and_then(|s| s.template.as_ref());
            found.is_some_and(|found| template::same(found, wanted))
        })
    }

    /// The others, oldest first.
    fn old(&self) -> Vec<usize> {
        let current = self.current();
        (0..self.sets.len()).filter(|at| Some(*at) != current).collect()
    }

    fn sort(&mut self) {
        self.sets.sort_by(|a, b| {
            let (a, b) = (&a.metadata, &b.metadata);
            let time = |m: &kube::core::ObjectMeta| m.creation_timestamp.as_ref().map(|t| t.0);
            time(a).cmp(&time(b)).then_with(|| a.name.cmp(&b.name))
        });
    }

    /// Stores the Deployment's status and annotations as they are here.
    async fn save(&mut self) -> Result<()> {
        self.deployment =
            self.cx.client().api().subresource("status").update(&self.deployment).await?;
        Ok(())
    }

    /// Replaces the known state of a ReplicaSet.
    async fn save_set(&mut self, at: usize, set: &ReplicaSet) -> Result<()> {
        self.sets[at] = self.cx.client().api().update(set).await?;
        Ok(())
    }
}

/// How many pods a ReplicaSet is asked for.
fn wanted(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
}

/// How many pods of a ReplicaSet are available.
fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0)
}

/// How many pods a ReplicaSet has.
fn actual(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |s| s.replicas)
}

fn annotation<'a>(set: &'a ReplicaSet, name: &str) -> Option<&'a str> {
    set.metadata.annotations.as_ref().and_then(|a| a.get(name)).map(String::as_str)
}

/// A moment of rest before something is looked at again.
fn soon(wait: Duration) -> Next {
    Next::After(wait.max(Duration::from_millis(100)))
}
