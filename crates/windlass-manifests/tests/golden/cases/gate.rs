//! Unions inside of lists, rules on old values that may be missing, reasons and paths.

use crate::cases::prelude::*;

/// Header is matched.
#[k8s(exactly_one_of(exact, prefix, pattern))]
pub struct Header {
    /// Name of it.
    #[k8s(min_length = 1, max_length = 64)]
    pub name: String,
    /// Exact value.
    pub exact: Option<String>,
    /// Prefix of the value.
    pub prefix: Option<String>,
    /// Pattern of the value.
    pub pattern: Option<String>,
}

/// Limit bounds requests.
#[k8s(at_most_one_of(per_second, per_minute), at_least_one_of(per_second, per_minute, concurrent))]
pub struct Limit {
    pub per_second: Option<i32>,
    pub per_minute: Option<i32>,
    pub concurrent: Option<i32>,
}

/// Redirect sends away.
#[k8s]
pub struct Redirect {
    /// Code of the answer.
    #[k8s(enum = [301, 302, 307, 308], default = 302)]
    pub code: i32,
    /// To where.
    #[k8s(format = "uri")]
    pub to: String,
}

/// Forward sends on.
#[k8s]
pub struct Forward {
    /// Service by name.
    pub service: String,
    /// Weight of it.
    #[k8s(min = 0, max = 100, multiple_of = 5)]
    pub weight: Option<i32>,
}

/// Action is done.
#[k8s]
pub enum Action {
    Redirect(Redirect),
    Forward(Forward),
}

/// Route leads on.
#[k8s]
pub struct Route {
    /// Headers that match.
    #[k8s(max_items = 8)]
    pub headers: Option<Vec<Header>>,
    /// Action that is done.
    pub action: Action,
}

/// GateSpec is wanted.
#[api(
    group = "gate.golden.example.com",
    version = "v1",
    kind = "Gate",
    doc = "Gate lets in.",
    status = GateStatus,
    cel("self.metadata.name.size() < 20", message = "a short name")
)]
#[k8s(
    cel(
        "!oldSelf.hasValue() || self.host == oldSelf.value().host",
        optional_old_self,
        message = "the host stays",
        reason = FieldValueInvalid,
        path = ".host"
    ),
    cel(
        "has(self.tls) || !self.strict",
        message = "strict needs tls",
        reason = FieldValueRequired,
        path = ".tls"
    )
)]
pub struct GateSpec {
    /// Host of it.
    #[k8s(format = "hostname", max_length = 253)]
    pub host: String,
    /// Strict gates need TLS.
    #[k8s(default = false, required)]
    pub strict: bool,
    /// TLS secret.
    pub tls: Option<String>,
    /// Routes of it.
    #[k8s(
        min_items = 1,
        max_items = 16,
        cel(
            "self.filter(r, has(r.action.redirect)).size() <= 1",
            message = "one redirect at most",
            reason = FieldValueDuplicate
        )
    )]
    pub routes: Vec<Route>,
    /// Limit of requests.
    pub limit: Option<Limit>,
    /// Frozen after it is set.
    #[k8s(
        max_length = 10,
        cel("!oldSelf.hasValue() || self == oldSelf.value()", optional_old_self)
    )]
    pub frozen: Option<String>,
    /// Addresses of it.
    #[k8s(max_items = 4, items(format = "ipv4"), list = set)]
    pub addresses: Option<Vec<String>>,
}

/// GateStatus is seen.
#[k8s]
pub struct GateStatus {
    /// Requests so far.
    #[k8s(min = 0)]
    pub requests: Option<i64>,
    /// Ready or not.
    pub ready: Option<bool>,
}

golden!(apart from texts: unions_and_rules_on_old_values, "gate", Gate);
