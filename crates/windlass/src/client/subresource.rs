//! Subresources: parts of an object with a URL of their own.

use std::sync::Arc;

use super::Api;
use crate::kind::Object;

impl<K: Object> Api<K> {
    /// Returns the requests for a subresource of the objects: `get`, `create`, `update`, `patch`
    /// and `apply`.
    ///
    /// `status` has the type of the object itself. For a subresource with a type of its own, such as
    /// `scale`, start with [`Client::api_of`](super::Client::api_of) and that type.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use k8s_openapi::api::autoscaling::v1::Scale;
    /// use k8s_openapi::api::core::v1::{Node, Pod};
    /// use k8s_openapi::api::policy::v1::Eviction;
    /// use serde_json::json;
    /// use windlass::client::Patch;
    /// use windlass::{Client, Key, Kind};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let mut node = Node::default();
    /// node.metadata.name = Some("node-1".into());
    /// let mut node = client.api().create(&node).await?;
    /// let status = client.api::<Node>().subresource("status");
    ///
    /// // Changes a part of the status; the spec is ignored.
    /// let patch = json!({"spec": {"unschedulable": true}, "status": {"phase": "Pending"}});
    /// let patched = status.patch(&Key::of(&node), &Patch::Merge(patch)).await?;
    /// assert_eq!(patched.status.expect("is there").phase.as_deref(), Some("Pending"));
    /// assert_eq!(patched.spec.and_then(|spec| spec.unschedulable), None);
    ///
    /// // Replaces all of it, which needs the resource version that was read last.
    /// node.status.get_or_insert_default().phase = Some("Running".into());
    /// assert!(status.update(&node).await.unwrap_err().is_conflict());
    /// node.metadata.resource_version = patched.metadata.resource_version;
    /// status.update(&node).await?;
    ///
    /// # let deployment: Deployment = serde_json::from_value(json!({
    /// #     "metadata": {"name": "web", "namespace": "default"},
    /// #     "spec": {
    /// #         "replicas": 2,
    /// #         "selector": {"matchLabels": {"app": "web"}},
    /// #         "template": {
    /// #             "metadata": {"labels": {"app": "web"}},
    /// #             "spec": {"containers": [{"name": "c", "image": "i"}]},
    /// #         },
    /// #     },
    /// # }))?;
    /// # client.api().create(&deployment).await?;
    /// // A subresource with a type of its own.
    /// let scales = client.api_of::<Scale>(&Kind::of::<Deployment>()).subresource("scale");
    /// let mut web = (*scales.get(&Key::namespaced("default", "web")).await?.expect("exists")).clone();
    /// web.spec.get_or_insert_default().replicas = Some(5);
    /// assert_eq!(scales.update(&web).await?.spec.and_then(|spec| spec.replicas), Some(5));
    ///
    /// # let pod: Pod = serde_json::from_value(json!({
    /// #     "metadata": {"name": "cart", "namespace": "default"},
    /// #     "spec": {"containers": [{"name": "c", "image": "i"}]},
    /// # }))?;
    /// # client.api().create(&pod).await?;
    /// // One that is only created: evicts a pod, as far as its disruption budgets allow that.
    /// let mut eviction = Eviction::default();
    /// eviction.metadata.name = Some("cart".into());
    /// eviction.metadata.namespace = Some("default".into());
    /// client.api_of(&Kind::of::<Pod>()).subresource("eviction").create(&eviction).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Subresources that do not answer with JSON, such as the `log` of a pod, can be read with
    /// the plain client of [`Client::kube`](super::Client::kube).
    pub fn subresource(&self, name: &str) -> Self {
        let mut api = self.clone();
        api.sub = Some(Arc::from(name));
        api
    }
}
