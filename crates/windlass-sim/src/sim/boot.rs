//! The start of a simulated cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::core::DynamicObject;
use serde_json::Value;
use tokio::time::sleep;
use tracing::subscriber::DefaultGuard;
use windlass::client::Patch;
use windlass::{Client, Error, Key, Kind, Result};
use windlass_apiserver::{ApiServer, Options, Snapshot, User};
use windlass_cluster::Cluster;

use super::Sim;
use super::settle::{LIMIT, QUIET};
use crate::external;
use crate::kernel::{Actor, Kernel};
use crate::layer::Layer;
use crate::role::Role;
use crate::world::World;
use crate::{reconciles, replica, webhooks};

/// The time at which every simulation starts.
const EPOCH: &str = "2026-01-01T00:00:00Z";
const USER_TOKEN: &str = "user";

/// A cluster that has started and has nothing to do: where the runs of an exploration begin.
pub(crate) struct Base {
    snapshot: Snapshot,
    world: World,
    definitions: Vec<Value>,
    role: Option<Role>,
}

/// A cluster that runs.
pub(crate) struct Live {
    pub kernel: Arc<Kernel>,
    /// The client of the user.
    pub client: Client,
    /// The revision at which the user's first step begins.
    pub boot: u64,
    /// The last revision that was looked at, and how many changes mattered until then.
    pub looked: (u64, u64),
    /// The state that the run continues, unless it begins at a checkpoint.
    pub base: Option<Arc<Base>>,
    _cluster: Option<Cluster>,
    _external: external::Scope,
    _reconciles: DefaultGuard,
}

impl Sim {
    /// Starts the cluster and the operator, unless they run.
    pub(super) async fn begin(&mut self) -> Result<()> {
        if let Some(invalid) = &self.setup.invalid {
            return Err(Error::Invalid(invalid.clone()));
        }
        if let Some(late) = self.setup.late {
            let text = format!("`{late}` has to be called before the first step of the scenario");
            return Err(Error::Invalid(text));
        }
        if self.live.is_some() {
            return Ok(());
        }
        if self.setup.factory.is_none() && self.setup.embedded.is_empty() {
            return Err(Error::Invalid(
                "the scenario sets no operator: call `sim.operator`".into(),
            ));
        }
        let (definitions, role) = (&self.setup.definitions, &self.setup.role);
        let base = self.base.as_ref().filter(|base| base.fits(definitions, role.as_ref()));
        let server = match (self.started(), base) {
            (Some(checkpoint), _) => checkpoint.snapshot.start(),
            (None, Some(base)) => base.snapshot.start(),
            (None, None) => {
                let server = server(self.seed, role.as_ref())?;
                prepare(&server, definitions, role.as_ref()).await?;
                server
            }
        };
        let kernel = Kernel::new(server.clone(), self.seed, &self.plan, self.setup.replicas);
        kernel.state.lock().expected.clone_from(&self.setup.expected);
        let embedded = self.setup.embedded.clone();
        let cluster = cluster(&server, self.controllers.as_ref(), &embedded).await;
        let factory = self.setup.factory.clone().unwrap_or_else(|| {
            let server = server.clone();
            Arc::new(move |client| (Cluster::controllers_on(&server, client, &embedded), None))
        });
        let user = Layer::client(&kernel, Actor::user(), USER_TOKEN);
        let live = Live {
            client: Client::new(user).field_owner("user"),
            boot: server.revision(),
            looked: (server.revision(), 0),
            base: base.cloned(),
            _cluster: cluster,
            _external: external::Scope::enter(&kernel),
            _reconciles: reconciles::record(&kernel),
            kernel,
        };
        if let Some(role) = &self.setup.role {
            webhooks::serve(&live.kernel, &server, role);
        }
        for replica in 0..self.setup.replicas {
            replica::keep(&live.kernel, &factory, replica);
        }
        self.live = Some(live);
        match self.start {
            None => sleep(Duration::from_millis(100)).await,
            Some(_) => self.catch_up().await?,
        }
        Ok(())
    }

