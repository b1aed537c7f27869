//! What a clone of the client does with each request.

use std::sync::Arc;
use std::time::Duration;

use super::{Client, FieldValidation, WriteObserver, send};

/// The default deadline of a request.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The options of one clone of the client.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) field_owner: Arc<str>,
    pub(super) field_validation: Option<FieldValidation>,
    pub(super) dry_run: bool,
    pub(super) live: bool,
    pub(super) unfenced: bool,
    pub(super) timeout: Duration,
    pub(super) answer_max: usize,
    pub(super) observer: Option<Arc<dyn WriteObserver>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            field_owner: "windlass".into(),
            field_validation: None,
            dry_run: false,
            live: false,
            unfenced: false,
            timeout: TIMEOUT,
            answer_max: send::ANSWER_MAX,
            observer: None,
        }
    }
}

impl Client {
    /// Returns this client with reads that ask the server instead of the cache.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass::{Context, Controller, Key, Manager, Next};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = server.client();
    /// let maps = Controller::<ConfigMap>::builder("maps")
    ///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    /// let handle = Manager::builder(client).add(maps).spawn()?;
    /// handle.ready().await; // the caches are there and filled
    /// let client = handle.client(); // reads config maps from the cache
    /// let key = Key::namespaced("default", "a");
    /// assert!(client.get::<ConfigMap>(&key).await?.is_none());
    ///
    /// let refused = client.get::<Secret>(&key).await.unwrap_err();
    /// assert!(refused.to_string().starts_with("Secret.v1 is not in the cache: declare it"));
    /// assert!(client.live().get::<Secret>(&key).await?.is_none());
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn live(&self) -> Self {
        self.with(|o| o.live = true)
    }

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
    /// let checked = client.dry_run().create(&config_map("a")).await?;
    /// assert!(checked.metadata.uid.is_some(), "defaulted, validated and admitted");
    /// assert!(client.get::<ConfigMap>(&Key::of(&checked)).await?.is_none(), "and not kept");
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

    /// Returns this client with another way to handle unknown fields; the server's by default.
    pub fn field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|o| o.field_validation = Some(validation))
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
    /// let error = impatient.get::<ConfigMap>(&Key::namespaced("default", "a")).await.unwrap_err();
    /// assert!(error.is_timeout());
    /// assert_eq!(error.to_string(), "get ConfigMap default/a: no answer within 3 s");
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(&self, timeout: Duration) -> Self {
        self.with(|o| o.timeout = timeout)
    }

    /// Returns this client with another limit for the size of an answer; 512 MiB by default.
    pub fn answer_max(&self, bytes: usize) -> Self {
        self.with(|o| o.answer_max = bytes)
    }

    /// Returns this client without the fence, for the lease itself and for what runs without it.
    pub(crate) fn unfenced(&self) -> Self {
        self.with(|o| o.unfenced = true)
    }

    /// Returns this client with an observer of its writes.
    pub(crate) fn observed_by(&self, observer: Arc<dyn WriteObserver>) -> Self {
        self.with(|o| o.observer = Some(observer))
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Self {
        let mut next = self.clone();
        change(&mut next.options);
        next
    }
}
