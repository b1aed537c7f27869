//! The kind CronRoute in version v1 on an embedded cluster, in virtual time.

use scaffold::cron_route::{CronRoute, CronRouteSpec};
use scaffold::operator;
use windlass::{Client, Key};
use windlass_cluster::{Cluster, RoleTest};

#[tokio::test(start_paused = true)]
async fn cron_route_is_served() -> windlass::Result<()> {
    let cluster = Cluster::start().await;
    RoleTest::install(cluster.server(), &operator().model()?).await?;

    let client = Client::new(cluster.client());
    let spec = CronRouteSpec {
        message: "hello".into(),
    };
    let mut object = CronRoute::new("sample", spec);
    object.metadata.namespace = Some("default".into());
    client.api().create(&object).await?;

    let found = client.api::<CronRoute>().get(&Key::of(&object)).await?;
    assert!(found.is_some_and(|found| found.spec.message == "hello"));
    cluster.stop().await;
    Ok(())
}
