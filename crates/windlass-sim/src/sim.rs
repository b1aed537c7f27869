//! A simulated cluster with an operator and a user, as a scenario sees it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::CustomResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::{Error, Key, Kind, Manager, Object, Operator, Result};

use crate::kernel::Kernel;
use crate::plan::Plan;
use crate::replica::Factory;
use crate::role::Role;
use crate::trace::What;
use crate::world::World;

mod boot;
mod checkpoint;
mod finish;
mod settle;
mod zero;

pub(crate) use boot::{Base, Live};
pub(crate) use checkpoint::Checkpoint;
pub(crate) use finish::{Outcome, Phases, kind_of};
pub(crate) use zero::{Intent, intents};

/// How many seconds the user waits for an object to exist.
const PATIENCE: u32 = 300;

/// A simulated cluster with an operator and a user.
///
/// A scenario declares the operator, acts as the user, and waits for the cluster to come to rest in
/// between. It runs once per plan, each time in a cluster of its own.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass::{Context, Controller, Manager, Next, Result};
/// use windlass_sim::Sim;
///
/// fn operator(client: kube::Client) -> Manager {
///     let reconcile = |_: Context<ConfigMap>| async { Ok(Next::Done) };
///     Manager::new(client).add(Controller::<ConfigMap>::builder("maps").build(reconcile))
/// }
///
/// windlass_sim::explore("maps", async |sim: &mut Sim| {
///     sim.operator(operator);
///     sim.create(&ConfigMap { metadata: windlass_sim::named("a"), ..Default::default() }).await?;
///     sim.settle("created").await?;
///     sim.merge::<ConfigMap>("a", json!({"data": {"k": "v"}})).await?;
///     sim.settle("changed").await?;
///     sim.eventually("the map exists", |world| world.get::<ConfigMap>("a").is_some());
///     Ok(())
/// });
/// ```
pub struct Sim {
    pub(crate) setup: Setup,
    pub(crate) plan: Plan,
    pub(crate) seed: u64,
    pub(crate) mode: Mode,
    /// The embedded controllers that run; `None` runs all.
    pub(crate) controllers: Option<BTreeSet<&'static str>>,
    /// A cluster that has started, which this run continues.
    pub(crate) base: Option<Arc<Base>>,
    /// The role of the operator, if an earlier run has found it out.
    pub(crate) known_role: Option<Role>,
    pub(crate) asserts: Vec<Assert>,
    /// The checkpoints so far, if they are to be kept.
    pub(crate) collected: Option<Vec<Checkpoint>>,
    /// The checkpoints of the reference, at which this run ends if it can.
    pub(crate) checkpoints: Arc<Vec<Checkpoint>>,
    /// The place of the checkpoint at which this run begins.
    pub(crate) start: Option<usize>,
    /// How often the scenario had waited for rest when the run was back in the state of the reference.
    rejoined: Option<usize>,
    live: Option<Live>,
    steps: usize,
    settles: usize,
    /// The scenario has looked at the cluster.
    looks: bool,
}

/// What a scenario declares before its first step.
#[derive(Default)]
pub(crate) struct Setup {
    pub definitions: Vec<Value>,
    pub factory: Option<Factory>,
    /// Controllers of the embedded cluster that are the operator.
    pub embedded: Vec<&'static str>,
    pub replicas: usize,
    /// Resources that the operator writes all the time.
    pub expected: BTreeSet<String>,
    /// Fields that are left out of comparisons: the resource and a JSON pointer.
    pub masks: Vec<(String, String)>,
    pub role: Option<Role>,
    pub terminal_expected: bool,
    /// The operator cannot be described.
    pub invalid: Option<String>,
    /// A setting that came too late.
    pub late: Option<&'static str>,
}

/// What a run does with the steps of the scenario.
#[derive(Clone, Default)]
pub(crate) enum Mode {
    /// Performs them.
    #[default]
    Scenario,
    /// Performs them once as the reference, with additional checks at the end.
    Reference,
    /// Brings about what the user wanted in the end, at once and from nothing.
    FromZero(Arc<Vec<Intent>>),
}

/// A property that the author states.
#[derive(Clone)]
pub(crate) struct Assert {
    pub kind: AssertKind,
    pub name: String,
    pub holds: Arc<dyn Fn(&World) -> bool + Send + Sync>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssertKind {
    Always,
    Eventually,
    Sometimes,
    Truth,
}

// === impl Sim ===

impl Sim {
    pub(crate) fn new(plan: &Plan, seed: u64, mode: Mode) -> Self {
        Self {
            setup: Setup { replicas: 1, ..Setup::default() },
            plan: plan.clone(),
            seed,
            mode,
            controllers: None,
            base: None,
            known_role: None,
            asserts: Vec::new(),
            collected: None,
            checkpoints: Arc::default(),
            start: None,
            rejoined: None,
            live: None,
            steps: 0,
            settles: 0,
            looks: false,
        }
    }

