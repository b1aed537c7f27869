//! The files of webhooks: what completes and checks objects, and what converts them.

/// The admission webhooks of a kind.
pub struct Admission<'a> {
    /// The kind and its version, for people.
    pub what: &'a str,
    /// What `use` imports.
    pub path: &'a str,
    pub kind: &'a str,
    /// The name of the operator.
    pub operator: &'a str,
    pub defaulting: bool,
    pub validation: bool,
}

/// The object that a test creates.
pub enum Sample<'a> {
    /// One in a file of the project, by the path from its root.
    File(&'a str),
    /// A text.
    Text(&'a str),
    /// None is known that the API server accepts.
    None,
}

/// The conversion between the versions of a kind.
pub struct Converted<'a> {
    pub kind: &'a str,
    /// The version that is stored.
    pub stored: &'a str,
    /// The other versions, which are modules.
    pub others: &'a [String],
}

/// The longest chain of several calls that rustfmt leaves on one line.
const CHAIN_MAX: usize = 60;
/// The longest line in a function, without its indentation.
const LINE_MAX: usize = 96;

// === impl Admission ===

impl Admission<'_> {
    pub fn file(&self) -> String {
        let Self { what, path, kind, .. } = self;
        let found = if self.validation { "Findings, " } else { "" };
        let mut imports = [
            format!("use {path};\n"),
            "use windlass::Result;\n".to_owned(),
            format!("use windlass::webhook::{{{found}Request, Webhook}};\n"),
        ];
        imports.sort();
        let imports = imports.concat();
        let default = if self.defaulting { ".default(complete)" } else { "" };
        let validate = if self.validation { ".validate(check)" } else { "" };
        let complete = if self.defaulting { complete(kind, self.operator) } else { String::new() };
        let check = if self.validation { check(kind) } else { String::new() };
        let declaration = declaration(kind, &format!("{default}{validate}"));
        format!("//! The webhooks of {what}.\n\n{imports}{declaration}{complete}{check}")
    }

    /// The test of the webhooks; `path` imports the kind, and `name` starts the names of tests.
    pub fn test(&self, library: &str, path: &str, name: &str, sample: &Sample<'_>) -> String {
        let (kind, what) = (self.kind, self.what);
        let mut imports = vec![
            format!("use {library}::operator;\n"),
            "use windlass_cluster::OperatorTest;\n".to_owned(),
        ];
        let head = format!("//! The webhooks of {what} on an embedded cluster, in virtual time.\n");
        let sample = match sample {
            Sample::File(path) => format!("const SAMPLE: &str = include_str!(\"../{path}\");\n"),
            Sample::Text(text) => format!("const SAMPLE: &str = \"\\\n{text}\";\n"),
            Sample::None => {
                imports.sort();
                let imports = imports.concat();
                let body = "    let test = OperatorTest::start(operator).await?;\n    \
                            test.stop().await\n";
                let test = tokio_test(&format!("webhooks_of_{name}_are_installed"), body);
                return format!("{head}\n{imports}{test}");
            }
        };
        imports.push(format!("use {path};\n"));
        imports.sort();
        let mut text = format!("{head}\n{}\n{sample}", imports.concat());
        if self.defaulting {
            let body = format!(
                "    let test = OperatorTest::start(operator).await?;\n    \
                 let object: {kind} = test.create(SAMPLE).await?;\n    \
                 let labels = object.metadata.labels.unwrap_or_default();\n    \
                 assert_eq!(labels[\"app.kubernetes.io/managed-by\"], \"{}\");\n    \
                 test.stop().await\n",
                self.operator
            );
            text += &tokio_test(&format!("{name}_is_completed"), &body);
        }
        if self.validation {
            let body = format!(
                "    let test = OperatorTest::start(operator).await?;\n    \
                 let mut object: {kind} = test.create(SAMPLE).await?;\n    \
                 object.metadata.name = Some(\"a\".repeat(64));\n    \
                 object.metadata.resource_version = None;\n    \
                 let refused = test.client().api().create(&object).await.unwrap_err();\n    \
                 let status = refused.status().expect(\"the API server answered\");\n    \
                 let expected = \"metadata.name: Too long\";\n    \
                 assert!(status.message.contains(expected), \"{{}}\", status.message);\n    \
                 test.stop().await\n"
            );
            text += &tokio_test(&format!("{name}_with_a_long_name_is_refused"), &body);
        }
        text
    }
}

/// The function that declares the webhooks.
fn declaration(kind: &str, calls: &str) -> String {
    format!(
        r#"
/// The webhooks: what the API server calls before it stores an object.
pub fn webhook() -> Webhook<{kind}> {{
    Webhook::new(){calls}
}}
"#
    )
}

