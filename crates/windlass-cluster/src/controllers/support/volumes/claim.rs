//! The side of the claim: find a volume, or have one made.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use windlass::client::Patch;
use windlass::controller::Context;
use windlass::{Error, Index, Next, Reconciler, Result, ResultExt};

use super::bind::{bind, claim_status};
use super::{BETA_CLASS, class, has_annotation, matching, provision};
use super::{BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, State};
use crate::controllers::pod;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const OLD_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";

pub struct Claims {
    pub state: Arc<State>,
    pub pods: Index<Pod, String>,
}

type Cx = Context<PersistentVolumeClaim>;

impl Reconciler<PersistentVolumeClaim> for Claims {
    type Error = Error;

    async fn reconcile(&self, cx: Cx) -> Result<Next, Error> {
        let cx = &cx;
        let Some(claim) = cx.object() else {
            self.state.unbound.lock().remove(cx.key());
            return Ok(Next::Done);
        };
        let done = if has_annotation(&claim.metadata, BIND_COMPLETED) {
            self.state.unbound.lock().remove(cx.key());
            self.bound(cx, &claim).await
        } else {
            self.state.unbound.lock().insert(cx.key().clone());
            self.unbound(cx, &claim).await
        };
        done.ignore_not_found()?;
        Ok(Next::Done)
    }
}

// === impl Claims ===

impl Claims {
    async fn unbound(&self, cx: &Cx, claim: &PersistentVolumeClaim) -> Result<()> {
        let named = claim.spec.as_ref().and_then(|s| s.volume_name.as_deref());
        match named.filter(|name| !name.is_empty()) {
            Some(name) => self.asked_for(cx, claim, name).await,
            None => self.find(cx, claim).await,
        }
    }

    /// A claim that names no volume.
    async fn find(&self, cx: &Cx, claim: &PersistentVolumeClaim) -> Result<()> {
        let volumes = cx.list::<PersistentVolume>().items()?;
        let delayed = self.is_delayed(cx, claim)?;
        if let Some(volume) = matching::best(&volumes, claim, delayed) {
            return bind(cx.client(), &volume, claim).await;
        }
        if self.give_default_class(cx, claim).await? {
            return Ok(());
        }
        if delayed {
            self.publish_delay(cx)?;
        } else if !class(claim).is_empty() {
            provision::provision(cx, claim).await?;
        } else {
            let text = "no persistent volumes available for this claim and no storage class is set";
            cx.event("FailedBinding", text);
        }
        claim_status(cx.client(), claim, "Pending", None).await
    }

    /// A claim that names its volume but is not bound to it.
    async fn asked_for(&self, cx: &Cx, claim: &PersistentVolumeClaim, name: &str) -> Result<()> {
        let Some(volume) = cx.get::<PersistentVolume>(name)? else {
            return claim_status(cx.client(), claim, "Pending", None).await;
        };
        let free = volume.spec.as_ref().is_none_or(|s| s.claim_ref.is_none());
        if free && let Some(why) = matching::mismatch(&volume, claim) {
            cx.warn("VolumeMismatch", format!("Cannot bind to requested volume {name:?}: {why}"));
            return claim_status(cx.client(), claim, "Pending", None).await;
        }
        if free || matching::refers_to(&volume, claim) {
            return bind(cx.client(), &volume, claim).await;
        }
        let text = format!("volume {name:?} already bound to a different claim.");
        cx.warn("FailedBinding", text);
        if has_annotation(&claim.metadata, BOUND_BY_CONTROLLER) {
            return Ok(());
        }
        claim_status(cx.client(), claim, "Pending", None).await
    }

