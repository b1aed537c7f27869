//! What the author writes: a function from the state of one object to what comes next.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;

use super::Context;
use crate::kind::Object;

/// What happens after a reconcile that succeeded.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::{Error, Next, Result};
///
/// /// What a reconcile of a certificate may return.
/// fn next(left: Duration) -> Result<Next> {
///     match left.as_secs() {
///         0 => Err(Error::from("expired")), // again with growing delay
///         1..=86_400 => Ok(Next::Done), // renewed: nothing to do until it changes
///         _ => Ok(Next::After(left - Duration::from_secs(86_400))), // again a day before the end
///     }
/// }
/// let day = Duration::from_secs(86_400);
/// assert_eq!(next(3 * day)?, Next::After(2 * day));
/// assert_eq!(next(day)?, Next::default());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Next {
    /// Nothing until something changes.
    #[default]
    Done,
    /// Reconciles again after a while, or earlier if something changes.
    ///
    /// `After(Duration::ZERO)` would keep a worker busy for ever, so it is retried with growing
    /// delay, as an error is.
    After(Duration),
    /// Reconciles again at this time of the manager's clock, or earlier if something changes.
    ///
    /// [`Schedule::next`](crate::schedule::Schedule::next) returns it for a cron expression. A time
    /// that has passed is treated as `After(Duration::ZERO)`. If the clock of the machine is set
    /// while the key waits, the wait does not change.
    At(Timestamp),
}

/// Brings the world to what one object asks for.
///
/// Implemented by the author's own type, and by every
/// `async fn(Context<K>) -> Result<Next, E>`. The error type `E` is the author's choice: anything
/// that converts into a boxed error, such as [`windlass::Error`](crate::Error), an enum of your own
/// or `anyhow::Error`. An error leads to a retry with growing delay, unless there is an
/// [`Error::terminal`](crate::Error::terminal) among its sources. A write
/// [conflict](crate::Error::is_conflict) leads to a retry at once, and is neither logged nor counted
/// as an error, unless it happens more than ten times in a row.
///
/// A reconcile sees the whole state, never an event: losing, repeating or reordering events changes
/// nothing.
///
/// # Cancel safety
///
/// A reconcile that is still running when the grace period of a shutdown ends, or that exceeds its
/// deadline, is dropped at an `.await`.
///
/// # Examples
///
/// A type has settings of its own, which a function has not:
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::{Context, Controller, Next, Reconciler};
///
/// struct Mirror {
///     prefix: String,
/// }
///
/// impl Reconciler<ConfigMap> for Mirror {
///     type Error = windlass::Error;
///
///     async fn reconcile(&self, cx: Context<ConfigMap>) -> windlass::Result<Next> {
///         if !cx.name().starts_with(&self.prefix) {
///             return Ok(Next::Done);
///         }
///         cx.event("Seen", "one of ours");
///         Ok(Next::Done)
///     }
/// }
///
/// let mirror = Mirror { prefix: "app-".into() };
/// let controller = Controller::<ConfigMap>::builder("mirror").build_with(mirror);
/// ```
///
/// A function with an error type of its own:
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::{Context, Controller, Next};
///
/// #[derive(Debug, thiserror::Error)]
/// enum Failed {
///     #[error("the port is not a number")]
///     Port(#[from] std::num::ParseIntError),
///     #[error("the cluster refused")]
///     Cluster(#[from] windlass::Error),
/// }
///
/// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next, Failed> {
///     let Some(map) = cx.object() else { return Ok(Next::Done) };
///     let port = map.data.as_ref().and_then(|data| data.get("port"));
///     let port: u16 = port.map_or("80", String::as_str).parse()?;
///     cx.event("Listening", format!("on port {port}"));
///     Ok(Next::Done)
/// }
///
/// let controller = Controller::<ConfigMap>::builder("ports").build_with(reconcile);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot reconcile `{K}`",
    label = "neither a `Reconciler<{K}>` nor an `async fn(Context<{K}>) -> Result<Next, E>`",
    note = "a reconcile function takes a `Context<{K}>` by value and returns `Result<Next, E>`; `E` \
            has to convert into a boxed error, and the future has to be `Send`"
)]
pub trait Reconciler<K: Object>: Send + Sync + 'static {
    /// Why a reconcile failed.
    type Error: Into<Box<dyn StdError + Send + Sync>>;

    /// Runs once for the key of `cx`; never twice at the same time for one key.
    fn reconcile(&self, cx: Context<K>) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

impl<K, F, Fut, E> Reconciler<K> for F
where
    K: Object,
    F: Fn(Context<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, E>> + Send,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    type Error = E;

    fn reconcile(&self, cx: Context<K>) -> impl Future<Output = Result<Next, E>> + Send {
        self(cx)
    }
}
