//! Who asks, and whether they may: authentication, impersonation, RBAC, reviews, first objects.
//!
//! A request passes [`authn`] (who is it), [`impersonate`] (as which user do they act) and [`rbac`]
//! (may they). Writes of roles and bindings pass [`escalation`] as well. [`bootstrap`] gives the
//! objects every server starts with.
//!
//! **Invariant:** nothing here keeps state of its own that a restart would lose, apart from
//! caches; what is allowed follows from stored objects and the server's keys.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

pub mod aggregate;
pub mod authn;
pub mod bootstrap;
pub mod escalation;
pub mod impersonate;
pub mod rbac;
pub mod review;
pub mod rule;
pub mod token;

pub use aggregate::aggregate;
pub use authn::{Authenticator, PeerCertificate, parse_token_file};
pub use impersonate::Impersonator;
pub use rbac::{Attributes, Authorizer, Decision};
pub use rule::Rule;
pub use token::{DEFAULT_ISSUER, Signer};

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of all unauthenticated users.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of a user without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of all service accounts.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The API group of roles and bindings.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The identity a request is made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user name.
    pub name: String,
    /// A stable id; empty when the source of the identity has none.
    pub uid: String,
    /// The groups, in the order they were given.
    pub groups: Vec<String>,
    /// Further facts about the user, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

// === impl User ===

impl User {
    /// Creates a user with a name and groups.
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        Self {
            name: name.into(),
            groups: groups.iter().map(|&g| g.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Returns the user of a request without credentials.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    /// Creates an administrator: a member of `system:masters`.
    pub fn admin(name: impl Into<String>) -> Self {
        Self::new(name, &[MASTERS, AUTHENTICATED])
    }

    /// Returns the user a service account acts as.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let of_namespace = format!("{SERVICE_ACCOUNTS}:{namespace}");
        Self::new(
            service_account_name(namespace, name),
            &[SERVICE_ACCOUNTS, &of_namespace, AUTHENTICATED],
        )
    }

    /// Returns `true` if the user is in a group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Returns `true` if RBAC does not apply to the user.
    pub fn is_master(&self) -> bool {
        self.in_group(MASTERS)
    }

    /// Returns the `UserInfo` object reviews and admission show.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [("username", &self.name), ("uid", &self.uid)] {
            if !text.is_empty() {
                out.insert(key.into(), text.clone().into());
            }
        }
        if !self.groups.is_empty() {
            out.insert("groups".into(), self.groups.clone().into());
        }
        if !self.extra.is_empty() {
            let extra = self.extra.iter().map(|(k, v)| (k.clone(), Value::from(v.clone())));
            out.insert("extra".into(), extra.collect());
        }
        Value::Object(out)
    }

    fn add_group(&mut self, group: &str) {
        if !self.in_group(group) {
            self.groups.push(group.to_owned());
        }
    }
}

/// Returns the user name of a service account.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// Returns namespace and name of the service account behind a user name, if it is one.
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (is_label(namespace) && is_subdomain(name)).then_some((namespace, name))
}

/// Returns `true` if a text is a DNS-1123 label.
fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len()) && is_dns_part(text)
}

/// Returns `true` if a text is a DNS-1123 subdomain.
fn is_subdomain(text: &str) -> bool {
    (1..=253).contains(&text.len()) && text.split('.').all(is_dns_part)
}

fn is_dns_part(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&a), Some(&z)) if inner(a) && inner(z))
        && bytes.iter().all(|&b| inner(b) || b == b'-')
}

/// A time as objects carry it: RFC 3339, whole seconds.
fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A text at a path of keys; empty if it is missing.
fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    let mut at = value;
    for key in path {
        at = &at[*key];
    }
    at.as_str().unwrap_or_default()
}

/// The strings of a list; other items are left out.
fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .map(|list| list.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod fake;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_account_name_splits_only_when_both_parts_are_names() {
        assert_eq!(split_service_account("system:serviceaccount:ns:sa"), Some(("ns", "sa")));
        assert_eq!(split_service_account("system:serviceaccount:ns:sa.b"), Some(("ns", "sa.b")));
        for bad in ["system:serviceaccount:bad", "system:serviceaccount::x", "x:y", "alice"] {
            assert_eq!(split_service_account(bad), None, "{bad}");
        }
        assert_eq!(split_service_account("system:serviceaccount:a:b:c"), None);
    }

    #[test]
    fn user_info_leaves_empty_fields_out() {
        assert_eq!(User::new("eve", &["a"]).to_json(), json!({"username": "eve", "groups": ["a"]}));
    }
}
