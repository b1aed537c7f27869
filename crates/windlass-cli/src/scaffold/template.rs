//! The files that a project starts with. They belong to the author.

pub mod webhook;

/// The versions of the crates that a project depends on, as in the workspace of windlass.
pub const K8S_OPENAPI: &str = "0.29";
const TOKIO: &str = "1.54";

/// A new project.
pub struct Project<'a> {
    pub name: &'a str,
    pub domain: &'a str,
    pub repository: Option<&'a str>,
    /// Where the crates of windlass are, as a path in Cargo.toml.
    pub crates: &'a str,
    /// Whether a workspace has the profiles.
    pub member: bool,
}

/// A version of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: Option<String>,
    pub cluster_scoped: bool,
    /// Whether another version is the one that is stored.
    pub further: bool,
}

/// What a controller reconciles.
pub struct Reconciled<'a> {
    /// The name of the controller.
    pub name: &'a str,
    /// The kind and its version, for people.
    pub what: &'a str,
    /// What `use` imports.
    pub path: &'a str,
    pub kind: &'a str,
}

// === impl Project ===

impl Project<'_> {
    pub fn manifest(&self) -> String {
        let Self { name, domain, crates, .. } = self;
        let rust_version = env!("CARGO_PKG_RUST_VERSION");
        let repository = self.repository.map(|url| format!("repository = \"{url}\"\n"));
        let repository = repository.unwrap_or_default();
        let profile = if self.member { "" } else { PROFILE };
        format!(
            r#"[package]
name = "{name}"
description = "A Kubernetes operator"
version = "0.1.0"
edition = "2024"
rust-version = "{rust_version}"
license = "Apache-2.0"
{repository}publish = false

# The end of the groups that `windlass create api` adds.
[package.metadata.windlass]
domain = "{domain}"

[dependencies]
k8s-openapi = {{ version = "{K8S_OPENAPI}", features = ["v1_36"] }}
windlass = {{ path = "{crates}/windlass" }}

[dev-dependencies]
tokio = {{ version = "{TOKIO}", features = ["macros", "rt", "test-util"] }}
windlass-cluster = {{ path = "{crates}/windlass-cluster" }}
{profile}"#
        )
    }

    pub fn library(&self) -> String {
        let name = self.name;
        format!(
            r#"//! The operator {name}: its kinds and their controllers.

use windlass::Operator;

/// The operator. `windlass create` adds kinds, controllers and webhooks to this expression.
pub fn operator() -> Operator {{
    Operator::new("{name}") // the names of its objects in a cluster start with this
        .version(env!("CARGO_PKG_VERSION"))
}}
"#
        )
    }

    pub fn program(&self) -> String {
        let library = self.name.replace('-', "_");
        format!(
            r#"//! The program: runs the operator, and writes what installs it; see `--help`.

fn main() -> std::process::ExitCode {{
    {library}::operator().main()
}}
"#
        )
    }

    pub fn makefile(&self) -> String {
        format!(
            "# The verbs of the tutorials. Each is one command, which you can also type.\n\
             WINDLASS ?= windlass\n\
             IMG ?= {}:latest\n\
             # The cluster, such as --context kind-kind; the embedded one if it is empty.\n\
             CLUSTER ?=\n\
             \n\
             .PHONY: build manifests generate test install uninstall run dev deploy undeploy docker-build\n\
             \n\
             build:\n\
             \tcargo build\n\
             \n\
             manifests:\n\
             \t$(WINDLASS) manifests --image $(IMG)\n\
             \n\
             generate: build # the compiler generates what controller-gen generates for Go\n\
             \n\
             test:\n\
             \tcargo test\n\
             \n\
             install:\n\
             \t$(WINDLASS) install $(CLUSTER)\n\
             \n\
             uninstall:\n\
             \t$(WINDLASS) uninstall $(CLUSTER)\n\
             \n\
             run:\n\
             \t$(WINDLASS) run $(CLUSTER)\n\
             \n\
             dev:\n\
             \t$(WINDLASS) dev\n\
             \n\
             deploy:\n\
             \t$(WINDLASS) deploy --image $(IMG) $(CLUSTER)\n\
             \n\
             undeploy:\n\
             \t$(WINDLASS) undeploy $(CLUSTER)\n\
             \n\
             # The build sees this directory only: copy the crates of windlass into it, and let the\n\
             # paths in Cargo.toml lead there.\n\
             docker-build: manifests\n\
             \tdocker build --tag $(IMG) .\n",
            self.name
        )
    }
}