    /// A claim that was bound once.
    async fn bound(&self, cx: &Cx, claim: &PersistentVolumeClaim) -> Result<()> {
        let named = claim.spec.as_ref().and_then(|s| s.volume_name.as_deref());
        let lost = "Bound claim has lost";
        let Some(name) = named.filter(|name| !name.is_empty()) else {
            let text = format!("{lost} reference to PersistentVolume. Data on the volume is lost!");
            return self.lose(cx, claim, "ClaimLost", &text).await;
        };
        let Some(volume) = cx.get::<PersistentVolume>(name)? else {
            let text = format!("{lost} its PersistentVolume. Data on the volume is lost!");
            return self.lose(cx, claim, "ClaimLost", &text).await;
        };
        let reference = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
        match reference {
            None => bind(cx.client(), &volume, claim).await,
            Some(r) if r.uid == claim.metadata.uid => bind(cx.client(), &volume, claim).await,
            Some(_) => {
                let text = "Two claims are bound to the same volume, this one is bound incorrectly";
                self.lose(cx, claim, "ClaimMisbound", text).await
            }
        }
    }

    async fn lose(
        &self,
        cx: &Cx,
        claim: &PersistentVolumeClaim,
        reason: &str,
        text: &str,
    ) -> Result<()> {
        let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref());
        if phase != Some("Lost") {
            cx.warn(reason, text);
        }
        claim_status(cx.client(), claim, "Lost", None).await
    }

    /// Whether binding waits for the first pod.
    ///
    /// The simulated scheduler does not choose volumes: here a pod that runs on a node counts as
    /// the choice of that node.
    fn is_delayed(&self, cx: &Cx, claim: &PersistentVolumeClaim) -> Result<bool> {
        let class = cx.get::<StorageClass>(class(claim))?;
        let mode = class.as_ref().and_then(|c| c.volume_binding_mode.as_deref());
        if mode != Some("WaitForFirstConsumer") || has_annotation(&claim.metadata, SELECTED_NODE) {
            return Ok(false);
        }
        for pod in cx.list::<Pod>().by(&self.pods, cx.key().to_string()).items()? {
            if let Some(node) = pod::node(&pod)
                && cx.get::<Node>(node)?.is_some()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn publish_delay(&self, cx: &Cx) -> Result<()> {
        let users = cx.list::<Pod>().by(&self.pods, cx.key().to_string()).items()?;
        let waiting = users.iter().filter(|p| pod::node(p).is_none() && !pod::is_finished(p));
        let names: Vec<&str> = waiting.map(|pod| pod::name(pod)).collect();
        match names.as_slice() {
            [] => {
                let text = "waiting for first consumer to be created before binding";
                cx.event("WaitForFirstConsumer", text);
            }
            [one] => {
                cx.event("WaitForPodScheduled", format!("waiting for pod {one} to be scheduled"));
            }
            many => {
                let many = many.join(",");
                cx.event("WaitForPodScheduled", format!("waiting for pods {many} to be scheduled"));
            }
        }
        Ok(())
    }

    /// Gives a claim without any class the default one, if there is one by now.
    async fn give_default_class(&self, cx: &Cx, claim: &PersistentVolumeClaim) -> Result<bool> {
        let set = claim.spec.as_ref().is_some_and(|s| s.storage_class_name.is_some());
        if set || has_annotation(&claim.metadata, BETA_CLASS) {
            return Ok(false);
        }
        let is_default = |class: &&Arc<StorageClass>| {
            let annotations = class.metadata.annotations.as_ref();
            [DEFAULT_CLASS, OLD_DEFAULT_CLASS]
                .iter()
                .any(|name| annotations.and_then(|a| a.get(*name)).is_some_and(|v| v == "true"))
        };
        let classes = cx.list::<StorageClass>().items()?;
        let newest = classes.iter().filter(is_default).max_by(|a, b| {
            let time = |c: &StorageClass| c.metadata.creation_timestamp.as_ref().map(|t| t.0);
            time(a).cmp(&time(b)).then_with(|| b.metadata.name.cmp(&a.metadata.name))
        });
        let Some(class) = newest else { return Ok(false) };
        let patch = json!({
            "metadata": {"resourceVersion": claim.metadata.resource_version},
            "spec": {"storageClassName": class.metadata.name},
        });
        let patch = Patch::Merge(patch);
        cx.client().api::<PersistentVolumeClaim>().patch(cx.key(), &patch).await?;
        Ok(true)
    }
}
