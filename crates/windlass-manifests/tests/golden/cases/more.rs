//! Types of types, embedded structs, bytes and durations together.

use k8s_openapi::api::core::v1::SecretKeySelector;

use crate::cases::prelude::*;

/// Name is a short name.
#[k8s(max_length = 20, pattern = "^[a-z]+$")]
pub struct Name(pub String);

/// Nick is a shorter one.
#[k8s]
pub struct Nick(pub Name);

/// Percent is a share.
#[k8s(min = 0, max = 100)]
pub struct Percent(pub i32);

/// Names are several.
#[k8s(max_items = 4, list = set)]
pub struct Names(pub Vec<Name>);

/// Base is shared.
#[k8s(cel("!has(self.alias) || self.alias != 'x'", message = "x is taken"))]
pub struct Base {
    /// Alias is another name.
    pub alias: Option<Name>,
    /// Share of the whole.
    #[k8s(required, default = 50)]
    pub share: Option<Percent>,
}

/// AlphaSpec is wanted.
#[api(
    group = "more.golden.example.com",
    version = "v1",
    kind = "Alpha",
    doc = "Alpha embeds a struct.",
    scope = Cluster,
    short = ["al", "alp"]
)]
pub struct AlphaSpec {
    #[serde(flatten)]
    pub base: Base,
    /// Nick of it.
    pub nick: Nick,
    /// Names of it.
    pub names: Option<Names>,
    /// Shares by name.
    #[k8s(max_properties = 3)]
    pub shares: Option<BTreeMap<String, Percent>>,
    /// Matrix of numbers.
    #[k8s(max_items = 2, items(max_items = 3))]
    pub matrix: Option<Vec<Vec<i32>>>,
    /// Groups of names.
    pub groups: Option<BTreeMap<String, Vec<Name>>>,
}

/// Step does something.
#[k8s]
pub struct Step {
    /// Name of the step.
    pub name: String,
    /// Timeout of the step.
    #[k8s(default = "30s")]
    pub timeout: Option<std::time::Duration>,
    /// Config of the step.
    pub config: Option<RawExtension>,
    /// Value of any type.
    pub value: Option<Value>,
}

/// BetaSpec is wanted.
#[api(
    group = "more.golden.example.com",
    version = "v1",
    kind = "Beta",
    doc = "Beta has steps.",
    status = BetaStatus,
    optional_spec,
    column("Steps", ".status.count", description = "How many"),
    cel("self.metadata.name != 'none'", message = "none is no name")
)]
#[derive(Default)]
pub struct BetaSpec {
    /// Steps in their order.
    #[k8s(list = map("name"), min_items = 1, default = [{ name: "first" }])]
    pub steps: Option<Vec<Step>>,
    /// Port by number or name.
    #[k8s(default = 80)]
    pub port: Option<IntOrString>,
    /// Limit of memory.
    #[k8s(default = "1Gi")]
    pub limit: Option<Quantity>,
    /// Secret with the password.
    pub secret: Option<SecretKeySelector>,
    /// Selector of pods.
    pub selector: Option<LabelSelector>,
    /// Payload in bytes.
    pub payload: Option<Vec<u8>>,
    /// Files by name.
    pub files: Option<BTreeMap<String, Bytes>>,
    /// Note, or null.
    #[k8s(nullable)]
    pub note: Option<String>,
    /// Frozen once it is set.
    #[k8s(cel("self == oldSelf", message = "frozen", reason = FieldValueForbidden))]
    pub frozen: Option<String>,
}

/// BetaStatus is seen.
#[k8s]
pub struct BetaStatus {
    /// Count of steps.
    pub count: Option<i64>,
    /// Since when.
    pub since: Option<Time>,
    #[k8s(list = map("type"))]
    pub conditions: Option<Vec<Condition>>,
}

/// GammaSpec has sources.
#[api(
    group = "more.golden.example.com",
    version = "v1",
    kind = "Gamma",
    doc = "Gamma has sources.",
    label("team", "core"),
    annotation("docs", "here")
)]
#[k8s(map = atomic)]
pub struct GammaSpec {
    /// File to read.
    pub file: Option<FileSource>,
    /// HTTP to fetch.
    pub http: Option<HttpSource>,
    /// Mode of access.
    #[k8s(enum = ["ReadOnly", "ReadWrite"], default = "ReadOnly")]
    pub mode: String,
}

/// FileSource reads a file.
#[k8s]
pub struct FileSource {
    #[k8s(min_length = 1, example = "/etc/hosts")]
    pub path: String,
}

/// HTTPSource fetches a page.
#[k8s]
pub struct HttpSource {
    #[k8s(format = "uri", title = "Address")]
    pub url: String,
    #[k8s(items(min = 100, max = 599), list = set)]
    pub codes: Option<Vec<i32>>,
    #[k8s(map = atomic)]
    pub headers: Option<BTreeMap<String, String>>,
}

golden!(apart from texts: types_of_types_and_embedded_structs, "more", Alpha, Beta, Gamma);
