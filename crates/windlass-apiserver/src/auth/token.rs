//! Tokens of service accounts: signed JWTs, the requests for them, and their discovery documents.
//!
//! **Invariant:** a token is valid only while its service account, and the object it is
//! bound to, exist with the uid they had when it was made.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hashbrown::HashMap;
use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::rule::quoted;
use super::{User, service_account_name, strings, text};
use crate::lookup::Lookup;
use crate::random::Randomness;

mod key;
mod request;

use key::SigningKey;

pub use request::token_request;

/// The default issuer of a server.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
const LEGACY: &str = "kubernetes.io/serviceaccount/";
/// How far clocks may differ, in seconds.
const LEEWAY: i64 = 60;
/// Longer tokens are not looked at.
const LENGTH_MAX: usize = 16 * 1024;
/// How many verified tokens are remembered.
const VERIFIED_MAX: usize = 4096;

/// Why a key cannot sign tokens.
#[derive(Debug, thiserror::Error)]
#[error("service account key: {0}")]
pub struct KeyError(String);

/// Signs tokens of service accounts, and knows them again.
pub struct Signer {
    key: SigningKey,
    kid: String,
    issuer: String,
    audiences: Vec<String>,
    /// The identifiers of tokens.
    ids: Randomness,
    /// Claims of tokens whose signature was found good; saves the curve arithmetic next time.
    verified: Mutex<HashMap<String, Arc<Value>>>,
}

/// What an object a token is bound to is called, and its uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// Its uid; may be empty for a node that is gone.
    pub uid: String,
}

/// What a token says.
#[derive(Clone, Debug, Default)]
pub struct Claims<'a> {
    /// Namespace of the account.
    pub namespace: &'a str,
    /// Name of the account.
    pub name: &'a str,
    /// Uid of the account.
    pub uid: &'a str,
    /// Whom the token is for.
    pub audiences: &'a [String],
    /// How many seconds it is good for.
    pub seconds: i64,
    /// Seconds after which its use is worth a warning.
    pub warn_after: Option<i64>,
    /// The pod it is bound to.
    pub pod: Option<Bound>,
    /// The secret it is bound to.
    pub secret: Option<Bound>,
    /// The node it is bound to, or the pod's.
    pub node: Option<Bound>,
}

// === impl Signer ===

impl Signer {
    /// Creates a signer with a new P-256 key.
    pub fn generate(issuer: impl Into<String>) -> Result<Self, KeyError> {
        Ok(Self::new(SigningKey::generate()?, issuer.into(), None))
    }

    /// Creates a signer whose key and tokens depend on the seed alone: anybody who knows the seed
    /// can sign as well, so it is for tests.
    pub fn seeded(seed: u64, issuer: impl Into<String>) -> Result<Self, KeyError> {
        Ok(Self::new(SigningKey::seeded(seed)?, issuer.into(), Some(seed)))
    }

