//! Writing the objects that the reconciled object owns.

use std::sync::Arc;

use super::Context;
use crate::apply;
#[cfg(doc)]
use crate::client::Client;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::kind::{Kind, Object};
use crate::owner;

impl<K: Object> Context<K> {
    /// Applies `object` with server-side apply, with the reconciled object as its controller.
    ///
    /// A missing namespace is filled in, and an owner reference is set, as [`adopt`](Self::adopt)
    /// does. Sends nothing if the cache shows that nothing would change. Takes over fields that
    /// other owners have set; to get a conflict instead, adopt the object and apply it with a
    /// client that is [unforced](Client::unforced).
    ///
    /// # Errors
    ///
    /// Fails if another controller owns the object, or if the server refuses.
    pub async fn apply<T: Object<DynamicType = ()>>(&self, object: &T) -> Result<Arc<T>> {
        let mut wanted = object.clone();
        self.adopt(&Kind::of::<T>(), &mut wanted)?;
        apply::apply(self.client(), self.applied(), &wanted).await
    }

    /// Creates `object`, with the reconciled object as its controller.
    ///
    /// A missing namespace is filled in, and an owner reference is set, as [`adopt`](Self::adopt)
    /// does.
    ///
    /// # Errors
    ///
    /// Fails if an object of that name exists
    /// ([`is_already_exists`](Error::is_already_exists)), or if the server refuses.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass::{Context, Next, Result, ResultExt};
    ///
    /// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    ///     if cx.object().is_some() {
    ///         let mut secret = Secret::default();
    ///         secret.metadata.name = Some(cx.name().into());
    ///         // Made once, and never overwritten.
    ///         cx.create(&secret).await.ignore_already_exists()?;
    ///     }
    ///     Ok(Next::Done)
    /// }
    /// # let _ = windlass::Controller::<ConfigMap>::builder("once").build(reconcile);
    /// ```
    pub async fn create<T: Object<DynamicType = ()>>(&self, object: &T) -> Result<T> {
        let mut wanted = object.clone();
        self.adopt(&Kind::of::<T>(), &mut wanted)?;
        self.client().api().create(&wanted).await
    }

    /// Makes the reconciled object the controller of `object`, in memory.
    ///
    /// [`apply`](Self::apply) and [`create`](Self::create) do this by themselves. For objects of a
    /// kind known at run time, which are sent with [`Client::api_of`].
    ///
    /// An object of a kind with namespaces gets the namespace of the reconciled object if it has
    /// none. No owner reference is set on an object in another namespace, or while the reconciled
    /// object does not exist.
    ///
    /// # Errors
    ///
    /// Fails if another controller owns `object`.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::core::DynamicObject;
    /// use windlass::{Context, Kind, Next, Result};
    ///
    /// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    ///     let drives = Kind::new("ships.example.com", "v1", "Drive", "drives");
    ///     let mut drive = DynamicObject::new(cx.name(), &(&drives).into());
    ///     cx.adopt(&drives, &mut drive)?;
    ///     cx.client().api_of(&drives).apply(&drive).await?;
    ///     Ok(Next::Done)
    /// }
    /// # let _ = windlass::Controller::<ConfigMap>::builder("drives").build(reconcile);
    /// ```
    pub fn adopt(&self, kind: &Kind, object: &mut impl kube::Resource) -> Result<()> {
        let wanted = object.meta_mut();
        if wanted.namespace.is_none() && kind.namespaced() {
            wanted.namespace = self.namespace().map(str::to_string);
        }
        if let Some(me) = self.object()
            && owner::may_own(me.meta(), wanted)
        {
            owner::set_controller_with(me.meta(), self.kind(), wanted)?;
        }
        Ok(())
    }
}
