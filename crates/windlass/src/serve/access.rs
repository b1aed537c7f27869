//! Authentication and authorization of requests for metrics, delegated to the API server.
//!
//! The API server reviews the bearer token (the result is cached for a minute) and whether its user
//! may get the path (cached for five minutes if allowed, for thirty seconds if denied). Requests
//! without a token are refused.
//!
//! **Invariant:** both caches are bounded, and tokens are kept as hashes only.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::cache::ExpiringStore;
use crate::client::{ApiRequest, Client, Url};
use crate::error::Result;

const TOKEN_TTL: Duration = Duration::from_secs(60);
const ALLOW_TTL: Duration = Duration::from_secs(300);
const DENY_TTL: Duration = Duration::from_secs(30);
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
const CACHED_MAX: usize = 1024;

/// Asks the API server for the user of a token and for the permissions of that user.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    client: Client,
    /// The users of tokens, by the hash of the token; `None` for a token that is not valid.
    users: Arc<ExpiringStore<u64, Option<Value>>>,
    /// Whether a user may use a verb on a path.
    permissions: Arc<ExpiringStore<(String, String), bool>>,
    hasher: RandomState,
}

// === impl Access ===

impl Access {
    /// Creates reviews with `client`, which needs permission to create token and subject access
    /// reviews.
    pub(crate) fn new(client: &Client) -> Self {
        let client = client.unfenced().timeout(REVIEW_TIMEOUT);
        let users = Arc::new(ExpiringStore::new(TOKEN_TTL, CACHED_MAX));
        let permissions = Arc::new(ExpiringStore::new(ALLOW_TTL, CACHED_MAX));
        Self { client, users, permissions, hasher: RandomState::new() }
    }

    /// Checks that the bearer of `authorization` may `verb` the path.
    pub(super) async fn check(
        &self,
        authorization: Option<&str>,
        path: &str,
        verb: &str,
    ) -> Result<(), (StatusCode, &'static str)> {
        let Some(token) = authorization.and_then(bearer) else {
            return Err((StatusCode::UNAUTHORIZED, "Unauthorized"));
        };
        let broken = |error: crate::error::Error| {
            tracing::warn!(error = error.chain(), "access to the metrics could not be reviewed");
            (StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed")
        };
        let Some(user) = self.user(token).await.map_err(broken)? else {
            return Err((StatusCode::UNAUTHORIZED, "Unauthorized"));
        };
        match self.allowed(&user, path, verb).await.map_err(broken)? {
            true => Ok(()),
            false => Err((StatusCode::FORBIDDEN, "Authorization denied")),
        }
    }

    async fn user(&self, token: &str) -> Result<Option<Value>> {
        let slot = self.hasher.hash_one(token);
        if let Some(user) = self.users.get(&slot) {
            return Ok(user);
        }
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let review = self.review(path, "review a token", &body).await?;
        let good = review.pointer("/status/authenticated") == Some(&Value::Bool(true));
        let user = review.pointer("/status/user").cloned().filter(|_| good);
        self.users.insert(slot, user.clone());
        Ok(user)
    }

    async fn allowed(&self, user: &Value, path: &str, verb: &str) -> Result<bool> {
        let slot = (user.to_string(), format!("{verb} {path}"));
        if let Some(allowed) = self.permissions.get(&slot) {
            return Ok(allowed);
        }
        let mut spec = json!({
            "user": user["username"],
            "nonResourceAttributes": {"path": path, "verb": verb},
        });
        for part in ["uid", "groups", "extra"] {
            if let Some(value) = user.get(part) {
                spec[part] = value.clone();
            }
        }
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        });
        let at = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let review = self.review(at, "review access", &body).await?;
        let allowed = review.pointer("/status/allowed") == Some(&Value::Bool(true));
        let ttl = if allowed { ALLOW_TTL } else { DENY_TTL };
        self.permissions.insert_for(slot, allowed, ttl);
        Ok(allowed)
    }

    async fn review(&self, path: &'static str, action: &str, body: &Value) -> Result<Value> {
        let request = ApiRequest::new(Method::POST, Url::fixed(path), action.into());
        let request = request.body(body.to_string().into_bytes());
        let bytes = self.client.send(request).await?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// Returns the token of the scheme `Bearer`, which is case-insensitive.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_of_a_token_has_no_case() {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            assert_eq!(bearer(&format!("{scheme} secret")), Some("secret"));
        }
        for other in ["Basic secret", "Bearer", "Bearer ", "secret", ""] {
            assert_eq!(bearer(other), None, "{other}");
        }
    }
}
