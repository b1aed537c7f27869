//! Adopting and releasing objects by selector, with the rules of Kubernetes' own controllers.
//!
//! A ReplicaSet owns the pods that its selector matches: it adopts those that nobody controls, and
//! releases its own that do not match any more.
//!
//! **Invariant:** an object that another controller owns is never touched. An owner that is being
//! deleted neither adopts nor releases, and an adoption is preceded by a live look at the owner.

use std::fmt;
use std::sync::Arc;

use kube::core::{DynamicObject, PartialObjectMeta, Selector, SelectorExt};
use serde_json::{Value, json};

use super::Context;
use super::failures::Failures;
use crate::cache::Key;
use crate::client::Patch;
use crate::error::{Error, Result, ResultExt};
use crate::kind::{Kind, Object};
use crate::readiness::is_built_in;
use crate::selector;

/// A claim of the reconciled object on the objects that a selector matches.
struct Claim<K: Object> {
    cx: Context<K>,
    selector: Selector,
    finalizer: Option<String>,
}

// === impl Context ===

impl<K: Object> Context<K> {
    /// Returns all objects of type `T` that belong to the reconciled object, in order of their names,
    /// after adopting those that match a selector and releasing those that do not.
    ///
    /// The selector is a `LabelSelector`, or a selector of kube. The kind has to be cached. An
    /// object is
    ///
    /// - left alone if another controller owns it, or if `may_own` returns `false`;
    /// - returned if the reconciled object owns it and the selector matches;
    /// - released if the reconciled object owns it and the selector does not match;
    /// - adopted if nobody controls it, the selector matches and it is not being deleted.
    ///
    /// A finalizer, if one is given, is added to an object when it is adopted and removed when it is
    /// released. While the reconciled object is being deleted, objects are returned, and nothing
    /// else happens.
    ///
    /// # Errors
    ///
    /// Fails with a terminal error if the selector is not valid, and if the kind is not cached or
    /// the server refuses. All other objects are adopted and released nevertheless. An object that
    /// changed in between is a [conflict](Error::is_conflict), which leads to another try at once;
    /// one that is gone is no error.
    ///
    /// # Examples
    ///
    /// A config map that collects secrets by their label:
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    /// use windlass::{Context, Controller, Next, Result};
    ///
    /// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    ///     let labels = [("collect".to_string(), cx.name().to_string())].into();
    ///     let selector = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    ///     let secrets = cx.claim(selector, None, |_: &Secret| true).await?;
    ///     cx.event("Collected", format!("{} secrets", secrets.len()));
    ///     Ok(Next::Done)
    /// }
    /// # let _ = Controller::<ConfigMap>::builder("collectors").owns::<Secret>().build(reconcile);
    /// ```
    pub async fn claim<S, T>(
        &self,
        selector: S,
        finalizer: Option<&str>,
        may_own: impl Fn(&T) -> bool,
    ) -> Result<Vec<Arc<T>>>
    where
        S: TryInto<Selector, Error: fmt::Display> + 'static,
        T: Object<DynamicType = ()>,
    {
        let selector = selector::labels_of(selector).map_err(Error::terminal)?;
        let finalizer = finalizer.map(str::to_owned);
        Claim { cx: self.clone(), selector, finalizer }.objects(may_own).await
    }
}

// === impl Claim ===

impl<K: Object> Claim<K> {
    /// Adopts and releases objects, and returns those that belong to the reconciled object.
    async fn objects<T>(&self, may_own: impl Fn(&T) -> bool) -> Result<Vec<Arc<T>>>
    where
        T: Object<DynamicType = ()>,
    {
        let (mut mine, mut failed) = (Vec::new(), Failures::default());
        let Some(owner) = self.cx.found() else { return Ok(mine) };
        let deleting = owner.deleting();
        for object in self.cx.list::<T>().owned().items()? {
            if !may_own(&object) {
                continue;
            }
            if self.matches(&*object) {
                mine.push(object);
            } else if !deleting && let Err(error) = self.release(&*object).await {
                failed.add(error);
            }
        }
        if deleting {
            return Ok(mine);
        }
        let orphans = self.cx.list::<T>().owned_by("").matching(self.selector.clone()).items()?;
        let stays = |object: &T| object.meta().deletion_timestamp.is_none() && may_own(object);
        let mut allowed = None;
        for orphan in orphans.into_iter().filter(|object| stays(object)) {
            // Once per pass, and its answer holds for all adoptions of the pass.
            let allowed = match allowed {
                Some(known) => known,
                None => *allowed.insert(self.owner_stays().await?),
            };
            if !allowed {
                break;
            }
            match self.adopt(&*orphan).await {
                Ok(adopted) => mine.extend(adopted.map(Arc::new)),
                Err(error) => failed.add(error),
            }
        }
        failed.into_result()?;
        mine.sort_by_key(|object| Key::of(&**object));
        Ok(mine)
    }

