//! Requests whose bodies are as large as a server reads.

use bench_harness::NAMESPACE;
use bytes::Bytes;
use http::Method;

use crate::connection::{APPLY, JSON, MERGE};

/// How many bytes a body has: what a real server reads at most.
const BODY: usize = 3 * 1024 * 1024 - 4096;
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const PATCH: &str = "application/json-patch+json";

/// A request whose body is as large as it may be.
pub struct Case {
    pub name: &'static str,
    pub method: Method,
    pub path: String,
    pub content: &'static str,
    pub body: Bytes,
}

/// All requests, in the order in which they are sent.
pub fn all() -> Vec<Case> {
    [maps(), pods(), patches(), applies()].into_iter().flatten().collect()
}

/// Creates of config maps.
fn maps() -> Vec<Case> {
    let new = |more: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"new"{more}}}}}"#)
    };
    let metadata = |field: &str, item: &dyn Fn(usize) -> String| {
        new(&format!(r#","{field}":[{}]"#, fill(item)))
    };
    let owner = |n: usize| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","name":"p{n}","uid":"u{n}","controller":true}}"#
        )
    };
    let manager = |n: usize| {
        format!(
            r#"{{"manager":"m{n}","operation":"Apply","apiVersion":"v{n}","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{"f:k{n}":{{}}}}}}}}"#
        )
    };
    let value = format!(r#"}},"data":{{"k":"{}"}}}}"#, "x".repeat(BODY));
    let nested = format!(r#","x":{}{}"#, "[".repeat(BODY / 2), "]".repeat(BODY / 2));
    [
        ("one long value", new("").replace("}}", &value)),
        ("finalizers", metadata("finalizers", &|n| format!("\"example.com/f{n}\""))),
        ("owners", metadata("ownerReferences", &owner)),
        ("managed fields", metadata("managedFields", &manager)),
        ("nested lists", new(&nested)),
    ]
    .map(|(name, body)| Case::create(name, "configmaps", body))
    .into()
}

/// Creates of pods.
fn pods() -> Vec<Case> {
    let environment = format!(
        r#"{{"name":"a","image":"a","env":[{}]}}"#,
        fill(&|n| format!(r#"{{"name":"=","value":"$(E{n})"}}"#))
    );
    [
        ("invalid containers", fill(&|_| "{\"name\":\"A_\"}".to_owned())),
        ("empty containers", fill(&|_| "{}".to_owned())),
        ("environment", environment),
    ]
    .map(|(name, containers)| {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"new"}},"spec":{{"containers":[{containers}]}}}}"#
        );
        Case::create(name, "pods", body)
    })
    .into()
}

/// Patches that are merged or have operations.
fn patches() -> Vec<Case> {
    let containers = |list: String| format!(r#"{{"spec":{{"containers":[{list}]}}}}"#);
    let add = |n| format!(r#"{{"op":"add","path":"/data/k{n}","value":"v"}}"#);
    let insert = |_| r#"{"op":"add","path":"/metadata/finalizers/0","value":"a/b"}"#.to_owned();
    let long_list = format!(
        r#"[{{"op":"add","path":"/metadata/finalizers","value":[{}]}},{}]"#,
        fill_to(BODY / 2, &|_| "\"a/b\"".to_owned()),
        fill_to(BODY / 2, &insert),
    );
    let long_item = format!(
        r#"{{"name":"main","env":[{}]}}"#,
        fill_to(BODY / 2, &|n| format!(r#"{{"name":"e{n}","value":"v"}}"#))
    );
    let same_item = |n: usize| match n {
        0 => long_item.clone(),
        _ => format!(r#"{{"name":"main","env":[{{"name":"e{n}","value":"w"}}]}}"#),
    };
    let items = fill(&|n| format!(r#"{{"name":"c{n}","image":"a"}}"#));
    let data = format!(r#"{{"data":{{{}}}}}"#, fill(&|n| format!(r#""k{n}":"v""#)));
    vec![
        Case::patch("JSON patch, adds", "configmaps", PATCH, format!("[{}]", fill(&add))),
        Case::patch("JSON patch, list", "configmaps", PATCH, long_list),
        Case::patch("merge patch", "configmaps", MERGE, data),
        Case::patch("strategic patch, one item", "pods", STRATEGIC, containers(fill(&same_item))),
        Case::patch("strategic patch, items", "pods", STRATEGIC, containers(items)),
    ]
}

/// Applies, as JSON and as lines of YAML.
fn applies() -> Vec<Case> {
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"patched"}},"data":{{{}}}}}"#,
        fill(&|n| format!(r#""k{n}":"v""#))
    );
    let lines: String = (0..BODY / 16).map(|n| format!("  k{n}: \"v\"\n")).collect();
    let yaml =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: patched}}\ndata:\n{lines}");
    [("apply", json), ("apply of lines", yaml)]
        .map(|(name, body)| Case::patch(name, "configmaps", APPLY, body))
        .into()
}

// === impl Case ===

impl Case {
    fn create(name: &'static str, resource: &str, body: String) -> Self {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/{resource}");
        Self { name, method: Method::POST, path, content: JSON, body: Bytes::from(body) }
    }

    fn patch(name: &'static str, resource: &str, content: &'static str, body: String) -> Self {
        let options = if content == APPLY { "?fieldManager=bench&force=true" } else { "" };
        let path = format!("/api/v1/namespaces/{NAMESPACE}/{resource}/patched{options}");
        Self { name, method: Method::PATCH, path, content, body: Bytes::from(body) }
    }
}

/// Items with commas between them, until a body is full.
fn fill(item: &dyn Fn(usize) -> String) -> String {
    fill_to(BODY, item)
}

fn fill_to(size: usize, item: &dyn Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(size);
    for n in 0.. {
        let next = item(n);
        if text.len() + next.len() + 512 > size && n > 0 {
            break;
        }
        if n > 0 {
            text.push(',');
        }
        text.push_str(&next);
    }
    text
}
