//! Many clusters in one process, none of which knows of the others.

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass_cluster::Cluster;

use crate::common::{client, object};

#[tokio::test(start_paused = true)]
async fn a_hundred_clusters_live_side_by_side() {
    let clusters = join_all((0..100).map(|_| Cluster::start())).await;
    let each = clusters.iter().enumerate().map(|(n, cluster)| async move {
        let client = client(cluster);
        let name = format!("of-{n}");
        let metadata = json!({"name": name, "namespace": "default"});
        client.api().create(&object::<ConfigMap>(json!({"metadata": metadata}))).await.unwrap();
    });
    join_all(each).await;
    for (n, cluster) in clusters.iter().enumerate() {
        let found =
            client(cluster).api::<ConfigMap>().list().namespace("default").items().await.unwrap();
        let names = found.iter().filter_map(|map| map.metadata.name.clone());
        let own: Vec<String> = names.filter(|name| name.starts_with("of-")).collect();
        assert_eq!(own, [format!("of-{n}")]);
    }
    join_all(clusters.into_iter().map(Cluster::stop)).await;
}
