//! Objects encoded by Go, in both encodings, against ours.
//!
//! Each line has the protobuf of a random object in base64, the protobuf of what is left of it
//! after JSON, its kind, and its JSON. `WINDLASS_GOLDEN` names another file in the same form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use windlass_protobuf::{JsonOptions, from_value, to_json};

#[test]
fn objects_of_go_are_read_and_written_as_go_does() {
    let text = match std::env::var("WINDLASS_GOLDEN") {
        Ok(path) => std::fs::read_to_string(path).unwrap(),
        Err(_) => include_str!("golden.tsv").to_owned(),
    };
    let mut failed = 0;
    for line in text.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let [proto, again, kind, json] = cells[..] else { panic!("four cells") };
        let proto = STANDARD.decode(proto).unwrap();
        let again = STANDARD.decode(again).unwrap();
        let wanted: Value = serde_json::from_str(json).unwrap();
        match to_json(&proto, JsonOptions::default()) {
            Ok(json) => {
                let found: Value = serde_json::from_slice(&json).unwrap();
                if found != wanted {
                    failed += 1;
                    eprintln!("{kind}: read\n{found}\nwanted\n{wanted}");
                }
            }
            Err(error) => {
                failed += 1;
                eprintln!("{kind}: {error}");
            }
        }
        match from_value(&wanted) {
            Ok(bytes) if bytes == again => {}
            Ok(bytes) => {
                failed += 1;
                let at = bytes.iter().zip(&again).position(|(a, b)| a != b);
                eprintln!("{kind}: written other bytes from {at:?} of {}\n{wanted}", again.len());
            }
            Err(error) => {
                failed += 1;
                eprintln!("{kind}: {error}");
            }
        }
        assert!(failed < 5, "too many differences");
    }
    assert_eq!(failed, 0);
}