    /// Creates a signer with the key of a PEM file (PKCS#8, P-256).
    pub fn from_pem(pem: &str, issuer: impl Into<String>) -> Result<Self, KeyError> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| KeyError(format!("not a private key in PEM form: {error}")))?;
        Self::from_pkcs8(key.secret_der(), issuer)
    }

    /// Creates a signer with a key in PKCS#8 form.
    pub fn from_pkcs8(pkcs8: &[u8], issuer: impl Into<String>) -> Result<Self, KeyError> {
        Ok(Self::new(SigningKey::from_pkcs8(pkcs8)?, issuer.into(), None))
    }

    fn new(key: SigningKey, issuer: String, seed: Option<u64>) -> Self {
        Self {
            kid: key.id(),
            key,
            audiences: vec![issuer.clone()],
            issuer,
            ids: Randomness::new(seed),
            verified: Mutex::default(),
        }
    }

    /// Returns the audiences of the server itself.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Returns the private key as PEM, to keep it over restarts.
    pub fn to_pem(&self) -> String {
        let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
        for line in STANDARD.encode(self.key.pkcs8()).as_bytes().chunks(64) {
            pem.extend(line.iter().map(|&b| char::from(b)));
            pem.push('\n');
        }
        pem.push_str("-----END PRIVATE KEY-----\n");
        pem
    }

    /// Returns a signed token.
    pub fn sign(&self, claims: &Claims<'_>, now: Timestamp) -> String {
        let bound = |bound: &Bound| match bound.uid.as_str() {
            "" => json!({"name": bound.name}),
            uid => json!({"name": bound.name, "uid": uid}),
        };
        let mut private = json!({
            "namespace": claims.namespace,
            "serviceaccount": {"name": claims.name, "uid": claims.uid},
        });
        for (key, object) in
            [("pod", &claims.pod), ("secret", &claims.secret), ("node", &claims.node)]
        {
            if let Some(object) = object {
                private[key] = bound(object);
            }
        }
        let now = now.as_second();
        if let Some(after) = claims.warn_after {
            private["warnafter"] = now.saturating_add(after).into();
        }
        self.sign_json(&json!({
            "aud": claims.audiences, "iss": self.issuer,
            "sub": service_account_name(claims.namespace, claims.name),
            "iat": now, "nbf": now, "exp": now.saturating_add(claims.seconds),
            "jti": self.ids.uuid(&["token", claims.namespace, claims.name]),
            "kubernetes.io": private,
        }))
    }

    /// Returns the token kept in a secret of type `kubernetes.io/service-account-token`.
    pub fn sign_secret(&self, namespace: &str, name: &str, uid: &str, secret: &str) -> String {
        self.sign_json(&json!({
            "iss": LEGACY_ISSUER, "sub": service_account_name(namespace, name),
            (format!("{LEGACY}namespace")): namespace,
            (format!("{LEGACY}secret.name")): secret,
            (format!("{LEGACY}service-account.name")): name,
            (format!("{LEGACY}service-account.uid")): uid,
        }))
    }

    fn sign_json(&self, claims: &Value) -> String {
        let header = json!({"alg": self.key.algorithm(), "kid": self.kid}).to_string();
        let mut token = URL_SAFE_NO_PAD.encode(header);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims.to_string(), &mut token);
        let signature = self.key.sign(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// Returns the user of a token and the audiences it was accepted for.
    ///
    /// `Ok(None)` when the token is not one of this signer.
    pub fn authenticate(
        &self,
        lookup: &dyn Lookup,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Option<(User, Vec<String>)>, String> {
        let Some(claims) = self.verify(token)? else { return Ok(None) };
        if claims["iss"] == LEGACY_ISSUER {
            return legacy_user(lookup, token, &claims)
                .map(|user| Some((user, self.shared_audiences(audiences))));
        }
        let own = match &claims["aud"] {
            Value::String(one) => vec![one.clone()],
            many => strings(many),
        };
        let good: Vec<String> = own.iter().filter(|a| audiences.contains(*a)).cloned().collect();
        if good.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(&own),
                quoted(audiences)
            ));
        }
        let user = bound_user(lookup, &claims, now)?;
        Ok(Some((user, good)))
    }

    /// Those of the wanted audiences that are the server's own.
    pub(super) fn shared_audiences(&self, wanted: &[String]) -> Vec<String> {
        self.audiences.iter().filter(|a| wanted.contains(*a)).cloned().collect()
    }

    /// The claims of a token that this key signed for this issuer.
    fn verify(&self, token: &str) -> Result<Option<Arc<Value>>, String> {
        if token.len() > LENGTH_MAX {
            return Ok(None);
        }
        if let Some(claims) = self.verified.lock().get(token) {
            return Ok(Some(claims.clone()));
        }
        let Some((signed, signature)) = token.rsplit_once('.') else { return Ok(None) };
        let Some((header, claims)) = signed.split_once('.') else { return Ok(None) };
        let (Some(header), Some(claims)) = (decode(header), decode(claims)) else {
            return Ok(None);
        };
        if claims["iss"] != self.issuer.as_str() && claims["iss"] != LEGACY_ISSUER {
            return Ok(None);
        }
        let good = header["alg"] == self.key.algorithm()
            && URL_SAFE_NO_PAD
                .decode(signature)
                .is_ok_and(|signature| self.key.verifies(signed.as_bytes(), &signature));
        if !good {
            return Err("go-jose/go-jose: error in cryptographic primitive".into());
        }
        let claims = Arc::new(claims);
        let mut verified = self.verified.lock();
        if verified.len() >= VERIFIED_MAX {
            verified.clear();
        }
        verified.insert(token.to_owned(), claims.clone());
        Ok(Some(claims))
    }

    /// Returns the document at `/.well-known/openid-configuration`.
    pub fn openid_configuration(&self, server_url: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("{}/openid/v1/jwks", server_url.trim_end_matches('/')),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self.key.algorithm()],
        })
    }

    /// Returns the document at `/openid/v1/jwks`: the public key.
    pub fn jwks(&self) -> Value {
        json!({"keys": [self.key.jwk()]})
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer(issuer {}, key {})", self.issuer, self.kid)
    }
}

