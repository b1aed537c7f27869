//! Reads that ask the server.

use std::sync::Arc;

use super::{Client, List};
use crate::cache::Key;
use crate::error::Result;
use crate::kind::Object;

/// Reads objects from the server, not from the cache.
///
/// For kinds that are known at run time only, [`Client::dynamic`] has the same reads. Errors and
/// cancel safety are those of [`Client`].
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::client::Live;
/// use windlass::{Client, Key, List};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// let client = Client::new(server.client());
/// let live: Live<'_> = client.live();
/// assert!(live.get::<Namespace>(&Key::cluster("default")).await?.is_some());
/// assert!(live.list::<Namespace>(&List::all()).await?.len() > 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Live<'a> {
    pub(super) client: &'a Client,
}

// === impl Live ===

impl Live<'_> {
    /// Reads one object; `None` if it does not exist.
    pub async fn get<K: Object<DynamicType = ()>>(&self, key: &Key) -> Result<Option<Arc<K>>> {
        self.client.api::<K>().get(key).await
    }

    /// Lists the objects of one kind that match.
    pub async fn list<K: Object<DynamicType = ()>>(&self, list: &List) -> Result<Vec<Arc<K>>> {
        self.client.api::<K>().list(list).await
    }
}
