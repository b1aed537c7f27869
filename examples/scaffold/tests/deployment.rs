//! The controller deployment of Deployment (apps/v1) on an embedded cluster, in virtual time.

use scaffold::operator;
use windlass_cluster::OperatorTest;

#[tokio::test(start_paused = true)]
async fn deployment_starts() -> windlass::Result<()> {
    // The operator has the rights of its role and no others; it starts once all caches are
    // filled.
    let test = OperatorTest::start(operator).await?;
    test.stop().await
}
