//! The verbs for subresources: parts of an object with a URL of their own.

use http::Method;
use serde_json::{Value, json};

use super::{Api, Deletion, Patch};
use crate::cache::Key;
use crate::error::{Error, Result};
use crate::kind::Object;

impl<K: Object> Api<K> {
    /// Returns the desired and the current number of replicas.
    ///
    /// # Errors
    ///
    /// Fails if the object does not exist or its kind has no `scale` subresource.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use windlass::{Client, Key};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// # let deployment: Deployment = serde_json::from_value(serde_json::json!({
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
    /// # client.create(&deployment).await?;
    /// let (web, deployments) = (Key::namespaced("default", "web"), client.api::<Deployment>());
    /// deployments.set_scale(&web, 5).await?;
    /// let (desired, current) = deployments.scale(&web).await?;
    /// assert_eq!((desired, current), (5, 0), "no controller runs here");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn scale(&self, key: &Key) -> Result<(i32, i32)> {
        let scale = self.subresource(Method::GET, key, "scale", None).await?;
        let number = |path: &str| scale.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        let clamp = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
        Ok((clamp(number("/spec/replicas")), clamp(number("/status/replicas"))))
    }

    /// Sets the desired number of replicas.
    ///
    /// # Errors
    ///
    /// Fails if the object does not exist, its kind has no `scale` subresource, or the number is
    /// invalid.
    pub async fn set_scale(&self, key: &Key, replicas: i32) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.patch_subresource(key, "scale", &patch).await.map(drop)
    }

    /// Evicts a pod, as far as its disruption budgets allow that.
    ///
    /// # Errors
    ///
    /// Fails with status 429 if a budget does not allow it now, and if the pod does not exist.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use windlass::client::Deletion;
    /// use windlass::{Client, Key};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// # let pod: Pod = serde_json::from_value(serde_json::json!({
    /// #     "metadata": {"name": "cart", "namespace": "default"},
    /// #     "spec": {"containers": [{"name": "c", "image": "i"}]},
    /// # }))?;
    /// # client.create(&pod).await?;
    /// let (cart, pods) = (Key::namespaced("default", "cart"), client.api::<Pod>());
    /// pods.evict(&cart, &Deletion::default().grace_seconds(0)).await?;
    /// assert!(pods.get(&cart).await?.is_none());
    /// assert!(pods.evict(&cart, &Deletion::default()).await.unwrap_err().is_not_found());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn evict(&self, key: &Key, how: &Deletion) -> Result<()> {
        let options: Value = {
            let action = format!("evict {} {key}", self.kind.kind());
            serde_json::from_slice(&how.body(&action, self.client.options.dry_run)?)?
        };
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key.name(), "namespace": key.namespace()},
            "deleteOptions": options,
        });
        self.subresource(Method::POST, key, "eviction", Some(&body)).await.map(drop)
    }

    /// Sends a request to any subresource, with any method but PATCH, and returns the answer.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses, or if the answer is not JSON: see
    /// [`subresource_text`](Self::subresource_text).
    ///
    /// ```
    /// use http::Method;
    /// use k8s_openapi::api::core::v1::ServiceAccount;
    /// use serde_json::json;
    /// use windlass::{Client, Key};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// # let mut robot = ServiceAccount::default();
    /// # robot.metadata.name = Some("robot".into());
    /// # robot.metadata.namespace = Some("default".into());
    /// # client.create(&robot).await?;
    /// let accounts = client.api::<ServiceAccount>();
    /// let wanted = json!({
    ///     "apiVersion": "authentication.k8s.io/v1",
    ///     "kind": "TokenRequest",
    ///     "spec": {"audiences": [], "expirationSeconds": 600},
    /// });
    /// let robot = Key::namespaced("default", "robot");
    /// let made = accounts.subresource(Method::POST, &robot, "token", Some(&wanted)).await?;
    /// assert!(made["status"]["token"].is_string());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn subresource(
        &self,
        method: Method,
        key: &Key,
        name: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        if method == Method::PATCH {
            let text = format!("{name} of {key}: use patch_subresource to patch");
            return Err(Error::Invalid(text));
        }
        let write = method != Method::GET;
        let verb = method.as_str().to_ascii_lowercase();
        let mut request = self.request(method, &verb, key, Some(name))?;
        if let Some(body) = body {
            request = request.body(body.to_string().into_bytes());
        }
        // What is created below an object, such as an eviction, is not a state that could return.
        let answered = match request.method {
            Method::PUT => self.observe(&request, key, Some(name)).await,
            _ => None,
        };
        let request = if write { self.write_query(request) } else { request };
        let bytes = self.client.send(request).await?;
        if write {
            self.refresh_after_subresource(key).await;
        }
        if let Some(answered) = answered {
            answered(&bytes);
        }
        parse(&bytes, name, key)
    }

    /// Reads a subresource that answers with text, such as the `log` of a pod.
    ///
    /// `query` holds its parameters, such as `[("container", "main")]`.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses, or if the answer is not UTF-8 text.
    pub async fn subresource_text(
        &self,
        key: &Key,
        name: &str,
        query: &[(&str, &str)],
    ) -> Result<String> {
        let mut request = self.request(Method::GET, "get", key, Some(name))?;
        request.accept = "*/*".into();
        let request =
            query.iter().fold(request, |request, (name, value)| request.query(name, value));
        let bytes = self.client.send(request).await?;
        String::from_utf8(bytes.into()).map_err(|error| Error::Decode {
            what: format!("{name} of {key}"),
            source: serde::de::Error::custom(error.utf8_error()),
        })
    }

    /// Patches any subresource, such as `resize` or `ephemeralcontainers`, and returns the answer.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use serde_json::json;
    /// use windlass::client::Patch;
    /// use windlass::{Client, Key};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// # let deployment: Deployment = serde_json::from_value(serde_json::json!({
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
    /// # client.create(&deployment).await?;
    /// let more = Patch::Merge(json!({"spec": {"replicas": 7}}));
    /// let web = Key::namespaced("default", "web");
    /// let scale = client.api::<Deployment>().patch_subresource(&web, "scale", &more).await?;
    /// assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(7)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn patch_subresource(&self, key: &Key, name: &str, patch: &Patch) -> Result<Value> {
        let request = self.patch_request(key, Some(name), patch)?;
        let answered = self.observe(&request, key, Some(name)).await;
        let bytes = self.client.send(self.write_query(request)).await?;
        self.refresh_after_subresource(key).await;
        if let Some(answered) = answered {
            answered(&bytes);
        }
        parse(&bytes, name, key)
    }
}

fn parse(bytes: &[u8], name: &str, key: &Key) -> Result<Value> {
    serde_json::from_slice(bytes)
        .map_err(|source| Error::Decode { what: format!("{name} of {key}"), source })
}
