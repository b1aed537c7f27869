//! What can go wrong with a list or a watch, sorted by what to do about it.

use std::error::Error;
use std::time::Duration;

use kube::core::Status;

use super::state::SyncState;
use crate::client::{ExchangeError, InvalidSegment, read_status};
use crate::selector::InvalidSelector;

/// A list or a watch that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The HTTP status; 0 if there was no proper answer.
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
    refused: bool,
    /// There is no such request.
    invalid: bool,
}

// === impl Failure ===

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            code: 0,
            reason: String::new(),
            message: message.into(),
            retry_after: None,
            refused: false,
            invalid: false,
        }
    }

    /// Something that cannot be requested.
    fn invalid(error: &dyn Error) -> Self {
        Self { invalid: true, ..Self::new(error.to_string()) }
    }

    /// A connection that failed, with all causes in the message.
    pub(super) fn connection(error: &(dyn Error + 'static)) -> Self {
        let mut message = error.to_string();
        let mut refused = false;
        let mut at: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(error) = at {
            if let Some(io) = error.downcast_ref::<std::io::Error>() {
                refused |= io.kind() == std::io::ErrorKind::ConnectionRefused;
            }
            at = error.source();
            if let Some(source) = at {
                let text = source.to_string();
                if !message.contains(&text) {
                    message.push_str(": ");
                    message.push_str(&text);
                }
            }
        }
        Self { refused, ..Self::new(message) }
    }

    /// Reads the `Status` of an error event.
    pub(super) fn event(object: &[u8]) -> Self {
        Self::status(read_status(0, object), None)
    }

    fn status(status: Status, retry_after: Option<Duration>) -> Self {
        let causes = status.details.map(|details| details.causes).unwrap_or_default();
        let mut reason = status.reason;
        if causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge") {
            "ResourceVersionTooLarge".clone_into(&mut reason);
        }
        Self { code: status.code, reason, retry_after, ..Self::new(status.message) }
    }

    /// Returns `true` if the requested version is too old to be served.
    pub(super) fn expired(&self) -> bool {
        self.code == 410 || self.reason == "Expired" || self.reason == "Gone"
    }

    /// Returns `true` if the server has not reached the requested version yet.
    pub(super) fn ahead(&self) -> bool {
        self.reason == "ResourceVersionTooLarge"
            || self.message.contains("Too large resource version")
    }

    /// Returns `true` if the watch can continue after a wait, without a new list.
    pub(super) fn passing(&self) -> bool {
        self.code == 429 || self.refused
    }

    /// Returns `true` if nothing changes until somebody changes the cluster's configuration.
    pub(super) fn blocked(&self) -> bool {
        matches!(self.code, 401 | 403 | 404)
    }

    /// Returns what an administrator could do about it.
    pub(super) fn hint(&self) -> &'static str {
        match self.code {
            _ if self.invalid => "correct the namespace, the kind or the selector in the program",
            401 => "check the token or certificate of this process",
            403 => "grant get, list and watch of this kind to this process",
            404 => "install the definition of this kind, or check its version",
            0 => "check the address of the API server and the proxies in between",
            429 => "the server is busy: nothing to do unless this persists",
            _ => "check the log of the API server if this persists",
        }
    }

    /// Returns the state this failure puts a watch into.
    pub(super) fn state(&self, synced_before: bool) -> SyncState {
        match self.code {
            _ if self.invalid => SyncState::Invalid(self.message.clone()),
            401 | 403 => SyncState::Forbidden(self.message.clone()),
            404 => SyncState::NoKind(self.message.clone()),
            _ if synced_before => SyncState::Stale {
                since: tokio::time::Instant::now(),
                reason: self.message.clone(),
            },
            _ => SyncState::Unreachable(self.message.clone()),
        }
    }
}

impl From<ExchangeError> for Failure {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Refused { status, retry_after } => Self::status(*status, retry_after),
            ExchangeError::Connection(error) => Self::connection(&*error),
            error @ (ExchangeError::Timeout | ExchangeError::Foreign { .. }) => {
                Self::new(error.to_string())
            }
        }
    }
}

impl From<InvalidSegment> for Failure {
    fn from(error: InvalidSegment) -> Self {
        Self::invalid(&error)
    }
}

impl From<InvalidSelector> for Failure {
    fn from(error: InvalidSelector) -> Self {
        Self::invalid(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, body: &[u8]) -> Failure {
        Failure::status(read_status(code, body), None)
    }

    #[test]
    fn failures_are_sorted_by_what_to_do() {
        let gone = Failure::event(br#"{"code":410,"reason":"Expired","message":"old"}"#);
        assert!(gone.expired() && !gone.passing());
        let ahead = Failure::event(
            br#"{"code":504,"reason":"Timeout","message":"x","details":{"causes":[
            {"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],
            "retryAfterSeconds":1}}"#,
        );
        assert!(ahead.ahead() && !ahead.expired());
        assert!(answered(429, b"slow down").passing());
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(Failure::connection(&refused).passing());
        assert!(matches!(answered(403, b"").state(true), SyncState::Forbidden(_)));
        assert!(matches!(answered(404, b"").state(true), SyncState::NoKind(_)));
        assert!(matches!(answered(500, b"").state(true), SyncState::Stale { .. }));
        assert!(matches!(Failure::new("x").state(false), SyncState::Unreachable(_)));
    }
}
