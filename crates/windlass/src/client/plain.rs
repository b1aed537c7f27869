//! A plain `kube::Client` whose writes still stop when leadership is lost.

use tower::ServiceExt;

use super::Client;
use super::transport::{mutates, mutates_more_than_status};

impl Client {
    /// Returns a plain `kube::Client` over the same connection, behind the same fence.
    ///
    /// A lease that is requested only after this call does not guard the returned client. Its
    /// writes are visible in the cache when the watch delivers them, and not at once.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::api::{Api, PostParams};
    /// use windlass::{Client, Key};
    ///
    /// # fn config_map(name: &str) -> ConfigMap {
    /// #     let mut map = ConfigMap::default();
    /// #     map.metadata.name = Some(name.into());
    /// #     map.metadata.namespace = Some("default".into());
    /// #     map
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let plain: Api<ConfigMap> = Api::namespaced(client.kube(), "default");
    /// plain.create(&PostParams::default(), &config_map("a")).await?;
    /// assert!(client.api::<ConfigMap>().get(&Key::namespaced("default", "a")).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn kube(&self) -> kube::Client {
        let paused = self.options.paused;
        let fenced = !self.options.unfenced && self.shared.fence.armed();
        if !fenced && paused.is_none() {
            return self.shared.kube.clone();
        }
        let (inner, fence) = (self.shared.kube.clone(), self.shared.fence.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (inner, fence) = (inner.clone(), fence.clone());
            async move {
                if !mutates(request.method(), request.uri().path()) {
                    return inner.send(request).await.map_err(tower::BoxError::from);
                }
                let action = format!("{} {}", request.method(), request.uri().path());
                if let Some(paused) = paused
                    && mutates_more_than_status(request.method(), request.uri().path())
                {
                    return Err(tower::BoxError::from(paused.error(&action)));
                }
                if !fenced {
                    return inner.send(request).await.map_err(tower::BoxError::from);
                }
                tokio::select! {
                    biased;
                    closed = fence.closed() => Err(tower::BoxError::from(closed.error(action))),
                    answer = inner.send(request) => answer.map_err(tower::BoxError::from),
                }
            }
        });
        let namespace = self.shared.kube.default_namespace().to_string();
        kube::Client::new(service.boxed(), namespace)
    }
}
