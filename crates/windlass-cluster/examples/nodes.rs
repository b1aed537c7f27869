//! Simulated nodes and a scheduler for a cluster that has none, such as a kube-apiserver without
//! kubelets: `KUBECONFIG=FILE nodes [COUNT]`.

use windlass::clock::Clock;
use windlass::{Client, Error, Manager};
use windlass_cluster::node;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let client = kube::Client::try_default().await.map_err(Error::other)?;
    node::register(&Client::new(client.clone()), &Clock::default(), count).await?;
    let manager = node::add(Manager::new(client).name("nodes"));
    println!("{count} nodes are registered");
    manager.run_until_signal().await
}
