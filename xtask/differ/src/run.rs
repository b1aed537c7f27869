//! Running a sequence on one server.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sequence::{Sequence, Step};
use crate::server::{Answer, Call, Server};
use crate::yaml;

/// How often an answer that has to be awaited is asked for.
const TRIES: usize = 60;

/// Users of a run who have the rights of a role in its namespace.
const USERS: [(&str, &str); 2] =
    [("editor", "system:aggregate-to-edit"), ("viewer", "system:aggregate-to-view")];

/// One run on one server.
pub struct Run<'a> {
    server: &'a Server,
    /// A part of names that no other run has.
    id: &'a str,
    /// The resource version at which the run began.
    start: String,
}

/// Sends every step and returns the answers; a step that waits has none.
///
/// `id` is a part of names that no other run has. What the steps leave behind outside of the
/// namespace of the run is deleted.
///
/// # Errors
/// If the server does not answer.
pub async fn run(
    server: &Server,
    sequence: &Sequence,
    id: &str,
) -> Result<Vec<Option<Answer>>, String> {
    let mut run = Run::new(server, id);
    run.prepare(sequence).await?;
    let mut answers = Vec::with_capacity(sequence.steps.len());
    for step in &sequence.steps {
        if step.wait {
            // What was refused is never served.
            let last = answers.iter().rev().find_map(Option::as_ref);
            if last.is_none_or(|answer: &Answer| answer.status < 400) {
                run.wait(step).await?;
            }
            answers.push(None);
        } else if step.twice {
            answers.push(Some(run.race(step).await?));
        } else {
            answers.push(Some(run.send(step).await?));
        }
    }
    run.clean(sequence).await?;
    Ok(answers)
}

/// Returns the namespace of a run.
pub fn ns(id: &str) -> String {
    format!("differ-{id}")
}

// === impl Run ===

impl<'a> Run<'a> {
    /// Returns a run that has not begun; `id` is a part of names that no other run has.
    pub fn new(server: &'a Server, id: &'a str) -> Self {
        Self { server, id, start: String::new() }
    }

