//! What can go wrong with a list or a watch, sorted by what to do about it.

use std::error::Error;
use std::time::Duration;

use serde::Deserialize;

use super::state::SyncState;

/// A list or a watch that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The HTTP status; 0 if there was no proper answer.
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
    refused: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    code: u16,
    reason: String,
    message: String,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    reason: String,
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
        }
    }

    pub(super) fn transport(error: &(dyn Error + 'static)) -> Self {
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

    /// Reads a `Status`, from the body of an answer or from an error event.
    pub(super) fn status(code: u16, body: &[u8]) -> Self {
        let body = &*super::protobuf::as_json(body);
        let Ok(status) = serde_json::from_slice::<Status>(body) else {
            let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
            return Self { code, ..Self::new(format!("server answered {code}: {text}")) };
        };
        let details = status.details.unwrap_or_default();
        let causes = details.causes.unwrap_or_default();
        let mut reason = status.reason;
        if causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge") {
            "ResourceVersionTooLarge".clone_into(&mut reason);
        }
        let code = if status.code == 0 { code } else { status.code };
        let message = match status.message.is_empty() {
            true => format!("server answered {code}"),
            false => status.message,
        };
        let retry_after = details.retry_after_seconds.map(Duration::from_secs);
        Self { code, reason, message, retry_after, refused: false }
    }

    /// Tells whether the version asked for is too old to be served.
    pub(super) fn expired(&self) -> bool {
        self.code == 410 || self.reason == "Expired" || self.reason == "Gone"
    }

    /// Tells whether the server is behind the version asked for.
    pub(super) fn ahead(&self) -> bool {
        self.reason == "ResourceVersionTooLarge"
            || self.message.contains("Too large resource version")
    }

    /// Tells whether to wait and go on as before, without a new list.
    pub(super) fn passing(&self) -> bool {
        self.code == 429 || self.refused
    }

    /// Tells whether somebody has to do something before this can go well.
    pub(super) fn blocked(&self) -> bool {
        matches!(self.code, 401 | 403 | 404)
    }

    /// Says what somebody could do about it.
    pub(super) fn hint(&self) -> &'static str {
        match self.code {
            401 => "check the token or certificate of this process",
            403 => "grant get, list and watch of this kind to this process",
            404 => "install the definition of this kind, or check its version",
            0 => "check the address of the API server and what stands in between",
            429 => "the server is busy: nothing to do unless it lasts",
            _ => "look at the log of the API server if it lasts",
        }
    }

    /// Returns the state this failure puts a watch into.
    pub(super) fn state(&self, synced_before: bool) -> SyncState {
        match self.code {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_sorted_by_what_to_do() {
        let gone = Failure::status(200, br#"{"code":410,"reason":"Expired","message":"old"}"#);
        assert!(gone.expired() && !gone.passing());
        let ahead = Failure::status(
            504,
            br#"{"code":504,"reason":"Timeout","message":"x","details":{"causes":[
            {"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],
            "retryAfterSeconds":1}}"#,
        );
        assert!(ahead.ahead() && !ahead.expired());
        assert_eq!(ahead.retry_after, Some(Duration::from_secs(1)));
        assert!(Failure::status(429, b"slow down").passing());
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(Failure::transport(&refused).passing());
        assert!(matches!(Failure::status(403, b"").state(true), SyncState::Forbidden(_)));
        assert!(matches!(Failure::status(404, b"").state(true), SyncState::NoKind(_)));
        assert!(matches!(Failure::status(500, b"").state(true), SyncState::Stale { .. }));
        assert!(matches!(Failure::new("x").state(false), SyncState::Unreachable(_)));
    }
}
