//! Which errors the operator `?` turns into an [`Error`].

use std::error::Error as StdError;

use kube::config::{InferConfigError, KubeconfigError};

use super::Error;
use crate::selector::InvalidSelector;

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Api { action: "request".into(), status },
            kube::Error::InferConfig(error) => error.into(),
            other => Self::Transport { action: "request".into(), source: Box::new(other) },
        }
    }
}

impl From<InferConfigError> for Error {
    fn from(error: InferConfigError) -> Self {
        // Its own text repeats its source, and says at length that this is not a pod.
        let source =
            StdError::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        Self::Kubeconfig { file: kubeconfig_file(), source: source.into() }
    }
}

impl From<KubeconfigError> for Error {
    fn from(error: KubeconfigError) -> Self {
        Self::Kubeconfig { file: kubeconfig_file(), source: Box::new(error) }
    }
}

impl From<InvalidSelector> for Error {
    fn from(error: InvalidSelector) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<serde_json::Error> for Error {
    fn from(source: serde_json::Error) -> Self {
        Self::Decode { what: "document".into(), source }
    }
}

/// Converts errors of other crates that a reconcile often meets. A conversion of all errors would
/// include [`Error`] itself, which the language does not allow.
macro_rules! other {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::Other(Box::new(error))
            }
        }
    )*};
}

other!(
    std::io::Error,
    std::fmt::Error,
    std::num::ParseIntError,
    std::num::ParseFloatError,
    std::num::TryFromIntError,
    std::str::ParseBoolError,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
    std::net::AddrParseError,
    std::time::SystemTimeError,
    jiff::Error,
    tokio::task::JoinError,
    tokio::time::error::Elapsed,
);

impl From<Box<dyn StdError + Send + Sync>> for Error {
    fn from(error: Box<dyn StdError + Send + Sync>) -> Self {
        Self::other(error)
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

/// The kubeconfig file that `kubectl` would read.
fn kubeconfig_file() -> String {
    let named = std::env::var("KUBECONFIG").ok().filter(|file| !file.is_empty());
    named.unwrap_or_else(|| "~/.kube/config".into())
}
