//! The program that converts objects in the place of a webhook.
//!
//! Its answer is checked as an API server checks that of a webhook.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::failure::Failure;
use crate::process::Process;

/// How long the program may take. An API server waits 30 s for a list of at most 500 objects.
const TIME_MAX: Duration = Duration::from_secs(120);
/// The largest answer that is read.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Lets the operator convert objects: its command `convert` reads a review and writes the answer.
pub(super) fn convert(program: &Path, objects: &[Value], to: &str) -> Result<Vec<Value>, Failure> {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "crd-diff", "desiredAPIVersion": to, "objects": objects},
    });
    let mut answer = Err(String::new());
    crate::cluster::block_on(async {
        answer = ask(program, &review, TIME_MAX).await;
        Ok(())
    })?;
    let checked = answer.and_then(|answer| check(answer, objects, to));
    checked.map_err(|why| Failure::usage(format!("{} convert: {why}", program.display())))
}

/// Runs the program with a review as its input, and returns its output.
async fn ask(program: &Path, review: &Value, limit: Duration) -> Result<Value, String> {
    let mut command = Command::new(program);
    command.arg("convert").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process::spawn(&mut command).map_err(|error| error.to_string())?;
    let (Some(mut input), Some(output)) = (process.stdin(), process.stdout()) else {
        return Err("its input and output are no pipes".into());
    };
    let body = review.to_string();
    let mut text = Vec::new();
    let talk = async {
        let write = async {
            let written = input.write_all(body.as_bytes()).await;
            drop(input);
            written
        };
        let read = async {
            let mut output = output.take(ANSWER_BYTES_MAX + 1);
            output.read_to_end(&mut text).await
        };
        // A program that does not read its input must not block this one.
        let (written, read) = tokio::join!(write, read);
        read.map_err(|error| error.to_string())?;
        if text.len() as u64 > ANSWER_BYTES_MAX {
            return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
        let status = process.wait().await.map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("it ended with {status}"));
        }
        written.map_err(|error| error.to_string())
    };
    let late = |_| format!("it did not answer within {} s", limit.as_secs_f32());
    tokio::time::timeout(limit, talk).await.map_err(late)??;
    serde_json::from_slice(&text).map_err(|error| format!("the answer is not JSON: {error}"))
}

/// Takes the converted objects out of an answer: the same ones, in the same order.
fn check(mut answer: Value, objects: &[Value], to: &str) -> Result<Vec<Value>, String> {
    let Some(response) = answer.get_mut("response") else {
        return Err("the answer is not a ConversionReview with a response".into());
    };
    if response["result"]["status"] != "Success" {
        let message = response["result"]["message"].as_str();
        return Err(message.unwrap_or("it failed without a message").to_owned());
    }
    let converted = match response["convertedObjects"].take() {
        Value::Array(converted) if converted.len() == objects.len() => converted,
        _ => return Err("the answer has another number of objects".into()),
    };
    for (at, (given, got)) in objects.iter().zip(&converted).enumerate() {
        let shown = || format!("object {at} of the answer, for {}", given["metadata"]["name"]);
        if got["apiVersion"] != to {
            return Err(format!(
                "{} has the apiVersion {}, expected {to}",
                shown(),
                got["apiVersion"]
            ));
        }
        if got["kind"] != given["kind"] {
            return Err(format!("{} has the kind {}", shown(), got["kind"]));
        }
        for field in ["name", "namespace", "uid"] {
            let (was, is) = (&given["metadata"][field], &got["metadata"][field]);
            if was != is {
                return Err(format!("{} has the {field} {is}, expected {was}", shown()));
            }
        }
    }
    Ok(converted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lamp(version: &str, name: &str) -> Value {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Lamp",
            "metadata": {"name": name, "namespace": "default", "uid": name}})
    }

    #[test]
    fn an_answer_has_the_same_objects_in_the_same_order() {
        let given = [lamp("v1", "a"), lamp("v1", "b")];
        let check = |converted: Value| {
            let response = json!({"result": {"status": "Success"}, "convertedObjects": converted});
            check(json!({"response": response}), &given, "example.com/v2")
        };
        let good = [lamp("v2", "a"), lamp("v2", "b")];
        assert_eq!(check(json!(good)).unwrap(), good);
        let with = |pointer: &str, value: Value| {
            let mut answer = json!(good);
            *answer.pointer_mut(pointer).unwrap() = value;
            check(answer).unwrap_err()
        };
        for (answer, wanted) in [
            (check(json!([good[0]])).unwrap_err(), "another number"),
            (check(json!([good[1], good[0]])).unwrap_err(), "has the name \"b\", expected \"a\""),
            (with("/1/apiVersion", json!("example.com/v1")), "expected example.com/v2"),
            (with("/1/kind", json!("Torch")), "has the kind \"Torch\""),
            (with("/0/metadata/namespace", json!("other")), "has the namespace \"other\""),
            (with("/0/metadata/uid", Value::Null), "has the uid null"),
        ] {
            assert!(answer.contains(wanted), "{answer}");
        }
        let failed =
            super::check(json!({"response": {"result": {"status": "Failure"}}}), &given, "x");
        assert_eq!(failed.unwrap_err(), "it failed without a message");
        for odd in [json!([]), json!("text"), Value::Null, json!({"response": []})] {
            super::check(odd, &given, "x").unwrap_err();
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_program_that_does_not_end_is_killed() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("operator");
        std::fs::write(&program, "#!/bin/sh\ncat >/dev/null\nsleep 1000\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let late = ask(&program, &json!({}), Duration::from_millis(50)).await;
        assert_eq!(late.unwrap_err(), "it did not answer within 0.05 s");
    }
}
