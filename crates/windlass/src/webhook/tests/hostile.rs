//! Reviews that no API server sends: each has a clear answer, and none a panic.

use proptest::prelude::*;
use serde_json::json;
use tokio::runtime::Builder;

use super::*;
use crate::conversion::{Conversion, Fields};

mod v1 {
    #[crate::api(group = "example.com", version = "v1", kind = "Lamp", storage = false)]
    pub struct LampSpec {
        pub watts: i32,
        #[k8s(optional)]
        pub tags: Vec<String>,
    }
}

mod v2 {
    #[crate::api(group = "example.com", version = "v2", kind = "Lamp")]
    pub struct LampSpec {
        pub power: Power,
        #[k8s(optional)]
        pub tags: Vec<String>,
        pub color: Option<String>,
    }
    #[crate::k8s]
    pub struct Power {
        pub watts: i32,
    }
}

const DEFAULT: &str = "/mutate-example-com-v2-lamp";
const VALIDATE: &str = "/validate-example-com-v2-lamp";
const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

fn webhooks() -> Webhooks {
    let complete = |request: Request<v2::Lamp>| async move {
        let mut lamp = request.object;
        lamp.spec.color.get_or_insert_with(|| "white".into());
        Ok(lamp)
    };
    let webhook = Webhook::new().default(complete).validate(|_| async { Ok(Findings::new()) });
    let conversion = Conversion::<v2::Lamp>::new()
        .version::<v1::Lamp>(Fields::new().moved(".spec.watts", ".spec.power.watts"));
    Webhooks::new().add(webhook).convert(move |review| conversion.review(review))
}

fn lamp() -> Value {
    json!({
        "apiVersion": "example.com/v2", "kind": "Lamp",
        "metadata": {"name": "a", "namespace": "default", "uid": "1", "labels": {"app": "b"},
            "annotations": {"windlass.dev/conversion": "{}"}},
        "spec": {"power": {"watts": 60}, "tags": ["a", "b"], "color": "red"},
    })
}

fn admission(operation: &str) -> Value {
    let mut request = json!({
        "uid": "7", "operation": operation, "name": "a", "namespace": "default",
        "userInfo": {"username": "jane", "groups": ["dev"]}, "dryRun": false,
        "resource": {"group": "example.com", "version": "v2", "resource": "lamps"},
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    });
    for (field, operations) in
        [("object", ["CREATE", "UPDATE"]), ("oldObject", ["UPDATE", "DELETE"])]
    {
        if operations.contains(&operation) {
            request[field] = lamp();
        }
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

fn conversion(to: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
        "uid": "7", "desiredAPIVersion": to, "objects": [lamp(), lamp()]}})
}

/// Arrays within arrays.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

fn junk() -> impl Strategy<Value = Option<Value>> {
    let text = "\\PC{0,8}".prop_map(|text| Some(json!(text)));
    let known = prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!([]),
        json!({}),
        json!(""),
        json!("v1"),
        json!("Secret"),
        json!("EAT"),
        json!("CONNECT"),
        json!("example.com/v1"),
        json!("example.com/v3"),
        json!("admission.k8s.io/v9"),
        json!([{"a": [1]}]),
        json!({"a": {"b": null}}),
        json!([1, "a", null]),
        lamp(),
    ]);
    let nested = (1..300_usize).prop_map(|levels| Some(deep(levels)));
    // `None` removes what is there.
    prop_oneof![2 => Just(None), 2 => text, 6 => known.prop_map(Some), 1 => nested]
}

/// A change of the text.
#[derive(Debug, Clone)]
enum Damage {
    None,
    Cut(prop::sample::Index),
    Byte(prop::sample::Index, u8),
    /// A member of some object is there twice.
    Twice(prop::sample::Index, &'static str),
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    let members = prop::sample::select(vec![
        r#""kind":"Secret","#,
        r#""uid":"8","#,
        r#""request":{},"#,
        r#""object":null,"#,
        r#""a":1,"#,
        r#""spec":{"power":{"watts":1}},"#,
        r#""objects":[],"#,
        r#""operation":"DELETE","#,
    ]);
    prop_oneof![
        6 => Just(Damage::None),
        1 => index().prop_map(Damage::Cut),
        1 => (index(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        2 => (index(), members).prop_map(|(at, member)| Damage::Twice(at, member)),
    ]
}

/// The paths of everything within a document.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                pointers(inner, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (place, inner) in items.iter().enumerate() {
                pointers(inner, &format!("{at}/{place}"), found);
            }
        }
        _ => {}
    }
}

type Changes = Vec<(prop::sample::Index, Option<Value>)>;

