//! The controller of Memcached on an embedded cluster, in virtual time.

use std::time::Duration;

use scaffold::fleet_memcached::{Memcached, MemcachedSpec};
use scaffold::operator;
use windlass::{Client, Key, condition, wait};
use windlass_cluster::{Cluster, RoleTest};

#[tokio::test(start_paused = true)]
async fn fleet_memcached_becomes_ready() -> windlass::Result<()> {
    let cluster = Cluster::start().await;
    // The operator has the rights of its role and no others.
    let role = RoleTest::install(cluster.server(), &operator().model()?).await?;
    let running = operator().manager(role.client()).spawn()?;

    let client = Client::new(cluster.client());
    let spec = MemcachedSpec {
        message: "hello".into(),
    };
    let object = Memcached::new("sample", spec);
    client.api().create(&object).await?;

    let (key, second) = (Key::of(&object), Duration::from_secs(1));
    wait::until("the condition Ready", second / 10, 30 * second, || async {
        let Some(found) = client.api::<Memcached>().get(&key).await? else {
            return Ok(false);
        };
        let status = found.status.clone().unwrap_or_default();
        Ok(condition::is_true(&status.conditions, "Ready"))
    })
    .await?;

    running.stop().await?;
    cluster.stop().await;
    Ok(())
}
