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
use windlass_manifests::rbac::{Reach, Rule};

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

/// A verb on a resource or on a URL: what a role allows, and what a request needs.
///
/// ```
/// use windlass_cluster::Right;
///
/// let all = Right {
///     group: "apps".into(),
///     resource: "deployments".into(),
///     verb: "get".into(),
///     ..Right::default()
/// };
/// assert_eq!(all.target(), "deployments.apps");
/// let one = Right { namespace: "shop".into(), name: "web".into(), ..all.clone() };
/// assert!(all.covers(&one) && !one.covers(&all));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, also a subresource such as `pods/status`, or a path such as `/metrics`.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The namespace; empty for all of them, and for what belongs to none.
    pub namespace: String,
    /// The name of the object; empty for all of them.
    pub name: String,
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
    /// are declared to be rare. A right for named objects has to be used for each of them, and one in
    /// several namespaces in each of them.
    ///
    /// # Errors
    ///
    /// Names each right that is missing or was never used.
    pub fn check(&self) -> Result<(), RoleReport> {
        let user = service_account_name(&self.model.namespace, &self.model.manager_name());
        let log = self.server.request_log().entries();
        let granted = self.granted();
        let allows = |right: &Right| granted.iter().any(|granted| granted.covers(right));
        let (mut used, mut missing) = (BTreeSet::new(), BTreeSet::new());
        for entry in log.iter().filter(|entry| entry.user == user) {
            let right = Right::of(entry);
            // An apply that creates the object needs the right to create it.
            let create = Right { verb: "create".into(), ..right.clone() };
            match entry.code {
                403 if !allows(&right) => drop(missing.insert(right.wider(&granted))),
                403 if right.verb == "patch" && !allows(&create) => {
                    missing.insert(create.wider(&granted));
                }
                403 => {}
                201 if right.verb == "patch" => used.extend([right, create]),
                _ => drop(used.insert(right)),
            }
        }
        let expected = self.expected();
        let unused = expected.iter().filter(|right| !used.iter().any(|used| right.covers(used)));
        let report = RoleReport {
            missing: missing.iter().map(Right::missing).collect(),
            unused: unused.map(Right::unused).collect(),
        };
        match report == RoleReport::default() {
            true => Ok(()),
            false => Err(report),
        }
    }

    /// The rights of all roles.
    fn granted(&self) -> Vec<Right> {
        let roles = self.model.roles().into_iter();
        let rights = roles.flat_map(|role| {
            let namespace = role.namespace.unwrap_or_default();
            let rights = role.rules.iter().flat_map(Right::all).collect::<Vec<_>>();
            rights.into_iter().map(move |right| Right { namespace: namespace.clone(), ..right })
        });
        rights.collect()
    }

    /// The rights that a scenario has to use.
    fn expected(&self) -> BTreeSet<Right> {
        let mut expected = BTreeSet::new();
        for grant in self.model.grants.iter().filter(|grant| !grant.rare) {
            let everywhere = vec![String::new()];
            let namespaces = match &grant.reach {
                Reach::Watched if !self.model.watched.is_empty() => self.model.watched.clone(),
                Reach::Watched | Reach::Cluster => everywhere,
                Reach::Home => vec![self.model.namespace.clone()],
                Reach::Namespace(namespace) => vec![namespace.clone()],
            };
            for namespace in namespaces {
                let rights = Right::all(&grant.rule).into_iter();
                expected
                    .extend(rights.map(|right| Right { namespace: namespace.clone(), ..right }));
            }
        }
        expected
    }
}

impl fmt::Debug for RoleTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoleTest").field("operator", &self.model.name).finish_non_exhaustive()
    }
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
            _ if !request.is_resource => request.path.clone(),
            "" => request.resource.clone(),
            subresource => format!("{}/{subresource}", request.resource),
        };
        Self {
            group: request.group.clone(),
            resource,
            verb: request.verb.clone(),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
        }
    }

    /// Returns `true` if who has this right also has another one.
    pub fn covers(&self, other: &Self) -> bool {
        let one = |own: &str, other: &str| own == other || own == "*";
        let resource = match self.resource.strip_suffix('*') {
            Some(start) if start.starts_with('/') => other.resource.starts_with(start),
            _ => one(&self.resource, &other.resource) && self.is_url() == other.is_url(),
        };
        resource
            && one(&self.verb, &other.verb)
            && one(&self.group, &other.group)
            && (self.name.is_empty() || self.name == other.name)
            && (self.namespace.is_empty() || self.namespace == other.namespace)
    }

    fn is_url(&self) -> bool {
        self.resource.starts_with('/')
    }

    /// A missing right as it is reported: without the name and the namespace, unless the roles have
    /// the right for others.
    fn wider(self, granted: &[Self]) -> Self {
        let everywhere = Self { name: String::new(), namespace: String::new(), ..self.clone() };
        let others = |granted: &&Self| {
            let all = Self { name: String::new(), namespace: String::new(), ..(*granted).clone() };
            all.covers(&everywhere)
        };
        let mut right = everywhere.clone();
        for other in granted.iter().filter(others) {
            if !other.namespace.is_empty() && other.namespace != self.namespace {
                right.namespace.clone_from(&self.namespace);
            } else if !other.name.is_empty() {
                right.name.clone_from(&self.name);
            }
        }
        right
    }

    fn all(rule: &Rule) -> Vec<Self> {
        let mut all = Vec::new();
        let none = [String::new()].into();
        let names = if rule.resource_names.is_empty() { &none } else { &rule.resource_names };
        for verb in &rule.verbs {
            for group in &rule.api_groups {
                for resource in &rule.resources {
                    for name in names {
                        all.push(Self {
                            group: group.clone(),
                            resource: resource.clone(),
                            verb: verb.clone(),
                            name: name.clone(),
                            ..Self::default()
                        });
                    }
                }
            }
            let urls = rule.urls.iter().cloned();
            all.extend(urls.map(|url| Self {
                resource: url,
                verb: verb.clone(),
                ..Self::default()
            }));
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

    /// The resource, the object and the namespace.
    fn place(&self) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!(" {}", self.name) };
        let namespace = match self.namespace.as_str() {
            "" => String::new(),
            namespace => format!(" in namespace {namespace}"),
        };
        format!("{}{name}{namespace}", self.target())
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
            self.place()
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
        let there = if self.namespace.is_empty() { "" } else { "use it there, or " };
        format!(
            "the role allows {} on {}, which was never used: {there}remove {declaration}",
            self.verb,
            self.place()
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
