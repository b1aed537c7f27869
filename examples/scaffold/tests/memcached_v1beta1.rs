//! The kind Memcached in version v1beta1 on an embedded cluster, in virtual time.

use scaffold::memcached::v1beta1::{Memcached, MemcachedSpec};
use scaffold::operator;
use windlass::{Client, Key};
use windlass_cluster::{Cluster, RoleTest};

#[tokio::test(start_paused = true)]
async fn memcached_v1beta1_is_served() -> windlass::Result<()> {
    let cluster = Cluster::start().await;
    RoleTest::install(cluster.server(), &operator().model()?).await?;

    let client = Client::new(cluster.client());
    let spec = MemcachedSpec {
        message: "hello".into(),
    };
    let mut object = Memcached::new("sample", spec);
    object.metadata.namespace = Some("default".into());
    client.api().create(&object).await?;

    let found = client.api::<Memcached>().get(&Key::of(&object)).await?;
    assert!(found.is_some_and(|found| found.spec.message == "hello"));
    cluster.stop().await;
    Ok(())
}
