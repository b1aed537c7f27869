//! The control loop: from the caches through the queue to the API server.
//!
//! Event handlers turn changes into keys of AppServices, the queue keeps each key once, and a worker
//! brings one AppService at a time to what it asks for.
//!
//! **Invariant:** a key is worked on by one worker at a time.
//! **Invariant:** every change of an AppService, and of a Deployment that it owns or names, leads to
//! a run of [`Controller::sync`] that begins after it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use tokio::task::JoinSet;
use windlass::cache::{Change, Informer, Origin, Scope};
use windlass::client::Deletion;
use windlass::events::{EventType, Recorder};
use windlass::manager::RunContext;
use windlass::queue::{LOW_PRIORITY, WorkQueue};
use windlass::{Client, Error, Index, Key, Kind, Result, owner};

use crate::{AppService, AppServiceStatus};

const WORKERS: usize = 2;
/// How long the first list may take before the process gives up and is started again.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the handlers and the workers share.
pub struct Controller {
    client: Client,
    recorder: Recorder,
    services: Informer<AppService>,
    deployments: Informer<Deployment>,
    queue: WorkQueue<Key>,
}

/// Runs the controller until the manager stops.
///
/// # Errors
///
/// Fails if the caches cannot be filled, which ends the process.
pub async fn run(cx: RunContext) -> Result<()> {
    let controller = Arc::new(Controller::new(&cx)?);
    let mut stopping = pin!(cx.stopping());
    let handlers = controller.start_handlers();
    tokio::select! {
        biased;
        () = &mut stopping => return Ok(()),
        synced = controller.synced() => synced?,
    }
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(controller.clone().work());
    }
    tracing::info!(workers = WORKERS, "started workers");

    stopping.await;
    drop(handlers);
    controller.queue.shutdown(); // what is queued is still worked on
    while workers.join_next().await.is_some() {}
    Ok(())
}

/// AppServices by the Deployment that they name.
fn by_deployment() -> Index<AppService, Key> {
    Index::new("deployment", |service: &AppService| {
        vec![Key::new(service.metadata.namespace.as_deref(), &service.spec.deployment_name)]
    })
}

/// Deployments by the UID of the object that controls them.
fn by_controller() -> Index<Deployment, String> {
    Index::new("controller", |deployment: &Deployment| {
        owner::controller_of(deployment).map(|owner| owner.uid.clone()).into_iter().collect()
    })
}

// === impl Controller ===

impl Controller {
    /// Starts the informers, or joins those that run already.
    ///
    /// # Errors
    ///
    /// Fails if an index of the same name is declared with another function.
    pub fn new(cx: &RunContext) -> Result<Self> {
        let cache = cx.client.cached();
        cache.declare(&by_deployment())?;
        cache.declare(&by_controller())?;
        Ok(Self {
            client: cx.client.clone(),
            recorder: cx.recorder.clone(),
            services: cache.informer(&Scope::default()),
            deployments: cache.informer(&Scope::default()),
            queue: WorkQueue::default(),
        })
    }

    /// Starts the event handlers; they end when the set is dropped.
    fn start_handlers(self: &Arc<Self>) -> JoinSet<()> {
        let mut handlers = JoinSet::new();
        let (mut services, this) = (self.services.subscribe(), self.clone());
        handlers.spawn(async move {
            while let Some(change) = services.recv().await {
                this.enqueue(change.key().clone(), change.origin);
            }
        });
        let (mut deployments, this) = (self.deployments.subscribe(), self.clone());
        handlers.spawn(async move {
            while let Some(change) = deployments.recv().await {
                this.handle_deployment(&change);
            }
        });
        handlers
    }

    /// Waits until both caches hold everything.
    async fn synced(&self) -> Result<()> {
        let incomplete =
            |what: &str, state| Error::other(format!("{what} cannot be cached: {state:?}"));
        self.services.synced(PATIENCE).await.map_err(|state| incomplete("AppServices", state))?;
        self.deployments.synced(PATIENCE).await.map_err(|state| incomplete("Deployments", state))
    }

    /// Adds a key. What was there before the start can wait for what changes now.
    fn enqueue(&self, key: Key, origin: Origin) {
        let priority = if origin == Origin::Watch { 0 } else { LOW_PRIORITY };
        self.queue.add_with_priority(key, priority);
    }