/// What git does not keep.
pub const GITIGNORE: &str = "/target\n";

const PROFILE: &str = r#"
# Full debug information multiplies the size of target/; line tables keep the lines of a backtrace.
[profile.dev]
debug = "line-tables-only"

# Without optimized dependencies, tests on the embedded cluster take nine times as long. The crates named
# here take longest to optimize, and gain least from it.
[profile.dev.package]
"*".opt-level = 1
k8s-openapi.opt-level = 0
syn.opt-level = 0
windlass.opt-level = 0
windlass-cluster.opt-level = 0
"#;

// === impl Kind ===

impl Kind {
    /// The name of its objects in lower case.
    pub fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// The group and version, as in YAML.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// The path of the sample; `manifests` uses the same.
    pub fn sample_path(&self) -> String {
        format!("config/samples/{}_{}_{}.yaml", self.group, self.version, self.singular())
    }

    pub fn sample(&self) -> String {
        format!(
            "apiVersion: {}\nkind: {}\nmetadata:\n  name: {}-sample\nspec:\n  message: hello\n",
            self.api_version(),
            self.kind,
            self.singular()
        )
    }

    /// The file with the types, and with a controller if it has a name.
    pub fn file(&self, controller: Option<&str>) -> String {
        let (kind, api_version) = (&self.kind, self.api_version());
        let (and, imports) = match controller {
            Some(_) => (" and its controller", "Context, Controller, Next, Result, api, k8s"),
            None => ("", "api, k8s"),
        };
        let head = format!(
            "//! The kind {kind} ({api_version}){and}.\n\
             \n\
             use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;\n\
             use windlass::{{{imports}}};\n"
        );
        let controller = controller.map(|name| {
            let body = "\n    let text = &object.spec.message;\n    \
                        cx.status(|status| status.message.clone_from(text)).await?;";
            controller_code(name, kind, ".conditions()", body)
        });
        format!("{head}{}{}", self.types(), controller.unwrap_or_default())
    }

    fn types(&self) -> String {
        let Self { group, version, kind, .. } = self;
        let mut more = String::new();
        if let Some(plural) = &self.plural {
            more += &format!("    plural = \"{plural}\",\n");
        }
        if self.cluster_scoped {
            more += "    scope = Cluster,\n";
        }
        if self.further {
            more += "    storage = false,\n";
        }
        format!(
            r#"
/// {kind} is a kind of this operator: this text is its description in `kubectl explain`.
#[api(
    group = "{group}",
    version = "{version}",
    kind = "{kind}",
{more}    status = {kind}Status,
    column("Message", ".spec.message"),
    column("Ready", ".status.conditions[?(@.type==\"Ready\")].status"),
    column("Age", ".metadata.creationTimestamp"),
)]
pub struct {kind}Spec {{
    /// An example of a field: replace it with what the kind needs.
    #[k8s(default = "hello", max_length = 256)]
    pub message: String,
}}

/// What the operator reports.
#[k8s]
#[derive(Default)]
pub struct {kind}Status {{
    /// The generation of the object that the conditions are about.
    pub observed_generation: Option<i64>,
    /// The message that was last reconciled: replace it, too.
    #[k8s(optional)]
    pub message: String,
    /// `Ready` is true after a reconcile that succeeded.
    #[k8s(optional, list = map("type"))]
    pub conditions: Vec<Condition>,
}}
"#
        )
    }

    /// The test of the kind; `module` is the path of its module in the library.
    pub fn test(&self, library: &str, module: &str, controlled: bool) -> String {
        let (kind, version, sample) = (&self.kind, &self.version, self.sample_path());
        let name = module.replace("::", "_").trim_start_matches("r#").to_owned();
        let (what, windlass, end, body) = match controlled {
            true => (
                format!("The controller of {kind}"),
                "use windlass::{Key, condition};\n",
                "becomes_ready",
                format!(
                    "    let ready = |found: &{kind}| {{\n        \
                     let status = found.status.clone().unwrap_or_default();\n        \
                     condition::is_true(&status.conditions, \"Ready\")\n    \
                     }};\n    \
                     let key = Key::of(&object);\n    \
                     test.until(\"the condition Ready\", &key, ready).await?;\n"
                ),
            ),
            false => (
                format!("The kind {kind} in version {version}"),
                "use windlass::Key;\n",
                "is_served",
                format!(
                    "    let api = test.client().api::<{kind}>();\n    \
                     let found = api.get(&Key::of(&object)).await?;\n    \
                     assert!(found.is_some(), \"it is stored\");\n"
                ),
            ),
        };
        format!(
            "//! {what} on an embedded cluster, in virtual time.\n\
             \n\
             use {library}::{module}::{kind};\n\
             use {library}::operator;\n\
             {windlass}\
             use windlass_cluster::OperatorTest;\n\
             \n\
             const SAMPLE: &str = include_str!(\"../{sample}\");\n\
             \n\
             #[tokio::test(start_paused = true)]\n\
             async fn {name}_{end}() -> windlass::Result<()> {{\n    \
             // The operator has the rights of its role and no others.\n    \
             let test = OperatorTest::start(operator).await?;\n    \
             let object: {kind} = test.create(SAMPLE).await?;\n\
             {body}    \
             test.stop().await\n\
             }}\n"
        )
    }
}

