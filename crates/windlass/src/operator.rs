//! An operator as a value: its APIs, controllers and settings, and the program made of them.
//!
//! [`Operator::main`] is the whole `main` function. The program runs the operator, and it prints
//! what is needed to install it: definitions, roles and manifests follow from the same value, so
//! they cannot disagree with the code.

mod cli;
mod connect;
mod kubebuilder;
mod output;
mod stepped;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::Selector;
use serde_json::Value;
use windlass_manifests::model::Api;
use windlass_manifests::rbac::{Grant, Reach, Rule};
use windlass_manifests::{Model, crd};

use crate::controller::{Access, Controller};
use crate::conversion::{Conversion, Conversions};
use crate::error::{Error, Result};
use crate::kind::Object;
use crate::manager::{Manager, RunContext};
use crate::migration::{Migration, Place, Progress};
use crate::webhook::{Declared, Policy, Webhook, Webhooks};

/// The default grace period of the manager.
const GRACE: Duration = Duration::from_secs(30);

/// An operator: its APIs, controllers, background tasks and settings.
///
/// # Examples
///
/// A whole `main.rs`:
///
/// ```
/// // Reads the command line and runs until a signal.
/// # mod program {
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # use windlass::{Controller, Next, Operator};
/// # fn controller() -> Controller<ConfigMap> {
/// #     Controller::builder("mirror").owns::<Secret>().build(|_| async { Ok(Next::Done) })
/// # }
/// # #[allow(dead_code)]
/// fn main() -> std::process::ExitCode {
///     Operator::new("mirror-operator").controller(controller()).main()
/// }
/// # }
/// # fn main() {}
/// ```
///
/// In a test, the manager runs without a command line:
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::{Controller, Next, Operator};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// let controller = Controller::<ConfigMap>::builder("mirror")
///     .owns::<Secret>()
///     .build(|_| async { Ok(Next::Done) });
/// let operator = Operator::new("mirror-operator").controller(controller);
/// let role = &operator.model()?.roles()[0];
/// assert_eq!(role.name, "mirror-operator-manager-role");
/// let handle = operator.manager(server.client()).spawn()?;
/// handle.ready().await;
/// # handle.stop().await
/// # }
/// ```
#[must_use = "an operator does nothing until it runs"]
pub struct Operator {
    model: Model,
    definitions: Vec<CustomResourceDefinition>,
    conversions: Conversions,
    migrates: bool,
    samples: Vec<Value>,
    grace: Duration,
    webhooks: Webhooks,
    policies: Vec<Declared>,
    setup: Vec<Box<dyn FnOnce(Manager) -> Manager + Send>>,
}

// === impl Operator ===

impl Operator {
    /// Starts an operator without APIs and controllers. All names in the cluster start with `name`,
    /// and the program has that name.
    pub fn new(name: &str) -> Self {
        Self {
            model: Model::new(name),
            definitions: Vec::new(),
            conversions: Conversions::default(),
            migrates: false,
            samples: Vec::new(),
            grace: GRACE,
            webhooks: Webhooks::new(),
            policies: Vec::new(),
            setup: Vec::new(),
        }
    }

    /// Sets the version of the operator, usually `env!("CARGO_PKG_VERSION")`.
    pub fn version(mut self, version: &str) -> Self {
        self.model.version = version.into();
        self
    }

    /// Adds a kind that the operator defines. Several versions of one kind share a definition.
    pub fn api<K: CustomResourceExt>(mut self) -> Self {
        self.definitions.push(K::crd());
        self
    }

    /// Converts objects between the versions of a kind, which are added with [`api`](Self::api). The
    /// definition names the webhook of the operator.
    pub fn conversion<H>(mut self, conversion: Conversion<H>) -> Self
    where
        H: Object<DynamicType = ()> + CustomResourceExt,
    {
        self.conversions.add(conversion.into_versions());
        self
    }

    /// Rewrites stored objects in the new storage version after an upgrade, and then removes the old
    /// ones from `status.storedVersions` of the definition.
    ///
    /// The leader does that in the background: 50 objects per second, without changing them, and only
    /// while no old replica of the operator runs. Progress is in the events of the definition and in
    /// the metrics `windlass_storage_migration_objects_total` and
    /// `windlass_storage_migration_pending`.
    ///
    /// ```
    /// use windlass::Operator;
    /// # #[windlass::api(group = "example.com", version = "v1", kind = "Lamp")]
    /// # pub struct LampSpec {}
    ///
    /// let operator = Operator::new("lamp-operator").api::<Lamp>().migrate_storage();
    /// let rules = operator.model().unwrap().install();
    /// assert!(rules.contains("customresourcedefinitions/status"));
    /// ```
    pub fn migrate_storage(mut self) -> Self {
        self.migrates = true;
        self
    }

