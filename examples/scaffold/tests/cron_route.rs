//! The kind CronRoute in version v1 on an embedded cluster, in virtual time.

use scaffold::cron_route::CronRoute;
use scaffold::operator;
use windlass::Key;
use windlass_cluster::OperatorTest;

const SAMPLE: &str = include_str!("../config/samples/fleet.example.com_v1_cronroute.yaml");

#[tokio::test(start_paused = true)]
async fn cron_route_is_served() -> windlass::Result<()> {
    // The operator has the rights of its role and no others.
    let test = OperatorTest::start(operator).await?;
    let object: CronRoute = test.create(SAMPLE).await?;
    let api = test.client().api::<CronRoute>();
    let found = api.get(&Key::of(&object)).await?;
    assert!(found.is_some(), "it is stored");
    test.stop().await
}
