use serde_json::json;

use super::super::record::tests::made_up;
use super::*;

fn sync(size: usize) -> (&'static str, &'static str, &'static str, usize, serde_json::Value) {
    ("sync", "ours", "windlass", size, json!({ "time_s": 1.0 }))
}

#[test]
fn notes_of_another_commit_are_announced() {
    let record = made_up(&[sync(1000)]);
    let announced = |notes: &str| page(&record, notes).contains("notes below are of another run");
    assert!(!announced("## Notes of 2026-01-02, windlass abc1234\n\nText."));
    assert!(announced("## Notes of 2026-01-01, windlass fff0000\n\nText."));
    assert!(!announced(""));
}

#[test]
fn rows_of_an_earlier_run_are_named_below_their_table() {
    let mut now = made_up(&[sync(1000)]);
    now.keep(made_up(&[sync(1000), sync(5000)]));
    let mut mixed = page(&now, "");
    assert!(
        mixed.contains("*Rows of `sync` ours 5000 pods are of 2026-01-02 03:04 UTC"),
        "{mixed}"
    );
    assert!(mixed.contains("- **Of several runs:**"));
    let mut other = made_up(&[("queue", "none", "windlass", 1000, json!({ "alone_per_s": 1.0 }))]);
    other.keep(made_up(&[sync(1000)]));
    mixed = page(&other, "");
    assert!(mixed.contains("*All rows are of 2026-01-02 03:04 UTC, windlass abc1234.*"), "{mixed}");
}

#[test]
fn a_stream_that_was_not_seen_to_its_end_is_marked() {
    let result = |events| json!({ "events": events, "sent": 10, "sent_rate": 5.0 });
    let record = made_up(&[
        ("stream", "ours", "windlass", 100, result(10)),
        ("stream", "ours", "kube-rs", 100, result(7)),
    ]);
    let text = page(&record, "");
    let row = text.lines().find(|line| line.starts_with("| changes sent, 100")).unwrap();
    assert!(row.ends_with("| 5.00/s | 5.00/s; **7 of 10 seen** |"), "{row}");
}

#[test]
fn a_server_that_did_not_start_is_on_the_page() {
    let mut record = made_up(&[sync(1000)]);
    record.add(("sync", "real", SERVER), 0, Err("the server did not start: no etcd".into()));
    record.add(("load", "real", "load"), 5000, Err("nothing for 900s".into()));
    let text = page(&record, "");
    assert!(text.contains("- sync, real server: the server did not start: no etcd\n"), "{text}");
    assert!(text.contains("- load, real server, 5,000 objects: nothing for 900s\n"), "{text}");
    assert!(!text.contains("| real |"), "a failure makes no column: {text}");
}

#[test]
fn only_versions_of_what_was_measured_are_listed() {
    let mut record = made_up(&[sync(1000)]);
    record.about["versions"] = json!({
        "windlass": "abc1234", "rustc": "rustc 1.95.0", "etcd": "3.6.16", "go": "go version x",
    });
    assert!(page(&record, "").contains("- Versions: rustc 1.95.0, windlass abc1234\n"));
    record.add(("list", "real", "real"), 1000, Ok(json!({ "list_s": 1.0 })));
    assert!(page(&record, "").contains("etcd 3.6.16, go version x, rustc"));
}