/// The function that completes objects.
fn complete(kind: &str, operator: &str) -> String {
    format!(
        r#"
/// Fills in what an object leaves open. It may be called more than once for a request.
///
/// # Errors
///
/// An error denies the request.
pub async fn complete(request: Request<{kind}>) -> Result<{kind}> {{
    let mut object = request.object;
    // An example: replace it with what the kind needs. A constant needs no webhook: declare it with
    // `#[k8s(default = ..)]` at the field.
    let labels = object.metadata.labels.get_or_insert_default();
    labels
        .entry("app.kubernetes.io/managed-by".into())
        .or_insert("{operator}".into());
    Ok(object)
}}
"#
    )
}

/// The function that checks objects.
fn check(kind: &str) -> String {
    format!(
        r#"
/// Finds what is wrong with an object that is created or updated.
///
/// # Errors
///
/// An error denies the request, as findings do.
pub async fn check(request: Request<{kind}>) -> Result<Findings> {{
    let mut found = Findings::new();
    // An example: replace it with what the kind needs. What a schema can express needs no webhook:
    // declare it with `#[k8s(..)]` at the field.
    if request.name.len() > 63 {{
        found.too_long("metadata.name", 63);
    }}
    Ok(found)
}}
"#
    )
}

// === impl Converted ===

impl Converted<'_> {
    pub fn file(&self) -> String {
        let Self { kind, stored, others } = self;
        let versions = others.iter().map(|one| format!(".version::<{one}::{kind}>(Fields::new())"));
        let versions: Vec<String> = versions.collect();
        let one_line = format!("Conversion::new(){}", versions.concat());
        let long = one_line.len() > if others.len() > 1 { CHAIN_MAX } else { LINE_MAX };
        let chain = match long {
            true => format!("Conversion::new()\n        {}", versions.join("\n        ")),
            false => one_line,
        };
        let mut imports = others.to_vec();
        imports.sort();
        let imports = format!("use super::{{{kind}, {}}};", imports.join(", "));
        format!(
            r#"//! The conversion of {kind} between its versions.

{imports}
use windlass::conversion::{{Conversion, Fields}};

/// The conversion: {stored} is stored, and every other version is converted to it and from it.
///
/// Fields at the same path are carried over, and what a version cannot express is kept in an
/// annotation. Declare a field with another path or another form with `Fields::new().moved(..)` or
/// `.changed(..)`.
pub fn conversion() -> Conversion<{kind}> {{
    {chain}
}}
"#
        )
    }

    /// The test of the conversion of a kind in a module, with the sample of the stored version.
    pub fn test(&self, library: &str, module: &str, sample: &str) -> String {
        let Self { kind, others, .. } = self;
        let mut versions = others.to_vec();
        versions.sort();
        let mut imports = [
            format!("use {library}::operator;\n"),
            format!("use {library}::{module}::conversion::conversion;\n"),
            format!("use {library}::{module}::{{{kind}, {}}};\n", versions.join(", ")),
            "use windlass::Key;\n".to_owned(),
            "use windlass_cluster::OperatorTest;\n".to_owned(),
        ];
        imports.sort();
        let mut body = format!(
            "    let test = OperatorTest::start(operator).await?;\n    \
             let object: {kind} = test.create(SAMPLE).await?;\n    \
             let (client, key) = (test.client(), Key::of(&object));\n"
        );
        for version in *others {
            body += &format!(
                "    let api = client.api::<{version}::{kind}>();\n    \
                 let found = api.get(&key).await?;\n    \
                 assert!(found.is_some(), \"it is read as {version}\");\n"
            );
        }
        body += "    test.stop().await\n";
        let served = tokio_test(&format!("{module}_is_read_in_every_version"), &body);
        format!(
            "//! The conversion of {kind} between its versions, on an embedded cluster.\n\n\
             {}\n\
             const SAMPLE: &str = include_str!(\"../{sample}\");\n\
             \n\
             #[test]\n\
             fn {module}_survives_a_conversion_and_back() {{\n    \
             conversion().assert_round_trip();\n\
             }}\n{served}",
            imports.concat()
        )
    }
}

/// A test in virtual time.
fn tokio_test(name: &str, body: &str) -> String {
    format!(
        "\n#[tokio::test(start_paused = true)]\n\
         async fn {name}() -> windlass::Result<()> {{\n{body}}}\n"
    )
}

/// A small object of a built-in kind that the API server accepts, also a second time.
pub fn built_in_sample(version: &str, kind: &str) -> Option<String> {
    let pod = |indent: &str| {
        format!(
            "{indent}containers:\n{indent}- name: main\n{indent}  image: registry.k8s.io/pause:3.10\n"
        )
    };
    let (version, spec) = match (version, kind) {
        ("v1", "Pod") => ("v1", format!("spec:\n{}", pod("  "))),
        ("v1", "ConfigMap" | "Secret" | "ServiceAccount") => ("v1", String::new()),
        ("apps/v1", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => (
            "apps/v1",
            format!(
                "spec:\n  selector:\n    matchLabels:\n      app: sample\n  template:\n    \
                 metadata:\n      labels:\n        app: sample\n    spec:\n{}",
                pod("      ")
            ),
        ),
        _ => return None,
    };
    Some(format!("apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: sample\n{spec}"))
}