fn changed(mut review: Value, changes: Changes, damage: &Damage) -> Vec<u8> {
    for (at, value) in changes {
        let mut all = Vec::new();
        pointers(&review, "", &mut all);
        let pointer = at.get(&all);
        match (value, pointer.rsplit_once('/')) {
            (None, Some((parent, name))) => match review.pointer_mut(parent) {
                Some(Value::Object(fields)) => {
                    fields.remove(&name.replace("~1", "/").replace("~0", "~"));
                }
                Some(Value::Array(items)) => drop(items.pop()),
                _ => {}
            },
            (value, _) => {
                if let Some(place) = review.pointer_mut(pointer) {
                    *place = value.unwrap_or_default();
                }
            }
        }
    }
    let mut text = review.to_string().into_bytes();
    match damage {
        Damage::None => {}
        Damage::Cut(at) => text.truncate(at.index(text.len())),
        Damage::Byte(at, byte) => {
            let at = at.index(text.len());
            text[at] = *byte;
        }
        Damage::Twice(at, member) => {
            let objects: Vec<usize> =
                (0..text.len()).filter(|at| text[*at..].starts_with(b"{\"")).collect();
            if !objects.is_empty() {
                let at = at.get(&objects) + 1;
                drop(text.splice(at..at, member.bytes()));
            }
        }
    }
    text
}

fn changes() -> impl Strategy<Value = Changes> {
    prop::collection::vec((any::<prop::sample::Index>(), junk()), 0..4)
}

fn answer(webhooks: &Webhooks, path: &str, body: Vec<u8>) -> (StatusCode, Value) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("starts");
    runtime.block_on(post(webhooks, request(path, body)))
}

/// A refusal that names what is wrong.
fn is_clear(status: StatusCode, answer: &Value) -> bool {
    status == StatusCode::BAD_REQUEST
        && answer["kind"] == "Status"
        && answer["message"].as_str().is_some_and(|text| text.len() > 10)
}

