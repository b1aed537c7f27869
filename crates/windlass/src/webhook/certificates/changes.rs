//! The changes of the objects that name the webhooks, so that the leader notices a bundle that is
//! missing at once.
//!
//! Each object is watched by its name, and only its metadata is kept. If an older role does not
//! allow that, the leader looks every now and then all the same.

use futures::future::{pending, select_all};
use kube::core::{DynamicObject, Expression, PartialObjectMeta};

use super::bundle::Target;
use crate::cache::{Scope, Subscription};
use crate::client::Client;

/// The watches, one per object.
pub(super) struct Changes(Vec<Subscription>);

// === impl Changes ===

impl Changes {
    /// Watches objects.
    pub(super) fn of(client: &Client, targets: &[Target]) -> Self {
        let watch = |target: &Target| {
            let name = Expression::Equal("metadata.name".into(), target.name.clone());
            let scope = Scope::default().fields(name).metadata_only();
            let cache = client.cached();
            cache.informer_of::<PartialObjectMeta<DynamicObject>>(&target.kind, &scope).subscribe()
        };
        Self(targets.iter().map(watch).collect())
    }

    /// Waits for the next change.
    pub(super) async fn next(&mut self) {
        let each = self.0.iter_mut().map(|changes| {
            Box::pin(async move {
                if changes.recv().await.is_none() {
                    pending::<()>().await; // the cache has ended, and this process soon will
                }
            })
        });
        let each: Vec<_> = each.collect();
        match each.is_empty() {
            true => pending().await,
            false => drop(select_all(each).await),
        }
    }
}
