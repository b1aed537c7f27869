//! The webhooks of Memcached (cache.example.com/v1alpha1) on an embedded cluster, in virtual time.

use scaffold::memcached::Memcached;
use scaffold::operator;
use windlass_cluster::OperatorTest;

const SAMPLE: &str = include_str!("../config/samples/cache.example.com_v1alpha1_memcached.yaml");

#[tokio::test(start_paused = true)]
async fn memcached_is_completed() -> windlass::Result<()> {
    let test = OperatorTest::start(operator).await?;
    let object: Memcached = test.create(SAMPLE).await?;
    let labels = object.metadata.labels.unwrap_or_default();
    assert_eq!(labels["app.kubernetes.io/managed-by"], "scaffold");
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn memcached_with_a_long_name_is_refused() -> windlass::Result<()> {
    let test = OperatorTest::start(operator).await?;
    let mut object: Memcached = test.create(SAMPLE).await?;
    object.metadata.name = Some("a".repeat(64));
    object.metadata.resource_version = None;
    let refused = test.client().api().create(&object).await.unwrap_err();
    let status = refused.status().expect("the API server answered");
    let expected = "metadata.name: Too long";
    assert!(status.message.contains(expected), "{}", status.message);
    test.stop().await
}
