//! What the author writes: a function from the state of one object to what comes next.

use std::future::Future;
use std::time::Duration;

use super::Context;
use crate::error::{Error, Result};
use crate::kind::Object;

/// What comes after a reconcile that went well.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::{Error, Next, Result};
///
/// /// What a reconcile of a certificate may say.
/// fn next(left: Duration) -> Result<Next> {
///     match left.as_secs() {
///         0 => Err(Error::from("expired")), // again with growing delay
///         1..=86_400 => Ok(Next::Done), // renewed: nothing to do until it changes
///         _ => Ok(Next::After(left - Duration::from_secs(86_400))), // look again a day before
///     }
/// }
/// let day = Duration::from_secs(86_400);
/// assert_eq!(next(3 * day)?, Next::After(2 * day));
/// assert_eq!(next(day)?, Next::default());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Next {
    /// Nothing until something changes.
    #[default]
    Done,
    /// Again after a while, or earlier if something changes.
    After(Duration),
}

/// Brings the world to what one object asks for.
///
/// Implemented by the author's own type, or by any `async fn(Context<K>) -> Result<Next>`.
/// Sees the whole state, never an event: losing, repeating or reordering events changes nothing.
///
/// # Cancel safety
///
/// A reconcile that is still running when the grace period of a shutdown ends, or that runs into
/// its deadline, is dropped at an `.await`.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::{Context, Controller, Next, Reconciler, Result};
///
/// /// Has settings of its own, which a function has not.
/// struct Mirror {
///     prefix: String,
/// }
///
/// impl Reconciler<ConfigMap> for Mirror {
///     async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Next> {
///         if !cx.name().starts_with(&self.prefix) {
///             return Ok(Next::Done);
///         }
///         cx.event("Seen", "one of ours");
///         Ok(Next::Done)
///     }
/// }
///
/// let mirror = Mirror { prefix: "app-".into() };
/// let controller = Controller::<ConfigMap>::builder("mirror").build(mirror);
/// ```
pub trait Reconciler<K: Object>: Send + Sync + 'static {
    /// Runs once for the key of `cx`; never twice at once for one key.
    fn reconcile(&self, cx: &Context<K>) -> impl Future<Output = Result<Next, Error>> + Send;
}

impl<K, F, Fut> Reconciler<K> for F
where
    K: Object,
    F: Fn(Context<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, Error>> + Send,
{
    fn reconcile(&self, cx: &Context<K>) -> impl Future<Output = Result<Next, Error>> + Send {
        self(cx.clone())
    }
}
