//! The kind Memcached in version v1beta1 on an embedded cluster, in virtual time.

use scaffold::memcached::v1beta1::Memcached;
use scaffold::operator;
use windlass::Key;
use windlass_cluster::OperatorTest;

const SAMPLE: &str = include_str!("../config/samples/cache.example.com_v1beta1_memcached.yaml");

#[tokio::test(start_paused = true)]
async fn memcached_v1beta1_is_served() -> windlass::Result<()> {
    // The operator has the rights of its role and no others.
    let test = OperatorTest::start(operator).await?;
    let object: Memcached = test.create(SAMPLE).await?;
    let api = test.client().api::<Memcached>();
    let found = api.get(&Key::of(&object)).await?;
    assert!(found.is_some(), "it is stored");
    test.stop().await
}
