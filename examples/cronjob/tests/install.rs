//! What the manifests install, on the embedded cluster.

#[path = "../../installation.rs"]
mod installation;

#[tokio::test(start_paused = true)]
async fn everything_installs_and_the_pods_start_in_a_restricted_namespace() {
    installation::assert_starts(cronjob_operator::operator()).await;
}
