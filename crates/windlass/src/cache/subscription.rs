//! The changes for one handler, received one after the other.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::informer::Core;
use super::mailbox::Mailbox;
use super::{Change, Store};
use crate::clock;

/// The changes of one informer for one handler. Dropping it removes the handler.
///
/// It first receives the objects that are there already, each exactly once. When a list replaces a
/// watch that could not be continued, it receives what was deleted meanwhile, then what was added
/// or changed, each in the order of the keys. A change that still waits keeps its place.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::cache::{Cache, Origin, Scope, Subscription};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let namespaces = Cache::new(client).informer::<Namespace>(&Scope::default());
/// let mut changes: Subscription = namespaces.subscribe();
/// let synced = changes.synced();
/// let received = tokio::spawn(async move {
///     let mut names = Vec::new();
///     while let Some(change) = changes.recv().await {
///         assert_eq!(change.origin, Origin::Initial, "nobody changes a namespace here");
///         names.push(change.key().name().to_owned());
///         if names.contains(&"default".to_owned()) {
///             break;
///         }
///     }
/// });
/// synced.await; // all of them were received, or the subscription was dropped
/// received.await.expect("finds the namespace");
/// # }
/// ```
pub struct Subscription {
    store: Store,
    /// Keeps the watch running.
    _core: Option<Arc<Core>>,
    mailbox: Arc<Mailbox>,
    resync: Option<(Duration, Instant)>,
}

// === impl Subscription ===

impl Subscription {
    pub(super) fn new(store: Store, core: Option<Arc<Core>>) -> Self {
        let mailbox = Arc::new(Mailbox::new());
        store.subscribe(mailbox.clone());
        Self { store, _core: core, mailbox, resync: None }
    }

    /// Delivers every object again each time this duration, of at least a second, has passed.
    pub(super) fn resync(mut self, every: Duration) -> Self {
        let every = every.max(Duration::from_secs(1));
        self.resync = Some((every, clock::after(every)));
        self
    }

    /// Waits for the next change; the one before counts as handled. Returns `None` if the handler
    /// was removed.
    ///
    /// # Cancel safety
    ///
    /// No change is lost if the future is dropped.
    pub async fn recv(&mut self) -> Option<Change> {
        loop {
            // Before the mailbox, so that a handler that always has one more change gets resyncs.
            if let Some((every, due)) = self.resync
                && Instant::now() >= due
            {
                self.store.resync(&self.mailbox);
                self.resync = Some((every, clock::after(every)));
            }
            if let Some(change) = self.mailbox.take() {
                return Some(change);
            }
            if self.mailbox.closed() {
                return None;
            }
            match self.resync {
                None => self.mailbox.ready().await,
                Some((_, due)) => {
                    tokio::select! {
                        biased;
                        () = self.mailbox.ready() => {}
                        () = sleep_until(due) => {}
                    }
                }
            }
        }
    }

    /// Waits until every object of the first list was handled. The future does not borrow the
    /// subscription.
    pub fn synced(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut synced = self.mailbox.synced();
        async move {
            // If the subscription is dropped, nobody handles the rest.
            let _ = synced.wait_for(|synced| *synced).await;
        }
    }

    pub(super) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Returns the next change if there is one; the one before counts as handled.
    #[cfg(test)]
    #[expect(clippy::needless_pass_by_ref_mut, reason = "a subscription has one reader")]
    pub(super) fn try_recv(&mut self) -> Option<Change> {
        self.mailbox.take()
    }

    /// Delivers every object again now.
    #[cfg(test)]
    pub(super) fn resync_now(&self) {
        self.store.resync(&self.mailbox);
    }

    /// Returns how many objects have changes waiting.
    #[cfg(test)]
    pub(super) fn lag(&self) -> usize {
        self.mailbox.len()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.mailbox.close();
        self.store.unsubscribe(&self.mailbox);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("store", &self.store).finish_non_exhaustive()
    }
}
