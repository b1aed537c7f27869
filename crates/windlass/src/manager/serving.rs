//! The HTTP servers of a manager.

use crate::client::Client;
#[cfg(feature = "webhook")]
use crate::error::{Error, Result};
use crate::serve::{Access, Pages, Server, Tls};
#[cfg(feature = "webhook")]
use crate::webhook::{Certificates, Serving as Served, Webhooks};

use super::Manager;

/// What a manager serves, and where.
#[derive(Debug, Default)]
pub(super) struct Serving {
    /// The address for probes.
    probes: Option<String>,
    /// The address for metrics.
    metrics: Option<String>,
    tls: Option<Tls>,
    diagnostics: bool,
    #[cfg(feature = "webhook")]
    webhooks: Webhooks,
    #[cfg(feature = "webhook")]
    webhook_server: Option<(String, Certificates)>,
}

impl Manager {
    /// Serves `/healthz` and `/readyz` on an address such as `:8081`.
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// use tokio::net::TcpStream;
    /// use windlass::Manager;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let handle = Manager::new(server.client())
    ///     .probes("127.0.0.1:0")
    ///     .ready_check("disk", || async { Err("it is full".into()) })
    ///     .spawn()?;
    /// handle.ready().await; // the server listens by then
    /// let at = handle.probe_address().expect("listens");
    /// let mut probe = TcpStream::connect(at).await?;
    /// probe.write_all(b"GET /readyz HTTP/1.1\r\nhost: me\r\nconnection: close\r\n\r\n").await?;
    /// let mut answer = String::new();
    /// probe.read_to_string(&mut answer).await?;
    /// assert!(answer.starts_with("HTTP/1.1 500 "));
    /// assert!(answer.contains("[+]caches ok\n[-]disk failed: reason withheld\n[+]ping ok"));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn probes(mut self, address: &str) -> Self {
        self.serving.probes = enabled(address);
        self
    }

    /// Serves `/metrics` on an address such as `:8080`.
    pub fn metrics(mut self, address: &str) -> Self {
        self.serving.metrics = enabled(address);
        self
    }

    /// Serves metrics over TLS, by convention on `:8443`, and only to users who may `get` the path
    /// `/metrics`, as reviewed by the API server.
    ///
    /// The operator needs permission to create `tokenreviews` and `subjectaccessreviews`.
    ///
    /// ```
    /// use windlass::Manager;
    /// use windlass::serve::Tls;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let handle = Manager::new(server.client())
    ///     .metrics("127.0.0.1:0")
    ///     .secure_metrics(Tls::self_signed(&["localhost", "127.0.0.1"])?)
    ///     .spawn()?;
    /// handle.ready().await;
    /// assert!(handle.metrics_address().is_some());
    /// # handle.stop().await
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn secure_metrics(mut self, tls: Tls) -> Self {
        self.serving.tls = Some(tls);
        self
    }

    /// Serves `/debug/windlass` next to `/metrics`: the state of every watch, queue and lease as
    /// JSON. Off by default, because the page names objects, and everybody who can read the metrics
    /// can read it.
    pub fn serve_diagnostics(mut self) -> Self {
        self.serving.diagnostics = true;
        self
    }

    /// Sets the webhooks of the operator. Every replica serves them, whether it leads or not.
    ///
    /// Their handlers read from the caches of this manager.
    #[cfg(feature = "webhook")]
    pub fn webhooks(mut self, webhooks: Webhooks) -> Self {
        self.serving.webhooks = webhooks;
        self
    }

    /// Serves the webhooks over TLS on an address, by convention `:9443`.
    ///
    /// The pod is ready once a certificate is loaded, and its CA published if this replica leads.
    /// After a shutdown, webhooks are served for five seconds more, within the grace period, because
    /// API servers learn late that a pod stops; those of [`Certificates::local`] are not, because
    /// their configurations are deleted first.
    #[cfg(feature = "webhook")]
    pub fn webhook_server(mut self, address: &str, certificates: Certificates) -> Self {
        self.serving.webhook_server = enabled(address).map(|address| (address, certificates));
        self
    }

    /// The server of the webhooks, and the tasks that keep its certificate.
    #[cfg(feature = "webhook")]
    pub(super) fn webhook_servers(&mut self, client: &Client) -> Result<Option<Server>> {
        let webhooks = std::mem::take(&mut self.serving.webhooks);
        if let Some(path) = webhooks.twice() {
            return Err(Error::Invalid(format!("two webhooks have the path {path:?}")));
        }
        webhooks.attach(client);
        let Some((address, certificates)) = self.serving.webhook_server.take() else {
            return Ok(None);
        };
        let mut server = Server::new("webhook", &address, Pages::Webhooks(webhooks));
        if certificates.are_local() {
            server = server.without_linger();
        }
        let Served { tls, published, tasks } = certificates.serving(client, server.bound())?;
        for task in tasks {
            let start = super::Runnable { name: task.name.into(), start: task.run, eager: true };
            self.runnables.push((task.leader, start));
        }
        let (shown, clock) = (tls.clone(), self.clock.clone());
        self.checks.add_builtin(super::checks::Probe::Ready, "webhook-certificate", move || {
            crate::webhook::check_served(shown.served().as_deref(), clock.now())?;
            published.check().map(|()| None)
        });
        Ok(Some(server.secure(Some(tls), None)))
    }

    #[cfg(not(feature = "webhook"))]
    pub(super) fn webhook_servers(
        &mut self,
        _client: &Client,
    ) -> crate::error::Result<Option<Server>> {
        Ok(None)
    }

    pub(super) fn probe_server(&self) -> Option<Server> {
        let pages = Pages::Probes(self.checks.clone());
        self.serving.probes.as_ref().map(|address| Server::new("health probe", address, pages))
    }

    pub(super) fn metrics_server(&mut self, client: &Client) -> Option<Server> {
        let address = self.serving.metrics.as_ref()?;
        let pages = Pages::Metrics { metrics: self.registry.clone(), diagnostics: None };
        let access = self.serving.tls.is_some().then(|| Access::new(client));
        let tls = self.serving.tls.take().map(|tls| tls.counted(client));
        Some(Server::new("metrics", address, pages).secure(tls, access))
    }

    pub(super) fn serves_diagnostics(&self) -> bool {
        self.serving.diagnostics
    }
}

/// Returns `None` for an empty address and for `0`, which disable a server.
fn enabled(address: &str) -> Option<String> {
    Some(address.to_string()).filter(|address| !address.is_empty() && address != "0")
}
