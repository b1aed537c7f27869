//! YAML bodies, read the way `sigs.k8s.io/yaml` turns them into JSON: YAML 1.1 booleans and
//! octals, keys as text, objects in the order of their keys.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Options};

use super::Node;

/// The deepest nesting: reading YAML takes more stack per level than JSON.
const DEPTH_MAX: usize = 64;

/// Reads the one document of a YAML body.
///
/// # Errors
/// A text in the style of `yaml: line 2: ...`.
pub fn read(body: &[u8]) -> Result<Node<'_>, String> {
    if let Some(node) = plain(body) {
        return Ok(node);
    }
    let text = text_of(body)?;
    // A tab does not count as indentation.
    if text.trim_ascii().is_empty() && text.contains('\t') {
        return Err("yaml: found character that cannot start any token".to_owned());
    }
    let Owned(node) = parse(text, DuplicateKeyPolicy::LastWins)
        .map_err(|error| format!("yaml: {}", explain(&error, text)))?;
    Ok(node)
}

/// Returns the strict decoding error for duplicate keys, if there are any.
pub fn duplicate(body: &[u8]) -> Option<String> {
    if plain(body).is_some() {
        return None;
    }
    let error = parse(text_of(body).ok()?, DuplicateKeyPolicy::Error).err()?;
    let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error.without_snippet() else {
        return None;
    };
    let line = error.location().map_or(0, |at| at.line());
    let key = crate::status::quote(key.as_deref().unwrap_or_default());
    Some(format!("yaml: unmarshal errors:\n  line {line}: key {key} already set in map"))
}

/// A body that is JSON, as most clients send it, and that YAML reads no differently.
fn plain(body: &[u8]) -> Option<Node<'_>> {
    let json = body.trim_ascii_start().starts_with(b"{");
    let mut node = if json { super::json::read(body).ok()? } else { return None };
    order(&mut node).then_some(node)
}

/// Sorts keys. Returns `true` if there are no duplicate keys and all numbers are plain integers.
fn order(node: &mut Node<'_>) -> bool {
    match node {
        Node::Number(text) => text.len() < 19 && !text.contains(['.', 'e', 'E']),
        Node::Array(items) => items.iter_mut().all(order),
        Node::Object(entries) => {
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            let unique = entries.windows(2).all(|pair| pair[0].0 != pair[1].0);
            unique && entries.iter_mut().all(|(_, value)| order(value))
        }
        Node::Null | Node::Bool(_) | Node::String(_) => true,
    }
}

fn text_of(body: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".into())
}

fn parse(text: &str, duplicates: DuplicateKeyPolicy) -> Result<Owned, serde_saphyr::Error> {
    let options: Options = serde_saphyr::options! {
        duplicate_keys: duplicates,
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX },
    };
    if text.trim_matches([' ', '\n', '\r']).is_empty() {
        return Ok(Owned(Node::Null));
    }
    // Only the first document counts, if there are several.
    serde_saphyr::from_str_with_options(text, options.clone()).or_else(|error| {
        let several: Result<Vec<Owned>, _> =
            serde_saphyr::from_multiple_with_options(text, options);
        several.ok().and_then(|all| all.into_iter().next()).ok_or(error)
    })
}

/// What Go's parser would say. It counts lines from zero and leaves that one out; what its scanner
/// finds is reported with the line after.
fn explain(error: &serde_saphyr::Error, body: &str) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.rsplit_once(" at line ").map_or(first, |(before, _)| before);
    let at = error.location().map_or(0, |at| at.line()).saturating_sub(1);
    let place = |line: u64| if line == 0 { String::new() } else { format!("line {line}: ") };
    let scanned = |at: u64| place(if at == 0 { 0 } else { at + 1 });
    if first.starts_with("unclosed bracket") {
        let what = match (body.trim_end().chars().last(), first.contains("'{'")) {
            (Some('[' | '{' | ',' | ':'), _) => "did not find expected node content",
            (_, true) => "did not find expected ',' or '}'",
            (_, false) => "did not find expected ',' or ']'",
        };
        return format!("{}{what}", place(at + 1));
    }
    if first.starts_with("unclosed quote") {
        let lines = body.bytes().filter(|b| *b == b'\n').count();
        let end = u64::try_from(lines).unwrap_or(u64::MAX - 1);
        return format!("{}found unexpected end of stream", scanned(end));
    }
    if first.starts_with("alias references unknown anchor") {
        return format!("unknown anchor '{}' referenced", anchor(error, body));
    }
    if first.starts_with("misplaced bracket") {
        return format!("{}did not find expected node content", place(at));
    }
    if first.starts_with("unexpected character") || first.starts_with("tabs disallowed") {
        return format!("{}found character that cannot start any token", scanned(at));
    }
    // The message has what the scanner found, not what it was scanning.
    let what = match first.strip_prefix("while ") {
        Some(rest) => rest.split_once(", ").map_or(first, |(_, found)| found),
        None => first,
    };
    format!("{}{what}", scanned(at))
}

/// The anchor an alias names, at the place of an error.
fn anchor<'a>(error: &serde_saphyr::Error, body: &'a str) -> &'a str {
    let Some(at) = error.location() else { return "" };
    let nth = |n: u64| usize::try_from(n.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = body.lines().nth(nth(at.line())).unwrap_or_default();
    let start = line.char_indices().nth(nth(at.column())).map_or(0, |(index, _)| index);
    let name = line[start..].trim_start_matches('*');
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    &name[..end.unwrap_or(name.len())]
}

