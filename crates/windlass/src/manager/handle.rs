//! A manager as seen from outside.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::checks::Probe;
use super::{PendingController, State, diagnostics};
use crate::client::Client;
use crate::controller::{Component, Controller, ControllerHandle};
use crate::error::{Error, Result};
use crate::kind::Object;
use crate::lease::LeaseStatus;

/// Observes and controls a manager; dropping it does not stop the manager.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::manager::Handle;
/// use windlass::{Context, Controller, Key, Manager, Next, Result};
///
/// async fn extend(handle: Handle) -> Result<()> {
///     // A controller can be added to a manager that runs.
///     let late = Controller::<ConfigMap>::builder("late")
///         .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
///     handle.add(late)?.await?.synced().await;
///     let key = Key::namespaced("default", "none");
///     assert!(handle.client().api::<ConfigMap>().get(&key).await?.is_none());
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let running = Manager::new(client).spawn()?;
/// extend(Handle::clone(&running)).await?;
/// running.stop().await
/// # }
/// ```
#[derive(Clone)]
pub struct Handle {
    state: Arc<State>,
    task: AbortHandle,
}

// === impl Handle ===

impl Handle {
    pub(super) fn new(state: Arc<State>, task: AbortHandle) -> Self {
        Self { state, task }
    }

    /// Returns the client of the home cluster. It reads from the cache, and writes only while this process
    /// holds the lease, if the manager uses one.
    ///
    /// What every replica has to do before one of them leads, such as installing a
    /// CustomResourceDefinition, is written by a [`Client::new`] of its own. It belongs to no lease,
    /// so several replicas may write at the same time: such writes have to be idempotent.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use windlass::lease::LeaseOptions;
    /// use windlass::{Client, Manager, ResultExt};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = server.client();
    /// let mut namespace = Namespace::default();
    /// namespace.metadata.name = Some("shop".into());
    /// let manager = Manager::new(client.clone()).lease(LeaseOptions::new("my-operator"));
    /// let running = manager.spawn()?;
    /// let refused = running.client().api().create(&namespace).await.unwrap_err();
    /// assert!(refused.to_string().contains("does not hold lease default/my-operator"));
    /// Client::new(client).api().create(&namespace).await.ignore_already_exists()?;
    /// # running.stop().await
    /// # }
    /// ```
    pub fn client(&self) -> &Client {
        &self.state.clients[0].1
    }

    /// Returns the client of a named cluster, if the manager has it.
    pub fn cluster(&self, name: &str) -> Option<&Client> {
        self.state.clients.iter().find(|(known, _)| known == name).map(|(_, client)| client)
    }

