//! The webhooks of Pod (v1) on an embedded cluster, in virtual time.

use k8s_openapi::api::core::v1::Pod;
use scaffold::operator;
use windlass_cluster::OperatorTest;

const SAMPLE: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: sample
spec:
  containers:
  - name: main
    image: registry.k8s.io/pause:3.10
";

#[tokio::test(start_paused = true)]
async fn pod_with_a_long_name_is_refused() -> windlass::Result<()> {
    let test = OperatorTest::start(operator).await?;
    let mut object: Pod = test.create(SAMPLE).await?;
    object.metadata.name = Some("a".repeat(64));
    object.metadata.resource_version = None;
    let refused = test.client().api().create(&object).await.unwrap_err();
    let status = refused.status().expect("the API server answered");
    let expected = "metadata.name: Too long";
    assert!(status.message.contains(expected), "{}", status.message);
    test.stop().await
}
