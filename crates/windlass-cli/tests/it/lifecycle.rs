//! From the ready line to the exit status.

use std::os::unix::fs::PermissionsExt;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::{ListParams, PostParams};

use crate::support::*;

#[tokio::test]
async fn the_ready_line_comes_when_the_api_answers_and_the_kubeconfig_is_there() {
    let dir = TempDir::new();
    let cluster = Cluster::start(dir.path(), &[]);
    assert!(cluster.ready.starts_with("ready https://127.0.0.1:"), "{}", cluster.ready);
    let shown = format!("kubeconfig={}", cluster.kubeconfig.display());
    assert!(cluster.ready.contains(&shown), "{}", cluster.ready);
    let mode = std::fs::metadata(&cluster.kubeconfig).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let maps = cluster.maps().await;
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn the_kubeconfig_lets_in_by_its_token_alone_and_by_its_certificate_alone() {
    let dir = TempDir::new();
    let cluster = Cluster::start(dir.path(), &[]);
    let by_token = cluster.client_with(|user| {
        user.client_certificate_data = None;
        user.client_key_data = None;
    });
    let by_certificate = cluster.client_with(|user| user.token = None);
    for client in [by_token.await, by_certificate.await] {
        let reviews = Api::<SelfSubjectReview>::all(client);
        let review = reviews.create(&PostParams::default(), &Default::default()).await.unwrap();
        let user = review.status.unwrap().user_info.unwrap();
        assert_eq!(user.username.as_deref(), Some("kubernetes-admin"));
    }
}

#[tokio::test]
async fn a_signal_ends_it_with_success() {
    for signal in ["TERM", "INT"] {
        let dir = TempDir::new();
        let mut cluster = Cluster::start(dir.path(), &[]);
        let client = cluster.client().await;
        client.apiserver_version().await.unwrap();
        cluster.signal(signal);
        assert_eq!(cluster.wait().code(), Some(0), "{signal}");
    }
}

#[tokio::test]
async fn an_open_watch_does_not_keep_it_alive() {
    let dir = TempDir::new();
    let mut cluster = Cluster::start(dir.path(), &[]);
    let maps = cluster.maps().await;
    let stream = maps.watch(&Default::default(), "0").await.unwrap();
    let mut stream = std::pin::pin!(stream);
    cluster.signal("TERM");
    assert_eq!(cluster.wait().code(), Some(0));
    while let Ok(Some(_)) = futures::TryStreamExt::try_next(&mut stream).await {}
}

#[test]
fn a_port_in_use_is_reported_in_one_line() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let dir = TempDir::new();
    let kubeconfig = dir.join("kubeconfig");
    let args = ["cluster", "--no-controllers", "--kubeconfig", &kubeconfig, "--bind", &address];
    let ended = output(&args);
    assert_eq!(ended.status.code(), Some(1));
    let line = one_line(&ended);
    assert!(line.starts_with(&format!("windlass: {address} is in use")), "{line}");
    assert!(ended.stdout.is_empty());
    assert!(!std::path::Path::new(&kubeconfig).exists());
}

#[test]
fn wrong_flags_are_the_callers_fault() {
    for args in [
        vec!["cluster", "--no-such-flag"],
        vec!["cluster", "--bind", "nowhere"],
        vec!["cluster", "--nodes", "x"],
        vec!["cluster", "--nodes", "-1"],
        vec!["cluster", "--route", "ops/hook=nowhere"],
        vec!["no-such-command"],
    ] {
        let ended = output(&args);
        assert_eq!(ended.status.code(), Some(2), "{args:?}");
        assert!(ended.stdout.is_empty(), "{args:?}");
        let line = one_line(&ended);
        assert!(line.starts_with("windlass: ") && line.ends_with("; see --help"), "{line}");
    }
    let help = output(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("cluster"));
    assert_eq!(output(&["--version"]).status.code(), Some(0));
}

