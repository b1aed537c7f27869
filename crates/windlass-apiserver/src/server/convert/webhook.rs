//! Conversion of custom objects by their definition's webhook.
//!
//! Objects of a definition with a webhook are stored with their `apiVersion`, because the version
//! they were stored in is not known otherwise once the definition stores another one.
//!
//! **Invariant:** nothing a webhook answers is stored or served before it was checked against the
//! object it was asked about.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::Inner;
use crate::custom::convert::{check_converted, rename};
use crate::resource::split_api_version;
use crate::status::{Result, Status, quote};

/// How long a conversion may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes an answer may have: a list is converted at once.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Returns `true` if a definition has its objects converted by a webhook.
pub(super) fn has_webhook(definition: &Value) -> bool {
    definition["spec"]["conversion"]["strategy"] == "Webhook"
}

/// The `apiVersion` a definition stores.
pub(super) fn storage_version(definition: &Value) -> String {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let stored = versions.into_iter().find(|version| version["storage"] == true);
    let name = stored.map(|version| &version["name"]).unwrap_or(&Value::Null);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&spec["group"]), text(name))
}

impl Inner {
    /// Converts objects, which carry their `apiVersion` and kind, to another version.
    ///
    /// # Errors
    /// 500 with the real server's text when the webhook fails or lies.
    pub(super) async fn convert_all(
        &self,
        definition: &Value,
        mut objects: Vec<Value>,
        to: &str,
    ) -> Result<Vec<Value>> {
        if !has_webhook(definition) {
            objects.iter_mut().for_each(|object| rename(object, to));
            return Ok(objects);
        }
        let due: Vec<usize> =
            (0..objects.len()).filter(|index| objects[*index]["apiVersion"] != to).collect();
        let Some(first) = due.first() else { return Ok(objects) };
        let gvk = gvk_text(&objects[*first]);
        let sent: Vec<Value> = due.iter().map(|index| objects[*index].clone()).collect();
        let converted = self.ask_converter(definition, sent, to).await;
        let converted = converted
            .map_err(|why| untyped(format!("conversion webhook for {gvk} failed: {why}")))?;
        if converted.len() != due.len() {
            return Err(untyped(format!(
                "conversion webhook for {gvk} returned {} objects, expected {}",
                converted.len(),
                due.len()
            )));
        }
        let single = objects.len() == 1;
        for (at, (index, mut new)) in due.into_iter().zip(converted).enumerate() {
            check(&objects[index], &mut new, to, &gvk, at, single)?;
            objects[index] = new;
        }
        Ok(objects)
    }

    async fn ask_converter(
        &self,
        definition: &Value,
        objects: Vec<Value>,
        to: &str,
    ) -> Result<Vec<Value>, String> {
        let webhook = &definition["spec"]["conversion"]["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
        let known = versions.filter_map(Value::as_str).find(|v| matches!(*v, "v1" | "v1beta1"));
        let version = known.ok_or("no supported conversion review versions")?;
        let uid = self.random.uuid(&["conversion", to]);
        let document = json!({
            "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{version}"),
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": objects},
        });
        let target =
            self.admission.routes.target(&webhook["clientConfig"], self, self.clock.now())?;
        let answer = target.exchange(&document, TIMEOUT, ANSWER_BYTES_MAX).await?;
        read_answer(answer, version, &uid)
    }
}

fn untyped(message: String) -> Status {
    Status::untyped(message)
}

/// `stable.example.com/v1, Kind=CronTab`.
fn gvk_text(object: &Value) -> String {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}

fn read_answer(mut answer: Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    let want = format!("apiextensions.k8s.io/{version}");
    if api_version != want || kind != "ConversionReview" {
        let (group, version) = split_api_version(&api_version);
        return Err(format!(
            "expected webhook response of {want}, Kind=ConversionReview, got {group}/{version}, Kind={kind}"
        ));
    }
    let response = &mut answer["response"];
    if !response.is_object() {
        return Err("no response provided".into());
    }
    let answered = text(&response["uid"]);
    if version == "v1" && answered != uid {
        return Err(format!("expected response.uid={}, got {}", quote(uid), quote(&answered)));
    }
    let result = &response["result"];
    let status = text(&result["status"]);
    if status != "Success" {
        let message = text(&result["message"]);
        return Err(match message.is_empty() {
            true => format!("response.result.status was '{status}', not 'Success'"),
            false => message,
        });
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        Value::Null => Ok(Vec::new()),
        _ => Err("json: cannot unmarshal into Go struct field ConversionResponse.response.convertedObjects of type []runtime.RawExtension".into()),
    }
}

fn check(
    original: &Value,
    new: &mut Value,
    to: &str,
    gvk: &str,
    index: usize,
    single: bool,
) -> Result<()> {
    let refuse = |why: String| {
        untyped(match single {
            true => {
                format!("conversion webhook for {gvk} returned invalid object at index 0: {why}")
            }
            false => format!(
                "conversion webhook for {gvk} returned invalid converted object at index {index}: {why}"
            ),
        })
    };
    let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
    if !new.is_object() || text(new, "kind").is_empty() {
        return Err(refuse(format!("Object 'Kind' is missing in '{new}'")));
    }
    for (what, wanted, got) in [
        ("groupVersion", to.to_owned(), text(new, "apiVersion")),
        ("kind", text(original, "kind"), text(new, "kind")),
    ] {
        if wanted != got {
            return Err(refuse(format!("invalid {what} (expected {wanted}, received {got})")));
        }
    }
    check_converted(original, new).map_err(|refusal| {
        untyped(match single {
            true => refusal.text(gvk),
            false => refusal.text_at(gvk, index),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: Value) -> Value {
        json!({
            "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "response": response,
        })
    }

    #[test]
    fn invalid_responses_are_reported() {
        let fails = |value: Value| read_answer(value, "v1", "u").unwrap_err();
        assert_eq!(
            fails(json!({"kind": "Status", "apiVersion": "v1"})),
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /v1, Kind=Status"
        );
        assert_eq!(fails(answer(Value::Null)), "no response provided");
        assert_eq!(fails(answer(json!({"uid": "x"}))), "expected response.uid=\"u\", got \"x\"");
        let failed = json!({"uid": "u", "result": {"status": "Failed", "message": "no way"}});
        assert_eq!(fails(answer(failed)), "no way");
    }

    #[test]
    fn a_converted_object_keeps_what_it_is() {
        let old = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a", "uid": "1"}});
        let fails = |mut new: Value| check(&old, &mut new, "g/v2", "g/v1, Kind=K", 0, true);
        let message = |new: Value| fails(new).unwrap_err().message;
        let head = "conversion webhook for g/v1, Kind=K returned invalid object";
        assert_eq!(
            message(json!({"apiVersion": "g/v3", "kind": "K"})),
            format!("{head} at index 0: invalid groupVersion (expected g/v2, received g/v3)")
        );
        assert_eq!(
            message(
                json!({"apiVersion": "g/v2", "kind": "K", "metadata": {"name": "b", "uid": "1"}})
            ),
            format!("{head}: must have the same name: a != b")
        );
    }
}