fn decode(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn bound_user(lookup: &dyn Lookup, claims: &Value, now: Timestamp) -> Result<User, String> {
    let now = now.as_second();
    let at = |key: &str| claims[key].as_i64();
    if at("nbf").is_some_and(|from| now + LEEWAY < from)
        || at("iat").is_some_and(|from| now + LEEWAY < from)
    {
        return Err("service account token is not valid yet".into());
    }
    if at("exp").is_none_or(|until| now - LEEWAY > until) {
        return Err("service account token has expired".into());
    }
    let private = &claims["kubernetes.io"];
    let namespace = text(private, &["namespace"]);
    let account = &private["serviceaccount"];
    let (name, uid) = (text(account, &["name"]), text(account, &["uid"]));
    let mut user = account_user(lookup, namespace, name, uid, now)?;
    for (claim, plural, space) in
        [("secret", "secrets", namespace), ("pod", "pods", namespace), ("node", "nodes", "")]
    {
        let reference = &private[claim];
        // A pod's node is for information; only a token bound to the node itself needs it.
        if reference.is_null() || claim == "node" && !private["pod"].is_null() {
            continue;
        }
        let (name, uid) = (text(reference, &["name"]), text(reference, &["uid"]));
        let object = lookup
            .get("", plural, space, name)
            .filter(|object| !deleted(object, now))
            .ok_or("service account token has been invalidated")?;
        let stored = text(&object, &["metadata", "uid"]);
        if stored != uid {
            return Err(format!(
                "{claim} UID ({stored}) does not match service account {claim} ref claim ({uid})"
            ));
        }
    }
    let mut extra = |key: &str, value: &str| {
        if !value.is_empty() {
            let key = format!("authentication.kubernetes.io/{key}");
            user.extra.insert(key, vec![value.to_owned()]);
        }
    };
    let id = text(claims, &["jti"]);
    if !id.is_empty() {
        extra("credential-id", &format!("JTI={id}"));
    }
    for (claim, key) in [("pod", "pod"), ("node", "node")] {
        extra(&format!("{key}-name"), text(private, &[claim, "name"]));
        extra(&format!("{key}-uid"), text(private, &[claim, "uid"]));
    }
    Ok(user)
}

fn legacy_user(lookup: &dyn Lookup, token: &str, claims: &Value) -> Result<User, String> {
    let claim = |key: &str| claims[format!("{LEGACY}{key}")].as_str().unwrap_or_default();
    let (namespace, secret) = (claim("namespace"), claim("secret.name"));
    let invalid = || "service account token has been invalidated".to_owned();
    let secret = lookup.get("", "secrets", namespace, secret).ok_or_else(invalid)?;
    let stored = STANDARD.decode(text(&secret, &["data", "token"])).map_err(|_| invalid())?;
    if !secret["metadata"]["deletionTimestamp"].is_null() || stored != token.as_bytes() {
        return Err(invalid());
    }
    let (name, uid) = (claim("service-account.name"), claim("service-account.uid"));
    account_user(lookup, namespace, name, uid, i64::MAX)
}

fn account_user(
    lookup: &dyn Lookup,
    namespace: &str,
    name: &str,
    uid: &str,
    now: i64,
) -> Result<User, String> {
    let account = lookup
        .get("", "serviceaccounts", namespace, name)
        .ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
    if deleted(&account, now) {
        return Err(format!("service account {namespace}/{name} has been deleted"));
    }
    let stored = text(&account, &["metadata", "uid"]);
    if stored != uid {
        return Err(format!("service account UID ({stored}) does not match claim ({uid})"));
    }
    let mut user = User::service_account(namespace, name);
    user.uid = uid.to_owned();
    Ok(user)
}

/// Returns `true` if an object should have been gone for longer than clocks may differ.
fn deleted(object: &Value, now: i64) -> bool {
    let at = text(object, &["metadata", "deletionTimestamp"]);
    at.parse::<Timestamp>().is_ok_and(|at| at.as_second() < now.saturating_sub(LEEWAY))
}

#[cfg(test)]
mod tests;
