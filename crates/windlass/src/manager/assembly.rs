//! Checks of what a manager was given.

use std::sync::Arc;

use super::{Cluster, PendingController};
use crate::cache::Observe;
use crate::controller::Component;
use crate::error::{Error, Result};
use crate::metrics::Metrics;

/// Refuses clusters without a unique name.
pub(super) fn check_names(others: &[(String, kube::Client)]) -> Result<()> {
    for (at, (name, _)) in others.iter().enumerate() {
        if name.is_empty() {
            return Err(Error::Invalid(
                "a cluster other than the home cluster needs a name".into(),
            ));
        }
        if others[..at].iter().any(|(other, _)| other == name) {
            return Err(Error::Invalid(format!("two clusters are named {name}")));
        }
    }
    Ok(())
}

/// Finds the cluster of each controller, and refuses two controllers of one name.
pub(super) fn assign(
    clusters: &[Cluster],
    components: Vec<(String, Box<dyn Component>)>,
) -> Result<Vec<PendingController>> {
    let mut assigned: Vec<PendingController> = Vec::with_capacity(components.len());
    for (cluster, component) in components {
        let name = component.name().to_string();
        let Some(at) = clusters.iter().position(|c| c.name == cluster) else {
            return Err(Error::Invalid(format!("controller {name}: no cluster named {cluster}")));
        };
        if assigned.iter().any(|other| other.cluster == at && other.component.name() == name) {
            return Err(Error::Invalid(format!("two controllers are named {name}")));
        }
        assigned.push(PendingController { cluster: at, component, reply: None });
    }
    Ok(assigned)
}

/// Counts the lists and watches of the caches as requests.
pub(super) fn counted(metrics: Metrics, host: &str) -> Observe {
    let host = host.to_string();
    Arc::new(move |code, took| metrics.request("GET", &host, code, took))
}

#[cfg(any(test, feature = "operator"))]
/// Returns the host and port of a URL without user information, or a `host:port` unchanged.
pub(super) fn host_in(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_does_not_contain_its_user() {
        assert_eq!(host_in("https://admin:secret@10.0.0.1:6443/k8s/clusters/a"), "10.0.0.1:6443");
        assert_eq!(host_in("https://api.example.com"), "api.example.com");
        assert_eq!(host_in("[fd00::1]:6443"), "[fd00::1]:6443");
        assert_eq!(host_in("kubernetes"), "kubernetes");
    }
}
