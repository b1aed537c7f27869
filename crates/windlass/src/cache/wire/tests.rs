use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const MAX: usize = 1 << 20;

fn lines(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, Option<Bytes>) {
    let mut lines = Lines::new(MAX);
    let mut found = Vec::new();
    for chunk in chunks {
        lines.push(Bytes::copy_from_slice(chunk));
        while let Some(line) = lines.next_line().unwrap() {
            found.push(line.to_vec());
        }
    }
    let rest = lines.rest();
    (found, rest)
}

fn items(text: &[u8], cut: usize) -> Result<(Vec<Value>, ListScanner), WireError> {
    let mut scanner = ListScanner::new(MAX);
    let mut found = Vec::new();
    for chunk in text.chunks(cut.max(1)) {
        scanner.feed(chunk, &mut |item| found.push(serde_json::from_slice(item).unwrap()))?;
    }
    Ok((found, scanner))
}

#[test]
fn lines_are_cut_across_chunks_and_a_half_line_is_left_over() {
    let (found, rest) = lines(&[b"ab", b"c\n\nlonger than eight", b" bytes\nhal", b"f"]);
    assert_eq!(found, [b"abc".to_vec(), b"longer than eight bytes".to_vec()]);
    assert_eq!(rest.unwrap(), "half");
}

#[test]
fn a_line_above_the_limit_is_an_error_and_not_a_buffer() {
    let mut lines = Lines::new(8);
    lines.push(Bytes::from_static(b"123456789"));
    assert_eq!(lines.next_line(), Err(WireError::TooLarge(8)));
}

#[test]
fn an_item_above_the_limit_is_passed_over_and_the_rest_is_kept() {
    let large = format!(r#"{{"name":"large","x":"{}"}}"#, "}\\\"".repeat(30));
    let text = format!(r#"{{"items":[{{"a":1}},{large},{{"b":2}}],"metadata":{{}}}}"#);
    for cut in [1, 7, 64, 4096] {
        let mut scanner = ListScanner::new(40);
        let mut found = Vec::new();
        for chunk in text.as_bytes().chunks(cut) {
            scanner.feed(chunk, &mut |item| found.push(item.to_vec())).unwrap();
        }
        assert_eq!(found, [br#"{"a":1}"#, br#"{"b":2}"#], "{cut}");
        let heads = scanner.take_oversized();
        assert!(heads.len() == 1 && heads[0].starts_with(br#"{"name":"large""#), "{cut}");
        assert!(scanner.complete() && scanner.take_oversized().is_empty());
    }
}

#[test]
fn items_null_or_absent_is_an_empty_list() {
    for text in [r#"{"kind":"L","items":null,"metadata":{}}"#, r#"{"kind":"L"}"#, "{}"] {
        let (found, scanner) = items(text.as_bytes(), 3).unwrap();
        assert!(found.is_empty() && scanner.complete(), "{text}");
    }
}

#[test]
fn what_is_no_list_is_refused() {
    for text in ["[]", "garbage", r#"{"items":[1]}"#, r#"{"a" 1}"#] {
        assert!(items(text.as_bytes(), 2).is_err(), "{text}");
    }
    let (_, scanner) = items(br#"{"items":[{"a":1}"#, 5).unwrap();
    assert!(!scanner.complete());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(|n| json!(n)),
        "[a-z\"\\\\{}\\[\\],:é]{0,12}".prop_map(|s| json!(s)),
        Just(json!(null)),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|v| json!(v)),
            prop::collection::btree_map("[a-z\"{]{1,4}", inner, 0..4).prop_map(|m| json!(m)),
        ]
    })
}

proptest! {
    #[test]
    fn a_list_cut_anywhere_gives_its_items(
        specs in prop::collection::vec(value(), 0..5),
        cut in 1_usize..40,
        pretty in any::<bool>(),
    ) {
        let wanted: Vec<Value> = specs.into_iter().map(|s| json!({"spec": s})).collect();
        let list = json!({
            "kind": "PodList", "items": wanted, "z": 1.5,
            "metadata": {"resourceVersion": "7", "continue": "x\"}"},
        });
        let text = match pretty {
            true => serde_json::to_vec_pretty(&list).unwrap(),
            false => serde_json::to_vec(&list).unwrap(),
        };
        let (found, scanner) = items(&text, cut).unwrap();
        prop_assert_eq!(found, wanted);
        prop_assert!(scanner.complete());
        let meta: Value = serde_json::from_slice(scanner.field("metadata").unwrap()).unwrap();
        prop_assert_eq!(&meta["continue"], "x\"}");
    }

    #[test]
    fn garbage_never_panics(text in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut scanner = ListScanner::new(40);
        let _ = scanner.feed(&text, &mut |_| {});
    }

    #[test]
    fn newlines_are_found_as_by_a_plain_search(text in "[ab\n\u{8a}]{0,40}") {
        let plain = text.bytes().position(|b| b == b'\n');
        prop_assert_eq!(newline(text.as_bytes()), plain);
    }
}