proptest! {
    #[test]
    fn any_admission_review_has_a_clear_answer(
        operation in prop::sample::select(OPERATIONS.to_vec()),
        path in prop::sample::select(vec![DEFAULT, VALIDATE]),
        changes in changes(),
        damage in damage(),
    ) {
        let text = changed(admission(operation), changes, &damage);
        let (status, answer) = answer(&webhooks(), path, text.clone());
        let shown = String::from_utf8_lossy(&text).into_owned();
        if status != StatusCode::OK {
            prop_assert!(is_clear(status, &answer), "{status} {answer} to {shown}");
            return Ok(());
        }
        let response = &answer["response"];
        prop_assert_eq!(&answer["kind"], "AdmissionReview");
        prop_assert!(response["allowed"].is_boolean(), "{answer} to {shown}");
        prop_assert!(response["status"]["code"] != 500, "{answer} to {shown}");
        if let Ok(sent) = serde_json::from_slice::<Value>(&text) {
            prop_assert_eq!(&response["uid"], &sent["request"]["uid"]);
            prop_assert_eq!(&answer["apiVersion"], &sent["apiVersion"]);
            let operation = sent["request"]["operation"].as_str().unwrap_or_default();
            if response["allowed"] == true {
                prop_assert!(OPERATIONS.contains(&operation), "{shown} is allowed");
                if operation != "CONNECT" {
                    let field = if operation == "DELETE" { "oldObject" } else { "object" };
                    let object = &sent["request"][field];
                    prop_assert_eq!(&object["kind"], "Lamp");
                    prop_assert!(object["spec"]["power"]["watts"].is_i64(), "{shown} is allowed");
                }
            }
        }
    }

    #[test]
    fn any_conversion_review_has_a_clear_answer(
        to in prop::sample::select(vec!["example.com/v1", "example.com/v2"]),
        changes in changes(),
        damage in damage(),
    ) {
        let text = changed(conversion(to), changes, &damage);
        let (status, answer) = answer(&webhooks(), "/convert", text.clone());
        let shown = String::from_utf8_lossy(&text).into_owned();
        if status != StatusCode::OK {
            prop_assert!(is_clear(status, &answer), "{status} {answer} to {shown}");
            return Ok(());
        }
        let sent: Value = serde_json::from_slice(&text).expect("JSON, because it was answered");
        let (request, response) = (&sent["request"], &answer["response"]);
        prop_assert_eq!(&answer["kind"], "ConversionReview");
        prop_assert_eq!(&response["uid"], &request["uid"]);
        prop_assert_eq!(&answer["apiVersion"], &sent["apiVersion"]);
        if response["result"]["status"] == "Success" {
            let (objects, converted) = (&request["objects"], &response["convertedObjects"]);
            let all = converted.as_array().map(Vec::as_slice).unwrap_or_default();
            prop_assert_eq!(objects.as_array().map(Vec::len), Some(all.len()));
            for (object, one) in objects.as_array().into_iter().flatten().zip(all) {
                prop_assert_eq!(&one["apiVersion"], &request["desiredAPIVersion"]);
                prop_assert_eq!(&one["metadata"]["name"], &object["metadata"]["name"]);
            }
        } else {
            prop_assert_eq!(&response["result"]["status"], "Failure");
            let why = response["result"]["message"].as_str().unwrap_or_default();
            prop_assert!(why.len() > 10 && !why.contains("panic"), "{why:?} to {shown}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_content_types_and_bodies_without_end_are_refused_for_every_path() {
    let webhooks = webhooks();
    for path in [DEFAULT, VALIDATE, "/convert"] {
        for media in ["", "text/plain", "application/yaml", "application/vnd.kubernetes.protobuf"] {
            let mut sent = request(path, admission("CREATE").to_string());
            match media {
                "" => drop(sent.headers_mut().remove(header::CONTENT_TYPE)),
                media => {
                    let media = media.parse().expect("a media type");
                    sent.headers_mut().insert(header::CONTENT_TYPE, media);
                }
            }
            let (status, answer) = post(&webhooks, sent).await;
            assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{media}");
            assert_eq!(answer["message"], "expected a body of the type application/json");
        }
        let most: usize = if path == "/convert" { 64 << 20 } else { 7 << 20 };
        let (status, answer) = post(&webhooks, request(path, vec![b' '; most + 1])).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(answer["message"], format!("the request has more than {most} bytes"));
    }
}

/// Reviews, their paths, and the beginning of what is said about them.
fn wrong_reviews() -> Vec<(String, &'static str, &'static str)> {
    let with = |mut review: Value, pointer: &str, value: Value| {
        *review.pointer_mut(pointer).expect("is there") = value;
        review.to_string()
    };
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let create = || admission("CREATE");
    vec![
        (
            with(create(), "/apiVersion", json!("admission.k8s.io/v9")),
            VALIDATE,
            "expected an AdmissionReview of admission.k8s.io/v1, got \"AdmissionReview\" of \"admission.k8s.io/v9\"",
        ),
        (
            with(create(), "/request/uid", json!(7)),
            VALIDATE,
            "the AdmissionReview has no request with a uid",
        ),
        (
            with(create(), "/request/operation", json!("EAT")),
            VALIDATE,
            "the request of the AdmissionReview has the operation \"EAT\", expected CREATE, UPDATE, DELETE or CONNECT",
        ),
        (
            with(create(), "/request/userInfo", json!([1])),
            VALIDATE,
            "the userInfo of the request does not decode: ",
        ),
        (
            with(create(), "/request/object", secret.clone()),
            VALIDATE,
            "the request has \"Secret\" of \"v1\", expected Lamp.example.com/v2",
        ),
        (
            with(create(), "/request/object/spec", deep(200)),
            VALIDATE,
            "the Lamp.example.com/v2 does not fit the Rust type: ",
        ),
        (
            with(conversion("example.com/v1"), "/apiVersion", json!("apiextensions.k8s.io/v9")),
            "/convert",
            "expected a ConversionReview of apiextensions.k8s.io/v1, got \"apiextensions.k8s.io/v9\"",
        ),
        (
            with(conversion("example.com/v1"), "/request/uid", json!(null)),
            "/convert",
            "the ConversionReview has no request with a uid",
        ),
        (
            with(conversion("example.com/v1"), "/request/objects", json!({})),
            "/convert",
            "the body is not a ConversionReview with a request",
        ),
        (
            with(conversion("example.com/v1"), "/request/objects/1", secret),
            "/convert",
            "cannot convert Secret a of v1 to example.com/v1: \"Secret\" is not Lamp",
        ),
        (
            with(
                conversion("example.com/v1"),
                "/request/desiredAPIVersion",
                json!("example.com/v3"),
            ),
            "/convert",
            "cannot convert Lamp default/a of example.com/v2 to example.com/v3: Lamp has no version \"example.com/v3\", only example.com/v2, example.com/v1",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_review_is_named() {
    for (body, path, said) in wrong_reviews() {
        let (_, answer) = post(&webhooks(), request(path, body)).await;
        let response = &answer["response"];
        let places =
            [&answer["message"], &response["status"]["message"], &response["result"]["message"]];
        let found: Vec<&str> = places.iter().filter_map(|text| text.as_str()).collect();
        assert!(found.len() == 1 && found[0].starts_with(said), "{said}\n{answer}");
        assert!(response["allowed"] != true);
    }
}
