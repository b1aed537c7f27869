//! Which kinds the server serves, cached per group and version, misses included.
//!
//! A CustomResourceDefinition that this client writes clears the cache at once. One that somebody
//! else creates is noticed when its kind is requested after [`MISS_TTL`]; one that somebody else
//! deletes, when a request is answered as if the kind did not exist.
//!
//! **Invariant:** an unknown kind costs one request per [`MISS_TTL`], however many callers ask for
//! it.
//! **Invariant:** the cache is bounded: groups and versions may come from objects of other people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ApiRequest, Client, Url};
use crate::error::{Error, Result, ResultExt};
use crate::kind::Kind;

/// How long a miss is cached.
const MISS_TTL: Duration = Duration::from_secs(1);

/// Most groups and versions that are cached.
const CACHED_MAX: usize = 1000;

/// The kinds that are known so far.
///
/// Not an [`ExpiringStore`](crate::cache::ExpiringStore): kinds that were found do not expire, and one
/// entry answers both for them and, for a while, for those that it lacks.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    groups: Mutex<BTreeMap<Slot, Known>>,
    /// Locked by the caller that asks the server about a group; the others wait for its result.
    asking: Mutex<BTreeMap<Slot, Arc<tokio::sync::Mutex<()>>>>,
}

/// Group and version.
type Slot = (String, String);

#[derive(Debug)]
struct Known {
    kinds: Vec<Kind>,
    at: Instant,
}

// === impl Discovery ===

impl Discovery {
    /// Returns a kind from the cache or the server.
    pub(super) async fn find(
        &self,
        client: &Client,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Kind> {
        let timeout = client.options.timeout;
        let found = tokio::time::timeout(timeout, self.ask(client, group, version, kind)).await;
        found.unwrap_or_else(|_| {
            let action = format!("discover {}", Kind::new(group, version, kind, ""));
            Err(Error::Timeout { action, after: timeout })
        })
    }

    async fn ask(&self, client: &Client, group: &str, version: &str, kind: &str) -> Result<Kind> {
        if let Some(known) = self.known(group, version, kind) {
            return known;
        }
        let slot = (group.to_string(), version.to_string());
        let turn = {
            let mut asking = self.asking.lock();
            if asking.len() >= CACHED_MAX {
                // Callers that were dropped leave theirs behind.
                asking.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            asking.entry(slot.clone()).or_default().clone()
        };
        let asking = turn.lock().await;
        if let Some(known) = self.known(group, version, kind) {
            return known;
        }
        let kinds = fetch(client, group, version).await;
        let found = kinds.as_ref().ok().and_then(|kinds| kinds.iter().find(|k| k.kind() == kind));
        let found = found.cloned();
        // Before the lock is released, as the waiting callers look here first.
        let asked = kinds.map(|kinds| {
            let mut groups = self.groups.lock();
            if groups.len() >= CACHED_MAX {
                groups.retain(|_, known| !known.kinds.is_empty());
            }
            if groups.len() >= CACHED_MAX {
                groups.clear();
            }
            groups.insert(slot.clone(), Known { kinds, at: Instant::now() });
        });
        self.asking.lock().remove(&slot);
        drop(asking);
        asked?;
        found.ok_or_else(|| no_kind(group, version, kind))
    }

    /// Returns the cached result for a kind, unless it is outdated.
    fn known(&self, group: &str, version: &str, kind: &str) -> Option<Result<Kind>> {
        let groups = self.groups.lock();
        let known = groups.get(&(group.to_string(), version.to_string()))?;
        match known.kinds.iter().find(|k| k.kind() == kind) {
            Some(found) => Some(Ok(found.clone())),
            None if known.at.elapsed() < MISS_TTL => Some(Err(no_kind(group, version, kind))),
            None => None,
        }
    }

    /// Forgets a group and version whose kinds turned out to be missing.
    pub(super) fn forget(&self, group: &str, version: &str) {
        self.groups.lock().remove(&(group.to_string(), version.to_string()));
    }

    /// Forgets everything. Called when a CustomResourceDefinition is written or deleted.
    pub(super) fn refresh(&self) {
        self.groups.lock().clear();
    }
}

async fn fetch(client: &Client, group: &str, version: &str) -> Result<Vec<Kind>> {
    let action = format!("discover {}", Kind::new(group, version, "", "").api_version());
    let url = Url::group_version(group, version)
        .map_err(|error| Error::Invalid(format!("{action}: {error}")))?;
    let answer = client.send(ApiRequest::new(Method::GET, url, action.clone())).await;
    let Some(bytes) = answer.ignore_not_found()? else { return Ok(Vec::new()) };
    let list: APIResourceList =
        serde_json::from_slice(&bytes).map_err(|source| Error::Decode { what: action, source })?;
    let resources = list.resources.into_iter().filter(|r| !r.name.contains('/'));
    Ok(resources
        .map(|resource| {
            let kind = Kind::new(group, version, &resource.kind, &resource.name);
            if resource.namespaced { kind } else { kind.cluster_scoped() }
        })
        .collect())
}

fn no_kind(group: &str, version: &str, kind: &str) -> Error {
    Error::NoKind { kind: Kind::new(group, version, kind, "").to_string() }
}