    /// Adds an example of a kind, for `config/samples`; without one, an example is made from the
    /// schema.
    pub fn sample<K: Object<DynamicType = ()>>(mut self, sample: &K) -> Self {
        let mut value = serde_json::to_value(sample).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("apiVersion".into(), K::api_version(&()).into());
            fields.insert("kind".into(), K::kind(&()).into());
            fields.retain(|_, value| !value.is_null());
        }
        self.samples.push(value);
        self
    }

    /// Adds a controller. The role of the operator allows what the controller declares.
    pub fn controller<K: Object>(mut self, controller: Controller<K>) -> Self {
        self.model.controllers.push(controller.name().into());
        self.model.grants.extend(controller.access().iter().map(grant));
        self.configure(|manager| manager.add(controller))
    }

    /// Serves the webhooks of a kind; their configurations are among the manifests.
    pub fn webhook<K>(mut self, webhook: Webhook<K>) -> Self {
        self.webhooks = self.webhooks.add(webhook);
        self
    }

    /// Declares rules for the objects of a kind, which the API server evaluates. A cluster that is too
    /// old for them, by the version that [`installation`](Self::installation) sets, calls a webhook
    /// that evaluates the same rules.
    pub fn policy<K>(mut self, policy: Policy<K>) -> Self {
        self.policies.push(policy.into_declared());
        self
    }

    /// Returns everything that the webhook server serves, to call it in a test; see
    /// [`Webhooks::call`].
    pub fn webhooks(&self) -> Webhooks {
        let (webhooks, conversions) = (self.webhooks.clone(), self.conversions.clone());
        let policies = self.policies.iter().flat_map(|policy| policy.webhooks(&self.model));
        let webhooks = webhooks.extend(policies);
        if conversions.all().next().is_none() {
            return webhooks;
        }
        webhooks.convert(move |review| conversions.review(review))
    }

    /// Adds a task that runs while this process leads; see [`Manager::runnable`]. What it may do is
    /// declared with [`allow`](Self::allow).
    pub fn runnable<F, Fut>(self, name: &str, start: F) -> Self
    where
        F: FnOnce(RunContext) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let name = name.to_owned();
        self.configure(move |manager| manager.runnable(&name, start))
    }

    /// Allows the operator what its controllers do not declare: a [`Rule`] in the namespaces that it
    /// watches, or a [`Grant`] elsewhere.
    ///
    /// ```
    /// use windlass::Operator;
    /// use windlass::manifests::rbac::{Grant, Reach, Rule};
    ///
    /// let nodes = Grant::new(Rule::new("", "nodes", ["get"]), Reach::Cluster);
    /// let operator = Operator::new("shop-operator")
    ///     .allow(Rule::new("", "pods/log", ["get"]))
    ///     .allow(nodes);
    /// let roles = operator.model().unwrap().roles();
    /// let merged = Rule::normalize([
    ///     Rule::new("", "nodes", ["get"]),
    ///     Rule::new("", "pods/log", ["get"]),
    /// ]);
    /// assert_eq!(roles[0].rules, merged);
    /// ```
    pub fn allow(mut self, grant: impl Into<Grant>) -> Self {
        self.model.grants.push(grant.into());
        self
    }

    /// Watches these namespaces only, and asks for rights in these namespaces only.
    pub fn namespaces<'a>(mut self, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        self.model.watched = namespaces.into_iter().map(str::to_owned).collect();
        self
    }

    /// Watches the namespaces whose labels match; see [`Manager::namespace_selector`]. The role of the
    /// operator allows to list and watch namespaces.
    ///
    /// ```
    /// use kube::core::Expression;
    /// use windlass::Operator;
    /// use windlass::manifests::rbac::Rule;
    ///
    /// let blue = Expression::Equal("team".into(), "blue".into());
    /// let operator = Operator::new("shop-operator").namespace_selector(blue.into());
    /// let rules = &operator.model().unwrap().roles()[0].rules;
    /// assert_eq!(*rules, [Rule::new("", "namespaces", ["list", "watch"])]);
    /// ```
    pub fn namespace_selector(self, selector: Selector) -> Self {
        let namespaces = Rule::new("", "namespaces", ["list", "watch"]);
        self.allow(Grant::new(namespaces, Reach::Cluster))
            .configure(|manager| manager.namespace_selector(selector))
    }

    /// Sets how long a shutdown may take; 30 s by default. The pod gets ten seconds more.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Changes the settings of the installation: image, namespace, replicas, resources, ports.
    ///
    /// ```
    /// use windlass::Operator;
    ///
    /// let operator = Operator::new("shop-operator").installation(|model| {
    ///     model.image = "registry.example.com/shop-operator:1.0".into();
    ///     model.run.limits.memory = "512Mi".into();
    /// });
    /// assert!(operator.model().unwrap().install().contains("memory: 512Mi"));
    /// ```
    pub fn installation(mut self, change: impl FnOnce(&mut Model)) -> Self {
        change(&mut self.model);
        self
    }

    /// Changes the settings of the manager, such as health checks, caches and indexes.
    pub fn configure(mut self, setup: impl FnOnce(Manager) -> Manager + Send + 'static) -> Self {
        self.setup.push(Box::new(setup));
        self
    }

    /// Returns the model from which all manifests are rendered.
    ///
    /// # Errors
    ///
    /// Fails if a name, a quantity or a rule is not valid, or if the versions of a kind do not fit
    /// together.
    pub fn model(&self) -> Result<Model> {
        let mut model = self.model.clone();
        let seconds = self.grace.as_secs() + u64::from(self.grace.subsec_nanos() > 0);
        model.run.grace_seconds = u32::try_from(seconds)
            .map_err(|_| Error::Invalid("the grace period is too long".into()))?;
        model.apis = self.apis()?;
        if self.migrates {
            model.grants.extend(versions::migration_grants(&model.apis));
        }
        let webhooks = self.webhooks();
        if let Some(path) = webhooks.twice() {
            return Err(Error::Invalid(format!("two webhooks have the path {path:?}")));
        }
        model.webhooks.extend(webhooks.entries().cloned());
        for policy in &self.policies {
            policy.check(&model)?;
            model.grants.extend(policy.grants(&model));
            model.policies.push(policy.model().clone());
        }
        match model.check() {
            Ok(()) => Ok(model),
            Err(found) => Err(Error::Invalid(found.join("; "))),
        }
    }

    /// Returns a manager with the controllers, tasks and settings of this operator. It serves
    /// nothing and uses no lease: those follow from the command line.
    pub fn manager(self, client: kube::Client) -> Manager {
        let migration = self.migrates.then(|| self.migration());
        let webhooks = self.webhooks();
        let watched: Vec<String> = self.model.watched;
        let manager = Manager::new(client)
            .name(&self.model.name)
            .namespaces(watched.iter().map(String::as_str))
            .grace(self.grace)
            .webhooks(webhooks);
        let manager = self.setup.into_iter().fold(manager, |manager, setup| setup(manager));
        let Some(migration) = migration else { return manager };
        #[cfg(feature = "metrics")]
        let manager = manager.register_metrics(|registry| migration.progress.register(registry));
        manager.runnable("storage-migration", |cx| migration.run(cx))
    }

    fn migration(&self) -> Migration {
        let names = self.definitions.iter().filter_map(|crd| crd.metadata.name.clone());
        let names: BTreeSet<String> = names.collect();
        Migration {
            definitions: names.into_iter().collect(),
            place: Place {
                deployment: self.model.manager_name(),
                in_pod: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
            },
            progress: Progress::default(),
        }
    }

    /// Reads the command line of the process and does what it says; see `--help`.
    ///
    /// Without a subcommand, the operator runs until SIGINT or SIGTERM. Returns 0 if all went well,
    /// 2 if the command line is wrong, and 1 for every other error, which is printed to stderr in
    /// one sentence.
    pub fn main(self) -> ExitCode {
        cli::main(self)
    }

    /// The definitions, the versions of each kind merged, checked as the API server would.
    fn apis(&self) -> Result<Vec<Api>> {
        let mut kinds: BTreeMap<&str, Vec<CustomResourceDefinition>> = BTreeMap::new();
        for definition in &self.definitions {
            let name = definition.metadata.name.as_deref().unwrap_or_default();
            kinds.entry(name).or_default().push(definition.clone());
        }
        let mut apis: Vec<Api> = Vec::new();
        for versions in kinds.into_values() {
            let definition = crd::merge(versions).map_err(|e| Error::Invalid(e.to_string()))?;
            crd::check_crd(&definition).map_err(|e| Error::Invalid(e.to_string()))?;
            let mut api = Api::new(crd::to_value(&definition));
            versions::declare(&mut api, &self.conversions, &self.model)?;
            apis.push(api);
        }
        versions::check_defined(&self.conversions, &apis)?;
        for api in &mut apis {
            let mine = |sample: &&Value| {
                let group = sample["apiVersion"].as_str().and_then(|v| v.split('/').next());
                sample["kind"] == api.kind() && group == Some(api.group())
            };
            api.samples = self.samples.iter().filter(mine).cloned().collect();
        }
        Ok(apis)
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("model", &self.model).finish_non_exhaustive()
    }
}

fn grant(access: &Access) -> Grant {
    let rule = Rule::new(access.kind.group(), &access.resource(), access.verbs.iter().copied());
    let reach = if access.kind.namespaced() { Reach::Watched } else { Reach::Cluster };
    let grant = Grant::new(rule, reach);
    if access.rare { grant.rare() } else { grant }
}

#[cfg(test)]
mod tests;