    /// Makes the namespace of the run.
    ///
    /// # Errors
    /// If it cannot be created.
    pub async fn namespace(&self) -> Result<Answer, String> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}"}});
        let made = self.send(&post("/api/v1/namespaces", body)).await?;
        match made.status {
            201 => Ok(made),
            _ => Err(format!("namespace {} was not created: {}", ns(self.id), made.body)),
        }
    }

    /// The part of names that no other run has.
    pub fn id(&self) -> &str {
        self.id
    }

    /// Makes the namespace, and the users that the sequence needs.
    async fn prepare(&mut self, sequence: &Sequence) -> Result<(), String> {
        let made = self.namespace().await?;
        let version = made.body["metadata"]["resourceVersion"].as_str();
        version.unwrap_or_default().clone_into(&mut self.start);
        for (user, role) in USERS {
            let wanted = |step: &Step| step.user.as_deref() == Some(user);
            if !sequence.steps.iter().any(wanted) {
                continue;
            }
            let group = "rbac.authorization.k8s.io";
            let body = json!({
                "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
                "metadata": {"name": format!("differ-{user}")},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
            });
            self.send(&post(&format!("/apis/{group}/v1/namespaces/{{ns}}/rolebindings"), body))
                .await?;
            let request = "GET /api/v1/namespaces/{ns}/configmaps?limit=1".to_owned();
            self.wait(&Step { request, user: Some(user.into()), ..Step::default() }).await?;
        }
        Ok(())
    }

    async fn wait(&self, step: &Step) -> Result<(), String> {
        for _ in 0..TRIES {
            if self.send(step).await?.status == 200 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Sends one request.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn send(&self, step: &Step) -> Result<Answer, String> {
        let body = self.body(step).await?;
        self.send_body(step, body).await
    }

    /// Sends one request from two clients at once.
    async fn race(&self, step: &Step) -> Result<Answer, String> {
        let body = self.body(step).await?;
        let (one, two) =
            tokio::join!(self.send_body(step, body.clone()), self.send_body(step, body));
        let mut statuses = [one?.status, two?.status];
        statuses.sort_unstable();
        Ok(Answer { status: 200, body: json!(statuses), warnings: Vec::new() })
    }

    /// The body of a step: as it is written, or the object as the server has it with some edits.
    async fn body(&self, step: &Step) -> Result<Option<Vec<u8>>, String> {
        let value = if step.edit.is_empty() {
            let Some(body) = &step.body else { return Ok(None) };
            body.clone()
        } else {
            let (_, path) = split(&step.request)?;
            let path = self.fill(path.split('?').next().unwrap_or_default());
            let current = self.server.get(&path).await?;
            let mut object = if current.status == 200 { current.body } else { json!({}) };
            for edit in &step.edit {
                edit.apply(&mut object);
            }
            object
        };
        let text = match step.content_type.as_deref() {
            Some("application/yaml") => yaml::text(&value),
            _ => value.to_string(),
        };
        Ok(Some(self.fill(&text).into_bytes()))
    }

    async fn send_body(&self, step: &Step, body: Option<Vec<u8>>) -> Result<Answer, String> {
        let (method, path) = split(&step.request)?;
        self.server
            .call(Call {
                method,
                path: &self.fill(path),
                content_type: step.content_type.as_deref().unwrap_or("application/json"),
                accept: step.accept.as_deref().unwrap_or("application/json"),
                user: step.user.as_deref(),
                body,
            })
            .await
    }

    /// Deletes what is outside of the namespace of the run, so that later runs do not see it.
    async fn clean(&self, sequence: &Sequence) -> Result<(), String> {
        let mut left: BTreeSet<String> = BTreeSet::new();
        for step in &sequence.steps {
            let (_, path) = split(&step.request)?;
            let path = path.split('?').next().unwrap_or_default();
            if let Some(end) = path.find("-{id}.example.com") {
                left.insert(path[..end + "-{id}.example.com".len()].to_owned());
            }
            let name = step.body.as_ref().and_then(|body| body["metadata"]["name"].as_str());
            if let Some(name) = name.filter(|name| name.contains("-{id}.example.com")) {
                left.insert(format!("{path}/{name}"));
            }
        }
        let patch = json!({"metadata": {"finalizers": null}});
        // The group of a custom kind looks like a name.
        left.remove("/apis/differ-{id}.example.com");
        for path in left.iter().filter(|path| !path.contains("/namespaces/{ns}")) {
            let content_type = Some("application/merge-patch+json".to_owned());
            let request = format!("DELETE {path}");
            let deleted = self.send(&Step { request, ..Step::default() }).await?;
            let held = deleted.body["metadata"]["finalizers"].is_array();
            if deleted.status == 200 && held {
                let request = format!("PATCH {path}");
                let body = Some(patch.clone());
                self.send(&Step { request, body, content_type, ..Step::default() }).await?;
            }
        }
        Ok(())
    }

    fn fill(&self, text: &str) -> String {
        let text = text.replace("{ns}", &ns(self.id)).replace("{id}", self.id);
        text.replace("{rv}", &self.start)
    }
}

fn post(path: &str, body: Value) -> Step {
    Step { request: format!("POST {path}"), body: Some(body), ..Step::default() }
}

fn split(request: &str) -> Result<(&str, &str), String> {
    request.split_once(' ').ok_or_else(|| "a request has a method and a path".to_owned())
}

/// Returns the text of a step for people.
pub fn shown(step: &Step) -> String {
    let mut text = step.request.clone();
    if let Some(kind) = &step.content_type {
        text += &format!(" ({kind})");
    }
    if step.twice {
        text += " twice";
    }
    if let Some(user) = &step.user {
        text += &format!(" as {user}");
    }
    if let Some(body) = &step.body {
        text += &format!(" {body}");
    }
    for edit in &step.edit {
        let to = edit.to.as_ref().map_or_else(|| "removed".to_owned(), Value::to_string);
        text += &format!(" [{} = {to}]", edit.path.join("."));
    }
    text
}