    /// Waits until every watch of every controller has delivered its first list.
    ///
    /// Returns `false` if the manager stops before that, or has ended.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn ready(&self) -> bool {
        let mut ready = self.state.ready.subscribe();
        tokio::select! {
            biased;
            ready = async { ready.wait_for(|ready| *ready).await.is_ok() } => ready,
            () = self.state.stopping.cancelled() => false,
        }
    }

    /// Returns a running controller by its name, or by `cluster/controller`.
    pub fn controller(&self, name: &str) -> Option<ControllerHandle> {
        let controllers = self.state.controllers.lock();
        // Names of clusters and of controllers may contain slashes.
        let named = |cluster: &str, c: &ControllerHandle| {
            let within = name.strip_prefix(cluster).and_then(|rest| rest.strip_prefix('/'));
            c.name() == name || within.is_some_and(|name| !cluster.is_empty() && c.name() == name)
        };
        controllers.iter().find(|(cluster, c)| named(cluster, c)).map(|(_, c)| c.clone())
    }

    /// Adds a controller to the home cluster. A manager that runs starts it immediately; await the
    /// returned future for its handle, or drop the future.
    ///
    /// # Errors
    ///
    /// Fails if the manager stops or has ended, or if there is a controller of that name already.
    /// The future fails if the controller cannot be started, or if the manager ends before that.
    pub fn add<K: Object>(
        &self,
        controller: Controller<K>,
    ) -> Result<impl Future<Output = Result<ControllerHandle>> + Send + use<K>> {
        if self.state.stopping.is_cancelled() {
            return Err(Error::Invalid(
                "no controller can be added: the manager stops or has ended".into(),
            ));
        }
        let mut pending = self.state.pending.lock();
        let running = self.state.controllers.lock();
        let taken =
            running.iter().any(|(cluster, c)| cluster.is_empty() && c.name() == controller.name())
                || pending
                    .iter()
                    .any(|other| other.cluster == 0 && other.component.name() == controller.name());
        if taken {
            return Err(Error::Invalid(format!("two controllers are named {}", controller.name())));
        }
        let (reply, started) = oneshot::channel();
        let (name, stopping) = (controller.name().to_string(), self.state.stopping.clone());
        let component: Box<dyn Component> = Box::new(controller);
        self.client().cached().announce(&component.kinds());
        pending.push(PendingController { cluster: 0, component, reply: Some(reply) });
        drop((pending, running));
        self.state.wake.notify_one();
        Ok(async move {
            let started = tokio::select! {
                biased;
                started = started => started.ok(),
                () = stopping.cancelled() => None,
            };
            started.unwrap_or_else(|| {
                let text = format!("controller {name} was not started: the manager has ended");
                Err(Error::Invalid(text))
            })
        })
    }

    /// Returns the metrics of this manager in the Prometheus text format, as `/metrics` serves them.
    ///
    /// Without the feature `metrics`, the text is empty.
    ///
    /// ```
    /// use windlass::Manager;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let handle = Manager::new(server.client()).spawn()?;
    /// assert!(handle.metrics().contains("# TYPE process_start_time_seconds gauge"));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn metrics(&self) -> String {
        self.state.metrics.encode()
    }

    /// Returns the address of the server for probes, once it listens.
    pub fn probe_address(&self) -> Option<SocketAddr> {
        self.state.probe_address.as_ref().and_then(|address| *address.read())
    }

    /// Returns the address of the server for metrics, once it listens.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.state.metrics_address.as_ref().and_then(|address| *address.read())
    }

    /// Returns the address of the server for webhooks, once it listens.
    pub fn webhook_address(&self) -> Option<SocketAddr> {
        self.state.webhook_address.as_ref().and_then(|address| *address.read())
    }

    /// Runs the readiness checks and returns the page that `/readyz?verbose` shows.
    ///
    /// # Errors
    ///
    /// Returns the page as an error if a check fails.
    ///
    /// ```
    /// use windlass::Manager;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let running = Manager::new(server.client()).spawn()?;
    /// running.ready().await;
    /// assert_eq!(running.readyz().await.unwrap(), "[+]caches ok\n[+]ping ok\nreadyz check passed\n");
    /// # running.stop().await
    /// # }
    /// ```
    pub async fn readyz(&self) -> Result<String, String> {
        self.state.checks.run(Probe::Ready).await
    }

    /// Returns the status of the lease, if the manager uses one.
    pub fn lease(&self) -> Option<LeaseStatus> {
        let (_, status) = self.state.lease.as_ref()?;
        let mut status = status.borrow().clone();
        // The fence also knows if the renew deadline has passed meanwhile.
        status.held = status.held && self.client().fence().check().is_ok();
        Some(status)
    }

    /// Returns the state of every watch, index, queue and lease, as on the diagnostics page.
    ///
    /// This is a document for people; fields may be added and changed in every release.
    pub fn diagnostics(&self) -> Value {
        diagnostics::report(&self.state)
    }

    /// Asks the manager to stop, without waiting.
    pub fn shutdown(&self) {
        self.state.stopping.cancel();
    }

    /// Drops the manager with everything that it runs, as a crash of the process would: nothing
    /// drains, no event is sent, and the lease expires.
    ///
    /// Tasks that the author's code has spawned continue.
    ///
    /// ```
    /// use windlass::Manager;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let running = Manager::new(server.client()).spawn()?;
    /// running.ready().await;
    /// running.abort();
    /// assert!(running.wait().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn abort(&self) {
        self.task.abort();
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("ready", &*self.state.ready.borrow()).finish_non_exhaustive()
    }
}
