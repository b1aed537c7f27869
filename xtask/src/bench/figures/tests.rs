use serde_json::json;

use super::super::record::tests::made_up;
use super::*;

/// The figure of a name, and of a place if there are several.
fn figure(record: &Record, what: &str, place: &str) -> Figure {
    let mut found = all(record);
    found.retain(|figure| figure.what == what && figure.place.starts_with(place));
    assert_eq!(found.len(), 1, "{what}: {found:?}");
    found.remove(0)
}

#[test]
fn a_figure_without_numbers_is_not_called_held() {
    let record = Record { about: serde_json::Value::Null, runs: Vec::new(), file: None };
    let found = all(&record);
    assert!(found.len() > 40 && found.iter().all(|one| one.verdict == Verdict::Unknown));
}

#[test]
fn figures_of_servers_are_of_20_000_pods_although_there_are_more() {
    let mut runs = Vec::new();
    for (size, real) in [(1000, 1.0), (20_000, 8.0), (100_000, 90.0)] {
        runs.push(("list", "real", "real", size, json!({ "list_s": real })));
        runs.push(("list", "ours", "ours", size, json!({ "list_s": 2.0 })));
    }
    let found = figure(&made_up(&runs), "list of pods beside the real server", "");
    assert_eq!(
        (found.measured.as_str(), found.place.as_str()),
        ("4.00 ×", "both servers, 20,000 pods")
    );
    assert_eq!(found.verdict, Verdict::Holds);
}

#[test]
fn a_ratio_whose_ranges_overlap_is_not_shown() {
    let lag = |value: f64| json!({ "beyond": { "p99_us": value }, "lag": { "p99_us": value } });
    let record = |peer: [f64; 2]| {
        let ours = [4000.0, 9000.0].map(|value| ("latency", "real", "windlass", 1000, lag(value)));
        let peer = peer.map(|value| ("latency", "real", "kube-rs", 1000, lag(value)));
        made_up(&ours.into_iter().chain(peer).collect::<Vec<_>>())
    };
    let verdict = |peer| {
        let record = record(peer);
        let found = figure(&record, "event-to-reconcile p99 beside kube-rs", "real");
        let what = "change-to-reconcile p99, server included beside kube-rs";
        let whole = figure(&record, what, "real");
        assert_eq!((whole.verdict, &whole.measured), (Verdict::Compared, &found.measured));
        assert_eq!(found.place, "real server, 1,000 pods");
        found.verdict
    };
    assert_eq!(verdict([8000.0, 30_000.0]), Verdict::NotShown);
    assert_eq!(verdict([18_000.0, 20_000.0]), Verdict::Holds);
    assert_eq!(verdict([8000.0, 9000.0]), Verdict::Misses);
}

#[test]
fn in_flight_is_as_many_keys_as_workers_and_a_full_queue_is_shown_beside() {
    let mut runs = Vec::new();
    for (scenario, size, cpu) in [
        ("inflight", 1000, 4.0),
        ("inflight", 32_000, 4.2),
        ("inflight-queued", 1000, 3.0),
        ("inflight-queued", 8000, 5.0),
    ] {
        runs.push((scenario, "ours", "windlass", size, json!({ "cpu_us_each": cpu })));
    }
    let record = made_up(&runs);
    let of = |what: &str| figure(&record, what, "our server, 32,000 over 1,000");
    let judged = of("CPU of a reconcile with the most in flight over the least");
    assert_eq!((judged.measured.as_str(), judged.verdict), ("1.05 ×", Verdict::Holds));
    let compared = of("the same over the least for as many keys");
    assert_eq!((compared.measured.as_str(), compared.verdict), ("1.40 ×", Verdict::Compared));
}

#[test]
fn no_slower_holds_also_where_both_are_equal() {
    let judge =
        |wanted: Wanted, value, apart| wanted.judge(&Ratio { value, apart, place: String::new() });
    assert_eq!(judge(Wanted::Most(1.0), 0.9, false), Verdict::Holds);
    assert_eq!(judge(Wanted::Most(1.0), 1.1, false), Verdict::Misses);
    assert_eq!(judge(Wanted::Most(0.2), 0.1, false), Verdict::NotShown);
    assert_eq!(judge(Wanted::Nothing, 9.0, true), Verdict::Compared);
}

#[test]
fn the_floor_is_the_fastest_way_of_each_server_and_wire() {
    let wire = json!({ "list_s": 3.0, "fresh_s": 2.0, "stream_s": 4.0, "protobuf_s": 0.5 });
    let mut runs = Vec::new();
    for server in ["real", "ours"] {
        runs.push(("list", server, server, 20_000, wire.clone()));
        runs.push(("sync", server, "windlass", 20_000, json!({ "time_s": 2.4 })));
    }
    let record = made_up(&runs);
    let of = |wire: &str, server: &str| {
        let what = format!("initial sync over the wire floor ({wire}, read and dropped)");
        let found = figure(&record, &what, server);
        (found.measured, found.wanted, found.verdict)
    };
    let json = "fastest of the JSON lists";
    let (held, compared) = (Verdict::Holds, Verdict::Compared);
    assert_eq!(of(json, "real"), ("1.20 ×".into(), "≤ 1.3 ×".into(), held));
    assert_eq!(of(json, "our"), ("1.20 ×".into(), "–".into(), compared));
    assert_eq!(of("protobuf list", "real"), ("4.80 ×".into(), "–".into(), compared));
    assert_eq!(of("protobuf list", "our"), ("4.80 ×".into(), "–".into(), compared));
}

#[test]
fn streams_are_judged_at_the_largest_rate_of_each_server() {
    let mut runs = Vec::new();
    for (server, rate, peer) in [("real", 50, 9.0), ("real", 150, 3.0), ("ours", 1000, 1.5)] {
        for (contestant, cpu) in [("windlass", 1.0), ("kube-rs", peer)] {
            let result = json!({ "cpu_us_per_event": cpu, "sent_rate": 149.6 });
            runs.push(("stream", server, contestant, rate, result));
        }
    }
    let record = made_up(&runs);
    let of = |server: &str| figure(&record, "events per CPU-second beside kube-rs", server);
    let (real, ours) = (of("real"), of("our"));
    assert_eq!((real.measured.as_str(), real.verdict), ("3.00 ×", Verdict::Holds));
    assert_eq!(real.place, "real server, 150 changes/s");
    assert_eq!((ours.measured.as_str(), ours.verdict), ("1.50 ×", Verdict::Misses));
    assert_eq!(ours.place, "our server, 1,000 changes/s asked for, 150 reached");
}
