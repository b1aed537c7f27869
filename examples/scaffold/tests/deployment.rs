//! The controller deployment of Deployment (apps/v1) on an embedded cluster, in virtual time.

use std::time::Duration;

use scaffold::operator;
use windlass_cluster::{Cluster, RoleTest};

#[tokio::test(start_paused = true)]
async fn deployment_starts() -> windlass::Result<()> {
    let cluster = Cluster::start().await;
    // The operator has the rights of its role and no others.
    let role = RoleTest::install(cluster.server(), &operator().model()?).await?;
    let running = operator().manager(role.client()).spawn()?;
    let ready = tokio::time::timeout(Duration::from_secs(30), running.ready());
    ready.await.expect("all caches are filled");
    running.stop().await?;
    cluster.stop().await;
    Ok(())
}
