//! Where webhooks of this process are reached.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::ApiServer;
use crate::admission::{Route, Stream};

impl ApiServer {
    /// Answers calls of a webhook within the process, with no socket in between.
    ///
    /// The target is the webhook's URL as its configuration has it, or for a service
    /// `https://<name>.<namespace>.svc/<path>`. The callback takes and gives the review document
    /// (`AdmissionReview` or `ConversionReview`).
    pub fn register_webhook<F, A>(&self, target: &str, webhook: F)
    where
        F: Fn(serde_json::Value) -> A + Send + Sync + 'static,
        A: Future<Output = serde_json::Value> + Send + 'static,
    {
        self.register_unreliable_webhook(target, move |review| {
            let answer = webhook(review);
            async { Ok(answer.await) }
        });
    }

    /// Answers calls of a webhook that can also fail to answer. An error is what the server is to say
    /// about the connection; a panic closes the connection without an answer.
    ///
    /// ```
    /// use windlass_apiserver::ApiServer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = ApiServer::start();
    /// server.register_unreliable_webhook("https://hooks.ops.svc/validate", |_| async {
    ///     Err("dial tcp hooks.ops.svc:443: connect: connection refused".to_owned())
    /// });
    /// # }
    /// ```
    pub fn register_unreliable_webhook<F, A>(&self, target: &str, webhook: F)
    where
        F: Fn(serde_json::Value) -> A + Send + Sync + 'static,
        A: Future<Output = Result<serde_json::Value, String>> + Send + 'static,
    {
        let callback =
            Arc::new(move |review| -> BoxFuture<'static, _> { Box::pin(webhook(review)) });
        self.inner.admission.routes.set_callback(target, callback);
    }

    /// Sends calls of webhooks that name a service to an address.
    ///
    /// A service whose pods are simulated needs this, or [`ApiServer::register_webhook`]: the
    /// server never connects to the address of a simulated pod, behind which nothing of this
    /// cluster listens.
    pub fn route_service(&self, namespace: &str, name: &str, address: std::net::SocketAddr) {
        self.inner.admission.routes.set_service(namespace, name, Route::Address(address));
    }

    /// Sends calls of webhooks that name a service over streams of this process, such as
    /// `tokio::io::duplex`: TLS, certificates and HTTP as over a network, without a socket.
    ///
    /// An error of `connect` is a connection that was refused, and a future that never completes a
    /// service that hangs.
    ///
    /// ```
    /// use windlass_apiserver::ApiServer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = ApiServer::start();
    /// server.connect_service("ops", "webhooks", || async {
    ///     let (ours, _theirs) = tokio::io::duplex(64 * 1024); // the other end is for the webhook
    ///     Ok(ours)
    /// });
    /// # }
    /// ```
    pub fn connect_service<F, A, S>(&self, namespace: &str, name: &str, connect: F)
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = std::io::Result<S>> + Send + 'static,
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let connect = Arc::new(move || -> BoxFuture<'static, std::io::Result<Box<dyn Stream>>> {
            let stream = connect();
            Box::pin(async move { Ok(Box::new(stream.await?) as Box<dyn Stream>) })
        });
        self.inner.admission.routes.set_service(namespace, name, Route::Streams(connect));
    }
}
