//! The operator with exactly the rights it declares.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use memcached_operator::{Memcached, MemcachedSpec, operator, reconcile};
use windlass::{Controller, Key, Operator, Result, condition};
use windlass_cluster::{Cluster, OperatorTest, RoleTest};

/// Waits until something holds.
async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..1_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not come true within 10 s");
}

#[tokio::test(start_paused = true)]
async fn the_role_allows_exactly_what_the_operator_does() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let mut sample = Memcached::new("sample", MemcachedSpec { size: 2 });
    sample.metadata.namespace = Some("default".into());
    test.client().api().create(&sample).await?;
    let available = |memcached: &Memcached| {
        let status = memcached.status.as_ref();
        status.is_some_and(|status| condition::is_true(&status.conditions, "Available"))
    };
    let key = Key::namespaced("default", "sample");
    test.until("a finished status", &key, available).await?;
    test.client().api::<Memcached>().delete(&key).await?;
    test.until_none::<Memcached>().await?;
    test.until_none::<Deployment>().await?;
    if let Err(report) = test.role().check() {
        panic!("{report}");
    }
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_missing_declaration_is_named() {
    let silent = || {
        let controller = Controller::<Memcached>::builder("memcached")
            .reads::<Deployment>()
            .reads::<Pod>()
            .finalizes()
            .build(reconcile);
        Operator::new("memcached-operator").api::<Memcached>().controller(controller)
    };
    let cluster = Cluster::start().await;
    let model = silent().model().expect("the operator is well described");
    let test = RoleTest::install(cluster.server(), &model).await.expect("can be installed");
    let running = silent().manager(test.client()).spawn().expect("starts");
    let all: Api<Memcached> = Api::namespaced(cluster.client(), "default");
    let sample = Memcached::new("sample", MemcachedSpec { size: 2 });
    all.create(&PostParams::default(), &sample).await.expect("created");
    let missing = || test.check().err().unwrap_or_default().missing;
    until("a forbidden request", || async { !missing().is_empty() }).await;
    let sentence = "the role does not allow patch on deployments.apps: declare it with applies, \
                    owns or finalizes";
    assert_eq!(missing(), [sentence]);
    running.stop().await.expect("stops");
    cluster.stop().await;
}
