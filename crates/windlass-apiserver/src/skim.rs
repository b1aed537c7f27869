//! Finds a member of a stored body without reading the rest of it.
//!
//! **Invariant:** whatever the bytes are, nothing panics: anything but compact JSON has no members.

use std::ops::Range;

/// Returns the position of the value of a member in a compact JSON object; `None` if it has no such
/// member.
pub fn member(body: &[u8], name: &str) -> Option<Range<usize>> {
    if body.first() != Some(&b'{') {
        return None;
    }
    let mut at = 1;
    loop {
        let key_end = string_end(body, at)?;
        let key = body.get(at + 1..key_end - 1)?;
        if body.get(key_end) != Some(&b':') {
            return None;
        }
        let start = key_end + 1;
        let end = value_end(body, start)?;
        if key == name.as_bytes() {
            return Some(start..end);
        }
        if body.get(end) != Some(&b',') {
            return None;
        }
        at = end + 1;
    }
}

/// The place behind a string that begins at `start`.
fn string_end(body: &[u8], start: usize) -> Option<usize> {
    if body.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        match body.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The place behind a value that begins at `start`.
fn value_end(body: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0usize);
    loop {
        match body.get(at)? {
            b'"' => at = string_end(body, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b',' if depth == 0 => return Some(at),
            _ => at += 1,
        }
        if depth == 0 && matches!(body.get(at), Some(b',' | b'}' | b']')) {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_member_is_found_behind_anything() {
        let object = json!({
            "a": {"metadata": "}", "x": [1, {"y": "]\\\""}]}, "b": [], "c": "\"metadata\":{",
            "d": -1.5e3, "e": null, "metadata": {"name": "n", "labels": {"k": "{"}}, "spec": {},
        });
        let body = object.to_string().into_bytes();
        for (name, value) in object.as_object().unwrap() {
            let found = member(&body, name).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&body[found]).unwrap(), *value, "{name}");
        }
        assert_eq!(member(&body, "other"), None);
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for body in ["", "{", "{}", "[1]", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":\"", "{\"a\":1"] {
            assert_eq!(member(body.as_bytes(), "a"), None, "{body}");
        }
    }
}
