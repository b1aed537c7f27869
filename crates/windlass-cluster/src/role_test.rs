//! Runs an operator with exactly the rights it declares, and finds those that are missing or never
//! used.

use std::collections::BTreeSet;
use std::fmt;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};
use windlass_apiserver::auth::service_account_name;
use windlass_apiserver::fault::LogEntry;
use windlass_apiserver::{ApiServer, User};
use windlass_manifests::Model;
use windlass_manifests::rbac::Rule;

/// A test of an operator's role on the embedded API server.
///
/// [`install`](Self::install) creates the definitions, the service account, the roles and their
/// bindings; [`client`](Self::client) is for the operator; [`check`](Self::check) says what is wrong
/// after a scenario.
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::{Controller, Next, Operator};
/// use windlass_cluster::RoleTest;
///
/// fn operator() -> Operator {
///     let controller = Controller::<ConfigMap>::builder("maps")
///         .reads::<Secret>()
///         .deletes::<Secret>()
///         .build(|_| async { Ok(Next::Done) });
///     Operator::new("map-operator").controller(controller)
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> windlass::Result<()> {
/// let server = windlass_apiserver::ApiServer::start();
/// let test = RoleTest::install(&server, &operator().model()?).await?;
/// let handle = operator().manager(test.client()).spawn()?;
/// handle.ready().await;
/// handle.stop().await?;
/// let report = test.check().unwrap_err().to_string();
/// assert_eq!(report, "the role allows delete on secrets, which was never used: remove deletes");
/// # Ok(())
/// # }
/// ```
pub struct RoleTest {
    server: ApiServer,
    model: Model,
}

/// What is wrong with a role, one sentence per right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleReport {
    /// Rights that the operator needed and did not have.
    pub missing: Vec<String>,
    /// Rights that the operator had and did not use.
    pub unused: Vec<String>,
}

/// A verb on a resource: what a role allows, and what a request needs.
///
/// ```
/// use windlass_cluster::Right;
///
/// let right = Right { group: "apps".into(), resource: "deployments".into(), verb: "list".into() };
/// assert_eq!(right.target(), "deployments.apps");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, also a subresource such as `pods/status`.
    pub resource: String,
    /// The verb.
    pub verb: String,
}

// === impl RoleTest ===

impl RoleTest {
    /// Installs an operator without its pods, and starts to record requests.
    ///
    /// # Errors
    ///
    /// Fails if the API server refuses an object.
    pub async fn install(server: &ApiServer, model: &Model) -> windlass::Result<Self> {
        let client = server.client();
        let namespaces = model.watched.iter().chain([&model.namespace]);
        let namespaces = namespaces.map(
            |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        let objects = namespaces.chain(model.definitions()).chain(model.access_objects());
        for object in objects.collect::<Vec<_>>() {
            create(&client, object).await?;
        }
        server.request_log().enable();
        Ok(Self { server: server.clone(), model: model.clone() })
    }

    /// Returns a client with the rights of the operator and no others.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as every `kube::Client`.
    pub fn client(&self) -> kube::Client {
        let (namespace, name) = (&self.model.namespace, self.model.manager_name());
        self.server.client_as(User::service_account(namespace, &name))
    }

    /// Checks that no request was forbidden, and that every right was used, except for those that
    /// are declared to be rare.
    ///
    /// # Errors
    ///
    /// Names each right that is missing or was never used.
    pub fn check(&self) -> Result<(), RoleReport> {
        let user = service_account_name(&self.model.namespace, &self.model.manager_name());
        let log = self.server.request_log().entries();
        let log: Vec<&LogEntry> = log.iter().filter(|entry| entry.user == user).collect();
        let mut missing = BTreeSet::new();
        let mut used = Used::default();
        for entry in &log {
            let right = Right::of(entry);
            // An apply that creates the object needs the right to create it.
            let create = Right { verb: "create".into(), ..right.clone() };
            match entry.code {
                403 if !entry.request.is_resource => drop(missing.insert(url_missing(entry))),
                403 if !self.allows(&right, entry) => drop(missing.insert(right.missing())),
                403 if right.verb == "patch" && !self.allows(&create, entry) => {
                    missing.insert(create.missing());
                }
                403 => {}
                201 if right.verb == "patch" => {
                    used.add(create, entry);
                    used.add(right, entry);
                }
                _ => used.add(right, entry),
            }
        }
        let rules = self.model.grants.iter().filter(|grant| !grant.rare).map(|grant| &grant.rule);
        let unused: BTreeSet<String> = rules.flat_map(|rule| used.unused(rule)).collect();
        let report = RoleReport {
            missing: missing.into_iter().collect(),
            unused: unused.into_iter().collect(),
        };
        match report == RoleReport::default() {
            true => Ok(()),
            false => Err(report),
        }
    }

    fn allows(&self, right: &Right, entry: &LogEntry) -> bool {
        let name = &entry.request.name;
        let allows = |rule: &Rule| rule.allows(&right.group, &right.resource, name, &right.verb);
        self.model.roles().iter().flat_map(|role| &role.rules).any(allows)
    }
}

impl fmt::Debug for RoleTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoleTest").field("operator", &self.model.name).finish_non_exhaustive()
    }
}

