//! Deleting one child that is no longer wanted.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use kube::api::PropagationPolicy;

use super::child::Metadata;
use super::inventory::Member;
use super::mark::Mark;
use crate::cache::Key;
use crate::client::{ApiRequest, Client, Deleted, Deletion, Url};
use crate::clock::Clock;
use crate::error::{Error, Result, ResultExt};
use crate::kind::Kind;

/// The shortest and the longest time between two looks at a child that is being deleted.
const LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What has become of a child that is not wanted.
pub(super) enum Removal {
    /// The server confirmed that it does not exist.
    Gone,
    /// Somebody else's object has its name. It is left alone.
    NotOurs,
    /// It is being deleted. It is looked at again after this time.
    Pending(Duration),
}

/// Deletes a child, if it is one.
pub(super) async fn remove(
    client: &Client,
    mark: &Mark,
    member: &Member,
    clock: &Clock,
) -> Result<Removal> {
    let Some((kind, found)) = find(client, member).await? else { return Ok(Removal::Gone) };
    let metadata = &found.metadata;
    if !mark.is_on(metadata) {
        return Ok(Removal::NotOurs);
    }
    if let Some(since) = &metadata.deletion_timestamp {
        return Ok(Removal::Pending((age(clock, since.0) / 2).clamp(LOOKS.0, LOOKS.1)));
    }
    // The version too: an object that has lost its mark since it was read is not ours any more.
    let version = metadata.resource_version.as_deref().unwrap_or_default();
    let how = Deletion::only(&*found)
        .resource_version(version)
        .propagation(PropagationPolicy::Background);
    let deleted = client.api_of::<Metadata>(&kind).delete(how).await;
    match deleted? {
        Deleted::Pending => Ok(Removal::Pending(LOOKS.0)),
        _ => Ok(Removal::Gone),
    }
}

/// Returns why no request can address an object, if that is so. Such an object does not exist.
pub(super) fn misplaced(kind: &Kind, key: &Key) -> Option<String> {
    match key.namespace() {
        None if kind.namespaced() => Some(format!(
            "{} is namespaced, and neither the child nor its owner has a namespace",
            kind.kind()
        )),
        Some(_) if !kind.namespaced() => Some(format!("{} is cluster-scoped", kind.kind())),
        namespace => {
            let url = kind.collection_url(namespace);
            url.and_then(|url| url.segment("name", key.name())).err().map(|why| why.to_string())
        }
    }
}

/// Returns the metadata of a child, and the kind under which it is served now.
async fn find(client: &Client, member: &Member) -> Result<Option<(Kind, Arc<Metadata>)>> {
    if misplaced(&member.kind, &member.key).is_some() {
        return Ok(None);
    }
    let read = async |kind: &Kind| client.api_of::<Metadata>(kind).get(&member.key).await;
    match read(&member.kind).await {
        Err(error) if error.is_no_kind() => {}
        found => return Ok(found?.map(|found| (member.kind.clone(), found))),
    }
    // The version that was recorded is not served any more; another one may be.
    let Some(kind) = served(client, &member.kind).await? else { return Ok(None) };
    if misplaced(&kind, &member.key).is_some() {
        return Ok(None);
    }
    Ok(read(&kind).await?.map(|found| (kind, found)))
}

/// Returns a kind in any version that is served; `None` if the server has no such kind.
async fn served(client: &Client, kind: &Kind) -> Result<Option<Kind>> {
    let group = kind.group();
    let versions = match group {
        "" => vec!["v1".to_string()],
        group => versions(client, group).await?,
    };
    for version in versions {
        match client.kind_of(group, &version, kind.kind()).await {
            Ok(found) => return Ok(Some(found)),
            Err(error) if error.is_no_kind() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns the versions of a group that are served.
async fn versions(client: &Client, group: &str) -> Result<Vec<String>> {
    let action = format!("discover {group}");
    let url = Url::fixed("/apis")
        .segment("API group", group)
        .map_err(|error| Error::Invalid(format!("{action}: {error}")))?;
    let request = ApiRequest::new(Method::GET, url, action.clone());
    let Some(bytes) = client.send(request).await.ignore_not_found()? else { return Ok(Vec::new()) };
    let found: APIGroup =
        serde_json::from_slice(&bytes).map_err(|source| Error::Decode { what: action, source })?;
    Ok(found.versions.into_iter().map(|version| version.version).collect())
}

/// Returns how long ago a time was.
fn age(clock: &Clock, then: jiff::Timestamp) -> Duration {
    Duration::try_from(clock.now().duration_since(then)).unwrap_or_default()
}