struct Owned(Node<'static>);

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor).map(Owned)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, b: bool) -> Result<Self::Value, E> {
        Ok(Node::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Self::Value, E> {
        Ok(Node::Number(n.to_string().into()))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Self::Value, E> {
        Ok(Node::Number(n.to_string().into()))
    }

    fn visit_i128<E>(self, n: i128) -> Result<Self::Value, E> {
        Ok(Node::Number(n.to_string().into()))
    }

    fn visit_u128<E>(self, n: u128) -> Result<Self::Value, E> {
        Ok(Node::Number(n.to_string().into()))
    }

    fn visit_f64<E: serde::de::Error>(self, n: f64) -> Result<Self::Value, E> {
        match n.is_finite() {
            true => Ok(Node::Number(super::node::float(n).to_string().into())),
            false => Err(E::custom("json: unsupported value")),
        }
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Node::String(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Node::String(Cow::Owned(text)))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Owned(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries: Vec<(Cow<'static, str>, Node<'static>)> = Vec::new();
        while let Some(Owned(key)) = map.next_key()? {
            let key = match key {
                Node::String(text) | Node::Number(text) => text,
                Node::Bool(b) => Cow::Borrowed(if b { "true" } else { "false" }),
                other => {
                    let what = other.what();
                    return Err(A::Error::custom(format!("unsupported map key of type: {what}")));
                }
            };
            let Owned(value) = map.next_value()?;
            entries.push((key, value));
        }
        // Later entries of equal keys come after earlier ones and win.
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries.reverse();
        entries.dedup_by(|(later, _), (earlier, _)| later == earlier);
        entries.reverse();
        Ok(Node::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn documents() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i32>().prop_map(serde_json::Value::from),
            "[a-z~<.:#\\-\\\\\"' \n\t\u{1}é\u{2028}\u{1f680}]{0,8}"
                .prop_map(serde_json::Value::from),
        ];
        let tree = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
                prop::collection::btree_map("[a-z~1]{0,3}", inner, 0..4).prop_map(|m| json!(m)),
            ]
        });
        prop::collection::btree_map("[a-z]{1,3}", tree, 0..4).prop_map(|m| json!(m))
    }

    proptest! {
        #[test]
        fn json_is_read_as_yaml_reads_it(value in documents()) {
            let text = value.to_string();
            if let Some(node) = plain(text.as_bytes()) {
                let Owned(other) = parse(&text, DuplicateKeyPolicy::LastWins).unwrap();
                prop_assert_eq!(node, other);
            }
        }
    }

    fn value(text: &str) -> serde_json::Value {
        read(text.as_bytes()).unwrap().to_value().unwrap()
    }

    #[test]
    fn scalars_are_those_of_yaml_1_1() {
        assert_eq!(
            value(
                "a: y\nb: yes\nc: \"yes\"\nd: on\ne: 1.0\nf: ~\ng: 010\nh: 0x10\ni: 1.5\nj: 'no'"
            ),
            json!({"a": true, "b": true, "c": "yes", "d": true, "e": 1, "f": null, "g": 8,
                "h": 16, "i": 1.5, "j": "no"})
        );
        assert_eq!(value("a: 2024-01-02T03:04:05Z"), json!({"a": "2024-01-02T03:04:05Z"}));
        assert_eq!(value("1: a\ntrue: b"), json!({"1": "a", "true": "b"}));
        assert_eq!(value(""), json!(null));
        assert_eq!(value("{\"a\": [1, {\"b\": \"c\"}]}"), json!({"a": [1, {"b": "c"}]}));
    }

    #[test]
    fn duplicates_are_reported_with_their_line() {
        let body = b"a: 1\nb:\n  k: v\n  k: w\n";
        assert_eq!(
            duplicate(body).unwrap(),
            "yaml: unmarshal errors:\n  line 4: key \"k\" already set in map"
        );
        assert_eq!(read(body).unwrap().to_value().unwrap(), json!({"a": 1, "b": {"k": "w"}}));
        assert_eq!(duplicate(b"a: 1"), None);
    }

    #[test]
    fn broken_bodies_say_where() {
        let error = |body: &str| read(body.as_bytes()).unwrap_err();
        assert!(error("a: [1\nb: 2").starts_with("yaml: line "), "{}", error("a: [1\nb: 2"));
        assert_eq!(error("a: [1"), "yaml: line 1: did not find expected ',' or ']'");
        assert_eq!(error("a: b: c"), "yaml: mapping values are not allowed in this context");
        let second = "yaml: line 2: mapping values are not allowed in this context";
        assert_eq!(error("a: b\n c: d"), second);
        assert_eq!(error("a: *x"), "yaml: unknown anchor 'x' referenced");
        assert_eq!(error("a: \"b"), "yaml: found unexpected end of stream");
        assert_eq!(error("}"), "yaml: did not find expected node content");
        assert_eq!(error("%"), "yaml: could not find expected directive name");
        let token = "found character that cannot start any token";
        for (body, line) in [("@", ""), ("\t", ""), ("a:\n\tb: c", "line 2: ")] {
            assert_eq!(error(body), format!("yaml: {line}{token}"));
        }
    }

    #[test]
    fn anchors_and_merge_keys_are_expanded() {
        let text = "base: &b {x: 1}\nuse:\n  <<: *b\n  z: 2\nalias: *b";
        assert_eq!(
            value(text),
            json!({"base": {"x": 1}, "use": {"x": 1, "z": 2}, "alias": {"x": 1}})
        );
    }
}
