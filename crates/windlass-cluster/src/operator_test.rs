//! An operator under test: a cluster of its own, installed, and running with its own role.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windlass::manager::Running;
use windlass::webhook::Webhooks;
use windlass::{Client, Error, Key, Kind, Object, Operator, Result, wait};
use windlass_apiserver::{ApiServer, Options as ServerOptions};
use windlass_manifests::{Model, yaml};

use crate::role_test::create;
use crate::webhook_fault::{Fault, WebhookFault};
use crate::{Cluster, Options, RoleTest};

/// How often a condition is looked at.
const PERIOD: Duration = Duration::from_millis(100);
/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(300);
/// What all tests start with, so that names and ages are those of the run before.
const SEED: u64 = 7;
const START: &str = "2026-01-01T00:00:00Z";

/// An operator on an embedded cluster of its own, for tests.
///
/// The definitions and the role are installed, and the operator runs with the rights of that role
/// and no others. Its policies and webhooks are installed too; the API server calls webhooks as
/// functions. On a runtime with paused time (`#[tokio::test(start_paused = true)]`), every run
/// is the same: names, ages and addresses follow from a fixed seed and a fixed time.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::{Context, Controller, Key, Next, Operator, Result};
/// use windlass_cluster::OperatorTest;
///
/// async fn mirror(cx: Context<ConfigMap>) -> Result<Next> {
///     let Some(map) = cx.object() else { return Ok(Next::Done) };
///     let mut secret = Secret { string_data: map.data.clone(), ..Secret::default() };
///     secret.metadata.name = map.metadata.name.clone();
///     cx.apply(&secret).await?;
///     Ok(Next::Done)
/// }
///
/// fn operator() -> Operator {
///     let controller = Controller::<ConfigMap>::builder("mirror").owns::<Secret>().build(mirror);
///     Operator::new("mirror-operator").namespaces(["default"]).controller(controller)
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<()> {
/// let test = OperatorTest::start(operator).await?;
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("settings".into());
/// map.metadata.namespace = Some("default".into());
/// test.client().api().create(&map).await?;
/// test.until("a secret", &Key::of(&map), |secret: &Secret| secret.data.is_none()).await?;
/// test.stop().await
/// # }
/// ```
pub struct OperatorTest {
    cluster: Cluster,
    role: RoleTest,
    running: Running,
    client: Client,
    fault: Fault,
}

// === impl OperatorTest ===

impl OperatorTest {
    /// Starts a cluster with one node, installs the operator and runs it.
    ///
    /// # Errors
    ///
    /// Fails if the operator is not well described, or cannot be installed or started.
    pub async fn start(operator: impl Fn() -> Operator) -> Result<Self> {
        Self::with_nodes(1, operator).await
    }

    /// Does the same on a cluster with a number of nodes.
    ///
    /// # Errors
    ///
    /// Fails as [`start`](Self::start) does.
    pub async fn with_nodes(nodes: usize, operator: impl Fn() -> Operator) -> Result<Self> {
        let options = ServerOptions {
            seed: Some(SEED),
            start_time: START.parse().ok(),
            ..Default::default()
        };
        let server = ApiServer::with_options(options).map_err(Error::other)?;
        let cluster = Cluster::with_options(server, Options { nodes, ..Options::default() }).await;
        let operator = operator();
        let model = operator.model()?;
        let fault = Fault::default();
        serve(cluster.server(), &model, &operator.webhooks(), &fault);
        let role = RoleTest::install(cluster.server(), &model).await?;
        let clock = windlass::clock::Clock::fixed(cluster.server().clock().now());
        let running = operator.manager(role.client()).clock(clock).seed(SEED).spawn()?;
        // From here on the handlers have the client of the manager.
        let policies = model.policy_objects().into_iter();
        for object in policies.chain(model.webhook_configurations()) {
            create(&cluster.client(), object).await?;
        }
        let ready = tokio::time::timeout(PATIENCE, running.ready()).await;
        if ready != Ok(true) {
            let why = "the operator stopped, or its caches were not filled within five minutes";
            return Err(running.stop().await.err().unwrap_or_else(|| Error::other(why)));
        }
        let client = Client::new(cluster.client());
        Ok(Self { cluster, role, running, client, fault })
    }

    /// Returns a client with all rights, for what users do.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the test of the role, to [`check`](RoleTest::check) it after a whole scenario.
    pub fn role(&self) -> &RoleTest {
        &self.role
    }

    /// Creates the object of a YAML text, such as a sample of the project, and returns it as it is
    /// stored. One of a namespaced kind that names no namespace belongs to `default`.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::Operator;
    /// use windlass_cluster::OperatorTest;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// let test = OperatorTest::start(|| Operator::new("empty")).await?;
    /// let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n";
    /// let map = test.create::<ConfigMap>(yaml).await?;
    /// assert_eq!(map.metadata.namespace.as_deref(), Some("default"));
    /// test.stop().await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the text is not one object of this kind, or if the API server refuses it.
    pub async fn create<K: Object<DynamicType = ()>>(&self, yaml: &str) -> Result<K> {
        let kind = Kind::of::<K>();
        let (name, version) = (kind.kind(), kind.api_version());
        let mut all = yaml::read(yaml).map_err(Error::Invalid)?;
        let wrong = || Error::Invalid(format!("expected one object of kind {name} ({version})"));
        let object = all.pop().filter(|_| all.is_empty()).ok_or_else(wrong)?;
        if object["kind"] != *name || object["apiVersion"] != *version {
            return Err(wrong());
        }
        let mut object: K = serde_json::from_value(object)?;
        if kind.namespaced() {
            object.meta_mut().namespace.get_or_insert_with(|| "default".into());
        }
        self.client.api().create(&object).await
    }

    /// Lets all webhooks of the operator fail from now on, conversions included, or work again with
    /// `None`.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::Operator;
    /// use windlass::webhook::{Findings, Webhook};
    /// use windlass_cluster::{OperatorTest, WebhookFault};
    ///
    /// fn operator() -> Operator {
    ///     let webhook = Webhook::<ConfigMap>::new().validate(|_| async { Ok(Findings::new()) });
    ///     Operator::new("map-operator").webhook(webhook)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// let test = OperatorTest::start(operator).await?;
    /// let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    /// test.webhook_fault(WebhookFault::Hang);
    /// // Ten seconds later, in virtual time.
    /// let refused = test.create::<ConfigMap>(map).await.unwrap_err().to_string();
    /// assert!(refused.contains("context deadline exceeded"), "{refused}");
    /// test.webhook_fault(None);
    /// test.create::<ConfigMap>(map).await?;
    /// test.stop().await
    /// # }
    /// ```
    pub fn webhook_fault(&self, fault: impl Into<Option<WebhookFault>>) {
        self.fault.set(fault.into());
    }

    /// Waits until an object exists and satisfies a condition, and returns it.
    ///
    /// # Errors
    ///
    /// Fails with the name of the condition if it does not come true within five minutes.
    pub async fn until<K: Object<DynamicType = ()>>(
        &self,
        what: &str,
        key: &Key,
        holds: impl Fn(&K) -> bool,
    ) -> Result<Arc<K>> {
        let api = self.client.api::<K>();
        let holds = async || Ok(api.get(key).await?.is_some_and(|object| holds(&object)));
        wait::until(what, PERIOD, PATIENCE, holds).await?;
        api.get(key).await?.ok_or_else(|| Error::other(format!("{what}: {key} is gone again")))
    }

    /// Waits until no object of a kind is left in any namespace.
    ///
    /// # Errors
    ///
    /// Fails with the name of the kind if some are left after five minutes.
    pub async fn until_none<K: Object<DynamicType = ()>>(&self) -> Result<()> {
        let api = self.client.api::<K>();
        let what = format!("the end of all {}", K::plural(&()));
        wait::until(&what, PERIOD, PATIENCE, async || Ok(api.list().items().await?.is_empty()))
            .await
    }

    /// Returns the names of all objects of a kind, in order.
    ///
    /// # Errors
    ///
    /// Fails if the API server refuses the list.
    pub async fn names<K: Object<DynamicType = ()>>(&self) -> Result<Vec<String>> {
        let all = self.client.api::<K>().list().items().await?;
        Ok(all.iter().filter_map(|object| object.meta().name.clone()).collect())
    }

    /// Stops the operator and the cluster.
    ///
    /// # Errors
    ///
    /// Fails if the operator does not stop within its grace period, or has failed.
    pub async fn stop(self) -> Result<()> {
        let stopped = self.running.stop().await;
        self.cluster.stop().await;
        stopped
    }
}

/// Lets the API server call the webhooks of an operator as functions.
fn serve(server: &ApiServer, model: &Model, webhooks: &Webhooks, fault: &Fault) {
    for path in webhooks.paths() {
        let (webhooks, path) = (webhooks.clone(), path.to_owned());
        let host = format!("{}.{}.svc", model.webhook_service(), model.namespace);
        let (url, fault) = (format!("https://{host}{path}"), fault.clone());
        server.register_unreliable_webhook(&url, move |review| {
            let (webhooks, path) = (webhooks.clone(), path.clone());
            let (fault, host) = (fault.get(), host.clone());
            async move {
                let answer = webhooks.call(&path, review);
                match fault {
                    Some(fault) => fault.befall(answer, &host).await,
                    None => Ok(answer.await),
                }
            }
        });
    }
}

impl fmt::Debug for OperatorTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorTest").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}
