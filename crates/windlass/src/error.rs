//! The error type of the crate: what failed, on which object, and what the caller can do about it.
//!
//! Variants are divided by what a caller may do next, not by which layer failed. A reconcile that
//! returns an error is retried with growing delay; wrap the error with [`Error::terminal`] when a
//! retry cannot help before somebody changes the object.
//!
//! **Invariant:** `Display` never repeats what `source()` says.

mod convert;
#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::Status;

/// The result of most functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong between a reconcile function and the API server.
///
/// `Debug` prints the error and all its causes in one line: Rust prints the error that leaves
/// `main` with `Debug`, and an operator's last words should be a sentence.
///
/// # Examples
///
/// ```
/// use windlass::{Error, Result};
///
/// fn check(size: i32) -> Result<()> {
///     match size {
///         1..=5 => Ok(()),
///         // A retry does not help before somebody changes the object.
///         _ => Err(Error::terminal(format!("size {size} is not between 1 and 5"))),
///     }
/// }
/// let error = check(9).unwrap_err();
/// assert!(error.is_terminal());
/// assert_eq!(format!("{error:?}"), "terminal error: size 9 is not between 1 and 5");
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server answered with a failure status.
    #[error("{action}: {} ({} {})", .status.message, .status.code, .status.reason)]
    #[non_exhaustive]
    Api {
        /// The verb and the object, such as `update Pod default/web`.
        action: String,
        /// The status the server sent.
        status: Box<Status>,
    },
    /// The request got no answer, or none that could be read.
    #[error("{action}: no usable answer from the API server")]
    #[non_exhaustive]
    Transport {
        /// The verb and the object.
        action: String,
        /// Why the exchange failed.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A deadline passed.
    #[error("{action}: no answer within {} s", .after.as_secs_f32())]
    #[non_exhaustive]
    Timeout {
        /// The verb and the object, or what was waited for.
        action: String,
        /// The time that was allowed.
        after: Duration,
    },
    /// An object could not be read as, or written from, the Rust type asked for.
    #[error("{what} does not fit the Rust type")]
    #[non_exhaustive]
    Decode {
        /// Which object or document.
        what: String,
        /// The error of serde.
        #[source]
        source: serde_json::Error,
    },
    /// A write was not sent, or its answer not awaited, because this process does not hold its
    /// lease.
    #[error(
        "{action}: stopped, because this process {} lease {lease}",
        if *.was_held { "has lost" } else { "does not hold" }
    )]
    #[non_exhaustive]
    Fenced {
        /// The verb and the object.
        action: String,
        /// The lease, `namespace/name`.
        lease: String,
        /// Whether this process has held the lease before and lost it.
        was_held: bool,
    },
    /// A write was not sent, because the reconciled object is paused by annotation. A reconcile that
    /// returns this error is not retried before the annotation changes or its time is over.
    #[error(
        "{action}: not sent, because the object is paused{}",
        .until.map(|until| format!(" until {until}")).unwrap_or_default()
    )]
    #[non_exhaustive]
    Paused {
        /// The verb and the object.
        action: String,
        /// When the pause is over; `None` if somebody has to end it.
        until: Option<Timestamp>,
    },
    /// The manager stopped because this process lost its lease; start the process again.
    #[error("lease {lease} was lost, so this process stopped")]
    #[non_exhaustive]
    LeaseLost {
        /// The lease, `namespace/name`.
        lease: String,
    },
    /// A cached read of a kind that no controller declared.
    #[error(
        "{kind} is not in the cache: declare it with owns, watch or reads, or read it with Client::api"
    )]
    #[non_exhaustive]
    NotCached {
        /// The kind that was asked for.
        kind: String,
    },
    /// The kind is cached, but its objects have not been read yet.
    #[error(
        "{kind} is not read into the cache yet ({state}): try again, or read it with Client::api"
    )]
    #[non_exhaustive]
    NotSynced {
        /// The kind that was asked for.
        kind: String,
        /// How far its watch is.
        state: String,
    },
    /// The API server does not serve the kind.
    #[error("the API server does not serve {kind}: install its CustomResourceDefinition first")]
    #[non_exhaustive]
    NoKind {
        /// The kind that was asked for.
        kind: String,
    },
    /// There is no usable configuration of the cluster to connect to.
    #[error("not running in a cluster, and kubeconfig {file} cannot be used")]
    #[non_exhaustive]
    Kubeconfig {
        /// The kubeconfig file, or files, that `kubectl` would use.
        file: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The caller asked for something impossible.
    #[error("{0}")]
    Invalid(String),
    /// A retry does not help: recorded, not retried. Made by [`Error::terminal`].
    #[error("terminal error")]
    #[non_exhaustive]
    Terminal(#[source] Box<dyn StdError + Send + Sync>),
    /// A reconcile or a handler panicked.
    #[error("panic: {0} [recovered]")]
    Panic(String),
    /// Any other error of the author's code.
    #[error(transparent)]
    Other(Box<dyn StdError + Send + Sync>),
}

/// The source of [`Error::Terminal`].
///
/// A type of its own, so that a terminal error is recognized even where a foreign error type has
/// wrapped it and only shows its sources.
struct TerminalCause(Error);

// === impl Error ===

impl Error {
    /// Wraps an error of the author's own.
    ///
    /// The operator `?` converts the errors of kube, of numbers, texts and times, of I/O, of tasks
    /// and timeouts, and texts. Of all others, this makes an [`Error`].
    ///
    /// ```
    /// use windlass::{Error, Result};
    ///
    /// fn port(text: &str) -> Result<u16> {
    ///     Ok(text.parse()?)
    /// }
    /// assert_eq!(port("eighty").unwrap_err().to_string(), "invalid digit found in string");
    ///
    /// fn id(text: &str) -> Result<uuid::Uuid> {
    ///     text.parse().map_err(Error::other) // any error type
    /// }
    /// assert!(id("eighty").is_err());
    /// ```
    pub fn other(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        match error.into().downcast::<Self>() {
            Ok(own) => *own,
            Err(foreign) => Self::Other(foreign),
        }
    }

    /// Marks an error as final: the controller records it and waits for the next change.
    ///
    /// The mark survives when a foreign error type wraps the result, as long as that names it as
    /// its source.
    ///
    /// ```
    /// use windlass::Error;
    /// let error = Error::terminal("spec.size must not shrink");
    /// assert!(error.is_terminal());
    /// assert_eq!(format!("{error:?}"), "terminal error: spec.size must not shrink");
    /// ```
    pub fn terminal(error: impl Into<Error>) -> Self {
        Self::Terminal(Box::new(TerminalCause(error.into())))
    }

    /// Returns `true` if a retry is pointless.
    pub fn is_terminal(&self) -> bool {
        self.causes().any(|cause| {
            cause.is::<TerminalCause>()
                || matches!(cause.downcast_ref::<Self>(), Some(Self::Terminal(_)))
        })
    }

    /// Returns `true` if the object, or its whole kind, does not exist.
    pub fn is_not_found(&self) -> bool {
        self.is_no_kind() || self.status().is_some_and(|s| s.code == 404 || s.reason == "NotFound")
    }

    /// Returns `true` if the server does not serve the kind at all.
    pub(crate) fn is_no_kind(&self) -> bool {
        self.own().any(|error| matches!(error, Self::NoKind { .. }))
    }

    /// Returns `true` if somebody else changed the object in between, or owns the fields.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|s| s.code == 409 && s.reason != "AlreadyExists")
    }

    /// Returns `true` if an object of the same name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|s| s.reason == "AlreadyExists")
    }

    /// Returns `true` if this process is not allowed to do what it asked for.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.status().is_some_and(|s| s.code == 403)
    }

    /// Returns `true` if the server refused the object as invalid.
    pub(crate) fn is_invalid(&self) -> bool {
        self.status().is_some_and(|s| s.code == 422)
    }

    /// Returns `true` if a write was stopped because this process does not hold its lease.
    pub(crate) fn is_fenced(&self) -> bool {
        self.own().any(|error| matches!(error, Self::Fenced { .. }))
    }

    /// Returns `true` if a write was not sent because the reconciled object is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.own().any(|error| matches!(error, Self::Paused { .. }))
    }

    /// Returns the failure status of the API server, if this error is one.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::Client;
    ///
    /// # fn config_map(name: &str) -> ConfigMap {
    /// #     let mut map = ConfigMap::default();
    /// #     map.metadata.name = Some(name.into());
    /// #     map.metadata.namespace = Some("default".into());
    /// #     map
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let maps = client.api::<ConfigMap>();
    /// let stale = maps.create(&config_map("a")).await?;
    /// let twice = maps.create(&config_map("a")).await.unwrap_err();
    /// assert!(twice.is_already_exists() && !twice.is_conflict());
    ///
    /// let mut newer = stale.clone();
    /// newer.data.get_or_insert_default().insert("color".into(), "blue".into());
    /// maps.update(&newer).await?;
    /// let late = maps.update(&stale).await.unwrap_err();
    /// assert!(late.is_conflict());
    /// assert_eq!(late.status().expect("the server answered").code, 409);
    ///
    /// let shouting = maps.create(&config_map("NOT-A-NAME")).await.unwrap_err();
    /// assert_eq!(shouting.status().expect("the server answered").reason, "Invalid");
    /// assert!(shouting.to_string().starts_with("create ConfigMap default/NOT-A-NAME: "));
    /// # Ok(())
    /// # }
    /// ```
    pub fn status(&self) -> Option<&Status> {
        self.own().find_map(|error| match error {
            Self::Api { status, .. } => Some(&**status),
            _ => None,
        })
    }
    /// Returns the error and its causes as one sentence, as `Debug` shows it.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        for cause in self.causes().skip(1) {
            let next = cause.to_string();
            // Errors of other crates often repeat their source.
            if !text.ends_with(&next) {
                text.push_str(": ");
                text.push_str(&next);
            }
        }
        text
    }

    /// This error and its sources; an error of the author's own in place of its wrapper.
    fn causes(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        let first: &(dyn StdError + 'static) = match self {
            Self::Other(foreign) => &**foreign,
            own => own,
        };
        std::iter::successors(Some(first), |&error| error.source())
    }

    /// The errors of this type among the causes.
    fn own(&self) -> impl Iterator<Item = &Self> {
        self.causes().filter_map(|cause| {
            let terminal = cause.downcast_ref::<TerminalCause>().map(|TerminalCause(error)| error);
            terminal.or_else(|| cause.downcast_ref::<Self>())
        })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain())
    }
}

// === impl TerminalCause ===

impl fmt::Display for TerminalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TerminalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl StdError for TerminalCause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// Turns expected failures of a request into `None`.
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::{Client, ResultExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// let mut namespace = Namespace::default();
/// namespace.metadata.name = Some("default".into());
/// assert!(client.api().create(&namespace).await.ignore_already_exists()?.is_none());
///
/// namespace.metadata.name = Some("nobody-made-this".into());
/// assert!(client.api().update(&namespace).await.ignore_not_found()?.is_none());
/// # Ok(())
/// # }
/// ```
pub trait ResultExt<T> {
    /// Turns "not found" into `None`.
    fn ignore_not_found(self) -> Result<Option<T>>;
    /// Turns "already exists" into `None`.
    fn ignore_already_exists(self) -> Result<Option<T>>;
}

impl<T> ResultExt<T> for Result<T> {
    fn ignore_not_found(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn ignore_already_exists(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_already_exists() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
