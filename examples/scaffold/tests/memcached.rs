//! The controller of Memcached on an embedded cluster, in virtual time.

use scaffold::memcached::Memcached;
use scaffold::operator;
use windlass::{Key, condition};
use windlass_cluster::OperatorTest;

const SAMPLE: &str = include_str!("../config/samples/cache.example.com_v1alpha1_memcached.yaml");

#[tokio::test(start_paused = true)]
async fn memcached_becomes_ready() -> windlass::Result<()> {
    // The operator has the rights of its role and no others.
    let test = OperatorTest::start(operator).await?;
    let object: Memcached = test.create(SAMPLE).await?;
    let ready = |found: &Memcached| {
        let status = found.status.clone().unwrap_or_default();
        condition::is_true(&status.conditions, "Ready")
    };
    let key = Key::of(&object);
    test.until("the condition Ready", &key, ready).await?;
    test.stop().await
}
