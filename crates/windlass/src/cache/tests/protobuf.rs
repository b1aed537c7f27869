use std::time::Duration;

use serde_json::{Value, json};
use windlass_protobuf::{Envelope, from_value, watch_frame};

use super::fake::{Answer, Fake, Part, list, object, take, watch};
use crate::cache::SyncState;

const EITHER: &str = "application/vnd.kubernetes.protobuf,application/json";

fn value(name: &str, version: u64) -> Value {
    serde_json::from_str(&object(name, version)).unwrap()
}

fn protobuf_list(version: &str, objects: &[Value]) -> Vec<u8> {
    let list = json!({
        "kind": "ConfigMapList", "apiVersion": "v1", "items": objects,
        "metadata": {"resourceVersion": version},
    });
    from_value(&list).unwrap()
}

fn frame(kind: &str, object: &Value) -> Part {
    Part::Bytes(watch_frame(kind, &from_value(object).unwrap()))
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": "m"})
}

#[tokio::test(start_paused = true)]
async fn a_list_and_a_watch_in_protobuf_are_read_across_their_cuts() {
    let bytes = protobuf_list("10", &[value("a", 1), value("b", 2)]);
    let pieces = bytes.chunks(7).map(|piece| Part::Bytes(piece.to_vec()));
    let fake = Fake::new([
        Answer::Protobuf(pieces.collect()),
        Answer::Protobuf(vec![
            Part::Wait(Duration::from_secs(1)),
            frame("MODIFIED", &value("a", 11)),
            Part::Wait(Duration::from_secs(1)),
            frame(
                "BOOKMARK",
                &json!({
                    "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "15"},
                }),
            ),
            frame("DELETED", &value("b", 16)),
            frame("ERROR", &status(410, "Expired")),
        ]),
        Answer::Protobuf(vec![Part::Bytes(protobuf_list("20", &[]))]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    let lines = ["initial a 1", "initial b 2", "updated a 1 -> 11", "deleted b 16"];
    assert_eq!(take(&mut events, 4).await, lines);
    assert_eq!(take(&mut events, 1).await, ["deleted a 11 unseen"]);
    assert_eq!(fake.accepted()[..2], [EITHER, EITHER]);
    assert_eq!(fake.asked_for(2, "resourceVersion").as_deref(), Some("16"));
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_of_an_object_is_the_same_as_from_json() {
    let answers = [
        Answer::Protobuf(vec![Part::Bytes(protobuf_list("10", &[value("a", 1)]))]),
        list("10", &[object("a", 1)]),
    ];
    let mut kept: Vec<Value> = Vec::new();
    for answer in answers {
        let fake = Fake::new([answer, watch([])]);
        let informer = fake.informer(false);
        informer.synced(Duration::from_secs(60)).await.unwrap();
        let entry = informer.store().entries().into_iter().next().unwrap();
        assert_eq!((entry.uid(), entry.version()), ("uid-a", 1));
        kept.push(entry.decode().unwrap());
    }
    assert_eq!(kept[0], kept[1]);
    assert_eq!(kept[0]["metadata"].get("managedFields"), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_more_fields_is_asked_for_json() {
    let metadata = [0x0a, 3, 0x0a, 1, b'a'];
    let newer = [&metadata[..], &[0x7a, 1, b'x']].concat();
    let added = watch_frame("ADDED", &Envelope::wrap("v1", "ConfigMap", &newer));
    let fake = Fake::new([
        Answer::Protobuf(vec![Part::Bytes(protobuf_list("10", &[]))]),
        Answer::Protobuf(vec![Part::Bytes(added), Part::Hang]),
        list("12", &[object("a", 11)]),
        watch([]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    assert_eq!(take(&mut events, 1).await, ["added a 11"]);
    assert_eq!(fake.accepted()[1..], [EITHER, "application/json", "application/json"]);
    assert_eq!(informer.stats().skipped, 0);
}

#[tokio::test(start_paused = true)]
async fn garbage_in_frames_and_lists_is_a_failure_that_passes() {
    let fake = Fake::new([
        Answer::Protobuf(vec![Part::Text("k8s\0garbage".to_owned())]),
        Answer::Protobuf(vec![Part::Bytes(protobuf_list("10", &[value("a", 1)]))]),
        Answer::Protobuf(vec![Part::Bytes(vec![0, 0, 0, 2, 0xff, 0xff])]),
        Answer::Protobuf(vec![Part::Bytes(protobuf_list("20", &[value("a", 12)]))]),
        Answer::Protobuf(vec![Part::Hang]),
    ]);
    let informer = fake.informer(false);
    let mut events = informer.subscribe();
    assert_eq!(take(&mut events, 2).await, ["initial a 1", "updated a 1 -> 12"]);
    informer.states().wait_for(|state| matches!(state, SyncState::Synced { .. })).await.unwrap();
}
