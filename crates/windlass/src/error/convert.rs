//! Which errors the operator `?` turns into an [`Error`].

use std::error::Error as StdError;

use kube::config::{InferConfigError, KubeconfigError};

use super::Error;

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