#[test]
fn an_unusable_data_directory_is_reported_in_one_line() {
    let dir = TempDir::new();
    let (kubeconfig, file) = (dir.join("kubeconfig"), dir.join("file"));
    std::fs::write(&file, "text").unwrap();
    let foreign = dir.join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(format!("{foreign}/journal"), "something else").unwrap();
    let keys = dir.join("keys");
    std::fs::create_dir(&keys).unwrap();
    std::fs::write(format!("{keys}/keys.json"), "{}").unwrap();
    let below = format!("{file}/below");
    for path in [&file, &below, &foreign, &keys] {
        let args = ["cluster", "--no-controllers", "--kubeconfig", &kubeconfig, "--data-dir", path];
        let ended = output(&args);
        assert_eq!(ended.status.code(), Some(1), "{path}");
        let line = one_line(&ended);
        assert!(line.starts_with("windlass: ") && line.contains(path), "{line}");
    }
}

#[test]
fn nothing_is_written_to_a_data_directory_that_another_process_uses() {
    let dir = TempDir::new();
    let data = dir.join("data");
    let used = windlass_apiserver::store::Journal::open(data.as_ref()).unwrap();
    let kubeconfig = dir.join("kubeconfig");
    let args = ["cluster", "--no-controllers", "--kubeconfig", &kubeconfig, "--data-dir", &data];
    let ended = output(&args);
    assert_eq!(ended.status.code(), Some(1));
    assert!(one_line(&ended).ends_with("is in use by another process"), "{ended:?}");
    assert!(!std::path::Path::new(&data).join("keys.json").exists());
    drop(used);
    let _cluster = Cluster::start(dir.path(), &["--data-dir", &data]);
    let mode = |name: &str| {
        let path = std::path::Path::new(&data).join(name);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("keys.json"), mode("journal"), mode("")), (0o600, 0o600, 0o700));
}

#[test]
fn a_kubeconfig_that_cannot_be_written_is_reported_in_one_line() {
    let dir = TempDir::new();
    let path = dir.join("no/such/directory/kubeconfig");
    let ended = output(&["cluster", "--no-controllers", "--kubeconfig", &path]);
    assert_eq!(ended.status.code(), Some(1));
    let line = one_line(&ended);
    assert!(line.contains(&path), "{line}");
}

#[test]
fn nothing_is_begun_before_the_kubeconfig_is_known_to_be_writable() {
    let dir = TempDir::new();
    let (place, data) = (dir.join("place"), dir.join("data"));
    std::fs::create_dir(&place).unwrap();
    let ended = output(&["cluster", "--kubeconfig", &place, "--data-dir", &data]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(one_line(&ended).contains(&place));
    assert!(!std::path::Path::new(&data).exists(), "no data directory was made");
    let ended = output(&["demo", "--kubeconfig", &place]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(one_line(&ended).contains(&place));
    assert!(ended.stdout.is_empty(), "the tour did not begin");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn the_readme_shows_the_tour() {
    let ended = output(&["demo", "--once"]);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let printed = String::from_utf8_lossy(&ended.stdout);
    crate::transcript::assert_shown("README.md", "ok: a cluster is up", &[printed]);
}

#[test]
fn a_closed_output_does_not_break_the_tour() {
    let mut tour = windlass();
    tour.args(["demo", "--once"]).stdout(std::process::Stdio::piped());
    let mut tour = tour.stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(tour.stdout.take());
    let ended = tour.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), &*printed), (Some(0), ""));
}

#[tokio::test]
async fn the_audit_log_has_a_line_per_request() {
    let dir = TempDir::new();
    let log = dir.join("audit");
    let mut cluster = Cluster::start(dir.path(), &["--audit-log", &log]);
    let maps = cluster.maps().await;
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    cluster.signal("TERM");
    cluster.wait();
    let text = std::fs::read_to_string(&log).unwrap();
    let entries: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let create = entries.iter().find(|e| e["verb"] == "create").unwrap();
    assert_eq!((&create["resource"], &create["code"]), (&"configmaps".into(), &201.into()));
    assert_eq!(create["user"], "kubernetes-admin");
}
