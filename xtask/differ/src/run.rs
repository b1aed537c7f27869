//! Running a sequence on one server.

use std::time::Duration;

use serde_json::{Value, json};

use crate::sequence::{Sequence, Step};
use crate::server::{Answer, Call, Server};

/// How often an answer that has to be awaited is asked for.
const TRIES: usize = 60;

/// Sends every step and returns the answers; a step that waits has none.
///
/// `id` is a part of names that no other run has.
///
/// # Errors
/// If the server does not answer.
pub async fn run(
    server: &Server,
    sequence: &Sequence,
    id: &str,
) -> Result<Vec<Option<Answer>>, String> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns(id)}});
    let made = send(
        server,
        &Step {
            request: "POST /api/v1/namespaces".into(),
            body: Some(namespace),
            ..Step::default()
        },
        id,
    )
    .await?;
    if made.status != 201 {
        return Err(format!("namespace {} was not created: {}", ns(id), made.body));
    }
    let mut answers = Vec::with_capacity(sequence.steps.len());
    for step in &sequence.steps {
        if step.wait {
            // What was refused is never served.
            let refused = |last: &Option<Answer>| last.as_ref().is_some_and(|a| a.status >= 400);
            if !answers.last().is_some_and(refused) {
                wait(server, step, id).await?;
            }
            answers.push(None);
        } else {
            answers.push(Some(send(server, step, id).await?));
        }
    }
    Ok(answers)
}

/// Returns the namespace of a run.
pub fn ns(id: &str) -> String {
    format!("differ-{id}")
}

async fn wait(server: &Server, step: &Step, id: &str) -> Result<(), String> {
    for _ in 0..TRIES {
        if send(server, step, id).await?.status == 200 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn send(server: &Server, step: &Step, id: &str) -> Result<Answer, String> {
    let (method, path) = step.request.split_once(' ').ok_or("a request has a method and a path")?;
    let path = fill(path, id);
    let body = if step.edit.is_empty() {
        step.body.as_ref().map(|body| fill(&body.to_string(), id).into_bytes())
    } else {
        let bare = path.split('?').next().unwrap_or_default();
        let current = server.get(bare).await?;
        let mut object = if current.status == 200 { current.body } else { json!({}) };
        for edit in &step.edit {
            edit.apply(&mut object);
        }
        Some(fill(&object.to_string(), id).into_bytes())
    };
    server
        .call(Call {
            method,
            path: &path,
            content_type: step.content_type.as_deref().unwrap_or("application/json"),
            accept: step.accept.as_deref().unwrap_or("application/json"),
            user: step.user.as_deref(),
            body,
        })
        .await
}

fn fill(text: &str, id: &str) -> String {
    text.replace("{ns}", &ns(id)).replace("{id}", id)
}

/// Returns the text of a step for people.
pub fn shown(step: &Step) -> String {
    let mut text = step.request.clone();
    if let Some(kind) = &step.content_type {
        text += &format!(" ({kind})");
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
