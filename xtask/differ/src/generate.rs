//! Sequences of requests for one kind.

use serde_json::{Map, Value, json};

use crate::draw::Draw;
use crate::mutate;
use crate::reads::get;
use crate::schemas::Schemas;
use crate::seeds::Seed;
use crate::sequence::{Edit, Sequence, Step};

/// The names of the objects of a sequence.
const NAMES: [&str; 2] = ["a", "b"];

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
        let about = format!("{} {}", self.seed.api_version(), self.seed.kind);
        if self.seed.posted {
            let steps = (0..count).map(|_| self.create("a", 80)).collect();
            return Sequence { about, steps };
        }
        let mut steps = vec![self.create("a", 30)];
        while steps.len() < count {
            let name = *self.draw.pick(&NAMES);
            let mut step = self.step(name);
            self.vary(&mut step);
            steps.push(step);
        }
        if self.draw.chance(10) {
            steps.push(self.watch());
        }
        if self.seed.cluster {
            steps.extend(NAMES.map(|name| get(self.seed.path(name))));
        } else {
            steps.push(get(self.seed.collection()));
        }
        Sequence { about, steps }
    }

    fn step(&mut self, name: &str) -> Step {
        match self.draw.below(28) {
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
            24 | 25 if !self.seed.parts.is_empty() => self.part(name),
            26 => self.delete_all(),
            27 => self.race(name),
            _ => self.update(name, &[]),
        }
    }

    /// Lets some requests be sent by others, in another format, or to another version.
    fn vary(&mut self, step: &mut Step) {
        if !self.seed.cluster && step.user.is_none() && !step.twice && self.draw.chance(8) {
            step.user = Some((*self.draw.pick(&["editor", "viewer"])).to_owned());
        }
        let whole = step.request.starts_with("P") && !step.request.starts_with("PATCH");
        if whole && step.content_type.is_none() && self.draw.chance(8) {
            step.content_type = Some("application/yaml".into());
        }
        if let Some(other) = &self.seed.other
            && self.draw.chance(40)
        {
            step.request = step.request.replace(&self.seed.api, other);
            if let Some(version) = step.body.as_mut().and_then(|body| body.get_mut("apiVersion")) {
                *version = json!(other.trim_start_matches("/apis/"));
            }
        }
        let writes = !step.request.starts_with("GET");
        if self.seed.dry && writes && !step.request.contains("dryRun") {
            let separator = if step.request.contains('?') { '&' } else { '?' };
            step.request += &format!("{separator}dryRun=All");
        }
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
        let mut query = self.query();
        if self.seed.dry && !query.contains("dryRun") {
            query += if query.is_empty() { "?dryRun=All" } else { "&dryRun=All" };
        }
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

    fn delete_all(&mut self) -> Step {
        let query = match self.seed.cluster {
            true => format!("fieldSelector=metadata.name%3D{}", self.seed.name("a")),
            false => (*self.draw.pick(&[
                "labelSelector=app%3Da",
                "labelSelector=app%3Dnothing",
                "fieldSelector=metadata.name%3Db",
                "dryRun=All",
                "propagationPolicy=x",
                "labelSelector=%3D",
            ]))
            .to_owned(),
        };
        let request = format!("DELETE {}?{query}", self.seed.collection());
        Step { request, ..Step::default() }
    }

    /// The same write by two clients.
    fn race(&mut self, name: &str) -> Step {
        let mut step = match self.draw.below(3) {
            0 => self.create(name, 0),
            1 => self.delete(name),
            _ => {
                let path = ["metadata", "labels", "race"].map(str::to_owned).to_vec();
                let edit = vec![Edit { path, to: Some(json!("1")) }];
                let request = format!("PUT {}", self.seed.path(name));
                Step { request, edit, ..Step::default() }
            }
        };
        step.twice = true;
        step
    }

    /// A subresource besides status and scale.
    fn part(&mut self, name: &str) -> Step {
        let part = self.draw.pick(&self.seed.parts).clone();
        let path = format!("{}/{part}", self.seed.path(name));
        let posted = |kind: &str, version: &str, mut body: Value| {
            body["apiVersion"] = json!(version);
            body["kind"] = json!(kind);
            Step { request: format!("POST {path}"), body: Some(body), ..Step::default() }
        };
        let named = json!({"name": self.seed.name(name)});
        let mut step = match part.as_str() {
            "eviction" => posted("Eviction", "policy/v1", json!({"metadata": named})),
            "binding" => {
                let target = json!({"kind": "Node", "name": "n"});
                posted("Binding", "v1", json!({"metadata": named, "target": target}))
            }
            "token" => {
                let spec = json!({"audiences": ["a"], "expirationSeconds": 600});
                posted("TokenRequest", "authentication.k8s.io/v1", json!({"spec": spec}))
            }
            _ if self.draw.chance(20) => get(path.clone()),
            _ => {
                let parts: &[&str] = if part == "approval" { &["status"] } else { &[] };
                let mut step = self.update(name, parts);
                step.request = format!("PUT {path}");
                step
            }
        };
        if let Some(body) = &mut step.body
            && self.draw.chance(30)
        {
            let (key, to) = (
                *self.draw.pick(&["metadata", "spec", "target", "deleteOptions"]),
                crate::value::broken(&mut self.draw),
            );
            body[key] = to;
        }
        step
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