// === impl Reconciled ===

impl Reconciled<'_> {
    /// The file with the controller of a kind that is defined elsewhere.
    pub fn file(&self) -> String {
        let Self { name, what, path, kind } = self;
        // `crate::` comes before `windlass`, as every crate from `a` to `v` does.
        let windlass = "use windlass::{Context, Controller, Next, Result};";
        let import = format!("use {path};");
        let (first, second) =
            if *path < "windlass" { (&*import, windlass) } else { (windlass, &*import) };
        let body = "\n    if object.metadata.deletion_timestamp.is_some() {\n        \
                    return Ok(Next::Done);\n    }";
        let code = controller_code(name, kind, "", body);
        format!("//! The controller {name} of {what}.\n\n{first}\n{second}\n{code}")
    }

    /// The test of the controller.
    pub fn test(&self, library: &str, module: &str) -> String {
        let Self { name, what, .. } = self;
        format!(
            "//! The controller {name} of {what} on an embedded cluster, in virtual time.\n\
             \n\
             use {library}::operator;\n\
             use windlass_cluster::OperatorTest;\n\
             \n\
             #[tokio::test(start_paused = true)]\n\
             async fn {module}_starts() -> windlass::Result<()> {{\n    \
             // The operator has the rights of its role and no others; it starts once all caches are\n    \
             // filled.\n    \
             let test = OperatorTest::start(operator).await?;\n    \
             test.stop().await\n\
             }}\n"
        )
    }
}

fn controller_code(name: &str, kind: &str, settings: &str, body: &str) -> String {
    let one_line = format!("Controller::builder(\"{name}\"){settings}.build(reconcile)");
    // The width at which rustfmt breaks a chain of calls.
    let builder = match one_line.len() > 60 {
        false => one_line,
        true => one_line.replacen(").conditions", ")\n        .conditions", 1).replacen(
            ").build",
            ")\n        .build",
            1,
        ),
    };
    format!(
        r#"
/// The controller: what leads to a reconcile, and what a reconcile may do.
pub fn controller() -> Controller<{kind}> {{
    {builder}
}}

/// Brings the cluster to what one {kind} asks for.
///
/// # Errors
///
/// Fails if the API server refuses a request; then the object is reconciled again, later each time.
pub async fn reconcile(cx: Context<{kind}>) -> Result<Next> {{
    let Some(object) = cx.object() else {{
        return Ok(Next::Done); // it was deleted
    }};{body}

    // Create what the object asks for, such as a Deployment, with `cx.apply(&deployment).await?`,
    // and declare it in `controller` with `.owns::<Deployment>()`: then the role allows it, and its
    // changes lead to a reconcile.
    Ok(Next::Done)
}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_dependencies_are_those_of_the_workspace() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        let text = std::fs::read_to_string(path).expect("the workspace has a manifest");
        assert!(text.contains(&format!("\nk8s-openapi = \"{K8S_OPENAPI}\"\n")));
        assert!(text.contains(&format!("\ntokio = {{ version = \"{TOKIO}\"")));
    }
}