    /// Installs the definition of a custom resource before the operator starts.
    pub fn install<K: CustomResourceExt>(&mut self) -> &mut Self {
        let definition = serde_json::to_value(K::crd()).unwrap_or_default();
        self.declare("install", |setup| setup.definitions.push(definition))
    }

    /// Sets the operator: a function from a client to a manager, as `main` uses it, without probes
    /// and metrics on fixed ports.
    ///
    /// It is called once per start of a replica. The simulation sets the clock and the seed.
    pub fn operator<F>(&mut self, operator: F) -> &mut Self
    where
        F: Fn(kube::Client) -> Manager + Send + Sync + 'static,
    {
        let factory = move |client| (operator(client), None);
        self.declare("operator", |setup| setup.factory = Some(Arc::new(factory)))
    }

    /// Sets the operator as the function that `main` runs, with the role that is generated for it: what
    /// its manifests do not allow fails.
    ///
    /// Its definitions, policies and webhooks are installed too; [`install`](Self::install) is for kinds of
    /// others. The API server calls webhooks and conversions as functions of a replica that lives, and each
    /// call is a site.
    pub fn runs<F>(&mut self, operator: F) -> &mut Self
    where
        F: Fn() -> Operator + Send + Sync + 'static,
    {
        let role = match self.known_role.take() {
            Some(role) => Ok(role),
            None => {
                let operator = operator();
                operator.model().map(|model| Role::of_model(&model, &operator.webhooks()))
            }
        };
        match role {
            Ok(role) => self.declare("runs", |setup| {
                for definition in &role.definitions {
                    let name = &definition["metadata"]["name"];
                    setup.definitions.retain(|other| other["metadata"]["name"] != *name);
                    setup.definitions.push(definition.clone());
                }
                setup.role = Some(role);
            }),
            Err(error) => self.declare("runs", |setup| setup.invalid = Some(error.to_string())),
        };
        let factory = move |client| {
            let operator = operator();
            let webhooks = operator.webhooks();
            (operator.manager(client), Some(webhooks))
        };
        self.declare("runs", |setup| setup.factory = Some(Arc::new(factory)))
    }

