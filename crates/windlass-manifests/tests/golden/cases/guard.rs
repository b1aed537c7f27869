//! Rules on types, fields, items, maps and whole objects; fields with names that CEL escapes; kinds without a spec.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::cases::prelude::*;

/// Labels are few.
#[k8s(max_properties = 8, cel("self.all(k, k.startsWith('x-'))", message = "keys begin with x-"))]
pub struct Labels(pub BTreeMap<String, String>);

/// Host is a name.
#[k8s(max_length = 253, format = "hostname")]
pub struct Host(pub String);

/// Hosts are several.
#[k8s(
    list = set,
    max_items = 4,
    items(
        min_length = 3,
        cel("self != 'localhost'", message = "not local", reason = FieldValueInvalid)
    )
)]
pub struct Hosts(pub Vec<Host>);

/// From says where.
#[k8s(exactly_one_of(all, same, selector), at_least_one_of(all, same, selector))]
pub struct From {
    pub all: Option<bool>,
    pub same: Option<bool>,
    pub selector: Option<LabelSelector>,
}

/// Rule of a guard.
#[k8s(cel(
    "has(self.from) || has(self.hosts)",
    message = "from or hosts",
    path = ".from",
    reason = FieldValueRequired
))]
pub struct Rule {
    #[k8s(immutable)]
    pub id: String,
    #[k8s(optional)]
    pub from: Vec<From>,
    pub hosts: Option<Hosts>,
    #[k8s(max_items = 2)]
    pub backup: Option<Hosts>,
    #[k8s(
        cel("self.size() < 5", message_expression = "'a' in self ? 'not a' : 'too many'"),
        max_properties = 6
    )]
    pub labels: Option<Labels>,
    #[k8s(max_length = 20, pattern = "^[a-z.]+$")]
    pub host: Option<Host>,
}

/// GuardSpec is wanted.
#[api(
    group = "guard.adv.example.com",
    version = "v1",
    kind = "Guard",
    doc = "Guard guards.",
    plural = "guardz",
    cel("self.metadata.name.size() < 40", message = "name is too long"),
    column("Rules", ".spec.min"),
    column("First", ".spec.rules[0].id"),
    column("Note", r".metadata.annotations.example\.com/note")
)]
#[k8s(
    cel("!has(self.__namespace__) || self.__namespace__ != 'kube-system'", message = "not there"),
    cel("self.max__underscores__size >= self.min-1", message = "odd names")
)]
pub struct GuardSpec {
    #[k8s(list = map("id"), max_items = 16)]
    pub rules: Vec<Rule>,
    pub namespace: Option<String>,
    #[k8s(immutable)]
    pub owner: Option<From>,
    #[k8s(optional, immutable, max_items = 3)]
    pub tags: Vec<String>,
    #[k8s(optional)]
    pub min: i32,
    #[k8s(required, default = 5)]
    #[serde(rename = "max__size")]
    pub max_size: i32,
    #[serde(rename = "x-dashed")]
    pub dashed: Option<String>,
    pub r#type: Option<String>,
    #[serde(rename = "snake_case")]
    pub snake: Option<String>,
    pub http_port: Option<i32>,
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    #[k8s(cel("self.matches('^a')"))]
    pub prefix: Option<String>,
    #[k8s(format = "date-time")]
    pub when: Option<String>,
    #[k8s(format = "k8s-short-name")]
    pub short: Option<String>,
    #[k8s(format = "ipv4")]
    pub ip: Option<String>,
}

/// FlatKind has no spec.
#[api(
    group = "guard.adv.example.com",
    version = "v1",
    kind = "FlatKind",
    scope = Cluster,
    flat
)]
pub struct FlatKindFields {
    /// Provider of it.
    pub provider: String,
    #[k8s(default = { mode: "fast" })]
    pub parameters: BTreeMap<String, String>,
    pub template: Option<PodTemplateSpec>,
}

/// EmptySpec has nothing.
#[api(
    group = "guard.adv.example.com",
    version = "v1",
    kind = "Empty",
    doc = "Empty has an empty spec.",
    optional_spec,
    status = EmptyStatus,
    status_default = { phase: "New" }
)]
#[derive(Default)]
pub struct EmptySpec {}

/// EmptyStatus has little.
#[k8s]
pub struct EmptyStatus {
    #[k8s(default = "New")]
    pub phase: String,
}

// A real server refuses what controller-gen makes of Guard: it does not see the bounds of a map inside of
// `allOf`, so that a rule for all keys may cost too much.
golden!(apart from texts: guards, "rejected-guard", Guard, FlatKind, Empty);