    fn matches<T: Object>(&self, object: &T) -> bool {
        let none = Default::default();
        self.selector.matches(object.meta().labels.as_ref().unwrap_or(&none))
    }

    fn uid(&self) -> &str {
        self.cx.found().map(|owner| owner.uid()).unwrap_or_default()
    }

    /// Asks the server whether the owner is still the same object and is not being deleted.
    async fn owner_stays(&self) -> Result<bool> {
        let api = self.cx.client().api_of::<PartialObjectMeta<DynamicObject>>(self.cx.kind());
        let newest = api.get(self.cx.key()).await?;
        Ok(newest.is_some_and(|newest| {
            let metadata = &newest.metadata;
            metadata.uid.as_deref() == Some(self.uid()) && metadata.deletion_timestamp.is_none()
        }))
    }

    async fn adopt<T: Object<DynamicType = ()>>(&self, object: &T) -> Result<Option<T>> {
        let kind = self.cx.kind();
        let owner = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind(),
            "name": self.cx.name(),
            "uid": self.uid(),
            "controller": true,
            "blockOwnerDeletion": true,
        });
        let mut metadata = json!({"uid": object.meta().uid});
        if is_built_in(Kind::of::<T>().group()) {
            metadata["ownerReferences"] = json!([owner]);
            if let Some(finalizer) = &self.finalizer {
                metadata["finalizers"] = json!([finalizer]);
            }
            return self.patch(object, Patch::Strategic(json!({"metadata": metadata}))).await;
        }
        let mut owners = json!(object.meta().owner_references.clone().unwrap_or_default());
        owners.as_array_mut().into_iter().for_each(|owners| owners.push(owner.clone()));
        let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
        if let Some(finalizer) = self.finalizer.as_ref().filter(|f| !finalizers.contains(f)) {
            finalizers.push(finalizer.clone());
        }
        self.replace(object, metadata, owners, &finalizers).await
    }

    async fn release<T: Object<DynamicType = ()>>(&self, object: &T) -> Result<()> {
        match self.unown(object).await {
            // It has no such reference any more, or is another object by now.
            Err(error) if error.is_invalid() => Ok(()),
            done => done,
        }
    }

    async fn unown<T: Object<DynamicType = ()>>(&self, object: &T) -> Result<()> {
        let mut metadata = json!({"uid": object.meta().uid});
        if is_built_in(Kind::of::<T>().group()) {
            metadata["ownerReferences"] = json!([{"$patch": "delete", "uid": self.uid()}]);
            if let Some(finalizer) = &self.finalizer {
                metadata["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
            }
            let patch = Patch::Strategic(json!({"metadata": metadata}));
            return self.patch(object, patch).await.map(drop);
        }
        let mut owners = object.meta().owner_references.clone().unwrap_or_default();
        owners.retain(|owner| owner.uid != self.uid());
        let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
        finalizers.retain(|finalizer| self.finalizer.as_ref() != Some(finalizer));
        self.replace(object, metadata, json!(owners), &finalizers).await.map(drop)
    }

    /// Custom kinds have no strategic patches: replaces both lists of the version that was read.
    async fn replace<T: Object<DynamicType = ()>>(
        &self,
        object: &T,
        mut metadata: Value,
        owners: Value,
        finalizers: &[String],
    ) -> Result<Option<T>> {
        metadata["resourceVersion"] = json!(object.meta().resource_version);
        metadata["ownerReferences"] = owners;
        metadata["finalizers"] = json!(finalizers);
        self.patch(object, Patch::Merge(json!({"metadata": metadata}))).await
    }

    /// Sends a patch. Returns `None` if the object is gone.
    async fn patch<T>(&self, object: &T, patch: Patch) -> Result<Option<T>>
    where
        T: Object<DynamicType = ()>,
    {
        self.cx.client().api::<T>().patch(&Key::of(object), &patch).await.ignore_not_found()
    }
}