    /// Sets controllers of the embedded cluster as the operator, by the names that
    /// [`Cluster::controllers`](windlass_cluster::Cluster::controllers) lists: they run under faults,
    /// and the others as always.
    pub fn embedded(&mut self, controllers: &[&'static str]) -> &mut Self {
        self.declare("embedded", |setup| setup.embedded = controllers.to_vec())
    }

    /// Sets how many replicas of the operator run; 1 by default.
    pub fn replicas(&mut self, replicas: usize) -> &mut Self {
        self.declare("replicas", |setup| setup.replicas = replicas.max(1))
    }

    /// Declares that the operator writes objects of this kind all the time, as a heartbeat does.
    pub fn expects_writes<K: Object<DynamicType = ()>>(&mut self) -> &mut Self {
        let resource = resource_of::<K>();
        self.declare("expects_writes", |setup| setup.expected.extend([resource]))
    }

    /// Leaves a field out of comparisons, such as a random password: a JSON pointer like
    /// `/data/password`. Two runs with the same seed may differ in it.
    pub fn mask<K: Object<DynamicType = ()>>(&mut self, pointer: &str) -> &mut Self {
        let mask = (resource_of::<K>(), pointer.to_owned());
        self.declare("mask", |setup| setup.masks.push(mask))
    }

    /// Lets the operator do what these rules allow, and nothing else.
    pub fn role(&mut self, rules: Vec<PolicyRule>) -> &mut Self {
        let role = Role::of_rules(&rules);
        self.declare("role", |setup| setup.role = Some(role))
    }

    /// Declares that reconciles may fail for good, as with a spec that cannot be fulfilled.
    pub fn expects_terminal_errors(&mut self) -> &mut Self {
        self.declare("expects_terminal_errors", |setup| setup.terminal_expected = true)
    }

    fn declare(&mut self, what: &'static str, set: impl FnOnce(&mut Setup)) -> &mut Self {
        if self.live.is_some() {
            self.setup.late.get_or_insert(what);
        }
        set(&mut self.setup);
        self
    }

    /// The seed of this run, for randomness of the author's own.
    pub fn seed(&self) -> u64 {
        self.seed.wrapping_add(self.plan.seed)
    }

    /// Applies an object with server-side apply, as the user.
    ///
    /// # Errors
    ///
    /// Fails if the API server refuses the object.
    pub async fn apply<K: Object<DynamicType = ()>>(&mut self, object: &K) -> Result<()> {
        let object = in_namespace(object);
        let step = step_of::<K>("apply", &Key::of(&object));
        let Some(client) = self.step(step).await? else { return Ok(()) };
        self.until_gone::<K>(&Key::of(&object)).await?;
        let api = client.api::<K>();
        let done = self.patiently(async || api.apply(&object).await.map(drop)).await;
        self.stepped(done)
    }

    /// Creates an object, as the user.
    ///
    /// # Errors
    ///
    /// Fails if the API server refuses the object.
    pub async fn create<K: Object<DynamicType = ()>>(&mut self, object: &K) -> Result<()> {
        let object = in_namespace(object);
        let step = step_of::<K>("create", &Key::of(&object));
        let Some(client) = self.step(step).await? else { return Ok(()) };
        self.until_gone::<K>(&Key::of(&object)).await?;
        let api = client.api::<K>();
        let done = self.patiently(async || api.create(&object).await.map(drop)).await;
        self.stepped(done)
    }

    /// Changes an object with a merge patch, as the user.
    ///
    /// # Errors
    ///
    /// Fails if there is no such object, or if the API server refuses the change.
    pub async fn merge<K: Object<DynamicType = ()>>(
        &mut self,
        name: &str,
        patch: Value,
    ) -> Result<()> {
        let key = key_of::<K>(name);
        let Some(client) = self.step(step_of::<K>("merge", &key)).await? else { return Ok(()) };
        let (api, patch) = (client.api::<K>(), Patch::Merge(patch));
        let done = self.patiently(async || api.patch(&key, &patch).await.map(drop)).await;
        self.stepped(done)
    }

    /// Scales an object through its subresource `scale`, as an autoscaler does.
    ///
    /// # Errors
    ///
    /// Fails if there is no such object, or if it cannot be scaled.
    pub async fn scale<K: Object<DynamicType = ()>>(&mut self, name: &str, to: i32) -> Result<()> {
        let key = key_of::<K>(name);
        let Some(client) = self.step(step_of::<K>("scale", &key)).await? else { return Ok(()) };
        let patch = Patch::Merge(json!({"spec": {"replicas": to}}));
        let scale = client.api_of::<DynamicObject>(&Kind::of::<K>()).subresource("scale");
        let done = self.patiently(async || scale.patch(&key, &patch).await.map(drop)).await;
        self.stepped(done)
    }

    /// Deletes an object, as the user. One that does not exist is not an error.
    ///
    /// # Errors
    ///
    /// Fails if the API server refuses.
    pub async fn delete<K: Object<DynamicType = ()>>(&mut self, name: &str) -> Result<()> {
        let key = key_of::<K>(name);
        let Some(client) = self.step(step_of::<K>("delete", &key)).await? else { return Ok(()) };
        let api = client.api::<K>();
        let done = self.patiently(async || api.delete(&key).await.map(drop)).await;
        self.stepped(done)
    }

    /// Deletes the first object of a kind, as the user. Does nothing if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the API server refuses.
    pub async fn delete_any<K: Object<DynamicType = ()>>(&mut self) -> Result<()> {
        let kind = Kind::of::<K>();
        let step = format!("delete any of {}", kind.plural());
        let Some(client) = self.step(step).await? else { return Ok(()) };
        let first = World::of_kind_now::<K>(&self.kernel()?.server).into_iter().next();
        let done = match first {
            None => Ok(()),
            Some(object) => {
                let key = Key::of(&object);
                client.api::<K>().delete(&key).await.map(drop)
            }
        };
        self.stepped(done)
    }

    /// Returns the current state of the cluster.
    ///
    /// # Errors
    ///
    /// Fails if the cluster cannot be started.
    pub async fn world(&mut self) -> Result<World> {
        self.looks = true;
        self.begin().await?;
        Ok(World::of(&self.kernel()?.server))
    }

    /// States that a property holds in every state of every run.
    pub fn always(&mut self, name: &str, holds: impl Fn(&World) -> bool + Send + Sync + 'static) {
        self.assert(AssertKind::Always, name, holds);
    }

    /// States that a property holds at the end of every run.
    pub fn eventually(
        &mut self,
        name: &str,
        holds: impl Fn(&World) -> bool + Send + Sync + 'static,
    ) {
        self.assert(AssertKind::Eventually, name, holds);
    }

    /// States that a property holds in at least one state of at least one run: that what the author
    /// has in mind happens at all.
    pub fn sometimes(
        &mut self,
        name: &str,
        holds: impl Fn(&World) -> bool + Send + Sync + 'static,
    ) {
        self.assert(AssertKind::Sometimes, name, holds);
    }

    /// States that what the operator claims is true at rest, such as that a status fits an external
    /// system.
    pub fn truth(&mut self, name: &str, holds: impl Fn(&World) -> bool + Send + Sync + 'static) {
        self.assert(AssertKind::Truth, name, holds);
    }

    fn assert<F>(&mut self, kind: AssertKind, name: &str, holds: F)
    where
        F: Fn(&World) -> bool + Send + Sync + 'static,
    {
        self.asserts.push(Assert { kind, name: name.to_owned(), holds: Arc::new(holds) });
    }

    /// Begins a step of the user; `None` if it is left out.
    async fn step(&mut self, step: String) -> Result<Option<windlass::Client>> {
        self.steps += 1;
        if self.rejoined.is_some() || self.started().is_some_and(|m| self.steps <= m.steps) {
            return Ok(None); // as in the reference
        }
        self.begin().await?;
        if matches!(self.mode, Mode::FromZero(_)) {
            self.begin_at_zero().await?;
            return Ok(None);
        }
        if self.plan.skipped.contains(&self.steps) {
            return Ok(None);
        }
        let live = self.live.as_ref().expect("begin has started it");
        live.kernel.record(&crate::kernel::Actor::user(), What::Step(step));
        Ok(Some(live.client.clone()))
    }

    /// Performs a step that a fault may keep from being possible: the user waits until the object exists,
    /// and faults end so that it can, and tries again if a webhook was away.
    async fn patiently(&self, step: impl AsyncFn() -> Result<()>) -> Result<()> {
        let kernel = self.kernel()?;
        let mut tries = 0;
        loop {
            let done = step().await;
            let Err(error) = &done else { return done };
            let missing = error.is_not_found();
            let possible = missing || webhook_was_away(error);
            if !possible || self.plan.faults.is_empty() || tries >= PATIENCE {
                return done;
            }
            tries += 1;
            if missing {
                kernel.heal();
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Waits until an object that is being deleted is gone, as `kubectl delete` does: the user creates
    /// a new object of that name, and does not change the old one.
    async fn until_gone<K: Object<DynamicType = ()>>(&self, key: &Key) -> Result<()> {
        let kernel = self.kernel()?;
        for _ in 0..PATIENCE {
            let objects = World::of_kind_now::<K>(&kernel.server);
            let going = objects.iter().any(|object| {
                Key::of(object) == *key && object.meta().deletion_timestamp.is_some()
            });
            if !going {
                break;
            }
            kernel.heal();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    /// Ends a step of the user.
    fn stepped(&self, done: Result<()>) -> Result<()> {
        let kernel = self.kernel()?;
        let revision = kernel.server.revision();
        kernel.state.lock().stepped(revision);
        kernel.touch();
        done
    }

    /// The checkpoint at which this run begins.
    fn started(&self) -> Option<&Checkpoint> {
        self.checkpoints.get(self.start?)
    }

    pub(crate) fn kernel(&self) -> Result<&Arc<Kernel>> {
        let live = self.live.as_ref().ok_or_else(|| Error::from("the cluster has not started"))?;
        Ok(&live.kernel)
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("plan", &self.plan.to_string()).finish_non_exhaustive()
    }
}

/// Returns `true` if the API server could not call a webhook.
fn webhook_was_away(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("failed calling webhook") || text.contains("conversion webhook for")
}

/// The resource of a kind, as sites name it.
pub(crate) fn resource_of<K: Object<DynamicType = ()>>() -> String {
    let kind = Kind::of::<K>();
    crate::site::resource(kind.group(), kind.plural())
}

fn key_of<K: Object<DynamicType = ()>>(name: &str) -> Key {
    match Kind::of::<K>().namespaced() {
        true => Key::namespaced("default", name),
        false => Key::cluster(name),
    }
}

fn step_of<K: Object<DynamicType = ()>>(verb: &str, key: &Key) -> String {
    format!("{verb} {} {key}", resource_of::<K>())
}

/// The object, in the namespace `default` if it has to be in one and names none.
fn in_namespace<K: Object<DynamicType = ()>>(object: &K) -> K {
    let mut object = object.clone();
    if Kind::of::<K>().namespaced() && object.meta().namespace.is_none() {
        object.meta_mut().namespace = Some("default".into());
    }
    object
}

/// Returns the metadata of an object with this name in the namespace `default`.
pub fn named(name: &str) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    let meta = json!({"name": name, "namespace": "default"});
    serde_json::from_value(meta).expect("a name and a namespace are metadata")
}
