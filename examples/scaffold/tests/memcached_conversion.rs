//! The conversion of Memcached between its versions, on an embedded cluster.

use scaffold::memcached::conversion::conversion;
use scaffold::memcached::{Memcached, v1beta1};
use scaffold::operator;
use windlass::Key;
use windlass_cluster::OperatorTest;

const SAMPLE: &str = include_str!("../config/samples/cache.example.com_v1alpha1_memcached.yaml");

#[test]
fn memcached_survives_a_conversion_and_back() {
    conversion().assert_round_trip();
}

#[tokio::test(start_paused = true)]
async fn memcached_is_read_in_every_version() -> windlass::Result<()> {
    let test = OperatorTest::start(operator).await?;
    let object: Memcached = test.create(SAMPLE).await?;
    let (client, key) = (test.client(), Key::of(&object));
    let api = client.api::<v1beta1::Memcached>();
    let found = api.get(&key).await?;
    assert!(found.is_some(), "it is read as v1beta1");
    test.stop().await
}
