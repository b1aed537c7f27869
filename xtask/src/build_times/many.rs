//! An operator with forty types, in which the cost of macros shows.

/// How many kinds there are, of four types each.
const KINDS: usize = 10;

/// The line of the reconcile function in front of which a change is made.
pub const LINE: &str = "let Some(object) = cx.object()";

/// What comes before and after the types.
const HEAD: &str = "//! An operator with forty types.

use std::collections::BTreeMap;

use windlass::{Context, Controller, Next, Operator, Result};

";
const TAIL: &str = "
/// Reports what there is.
///
/// # Errors
///
/// Fails if the status cannot be written.
pub async fn reconcile(cx: Context<Kind0>) -> Result<Next> {
    let Some(object) = cx.object() else { return Ok(Next::Done) };
    let ready = object.spec.parts.len() as i32;
    cx.status(|status| status.ready = Some(ready)).await?;
    Ok(Next::Done)
}
";

/// One kind with attributes; `@` is its number.
const ATTRIBUTES: &str = r##"/// A thing of kind @.
#[windlass::api(
    group = "many.example.com",
    version = "v1",
    kind = "Kind@",
    status = Kind@Status,
    column("Size", ".spec.size")
)]
pub struct Kind@Spec {
    /// How many there are.
    #[k8s(min = 1, max = 5)]
    pub size: i32,
    /// What they are called.
    #[k8s(max_length = 63, pattern = "^[a-z]+$")]
    pub name: Option<String>,
    /// What they consist of.
    #[k8s(max_items = 16)]
    pub parts: Vec<Kind@Part>,
    /// How they work.
    pub mode: Option<Kind@Mode>,
}

/// A part.
#[windlass::k8s]
pub struct Kind@Part {
    /// What it is called.
    #[k8s(max_length = 63)]
    pub name: String,
    /// Where it listens.
    #[k8s(min = 1, max = 65535)]
    pub port: i32,
    /// More about it.
    pub labels: Option<BTreeMap<String, String>>,
}

/// How parts work.
#[windlass::k8s]
pub enum Kind@Mode {
    Fast,
    Slow,
}

/// What the operator reports.
#[windlass::k8s(optional)]
#[derive(Default)]
pub struct Kind@Status {
    /// How many are ready.
    pub ready: Option<i32>,
    /// Why they are not.
    pub message: Option<String>,
    /// The generation that was seen.
    pub observed_generation: Option<i64>,
}

"##;

/// The same kind with derives.
const DERIVES: &str = r##"/// A thing of kind @.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema, kube::CustomResource)]
#[kube(
    group = "many.example.com",
    version = "v1",
    kind = "Kind@",
    namespaced,
    status = "Kind@Status",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct Kind@Spec {
    /// How many there are.
    #[schemars(range(min = 1, max = 5))]
    pub size: i32,
    /// What they are called.
    #[schemars(length(max = 63), regex(pattern = "^[a-z]+$"))]
    pub name: Option<String>,
    /// What they consist of.
    #[schemars(length(max = 16))]
    pub parts: Vec<Kind@Part>,
    /// How they work.
    pub mode: Option<Kind@Mode>,
}

/// A part.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kind@Part {
    /// What it is called.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Where it listens.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// More about it.
    pub labels: Option<BTreeMap<String, String>>,
}

/// How parts work.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub enum Kind@Mode {
    Fast,
    Slow,
}

/// What the operator reports.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Kind@Status {
    /// How many are ready.
    pub ready: Option<i32>,
    /// Why they are not.
    pub message: Option<String>,
    /// The generation that was seen.
    pub observed_generation: Option<i64>,
}

"##;

/// The library with attributes.
pub fn attributes() -> String {
    library(ATTRIBUTES)
}

/// The library with derives.
pub fn derives() -> String {
    library(DERIVES)
}

/// The program.
pub fn program() -> String {
    "fn main() -> std::process::ExitCode {\n    memcached_operator::operator().main()\n}\n".into()
}

fn library(kind: &str) -> String {
    let numbers = || (0..KINDS).map(|number| number.to_string());
    let types: String = numbers().map(|number| kind.replace('@', &number)).collect();
    let apis: String =
        numbers().map(|number| format!("\n        .api::<Kind{number}>()")).collect();
    format!(
        "{HEAD}{types}/// The operator.\npub fn operator() -> Operator {{\n    \
         let controller = Controller::<Kind0>::builder(\"kinds\").writes_status().build(reconcile);\n    \
         Operator::new(\"many-operator\"){apis}\n        .controller(controller)\n}}\n{TAIL}"
    )
}
