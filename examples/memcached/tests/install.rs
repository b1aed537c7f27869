//! What the manifests install, on the embedded cluster.

#[path = "../../installation.rs"]
mod installation;

use kube::api::{Api, PostParams};
use memcached_operator::{Memcached, operator};
use windlass_cluster::OperatorTest;

#[tokio::test(start_paused = true)]
async fn everything_installs_and_the_pods_start_in_a_restricted_namespace() {
    installation::assert_starts(operator()).await;
}

#[tokio::test(start_paused = true)]
async fn the_sample_is_valid() -> windlass::Result<()> {
    let test = OperatorTest::start(operator).await?;
    let files = operator().model()?.files();
    let path = "config/samples/cache.example.com_v1alpha1_memcached.yaml";
    let text = files.get(path).expect("is generated");
    let sample: Memcached = serde_saphyr::from_str(text).expect("is a Memcached");
    let all: Api<Memcached> = Api::namespaced(test.cluster().client(), "default");
    let created = all.create(&PostParams::default(), &sample).await.expect("is accepted");
    assert_eq!(created.spec.size, 3);
    test.stop().await
}
