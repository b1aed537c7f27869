//! A running manager, from outside.

use std::fmt;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Arrival, State, diagnostics};
use crate::client::Client;
use crate::controller::{Component, Controller, ControllerHandle};
use crate::error::{Error, Result};
use crate::kind::Object;
use crate::lease::LeaseStatus;
use crate::metrics::Metrics;

/// Looks at and steers a running manager; dropping it leaves the manager running.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::manager::Handle;
/// use windlass::{Context, Controller, Key, Manager, Next, Result};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let handle: Handle = Manager::builder(client).spawn()?;
/// // A controller may come later.
/// let late = Controller::<ConfigMap>::builder("late")
///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
/// handle.add(late)?.await?.synced().await;
/// assert!(handle.client().live().get::<ConfigMap>(&Key::namespaced("default", "none")).await?.is_none());
/// handle.stop().await
/// # }
/// ```
pub struct Handle {
    state: Arc<State>,
    task: Option<JoinHandle<Result<()>>>,
}

/// A controller that was added to a manager, which starts it in any case; awaiting this gives its
/// handle when it has been started.
///
/// # Errors
///
/// Awaiting it fails if the controller could not be started, or if the manager ended before.
pub struct Added {
    name: String,
    told: oneshot::Receiver<Result<ControllerHandle>>,
    stopping: CancellationToken,
}

// === impl Handle ===

impl Handle {
    pub(super) fn new(state: Arc<State>, task: Option<JoinHandle<Result<()>>>) -> Self {
        Self { state, task }
    }

    /// The client of the home cluster: cached reads, live writes.
    pub fn client(&self) -> &Client {
        &self.state.clients[0].1
    }

    /// The client of a named cluster.
    pub fn cluster(&self, name: &str) -> Option<&Client> {
        self.state.clients.iter().find(|(known, _)| known == name).map(|(_, client)| client)
    }

    /// Waits until every watch of every controller has delivered its first list.
    ///
    /// Tells `false` at once if the manager stops before that, or has ended;
    /// [`wait`](Self::wait) tells why.
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

    /// A controller by its name; one of another cluster also by `cluster/controller`.
    pub fn controller(&self, name: &str) -> Option<ControllerHandle> {
        let controllers = self.state.controllers.lock();
        // Names of clusters and of controllers may have slashes of their own.
        let named = |cluster: &str, c: &ControllerHandle| {
            let within = name.strip_prefix(cluster).and_then(|rest| rest.strip_prefix('/'));
            c.name() == name || within.is_some_and(|name| !cluster.is_empty() && c.name() == name)
        };
        controllers.iter().find(|(cluster, c)| named(cluster, c)).map(|(_, c)| c.clone())
    }

    /// Adds a controller to the manager, at once if it runs; await what is returned to wait for
    /// that.
    ///
    /// # Errors
    ///
    /// Fails if the manager stops or has ended, or if there is a controller of that name already.
    pub fn add<K: Object>(&self, controller: Controller<K>) -> Result<Added> {
        if self.state.stopping.is_cancelled() {
            return Err(Error::Invalid(
                "the manager stops or has ended: nothing can be added".into(),
            ));
        }
        let mut waiting = self.state.waiting.lock();
        let running = self.state.controllers.lock();
        let taken =
            running.iter().any(|(cluster, c)| cluster.is_empty() && c.name() == controller.name())
                || waiting
                    .iter()
                    .any(|other| other.cluster == 0 && other.component.name() == controller.name());
        if taken {
            return Err(Error::Invalid(format!("two controllers are named {}", controller.name())));
        }
        let (told, hears) = oneshot::channel();
        let (name, stopping) = (controller.name().to_string(), self.state.stopping.clone());
        let component: Box<dyn Component> = Box::new(controller);
        self.client().cached().announce(&component.kinds());
        waiting.push(Arrival { cluster: 0, component, told: Some(told) });
        drop((waiting, running));
        self.state.wake.notify_one();
        Ok(Added { name, told: hears, stopping })
    }

    /// The metrics of this manager.
    ///
    /// ```
    /// use prometheus_client::metrics::gauge::Gauge;
    /// use windlass::Manager;
    /// use windlass::metrics::Format;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let handle = Manager::builder(server.client()).spawn()?;
    /// let (metrics, open) = (handle.metrics(), Gauge::<i64>::default());
    /// metrics.register(|registry| registry.register("doors", "Open doors", open.clone()));
    /// open.set(2);
    /// assert!(metrics.encode(Format::Prometheus).contains("\ndoors 2\n"));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn metrics(&self) -> &Metrics {
        &self.state.metrics
    }

    /// Where a server listens: `health probe` or `metrics`.
    pub fn address(&self, server: &str) -> Option<SocketAddr> {
        let bound = self.state.bound.lock();
        bound.iter().find(|(name, _)| *name == server).and_then(|(_, at)| *at.read())
    }

    /// What a probe such as `/readyz?verbose` is answered, with or without a server for probes.
    pub fn probe(&self, path: &str) -> (http::StatusCode, String) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        self.state.checks.answer(path, query)
    }

    /// What is known about the lease, if one is asked for.
    pub fn lease(&self) -> Option<LeaseStatus> {
        self.state.lease.lock().as_ref().map(|(_, status)| status.borrow().clone())
    }

    /// Every watch, index, queue and lease, and jumps of the clock, as on the diagnostics page.
    pub fn diagnostics(&self) -> Value {
        diagnostics::report(&self.state)
    }

    /// Begins to stop, without waiting.
    pub fn shutdown(&self) {
        self.state.stopping.cancel();
    }

    /// Stops in order and waits for the end.
    ///
    /// # Errors
    ///
    /// Fails with what [`Manager::run`](super::Manager::run) fails with.
    pub async fn stop(mut self) -> Result<()> {
        self.shutdown();
        self.join().await
    }

    /// Waits until the manager ends by itself; one of [`Manager::handle`](super::Manager::handle)
    /// does not wait.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    pub async fn wait(mut self) -> Result<()> {
        self.join().await
    }

    async fn join(&mut self) -> Result<()> {
        match self.task.take() {
            None => Ok(()),
            Some(task) => match task.await {
                Ok(result) => result,
                Err(error) => Err(Error::Panic(format!("the manager: {error}"))),
            },
        }
    }
}

// === impl Added ===

impl IntoFuture for Added {
    type Output = Result<ControllerHandle>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { name, told, stopping } = self;
        async move {
            let placed = tokio::select! {
                biased;
                placed = told => placed.ok(),
                () = stopping.cancelled() => None,
            };
            placed.unwrap_or_else(|| {
                let text = format!("controller {name} is not started: the manager has ended");
                Err(Error::Invalid(text))
            })
        }
        .boxed()
    }
}

impl fmt::Debug for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Added").field("controller", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("ready", &*self.state.ready.borrow()).finish_non_exhaustive()
    }
}