/// What the requests of a scenario used.
#[derive(Default)]
struct Used {
    rights: BTreeSet<Right>,
    /// The names of the objects.
    named: BTreeSet<(Right, String)>,
    /// The verbs and the paths of what is not a resource.
    urls: BTreeSet<(String, String)>,
}

// === impl Used ===

impl Used {
    fn add(&mut self, right: Right, entry: &LogEntry) {
        let request = &entry.request;
        if !request.is_resource {
            self.urls.insert((request.verb.clone(), request.path.clone()));
            return;
        }
        self.named.insert((right.clone(), request.name.clone()));
        self.rights.insert(right);
    }

    /// Returns one sentence for each right, name and URL of a rule that was not used.
    fn unused(&self, rule: &Rule) -> Vec<String> {
        let mut found = Vec::new();
        for right in Right::all(rule) {
            if !self.rights.contains(&right) {
                found.push(right.unused());
                continue;
            }
            let is_unused =
                |name: &&String| !self.named.contains(&(right.clone(), (*name).clone()));
            found.extend(rule.resource_names.iter().filter(is_unused).map(|name| {
                let (verb, target) = (&right.verb, right.target());
                format!("the role allows {verb} on {target} {name:?}, which was never used: remove the name")
            }));
        }
        for (url, verb) in
            rule.urls.iter().flat_map(|url| rule.verbs.iter().map(move |verb| (url, verb)))
        {
            let covers = |path: &str| match url.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == url,
            };
            if !self.urls.iter().any(|(used, path)| used == verb && covers(path)) {
                found.push(format!(
                    "the role allows {verb} on {url}, which was never used: remove the rule"
                ));
            }
        }
        found
    }
}

fn url_missing(entry: &LogEntry) -> String {
    format!(
        "the role does not allow {} on {}: declare it with Operator::allow",
        entry.request.verb, entry.request.path
    )
}

/// Creates an object; one that exists is left alone.
pub(crate) async fn create(client: &kube::Client, object: Value) -> windlass::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let object = serde_json::from_value(object)?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        created => {
            let _: () = drop(created?);
            Ok(())
        }
    }
}

// === impl Right ===

impl Right {
    /// Returns the right that a request needs.
    pub fn of(entry: &LogEntry) -> Self {
        let request = &entry.request;
        let resource = match request.subresource.as_str() {
            "" => request.resource.clone(),
            subresource => format!("{}/{subresource}", request.resource),
        };
        Self { group: request.group.clone(), resource, verb: request.verb.clone() }
    }

    fn all(rule: &Rule) -> Vec<Self> {
        let mut all = Vec::new();
        for group in &rule.api_groups {
            for resource in &rule.resources {
                for verb in &rule.verbs {
                    let (group, resource, verb) = (group.clone(), resource.clone(), verb.clone());
                    all.push(Self { group, resource, verb });
                }
            }
        }
        all
    }

    /// Returns the resource as kubectl names it, such as `deployments.apps`.
    pub fn target(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }

    fn missing(&self) -> String {
        let declaration = match (self.verb.as_str(), self.resource.contains('/')) {
            ("list" | "watch", false) => "reads, watches or owns",
            ("create" | "patch", false) => "applies, owns or finalizes",
            ("delete", false) => "deletes",
            (_, true) if self.resource.ends_with("/status") => "writes_status",
            _ => "Operator::allow",
        };
        format!(
            "the role does not allow {} on {}: declare it with {declaration}",
            self.verb,
            self.target()
        )
    }

    fn unused(&self) -> String {
        let declaration = match (self.verb.as_str(), self.resource.contains('/')) {
            ("list" | "watch", false) => "the declaration of the kind",
            ("create" | "patch", false) => "applies, owns or finalizes",
            ("delete", false) => "deletes",
            (_, true) if self.resource.ends_with("/status") => "writes_status",
            _ => "the rule",
        };
        format!(
            "the role allows {} on {}, which was never used: remove {declaration}",
            self.verb,
            self.target()
        )
    }
}

// === impl RoleReport ===

impl fmt::Display for RoleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<&str> = self.missing.iter().chain(&self.unused).map(String::as_str).collect();
        f.write_str(&all.join("; "))
    }
}

impl std::error::Error for RoleReport {}
