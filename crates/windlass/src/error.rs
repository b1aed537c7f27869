//! The one error type of the crate: what failed, on which object, and what the caller can do.
//!
//! Variants are cut by what a caller may do next, not by which layer failed. A reconcile that
//! returns an [`Error`] is tried again with growing delay; wrap it with [`Error::terminal`] when
//! trying again cannot help before somebody changes the object.
//!
//! **Invariant:** `Display` never repeats what `source()` says.

use std::time::Duration;

use kube::core::Status;

/// The result of most functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong between a reconcile function and the API server.
///
/// # Examples
///
/// ```
/// use windlass::{Error, Result};
///
/// fn check(size: i32) -> Result<()> {
///     match size {
///         1..=5 => Ok(()),
///         // Trying again does not help before somebody changes the object.
///         _ => Err(Error::terminal(format!("size {size} is not between 1 and 5"))),
///     }
/// }
/// assert!(check(9).unwrap_err().is_terminal());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server answered with a failure status.
    #[error("{action}: {} ({} {})", .status.message, .status.code, .status.reason)]
    Api {
        /// The verb and the object, such as `update Pod default/web`.
        action: String,
        /// The status the server sent.
        status: Box<Status>,
    },
    /// The request did not get an answer that could be read.
    #[error("{action}: no usable answer from the API server")]
    Transport {
        /// The verb and the object.
        action: String,
        /// Why the exchange failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The request was given up after its deadline.
    #[error("{action}: no answer within {} s", .after.as_secs_f32())]
    Timeout {
        /// The verb and the object, or what was waited for.
        action: String,
        /// The deadline that passed.
        after: Duration,
    },
    /// An object could not be read as, or written from, the Rust type asked for.
    #[error("{what} does not fit the Rust type")]
    Decode {
        /// Which object or document.
        what: String,
        /// What serde says.
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
    /// The manager stopped because this process lost its lease; start the process again.
    #[error("lease {lease} was lost, so this process stopped")]
    #[non_exhaustive]
    LeaseLost {
        /// The lease, `namespace/name`.
        lease: String,
    },
    /// A cached read of a kind that nobody declared.
    #[error(
        "{kind} is not in the cache: declare it with owns, watches or reads, or read it with live()"
    )]
    NotCached {
        /// The kind that was asked for.
        kind: String,
    },
    /// The kind is cached, and its objects have not been read yet.
    #[error("{kind} is not read into the cache yet ({state}): try again, or read it with live()")]
    NotSynced {
        /// The kind that was asked for.
        kind: String,
        /// How far its watch is.
        state: String,
    },
    /// The API server serves no such kind.
    #[error("the API server does not serve {kind}: install its CustomResourceDefinition first")]
    NoKind {
        /// The kind that was asked for.
        kind: String,
    },
    /// The caller asked for something that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// Trying again does not help: recorded, not retried.
    #[error("terminal: {0}")]
    Terminal(#[source] Box<Error>),
    /// A reconcile or handler panicked; the fence caught it.
    #[error("panic: {0} [recovered]")]
    Panic(String),
    /// Any other error of the author's code.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

// === impl Error ===

impl Error {
    /// Wraps an error of the author's own.
    ///
    /// ```
    /// use windlass::{Error, Result};
    ///
    /// fn port(text: &str) -> Result<u16> {
    ///     text.parse().map_err(Error::other) // of any type that is an error
    /// }
    /// assert_eq!(port("eighty").unwrap_err().to_string(), "invalid digit found in string");
    /// ```
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }

    /// Marks an error as final: the controller records it and waits for the next change.
    ///
    /// ```
    /// use windlass::Error;
    /// let error = Error::terminal("spec.size must not shrink");
    /// assert!(error.is_terminal());
    /// assert_eq!(error.to_string(), "terminal: spec.size must not shrink");
    /// ```
    pub fn terminal(error: impl Into<Error>) -> Self {
        Self::Terminal(Box::new(error.into()))
    }

    /// Tells whether a retry is pointless.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Tells whether the object does not exist, be it that its whole kind does not.
    pub fn is_not_found(&self) -> bool {
        self.is_no_kind() || self.status().is_some_and(|s| s.code == 404 || s.reason == "NotFound")
    }

    /// Tells whether the server does not serve the kind at all.
    pub fn is_no_kind(&self) -> bool {
        match self {
            Self::NoKind { .. } => true,
            Self::Terminal(inner) => inner.is_no_kind(),
            _ => false,
        }
    }

    /// Tells whether somebody else changed the object in between, or owns the fields.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|s| s.code == 409 && s.reason != "AlreadyExists")
    }

    /// Tells whether a create met an object of that name.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|s| s.reason == "AlreadyExists")
    }

    /// Tells whether this process lacks the right.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(|s| s.code == 403)
    }

    /// Tells whether the server refused the object as invalid.
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(|s| s.code == 422)
    }

    /// Tells whether a deadline passed.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::Terminal(inner) => inner.is_timeout(),
            _ => false,
        }
    }

    /// Tells whether the write was stopped because leadership is lost.
    pub fn is_fenced(&self) -> bool {
        match self {
            Self::Fenced { .. } => true,
            Self::Terminal(inner) => inner.is_fenced(),
            _ => false,
        }
    }

    /// The failure status of the API server, if that is what this is.
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
    /// let stale = client.create(&config_map("a")).await?;
    /// let twice = client.create(&config_map("a")).await.unwrap_err();
    /// assert!(twice.is_already_exists() && !twice.is_conflict());
    ///
    /// let mut newer = stale.clone();
    /// newer.data.get_or_insert_default().insert("color".into(), "blue".into());
    /// client.update(&newer).await?;
    /// let late = client.update(&stale).await.unwrap_err();
    /// assert!(late.is_conflict());
    /// assert_eq!(late.status().expect("the server answered").code, 409);
    ///
    /// let shouting = client.create(&config_map("NOT-A-NAME")).await.unwrap_err();
    /// assert!(shouting.is_invalid());
    /// assert!(shouting.to_string().starts_with("create ConfigMap default/NOT-A-NAME: "));
    /// # Ok(())
    /// # }
    /// ```
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Api { status, .. } => Some(status),
            Self::Terminal(inner) => inner.status(),
            _ => None,
        }
    }

    /// The whole chain of causes in one line, for logs.
    ///
    /// ```
    /// use windlass::Error;
    /// let source = std::io::Error::other("connection reset");
    /// let error = Error::Transport { action: "get Pod shop/cart".into(), source: source.into() };
    /// assert_eq!(error.to_string(), "get Pod shop/cart: no usable answer from the API server");
    /// assert_eq!(error.chain(), format!("{error}: connection reset"));
    /// ```
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let next = error.to_string();
            if !text.ends_with(&next) {
                text.push_str(": ");
                text.push_str(&next);
            }
            cause = error.source();
        }
        text
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Api { action: "request".into(), status },
            other => Self::Transport { action: "request".into(), source: Box::new(other) },
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(source: serde_json::Error) -> Self {
        Self::Decode { what: "document".into(), source }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Other(Box::new(error))
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Error {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::Other(error)
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Other(text.into())
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Self::Other(text.into())
    }
}

/// Lets the expected failures of a request pass as "nothing there".
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
/// assert!(client.create(&namespace).await.ignore_already_exists()?.is_none());
///
/// namespace.metadata.name = Some("nobody-made-this".into());
/// assert!(client.update(&namespace).await.ignore_not_found()?.is_none());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str) -> Error {
        Error::Api {
            action: "get Pod a/b".into(),
            status: Status::failure("no", reason).with_code(code).boxed(),
        }
    }

    #[test]
    fn predicates_look_through_terminal() {
        assert!(Error::terminal(status(404, "NotFound")).is_not_found());
        assert!(status(409, "Conflict").is_conflict());
        assert!(!status(409, "AlreadyExists").is_conflict());
    }

    #[test]
    fn chain_names_every_cause_once() {
        let error = Error::Transport { action: "get Pod a/b".into(), source: "refused".into() };
        assert_eq!(error.chain(), "get Pod a/b: no usable answer from the API server: refused");
    }
}