    /// Waits until the operator has seen the state of the checkpoint, and continues from its records, so that
    /// the start of the operator is not one of them.
    async fn catch_up(&mut self) -> Result<()> {
        let kernel = self.kernel()?.clone();
        let faults = std::mem::take(&mut kernel.state.lock().faults);
        self.rest(QUIET, LIMIT).await?;
        let Some(checkpoint) = self.started() else { return Ok(()) };
        kernel.continues(&checkpoint.recorded);
        kernel.state.lock().faults = faults;
        let live = self.live.as_mut().expect("has begun");
        live.boot = kernel.server.revision();
        Ok(())
    }
}

// === impl Base ===

impl Base {
    /// Starts a cluster with what a scenario installs, and keeps its state once nothing moves.
    pub(crate) async fn start(
        (definitions, role): (Vec<Value>, Option<Role>),
        seed: u64,
        controllers: Option<BTreeSet<&'static str>>,
        embedded: Vec<&'static str>,
    ) -> Result<Self> {
        let server = server(seed, role.as_ref())?;
        prepare(&server, &definitions, role.as_ref()).await?;
        let cluster = cluster(&server, controllers.as_ref(), &embedded).await;
        sleep(Duration::from_secs(1)).await;
        let snapshot = server.snapshot();
        if let Some(cluster) = cluster {
            cluster.stop().await;
        }
        let world = World::decode(snapshot.world());
        Ok(Self { snapshot, world, definitions, role })
    }

    /// The state that runs continue.
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// Returns `true` if a scenario that installs this can continue here.
    fn fits(&self, definitions: &[Value], role: Option<&Role>) -> bool {
        self.definitions == definitions && self.role.as_ref() == role
    }
}

fn server(seed: u64, role: Option<&Role>) -> Result<ApiServer> {
    let operator = role.map_or_else(|| User::admin("operator"), Role::user);
    let tokens =
        vec![(USER_TOKEN.to_owned(), User::admin("user")), (replica::TOKEN.to_owned(), operator)];
    let start_time = EPOCH.parse().map_err(Error::other)?;
    let options =
        Options { tokens, seed: Some(seed), start_time: Some(start_time), ..Options::default() };
    ApiServer::with_options(options).map_err(Error::other)
}

/// Installs the definitions, and gives the operator the rights of its role.
async fn prepare(server: &ApiServer, definitions: &[Value], role: Option<&Role>) -> Result<()> {
    let client = Client::new(server.client());
    for definition in definitions {
        let kind = Kind::new(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        );
        put(&client, &kind.cluster_scoped(), definition.clone()).await?;
    }
    for object in role.into_iter().flat_map(|role| &role.objects) {
        let kind =
            Role::kind(object).ok_or_else(|| Error::from("an object of a role has no kind"))?;
        put(&client, &kind, object.clone()).await?;
    }
    Ok(())
}

/// Starts the embedded controllers, apart from those that are the operator.
async fn cluster(
    server: &ApiServer,
    controllers: Option<&BTreeSet<&'static str>>,
    embedded: &[&str],
) -> Option<Cluster> {
    let wanted =
        |name: &str| !embedded.contains(&name) && controllers.is_none_or(|set| set.contains(name));
    let nodes = usize::from(wanted("node"));
    let without: Vec<String> = Cluster::controllers()
        .into_iter()
        .filter(|name| !wanted(name))
        .map(str::to_owned)
        .collect();
    if nodes == 0 && without.len() == Cluster::controllers().len() {
        return None;
    }
    // No oracle looks at the Events of the embedded controllers, and they cost time.
    let mut options =
        windlass_cluster::Options { nodes, without, events: false, ..Default::default() };
    // Nobody connects over TLS, and a key would cost time.
    options.settings.root_ca = "simulated".into();
    Some(Cluster::with_options(server.clone(), options).await)
}

/// Applies an object of any kind.
pub(super) async fn put(client: &Client, kind: &Kind, mut object: Value) -> Result<()> {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind().into();
    let meta = &object["metadata"];
    let key = Key::new(meta["namespace"].as_str(), meta["name"].as_str().unwrap_or_default());
    let patch = Patch::Apply { object, force: true };
    client.api_of::<DynamicObject>(kind).patch(&key, &patch).await.map(drop)
}
