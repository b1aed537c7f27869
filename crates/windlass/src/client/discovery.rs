//! Which kinds the server serves, asked per group and version, misses included.
//!
//! A definition that this client writes clears the memory at once. One that somebody else writes is
//! noticed when its kind is asked for again after [`MISS_TTL`]; one that somebody else takes away,
//! when a request is answered as if the kind were not there.
//!
//! **Invariant:** an unknown kind costs one request per [`MISS_TTL`], however often and by however
//! many at once it is wanted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Call, Client};
use crate::error::{Error, Result, ResultExt};
use crate::kind::Kind;

/// How long a miss is believed.
const MISS_TTL: Duration = Duration::from_secs(1);

/// The kinds known so far.
#[derive(Debug, Default)]
pub struct Discovery {
    groups: Mutex<BTreeMap<Slot, Known>>,
    /// Held by the one who asks the server about a group; the others wait for what it learns.
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
    /// Finds a kind, in the cache or on the server.
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
        let turn = self.asking.lock().entry(slot.clone()).or_default().clone();
        let asking = turn.lock().await;
        if let Some(known) = self.known(group, version, kind) {
            return known;
        }
        let kinds = fetch(client, group, version).await;
        let found = kinds.as_ref().ok().and_then(|kinds| kinds.iter().find(|k| k.kind() == kind));
        let found = found.cloned();
        // Before the turn ends: those who waited look here first.
        let asked = kinds.map(|kinds| {
            self.groups.lock().insert(slot.clone(), Known { kinds, at: Instant::now() });
        });
        self.asking.lock().remove(&slot);
        drop(asking);
        asked?;
        found.ok_or_else(|| no_kind(group, version, kind))
    }

    /// What is remembered of a kind, if anything that can still be believed.
    fn known(&self, group: &str, version: &str, kind: &str) -> Option<Result<Kind>> {
        let groups = self.groups.lock();
        let known = groups.get(&(group.to_string(), version.to_string()))?;
        match known.kinds.iter().find(|k| k.kind() == kind) {
            Some(found) => Some(Ok(found.clone())),
            None if known.at.elapsed() < MISS_TTL => Some(Err(no_kind(group, version, kind))),
            None => None,
        }
    }

    /// Forgets a group and version, whose kinds turned out not to be there.
    pub(super) fn forget(&self, group: &str, version: &str) {
        self.groups.lock().remove(&(group.to_string(), version.to_string()));
    }

    /// Forgets everything; called when a CustomResourceDefinition appears or goes.
    pub fn refresh(&self) {
        self.groups.lock().clear();
    }
}

async fn fetch(client: &Client, group: &str, version: &str) -> Result<Vec<Kind>> {
    let path = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let action = format!("discover {}", path.trim_start_matches('/'));
    let answer = client.call(Call::new(Method::GET, path, action.clone())).await;
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
