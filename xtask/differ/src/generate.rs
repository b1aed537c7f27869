//! Sequences of requests for one kind.

use serde_json::{Map, Value, json};

use crate::draw::Draw;
use crate::mutate;
use crate::schemas::Schemas;
use crate::seeds::Seed;
use crate::sequence::{Edit, Sequence, Step};

/// The names of the objects of a sequence.
const NAMES: [&str; 2] = ["a", "b"];

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// Draws sequences for a kind.
pub struct Generator<'a> {
    /// Makes the decisions.
    pub draw: Draw,
    /// The schemas of all kinds.
    pub schemas: &'a Schemas,
    /// The kind.
    pub seed: &'a Seed,
    /// The schema of the kind.
    pub schema: &'a Value,
}

// === impl Generator ===

impl Generator<'_> {
    /// Draws a sequence of at most `count` requests.
    pub fn sequence(&mut self, count: usize) -> Sequence {
        let mut steps = vec![self.create("a", 30)];
        while steps.len() < count {
            let name = *self.draw.pick(&NAMES);
            let step = match self.draw.below(24) {
                0..=4 => self.create(name, 80),
                5..=8 => self.update(name, &[]),
                9..=10 => self.merge_patch(name, "application/merge-patch+json"),
                11..=13 => self.merge_patch(name, "application/strategic-merge-patch+json"),
                14 => self.json_patch(name),
                15..=17 => self.apply(name),
                18 => self.read(name),
                19 => self.list(),
                20 if self.seed.status => self.status(name),
                21 if self.seed.scale => self.scale(name),
                22 => self.delete(name),
                23 => self.special(name),
                _ => self.update(name, &[]),
            };
            steps.push(step);
        }
        steps.push(Step { request: format!("GET {}", self.final_list()), ..Step::default() });
        Sequence { about: format!("{} {}", self.seed.api_version(), self.seed.kind), steps }
    }

    fn final_list(&self) -> String {
        if self.seed.cluster { self.seed.path("a") } else { self.seed.collection() }
    }

    fn edits(&mut self, object: &Value, parts: &[&str]) -> Vec<Edit> {
        let count = 1 + self.draw.below(2);
        (0..count)
            .map(|_| mutate::edit(&mut self.draw, self.schemas, self.schema, object, parts))
            .filter(|edit| edit.path != ["metadata", "name"])
            .collect()
    }

    fn mutated(&mut self, name: &str, percent: usize) -> Value {
        let mut object = self.seed.object(name);
        if self.draw.chance(percent) {
            for edit in self.edits(&object, &[]) {
                edit.apply(&mut object);
            }
        }
        object
    }

    fn query(&mut self) -> String {
        let mut words: Vec<&str> = Vec::new();
        if self.draw.chance(8) {
            words.push(*self.draw.pick(&["dryRun=All", "dryRun=None"]));
        }
        if self.draw.chance(15) {
            words.push(*self.draw.pick(&[
                "fieldValidation=Strict",
                "fieldValidation=Warn",
                "fieldValidation=Ignore",
                "fieldValidation=x",
            ]));
        }
        if self.draw.chance(10) {
            words.push(*self.draw.pick(&["fieldManager=one", "fieldManager=two", "fieldManager="]));
        }
        if words.is_empty() { String::new() } else { format!("?{}", words.join("&")) }
    }

    fn create(&mut self, name: &str, percent: usize) -> Step {
        let body = self.mutated(name, percent);
        let query = self.query();
        Step {
            request: format!("POST {}{query}", self.seed.collection()),
            body: Some(body),
            ..Step::default()
        }
    }

    fn update(&mut self, name: &str, parts: &[&str]) -> Step {
        let mut edit = self.edits(&self.seed.object(name), parts);
        if edit.is_empty() || self.draw.chance(5) {
            edit.push(Edit { path: vec!["metadata".into(), "resourceVersion".into()], to: None });
        }
        let query = self.query();
        Step { request: format!("PUT {}{query}", self.seed.path(name)), edit, ..Step::default() }
    }

    fn merge_patch(&mut self, name: &str, content_type: &str) -> Step {
        let mut body = Value::Object(Map::new());
        for edit in self.edits(&self.seed.object(name), &[]) {
            let to = edit.to.unwrap_or(Value::Null);
            // The list of a patch has what it names; positions mean nothing in it.
            let path = edit.path.iter().map(|part| match part.parse::<usize>() {
                Ok(_) => "-".to_owned(),
                Err(_) => part.clone(),
            });
            Edit { path: path.collect(), to: Some(to) }.apply(&mut body);
        }
        let query = self.query();
        Step {
            request: format!("PATCH {}{query}", self.seed.path(name)),
            body: Some(body),
            content_type: Some(content_type.into()),
            ..Step::default()
        }
    }

    fn json_patch(&mut self, name: &str) -> Step {
        let operations: Vec<Value> = self
            .edits(&self.seed.object(name), &[])
            .into_iter()
            .map(|edit| {
                let path: String = edit
                    .path
                    .iter()
                    .map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1")))
                    .collect();
                match edit.to {
                    Some(to) => {
                        let op = *self.draw.pick(&["add", "add", "replace", "test"]);
                        json!({"op": op, "path": path, "value": to})
                    }
                    None => json!({"op": "remove", "path": path}),
                }
            })
            .collect();
        Step {
            request: format!("PATCH {}", self.seed.path(name)),
            body: Some(Value::Array(operations)),
            content_type: Some("application/json-patch+json".into()),
            ..Step::default()
        }
    }

    fn apply(&mut self, name: &str) -> Step {
        let body = self.mutated(name, 70);
        let manager = *self.draw.pick(&["one", "two"]);
        let force = *self.draw.pick(&["", "&force=true", "&force=false"]);
        Step {
            request: format!("PATCH {}?fieldManager={manager}{force}", self.seed.path(name)),
            body: Some(body),
            content_type: Some("application/apply-patch+yaml".into()),
            ..Step::default()
        }
    }

    fn read(&mut self, name: &str) -> Step {
        let accept =
            *self.draw.pick(&[None, Some(TABLE), Some(METADATA), Some("application/yaml2")]);
        let name = *self.draw.pick(&[name, name, "missing"]);
        Step {
            request: format!("GET {}", self.seed.path(name)),
            accept: accept.map(str::to_owned),
            ..Step::default()
        }
    }

    fn list(&mut self) -> Step {
        let query = *self.draw.pick(&[
            "labelSelector=app%3Da",
            "labelSelector=app+in+(a,b)",
            "labelSelector=!app",
            "labelSelector=%3D",
            "fieldSelector=metadata.name%3Da",
            "fieldSelector=spec.nothing%3Da",
            "limit=1",
            "limit=x",
            "resourceVersion=0",
            "resourceVersion=x",
            "resourceVersionMatch=Exact",
        ]);
        // Cluster-scoped kinds also have objects of other runs.
        let query = match (self.seed.cluster, query) {
            (true, "labelSelector=!app" | "limit=1" | "resourceVersion=0") => {
                "labelSelector=app%3Dnothing"
            }
            (true, "labelSelector=app%3Da" | "labelSelector=app+in+(a,b)") => {
                "labelSelector=app%3Dnothing"
            }
            (_, query) => query,
        };
        let accept = *self.draw.pick(&[None, Some(TABLE), Some(METADATA)]);
        Step {
            request: format!("GET {}?{query}", self.seed.collection()),
            accept: accept.map(str::to_owned),
            ..Step::default()
        }
    }

    fn status(&mut self, name: &str) -> Step {
        let mut step = self.update(name, &["status"]);
        step.request = format!("PUT {}/status", self.seed.path(name));
        step
    }

    fn scale(&mut self, name: &str) -> Step {
        let request = format!("{} {}/scale", self.draw.pick(&["GET", "PUT"]), self.seed.path(name));
        let edit = if request.starts_with("PUT") {
            let replicas =
                self.draw.pick(&[json!(0), json!(3), json!(-1), json!("3"), json!(null)]).clone();
            vec![Edit { path: vec!["spec".into(), "replicas".into()], to: Some(replicas) }]
        } else {
            Vec::new()
        };
        Step { request, edit, ..Step::default() }
    }

    fn delete(&mut self, name: &str) -> Step {
        let query = *self.draw.pick(&[
            "",
            "",
            "?propagationPolicy=Foreground",
            "?propagationPolicy=Orphan",
            "?gracePeriodSeconds=0",
            "?dryRun=All",
            "?propagationPolicy=x",
            "?gracePeriodSeconds=-1",
        ]);
        let uid = "00000000-0000-0000-0000-000000000000";
        let body = if self.draw.chance(15) {
            Some(
                json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}),
            )
        } else {
            None
        };
        Step { request: format!("DELETE {}{query}", self.seed.path(name)), body, ..Step::default() }
    }

    /// Requests that are wrong as a whole.
    fn special(&mut self, name: &str) -> Step {
        let path = self.seed.path(name);
        let object = self.seed.object(name);
        match self.draw.below(7) {
            0 => Step {
                request: format!("GET {path}"),
                user: Some("nobody".into()),
                ..Step::default()
            },
            1 => Step {
                request: format!("POST {}", self.seed.collection()),
                user: Some("nobody".into()),
                body: Some(object),
                ..Step::default()
            },
            2 => {
                let mut body = object;
                body["kind"] = json!("Other");
                let request = format!("POST {}", self.seed.collection());
                Step { request, body: Some(body), ..Step::default() }
            }
            3 => {
                let mut body = object;
                body["metadata"]["name"] = json!("other");
                Step { request: format!("PUT {path}"), body: Some(body), ..Step::default() }
            }
            4 => Step { request: format!("GET {path}/nothing"), ..Step::default() },
            5 => Step {
                request: format!("PATCH {path}"),
                body: Some(json!({})),
                content_type: Some("application/nothing".into()),
                ..Step::default()
            },
            _ => {
                let mut body = object;
                body["metadata"]["namespace"] = json!("other");
                let request = format!("POST {}", self.seed.collection());
                Step { request, body: Some(body), ..Step::default() }
            }
        }
    }
}
