//! Subresources: what belongs to an object and has a path of its own.

use http::Method;
use serde_json::{Value, json};

use super::write::{Deletion, Patch};
use super::{Api, Call};
use crate::cache::Key;
use crate::error::{Error, Result};
use crate::kind::Object;

impl<K: Object> Api<K> {
    /// The wanted and the present number of replicas.
    ///
    /// # Errors
    ///
    /// Fails if the object is not there or its kind has no scale.
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
    /// let (wanted, present) = deployments.scale(&web).await?;
    /// assert_eq!((wanted, present), (5, 0), "nobody runs them here");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn scale(&self, key: &Key) -> Result<(i32, i32)> {
        let scale = self.subresource(Method::GET, key, "scale", None).await?;
        let number = |path: &str| scale.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        let clamp = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
        Ok((clamp(number("/spec/replicas")), clamp(number("/status/replicas"))))
    }

    /// Sets the wanted number of replicas.
    ///
    /// # Errors
    ///
    /// As [`scale`](Self::scale), and if the number is refused.
    pub async fn set_scale(&self, key: &Key, replicas: i32) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.patch_subresource(key, "scale", &patch).await.map(drop)
    }

    /// Asks for the eviction of a pod; disruption budgets may refuse with 429.
    ///
    /// # Errors
    ///
    /// Fails with status 429 if a budget does not allow it now, and if the pod is not there.
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

    /// Any subresource with any method but PATCH; the answer as it is.
    ///
    /// What the subresource takes as a query may follow its name: `log?container=main`.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses, or if the answer is no JSON: see
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
            let text = format!("{name} of {key}: patches have patch_subresource");
            return Err(Error::Invalid(text));
        }
        let write = method != Method::GET;
        let verb = method.as_str().to_ascii_lowercase();
        let mut call = self.sub_call(method, &verb, key, name)?;
        if let Some(body) = body {
            call.body = body.to_string().into_bytes();
        }
        // What is created below an object, such as an eviction, is no state that could return.
        let put = Some(name).filter(|_| call.method == Method::PUT);
        let look = put.and_then(|name| self.look(&call, key, Some(name)));
        let call = if write { self.write_query(call) } else { call };
        let bytes = self.client.call(call).await?;
        if write {
            self.wrote_through(key).await;
        }
        if let Some(look) = look {
            look.answered(&bytes);
        }
        answered(&bytes, name, key)
    }

    /// A subresource that answers with text, such as the `log` of a pod.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses, or if the answer is no text.
    pub async fn subresource_text(&self, key: &Key, name: &str) -> Result<String> {
        let mut call = self.sub_call(Method::GET, "get", key, name)?;
        call.accept = "*/*";
        let bytes = self.client.call(call).await?;
        String::from_utf8(bytes.into()).map_err(|error| Error::Decode {
            what: format!("{name} of {key}"),
            source: serde::de::Error::custom(error.utf8_error()),
        })
    }

    /// Patches any subresource, such as `resize` or `ephemeralcontainers`; the answer as it is.
    ///
    /// What the subresource takes as a query may follow its name.
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
        let (name, query) = name.split_once('?').unwrap_or((name, ""));
        let mut call = self.patch_call(key, Some(name), patch)?;
        let look = self.look(&call, key, Some(name));
        call.extra = query.to_owned();
        let bytes = self.client.call(self.write_query(call)).await?;
        self.wrote_through(key).await;
        if let Some(look) = look {
            look.answered(&bytes);
        }
        answered(&bytes, name, key)
    }

    fn sub_call(&self, method: Method, verb: &str, key: &Key, name: &str) -> Result<Call> {
        let (name, query) = name.split_once('?').unwrap_or((name, ""));
        let mut call = self.call(method, verb, key, Some(name))?;
        call.extra = query.to_owned();
        Ok(call)
    }
}

fn answered(bytes: &[u8], name: &str, key: &Key) -> Result<Value> {
    serde_json::from_slice(bytes)
        .map_err(|source| Error::Decode { what: format!("{name} of {key}"), source })
}
