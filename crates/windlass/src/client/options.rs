//! What a clone of the client does with each request.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Client, WriteObserver};
use crate::error::Error;

/// The default deadline of a request.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Most bytes of an answer that are read.
const ANSWER_MAX: usize = 512 << 20;

/// The options of one clone of the client.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) field_owner: Arc<str>,
    pub(super) strict: bool,
    pub(super) force: bool,
    pub(super) dry_run: bool,
    pub(super) unfenced: bool,
    pub(super) timeout: Duration,
    /// Most bytes of an answer that are read.
    pub(super) answer_max: usize,
    pub(super) observer: Option<Arc<dyn WriteObserver>>,
    /// Nothing but a status is written.
    pub(super) paused: Option<Paused>,
}

/// Why and how long a client writes nothing but a status.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paused {
    until: Option<Timestamp>,
}

// === impl Paused ===

impl Paused {
    /// The error of the request `action`, which is not sent.
    pub(super) fn error(self, action: &str) -> Error {
        Error::Paused { action: action.into(), until: self.until }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            field_owner: "windlass".into(),
            strict: false,
            force: true,
            dry_run: false,
            unfenced: false,
            timeout: TIMEOUT,
            answer_max: ANSWER_MAX,
            observer: None,
            paused: None,
        }
    }
}

impl Client {
    /// Returns this client with writes that the server checks and does not store.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
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
    /// let checked = client.dry_run().api().create(&config_map("a")).await?;
    /// assert!(checked.metadata.uid.is_some(), "defaulted, validated and admitted");
    /// assert!(client.api::<ConfigMap>().get(&Key::of(&checked)).await?.is_none(), "and not kept");
    /// # Ok(())
    /// # }
    /// ```
    pub fn dry_run(&self) -> Self {
        self.with(|o| o.dry_run = true)
    }

    /// Returns this client with another field manager for its writes; `windlass` by default.
    pub fn field_owner(&self, owner: &str) -> Self {
        self.with(|o| o.field_owner = owner.into())
    }

    /// Returns the field manager of its writes.
    pub(crate) fn owner(&self) -> &str {
        &self.options.field_owner
    }

    /// Returns this client with writes that the server refuses if they contain unknown fields.
    ///
    /// By default the server drops unknown fields and sends a warning, which is logged.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    /// use windlass::client::Patch;
    /// use windlass::{Client, Key};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// # let mut map = ConfigMap::default();
    /// # map.metadata.name = Some("a".into());
    /// # map.metadata.namespace = Some("default".into());
    /// # client.api().create(&map).await?;
    /// let typo = Patch::Merge(json!({"dta": {"k": "v"}}));
    /// let key = Key::namespaced("default", "a");
    /// assert!(client.api::<ConfigMap>().patch(&key, &typo).await.is_ok(), "dropped");
    /// let refused = client.strict().api::<ConfigMap>().patch(&key, &typo).await.unwrap_err();
    /// assert!(refused.to_string().contains("unknown field \"dta\""), "{refused}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn strict(&self) -> Self {
        self.with(|o| o.strict = true)
    }

    /// Returns this client with applies that fail with a [conflict](crate::Error::is_conflict)
    /// instead of taking over fields of other owners.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::Client;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let mut map = ConfigMap::default();
    /// map.metadata.name = Some("a".into());
    /// map.metadata.namespace = Some("default".into());
    /// map.data = Some([("color".into(), "blue".into())].into());
    /// client.field_owner("painter").api().apply(&map).await?;
    ///
    /// map.data = Some([("color".into(), "red".into())].into());
    /// let other = client.field_owner("other");
    /// assert!(other.unforced().api().apply(&map).await.unwrap_err().is_conflict());
    /// other.api().apply(&map).await?; // takes the field
    /// # Ok(())
    /// # }
    /// ```
    pub fn unforced(&self) -> Self {
        self.with(|o| o.force = false)
    }

    /// Returns this client with another deadline for each request; 60 seconds by default.
    ///
    /// ```
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Client, Key};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// # server.inject(Some(Box::new(|_| windlass_apiserver::fault::Fault {
    /// #     delay: Duration::from_secs(3600),
    /// #     ..Default::default()
    /// # })));
    /// let impatient = client.timeout(Duration::from_secs(3));
    /// // The server hangs.
    /// let maps = impatient.api::<ConfigMap>();
    /// let error = maps.get(&Key::namespaced("default", "a")).await.unwrap_err();
    /// assert_eq!(error.to_string(), "get ConfigMap default/a: no answer within 3 s");
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(&self, timeout: Duration) -> Self {
        self.with(|o| o.timeout = timeout)
    }

    /// Returns this client without the fence, for the lease itself and for what runs without it.
    pub(crate) fn unfenced(&self) -> Self {
        self.with(|o| o.unfenced = true)
    }

    /// Returns this client with all writes refused but those of a status, because the object that it
    /// works for is paused.
    pub(crate) fn paused(&self, until: Option<Timestamp>) -> Self {
        self.with(|o| o.paused = Some(Paused { until }))
    }

    /// Returns this client with an observer of its writes.
    pub(crate) fn observed_by(&self, observer: Arc<dyn WriteObserver>) -> Self {
        self.with(|o| o.observer = Some(observer))
    }

    /// Returns this client with another limit for the size of an answer.
    #[cfg(test)]
    pub(super) fn answer_max(&self, bytes: usize) -> Self {
        self.with(|o| o.answer_max = bytes)
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Self {
        let mut next = self.clone();
        change(&mut next.options);
        next
    }
}
