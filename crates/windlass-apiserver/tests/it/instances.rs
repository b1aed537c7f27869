//! Many servers in one process, copies of one, and data that outlives one.

use serde_json::json;
use windlass_apiserver::store::{Journal, JournalError};
use windlass_apiserver::{ApiServer, Options};

use crate::support::*;

fn opened(dir: &TempDir) -> ApiServer {
    let journal = Journal::open(dir.path()).unwrap();
    server_with(Options { journal: Some(journal), ..Options::default() })
}

#[tokio::test]
async fn servers_in_one_process_know_nothing_of_each_other() {
    let servers: Vec<_> = (0..8).map(|_| server()).collect();
    for (index, server) in servers.iter().enumerate() {
        for count in 0..=index {
            create_map(server, &format!("m{count}"), "1").await;
        }
    }
    for (index, server) in servers.iter().enumerate() {
        let list = ask(server, &format!("GET {MAPS}"), json!(null)).await.ok();
        assert_eq!(names(&list).len(), index + 1);
        assert_eq!(server.revision() - servers[0].revision(), index as u64);
    }
}

#[tokio::test]
async fn a_seed_makes_the_same_names_and_uids() {
    let made = |seed| async move {
        let server = server_with(Options { seed: Some(seed), ..Options::default() });
        let body = json!({"metadata": {"generateName": "x-"}});
        let made = ask(&server, &format!("POST {MAPS}"), body).await.ok();
        (made["metadata"]["name"].clone(), made["metadata"]["uid"].clone())
    };
    assert_eq!(made(1).await, made(1).await);
    assert_ne!(made(1).await, made(2).await);
}

#[tokio::test(start_paused = true)]
async fn a_fork_is_independent_of_its_origin() {
    let server = server();
    create_map(&server, "a", "1").await;
    let fork = server.fork();
    assert_eq!(fork.revision(), server.revision());
    let maps = |server: &ApiServer| {
        kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(server.client(), "default")
    };
    maps(&fork).delete("a", &Default::default()).await.unwrap();
    create_map(&server, "b", "1").await;
    assert_eq!(maps(&server).list(&Default::default()).await.unwrap().items.len(), 2);
    assert_eq!(maps(&fork).list(&Default::default()).await.unwrap().items.len(), 0);
}

#[tokio::test]
async fn a_data_directory_keeps_everything() {
    let dir = TempDir::new();
    let server = opened(&dir);
    let made = create_map(&server, "a", "1").await;
    create_map(&server, "b", "1").await;
    ask(&server, &format!("DELETE {MAPS}/b"), json!(null)).await.ok();
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let services = "POST /api/v1/namespaces/default/services";
    let address = ask(&server, services, service).await.ok()["spec"]["clusterIP"].clone();
    let revision = server.revision();
    drop(server);
    let server = opened(&dir);
    assert_eq!(server.revision(), revision);
    let read = ask(&server, &format!("GET {MAPS}/a"), json!(null)).await.ok();
    assert_eq!(read, made);
    assert_eq!(ask(&server, &format!("GET {MAPS}/b"), json!(null)).await.code, 404);
    let again = json!({
        "metadata": {"name": "t"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]},
    });
    assert!(ask(&server, services, again).await.fails(422).contains("already allocated"));
    assert_eq!(version(&create_map(&server, "c", "1").await), revision + 1);
}

#[tokio::test]
async fn names_that_need_escapes_are_kept_and_all_that_follows() {
    let dir = TempDir::new();
    let server = opened(&dir);
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    for name in ["a\"b", "c\\d", "e\u{1}f", "\u{e9}\u{1f680}"] {
        let role = json!({"metadata": {"name": name}, "rules": []});
        ask(&server, &format!("POST {roles}"), role).await.ok();
    }
    create_map(&server, "after", "1").await;
    let revision = server.revision();
    drop(server);
    let server = opened(&dir);
    assert_eq!(server.revision(), revision);
    ask(&server, &format!("GET {roles}/a%22b"), json!(null)).await.ok();
    ask(&server, &format!("GET {MAPS}/after"), json!(null)).await.ok();
}

#[tokio::test]
async fn a_watch_from_before_a_restart_is_gone() {
    let dir = TempDir::new();
    let server = opened(&dir);
    create_map(&server, "a", "1").await;
    let from = server.revision();
    create_map(&server, "b", "1").await;
    drop(server);
    let server = opened(&dir);
    let mut watch = Watch::open(&server, &format!("{MAPS}?resourceVersion={from}")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
    let now = server.revision();
    let mut watch = Watch::open(&server, &format!("{MAPS}?resourceVersion={now}")).await;
    create_map(&server, "c", "1").await;
    assert_eq!(watch.next_text().await, "ADDED c");
}

#[tokio::test]
async fn custom_kinds_are_served_again_after_a_restart() {
    let dir = TempDir::new();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "toys", "kind": "Toy"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let toys = "/apis/example.com/v1/toys";
    let server = opened(&dir);
    let crds = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    ask(&server, crds, definition).await.ok();
    let toy = json!({
        "apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "t"}, "size": 3,
    });
    let made = ask(&server, &format!("POST {toys}"), toy).await.ok();
    drop(server);
    let server = opened(&dir);
    assert_eq!(ask(&server, &format!("GET {toys}/t"), json!(null)).await.ok(), made);
}

#[tokio::test]
async fn a_data_directory_has_one_user() {
    let dir = TempDir::new();
    let first = opened(&dir);
    let second = Journal::open(dir.path());
    assert!(matches!(second, Err(JournalError::Locked { .. })));
    drop(first);
    Journal::open(dir.path()).unwrap();
}

#[tokio::test]
async fn a_fork_of_a_kept_server_writes_nothing_into_its_directory() {
    let dir = TempDir::new();
    let server = opened(&dir);
    create_map(&server, "a", "1").await;
    let fork = server.fork();
    let body: k8s_openapi::api::core::v1::ConfigMap =
        serde_json::from_value(map("b", "1")).unwrap();
    let maps = kube::Api::namespaced(fork.client(), "default");
    maps.create(&Default::default(), &body).await.unwrap();
    drop((server, fork));
    let list = ask(&opened(&dir), &format!("GET {MAPS}"), json!(null)).await.ok();
    assert_eq!(names(&list), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_a_server_starts_at_the_time_it_is_given() {
    let start_time = Some("2030-02-28T23:59:58Z".parse().unwrap());
    let server = server_with(Options { start_time, ..Options::default() });
    let made = create_map(&server, "a", "1").await;
    assert_eq!(made["metadata"]["creationTimestamp"], "2030-02-28T23:59:58Z");
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let made = create_map(&server, "b", "1").await;
    assert_eq!(made["metadata"]["creationTimestamp"], "2030-03-01T00:00:00Z");
}
