//! Runs the Memcached operator against the cluster of the current kubeconfig.

use windlass::Manager;

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = kube::Client::try_default().await?;
    Manager::builder(client)
        .name("memcached-operator")
        .add(memcached_operator::controller())
        .probes(":8081")
        .metrics(":8080")
        .run_until_signal()
        .await
}
