//! The operator that the README shows. A test compares the two.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use memcached_operator::Memcached;
use windlass::{Context, Controller, Manager, Next, Result};

const INSTANCE: &str = "app.kubernetes.io/instance";

fn deployment(_: &Memcached) -> Result<Deployment> {
    Ok(Deployment::default())
}

/// Brings the cluster to what one Memcached asks for.
pub async fn reconcile(cx: Context<Memcached>) -> Result<Next> {
    let Some(memcached) = cx.object() else { return Ok(Next::Done) };      // from the cache; None: deleted
    cx.apply(&deployment(&memcached)?).await?;          // server-side apply, owner set
    let nodes = cx.list::<Pod>().labels([(INSTANCE, cx.name())]).names()?;       // from the cache
    cx.status(|status| status.nodes.clone_from(&nodes)).await?;             // patched only if it differs
    Ok(Next::Done)                                                          // or Next::After(..), or Err(_): backoff
}

/// Runs the operator until a signal.
pub async fn run(client: kube::Client) -> Result<()> {
    let controller = Controller::<Memcached>::builder("memcached").owns::<Deployment>().build(reconcile);
    Manager::new(client).add(controller).run_until_signal().await
}
