//! Definitions of custom kinds with generated schemas and rules.

use serde_json::{Map, Value, json};

use crate::draw::Draw;
use crate::seeds::Seed;
use crate::sequence::Step;

/// A generated kind: the steps that define it, its seed and its schema.
pub struct Custom {
    /// Creates the definition and waits until it is served.
    pub steps: Vec<Step>,
    /// An object of it.
    pub seed: Seed,
    /// The schema of its objects.
    pub schema: Value,
}

const RULES: [(&str, &str); 14] = [
    ("string", "self.size() < 5"),
    ("string", "self.matches('^[a-z]*$')"),
    ("string", "self == oldSelf"),
    ("string", "!self.contains('b') || self.lowerAscii() == self"),
    ("integer", "self % 2 == 0"),
    ("integer", "self < 100 ? true : self == oldSelf"),
    ("array", "self.all(x, self.exists_one(y, y == x))"),
    ("object", "self.size() >= 0"),
    ("object", "!has(self.inner) || true"),
    ("boolean", "self || !self"),
    ("string", "self.startsWith('a')"),
    ("integer", "self >= 0 && self != 7"),
    ("array", "self.size() < 3"),
    ("integer", "self >= oldSelf"),
];

/// Draws a kind.
pub fn custom(draw: &mut Draw) -> Custom {
    let mut properties = Map::new();
    let mut body = Map::new();
    for name in ["alpha", "beta", "gamma", "delta"].into_iter().take(1 + draw.below(4)) {
        let (schema, value) = field(draw, 0);
        properties.insert(name.into(), schema);
        if draw.chance(60) {
            body.insert(name.into(), value);
        }
    }
    let mut spec = json!({"type": "object", "properties": properties});
    if draw.chance(30) {
        spec["required"] = json!(["alpha"]);
    }
    if draw.chance(20) {
        spec["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    let status = draw.chance(50);
    let scale = draw.chance(30);
    let cluster = draw.chance(20);
    let versions = draw.chance(40);
    if scale {
        spec["properties"]["replicas"] = json!({"type": "integer", "format": "int32"});
        body.insert("replicas".into(), json!(1));
    }
    let schema = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": spec,
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let seed = Seed {
        api: "/apis/differ-{id}.example.com/v1".into(),
        resource: "things".into(),
        kind: "Thing".into(),
        cluster,
        status,
        scale,
        parts: Vec::new(),
        posted: false,
        dry: false,
        other: versions.then(|| "/apis/differ-{id}.example.com/v2".into()),
        body: json!({"spec": body}),
    };
    Custom { steps: definition(&schema, &seed), seed, schema }
}

fn definition(schema: &Value, seed: &Seed) -> Vec<Step> {
    let mut subresources = json!({});
    if seed.status {
        subresources["status"] = json!({});
    }
    if seed.scale {
        subresources["scale"] = json!({
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        });
    }
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "subresources": subresources,
            "schema": {"openAPIV3Schema": schema},
        })
    };
    let mut versions = vec![version("v1", true)];
    if seed.other.is_some() {
        versions.push(version("v2", false));
    }
    let scope = if seed.cluster { "Cluster" } else { "Namespaced" };
    let group = "differ-{id}.example.com";
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": scope,
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": versions,
        },
    });
    let create = Step {
        request: "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions".into(),
        body: Some(body),
        ..Step::default()
    };
    let wait = |api: &String| Step {
        request: match seed.cluster {
            true => format!("GET {api}/things"),
            false => format!("GET {api}/namespaces/{{ns}}/things"),
        },
        wait: true,
        ..Step::default()
    };
    let waits = [Some(&seed.api), seed.other.as_ref()].into_iter().flatten().map(wait);
    std::iter::once(create).chain(waits).collect()
}

/// Draws a schema and a value that fits it.
fn field(draw: &mut Draw, depth: usize) -> (Value, Value) {
    let (mut schema, value) = match draw.below(if depth > 1 { 4 } else { 8 }) {
        0 => {
            let mut schema = json!({"type": "string"});
            match draw.below(5) {
                0 => schema["enum"] = json!(["a", "b"]),
                1 => schema["pattern"] = json!("^[a-z]+$"),
                2 => schema["maxLength"] = json!(3),
                3 => {
                    schema["format"] =
                        json!(draw.pick(&["date-time", "duration", "ipv4", "byte", "uuid"]));
                }
                _ => schema["minLength"] = json!(1),
            }
            (schema, json!("a"))
        }
        1 => {
            let mut schema = json!({"type": "integer"});
            match draw.below(4) {
                0 => schema["maximum"] = json!(5),
                1 => schema["multipleOf"] = json!(2),
                2 => schema["format"] = json!("int32"),
                _ => schema["minimum"] = json!(0),
            }
            (schema, json!(2))
        }
        2 => (json!({"type": "boolean", "nullable": true}), json!(true)),
        3 => (json!({"x-kubernetes-int-or-string": true}), json!("50%")),
        4 | 5 => {
            let key = json!({"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "size": {"type": "integer", "default": 1}}});
            let list = match draw.below(3) {
                0 => json!({"type": "array", "items": key, "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name"]}),
                1 => json!({"type": "array", "items": key, "maxItems": 2}),
                _ => json!({"type": "array", "items": key, "x-kubernetes-list-type": "atomic"}),
            };
            (list, json!([{"name": "x"}]))
        }
        6 => {
            let (inner, value) = field(draw, depth + 1);
            let schema =
                json!({"type": "object", "additionalProperties": inner, "maxProperties": 2});
            (schema, json!({"k": value}))
        }
        _ => {
            let (inner, value) = field(draw, depth + 1);
            let schema = json!({"type": "object", "properties": {"inner": inner}});
            (schema, json!({"inner": value}))
        }
    };
    if draw.chance(15) {
        schema["default"] = value.clone();
    }
    let rules: Vec<&str> =
        RULES.iter().filter(|(kind, _)| schema["type"] == *kind).map(|(_, rule)| *rule).collect();
    if !rules.is_empty() && draw.chance(25) {
        schema["x-kubernetes-validations"] = json!([{"rule": draw.pick(&rules)}]);
    }
    (schema, value)
}
