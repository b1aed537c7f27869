//! What the command logs, and where.

use kube::api::PostParams;

use crate::support::*;

#[test]
fn nothing_is_logged_while_nothing_is_wrong() {
    let dir = TempDir::new();
    assert_eq!(Cluster::start(dir.path(), &[]).end(), "");
}

#[test]
fn the_flag_and_the_variable_choose_what_is_logged_in_plain_text() {
    let dir = TempDir::new();
    let by_flag = Cluster::start(dir.path(), &["--log", "info"]);
    assert!(by_flag.ready.starts_with("ready "), "{}", by_flag.ready);
    let mut command = windlass();
    command.env("RUST_LOG", "windlass=info");
    let by_variable = Cluster::start_with(command, dir.path(), &[]);
    for logged in [by_flag.end(), by_variable.end()] {
        assert!(logged.contains(" INFO ") && logged.contains("the API server starts"), "{logged}");
        assert!(logged.contains("stopping"), "{logged}");
        assert!(!logged.contains('\x1b'), "{logged}");
    }
    let mut command = windlass();
    command.env("RUST_LOG", "info");
    assert_eq!(Cluster::start_with(command, dir.path(), &["--log", "error"]).end(), "");
}

#[test]
fn a_filter_that_is_not_valid_is_the_callers_fault() {
    let ended = output(&["cluster", "--log", "windlass=loud"]);
    assert_eq!(ended.status.code(), Some(2));
    let line = one_line(&ended);
    assert!(line.starts_with("windlass: --log takes a level"), "{line}");
}

#[tokio::test]
async fn an_incomplete_record_that_is_cut_off_is_reported() {
    let dir = TempDir::new();
    let data = dir.join("data");
    let mut cluster = Cluster::start(dir.path(), &["--data-dir", &data]);
    let maps = cluster.maps().await;
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    cluster.kill();
    let path = std::path::Path::new(&data).join("journal");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 3).unwrap();
    let logged = Cluster::start(dir.path(), &["--data-dir", &data]).end();
    assert!(logged.contains(" WARN ") && logged.contains("incomplete record"), "{logged}");
    assert!(logged.contains(path.to_str().unwrap()), "{logged}");
}