    /// Adds the AppServices that a change of a Deployment concerns: its owner, before and after the
    /// change, and all that name it.
    fn handle_deployment(&self, change: &Change) {
        let kind = Kind::of::<AppService>();
        for owner in change.old.iter().chain(&change.new).flat_map(|entry| &entry.owners) {
            let ours = *owner.kind == *kind.kind() && *owner.api_version == kind.api_version();
            if ours && owner.controller {
                self.enqueue(Key::new(change.key().namespace(), &owner.name), change.origin);
            }
        }
        let named = self.services.reader().by(&by_deployment(), change.key());
        for service in named.iter().flatten() {
            self.enqueue(Key::of(&**service), change.origin);
        }
    }

    /// Takes keys from the queue until it is shut down.
    async fn work(self: Arc<Self>) {
        while let Some(work) = self.queue.get().await {
            match self.sync(&work).await {
                Ok(()) => self.queue.forget(&work),
                Err(error) => {
                    let delay = self.queue.add_rate_limited(&*work);
                    tracing::warn!(key = %*work, ?delay, ?error, "will retry");
                }
            }
        }
    }

    /// Brings the cluster to what one AppService asks for.
    ///
    /// # Errors
    ///
    /// Fails if the API server refuses a request; the worker retries.
    pub async fn sync(&self, key: &Key) -> Result<()> {
        let Some(service) = self.services.reader().get(key) else { return Ok(()) };
        if service.metadata.deletion_timestamp.is_some() {
            return Ok(()); // the garbage collector deletes what it owns
        }
        self.delete_others(&service).await?;
        let wanted = Key::new(key.namespace(), &service.spec.deployment_name);
        let deployment = match self.deployments.reader().get(&wanted) {
            None => self.create(&service).await?,
            Some(found) if !owner::is_controlled_by(&*found, &*service) => {
                let note = format!("Deployment {} exists and is not ours", wanted.name());
                self.publish(EventType::Warning, &service, "NotOurs", note);
                return Ok(()); // any change of the Deployment leads to another run
            }
            Some(found) => self.scale(&found, service.spec.replicas).await?,
        };
        let available = deployment.status.as_ref().and_then(|status| status.available_replicas);
        self.report(&service, available.unwrap_or(0)).await
    }

    /// Deletes what was created under another name, before the AppService was changed.
    async fn delete_others(&self, service: &AppService) -> Result<()> {
        let uid = service.metadata.uid.clone().unwrap_or_default();
        for owned in self.deployments.reader().by(&by_controller(), &uid)? {
            let named = owned.metadata.name.as_ref() == Some(&service.spec.deployment_name);
            if !named && owned.metadata.deletion_timestamp.is_none() {
                self.client.api::<Deployment>().delete(Deletion::only(&*owned)).await?;
            }
        }
        Ok(())
    }

    async fn create(&self, service: &AppService) -> Result<Deployment> {
        let created = self.client.api().create(&deployment(service)?).await?;
        let note = format!("created Deployment {}", service.spec.deployment_name);
        self.publish(EventType::Normal, service, "Created", note);
        Ok(created)
    }

    /// Sets the replicas of a Deployment if they differ. The update names the version that was
    /// read, so that it fails if somebody was faster.
    async fn scale(&self, deployment: &Deployment, replicas: i32) -> Result<Deployment> {
        let mut changed = deployment.clone();
        let spec = changed.spec.get_or_insert_default();
        if spec.replicas == Some(replicas) {
            return Ok(changed);
        }
        spec.replicas = Some(replicas);
        self.client.api().update(&changed).await
    }

    /// Writes the status if it differs.
    async fn report(&self, service: &AppService, available: i32) -> Result<()> {
        let status = Some(AppServiceStatus { available_replicas: Some(available) });
        if service.status == status {
            return Ok(());
        }
        let changed = AppService { status, ..service.clone() };
        self.client.api::<AppService>().subresource("status").update(&changed).await.map(drop)
    }

    fn publish(&self, event_type: EventType, service: &AppService, reason: &str, note: String) {
        let kind = Kind::of::<AppService>();
        let mut regarding = Key::of(service).object_reference(&kind);
        regarding.uid.clone_from(&service.metadata.uid);
        self.recorder.publish(event_type, regarding, reason, "Sync", note);
    }
}

/// The Deployment that an AppService asks for.
fn deployment(service: &AppService) -> Result<Deployment> {
    let labels = json!({"app": "nginx", "controller": service.metadata.name});
    let mut deployment: Deployment = serde_json::from_value(json!({
        "metadata": {
            "name": service.spec.deployment_name,
            "namespace": service.metadata.namespace,
        },
        "spec": {
            "replicas": service.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:1.29-alpine"}]},
            },
        },
    }))?;
    owner::set_controller(service, &mut deployment)?;
    Ok(deployment)
}
