//! Defaults of structs, of lists of structs and of the spec itself.

use crate::cases::prelude::*;

/// Severity of a finding.
#[k8s]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Low,
    Medium,
    High,
}

/// Window of time.
#[k8s(cel(
    "!has(self.start) || !has(self.end) || self.start <= self.end",
    message = "ends before it starts"
))]
pub struct Window {
    /// Start hour.
    #[k8s(default = 0, min = 0, max = 23)]
    pub start: i32,
    /// End hour.
    #[k8s(default = 23, min = 0, max = 23)]
    pub end: i32,
    /// Days of the week.
    #[k8s(
        default = ["mon", "tue"],
        items(enum = ["mon", "tue", "wed", "thu", "fri"]),
        list = set
    )]
    pub days: Vec<String>,
}

/// Notify somebody.
#[k8s]
pub struct Notify {
    /// Enabled or not.
    #[k8s(default = true)]
    pub enabled: bool,
    /// Channel to use.
    #[k8s(default = "mail", example = "chat")]
    pub channel: String,
    /// From which severity.
    #[k8s(default = Severity::Medium)]
    pub from: Severity,
}

/// Rule of a policy.
#[k8s]
pub struct Rule {
    /// ID of it.
    #[k8s(pattern = "^R[0-9]{3}$")]
    pub id: String,
    /// Severity of it.
    #[k8s(default = Severity::Low)]
    pub severity: Severity,
    /// Weight of it.
    #[k8s(nullable)]
    pub weight: Option<i64>,
    /// Notify somebody.
    #[k8s(default = { channel: "chat", from: "high" })]
    pub notify: Notify,
}

/// Extra fields.
#[k8s]
pub struct Extra {
    /// Note of it.
    #[k8s(max_length = 100)]
    pub note: Option<String>,
    /// Owner of it.
    pub owner: String,
}

/// PolicySpec is wanted.
#[api(
    group = "policy.golden.example.com",
    version = "v1",
    kind = "Policy",
    plural = "securitypolicies",
    singular = "securitypolicy",
    short = "secpol",
    doc = "Policy is followed.",
    spec_default = { owner: "nobody", version: 2 }
)]
pub struct PolicySpec {
    /// Window of checks.
    #[k8s(default = {})]
    pub window: Window,
    /// Rules to check.
    #[k8s(default = [{ id: "R001" }, { id: "R002", severity: "high" }], list = map("id"))]
    pub rules: Vec<Rule>,
    /// Severities that stop.
    #[k8s(default = ["high"], max_items = 3)]
    pub stops: Vec<Severity>,
    /// Labels of findings.
    #[k8s(default = { team: "security" }, min_properties = 1)]
    pub labels: BTreeMap<String, String>,
    /// Level by area.
    pub levels: Option<BTreeMap<String, Severity>>,
    /// Retention in days.
    #[k8s(default = 30, min = 1, format = none)]
    pub retention: u8,
    /// Threshold of findings.
    #[k8s(default = "0.75")]
    pub threshold: String,
    /// Version of it.
    #[k8s(default = 1, enum = [1, 2], required)]
    pub version: i64,
    #[serde(flatten)]
    pub extra: Extra,
}

golden!(defaults_of_structs_of_lists_and_of_the_spec, "policy", Policy);

#[test]
fn an_object_without_a_spec_is_read_with_the_default_of_the_spec() {
    let read: Policy = serde_json::from_str(r#"{"metadata": {"name": "a"}}"#).unwrap();
    assert_eq!((&*read.spec.extra.owner, read.spec.version), ("nobody", 2));
    assert_eq!(read.spec.retention, 30);
}
