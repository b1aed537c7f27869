//! Controllers that do not run because they were named.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use windlass_apiserver::ApiServer;
use windlass_cluster::{Cluster, Options};

use crate::common::{client, deployment, pods_of};

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_switched_off_leaves_its_work_undone() {
    for (off, sets) in [("deployment", 0), ("replicaset", 1)] {
        assert!(Cluster::controllers().contains(&off), "{off} is no name of a controller");
        let options = Options { without: vec![off.into()], ..Options::default() };
        let cluster = Cluster::with_options(ApiServer::start(), options).await;
        let client = client(&cluster);
        client.api::<Deployment>().create(&deployment("web", 2)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let found = client.api::<ReplicaSet>().list().namespace("default").items().await.unwrap();
        assert_eq!(found.len(), sets, "without {off}");
        assert!(pods_of(&client, "web").await.is_empty(), "without {off}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_starts_without_any_one_of_its_controllers() {
    for name in Cluster::controllers() {
        let options = Options { without: vec![name.into()], ..Options::default() };
        Cluster::with_options(ApiServer::start(), options).await.stop().await;
    }
}
