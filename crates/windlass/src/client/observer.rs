//! The hook through which somebody else can look at the writes of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Api, ApiRequest};
use crate::cache::Key;
use crate::kind::{Kind, Object};

/// Looks at the writes of a client.
pub(crate) trait WriteObserver: fmt::Debug + Send + Sync {
    /// Called before an object is replaced or patched.
    fn begin(self: Arc<Self>, write: &PendingWrite<'_>) -> Observed;
}

/// A write that is about to be sent.
#[derive(Debug)]
pub(crate) struct PendingWrite<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) key: &'a Key,
    /// The subresource that is written; empty for the object itself.
    pub(crate) subresource: &'a str,
    pub(crate) content_type: &'static str,
    pub(crate) body: &'a Bytes,
}

/// What an observer wants of a write.
#[derive(Default)]
pub(crate) struct Observed {
    /// How long the write is held back.
    pub(crate) delay: Duration,
    /// Called with the answer, if the write succeeds.
    pub(crate) answered: Option<OnAnswer>,
}

/// Called with the answer to a write.
pub(crate) type OnAnswer = Box<dyn FnOnce(&[u8]) + Send>;

impl<K: Object> Api<K> {
    /// Lets the observer look at a write, and waits as long as it asks for.
    pub(super) async fn observe(&self, request: &ApiRequest, key: &Key) -> Option<OnAnswer> {
        let options = &self.client.options;
        let sent = !options.dry_run && options.paused.is_none();
        let observer = options.observer.as_ref().filter(|_| sent)?;
        let observed = observer.clone().begin(&PendingWrite {
            kind: &self.kind,
            key,
            subresource: self.sub.as_deref().unwrap_or_default(),
            content_type: request.content_type,
            body: &request.body,
        });
        if !observed.delay.is_zero() {
            tokio::time::sleep(observed.delay).await;
        }
        observed.answered
    }
}
