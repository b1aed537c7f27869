//! ConfigMap and Secret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::names::{config_key, push};
use super::tools::{drop_empty, entries, fill_text, has, object, same, set, text};
use crate::builtin::Strategy;
use crate::status::{FieldError, FieldErrors};

const SIZE_MAX: usize = 1024 * 1024;

/// ConfigMap.
pub(super) struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let mut size = 0;
        for (key, value) in entries(object, "data") {
            push(&mut errors, &format!("data[{key}]"), key, config_key(key));
            if object["binaryData"].get(key).is_some() {
                errors.push(FieldError::invalid_str(
                    format!("data[{key}]"),
                    key,
                    "duplicate of key present in binaryData",
                ));
            }
            size += value.as_str().map_or(0, str::len);
        }
        for (key, value) in entries(object, "binaryData") {
            push(&mut errors, &format!("binaryData[{key}]"), key, config_key(key));
            size += decoded_size(value);
        }
        if size > SIZE_MAX {
            errors.push(FieldError::too_long("", SIZE_MAX));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = frozen(object, old, &["data", "binaryData"]);
        errors.extend(self.validate(object));
        errors
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Secret.
pub(super) struct Secret;

impl Strategy for Secret {
    fn defaults(&self, secret: &mut Value) {
        fill_text(secret, "type", "Opaque");
        let plain = secret.as_object_mut().and_then(|fields| fields.remove("stringData"));
        let Some(Value::Object(plain)) = plain else {
            return drop_empty(secret, "data");
        };
        for (key, value) in plain {
            let value = STANDARD.encode(value.as_str().unwrap_or_default());
            set(object(secret, "data"), &key, value);
        }
        drop_empty(secret, "data");
    }

    fn prepare_update(&self, secret: &mut Value, old: &Value) {
        fill_text(secret, "type", text(old, "type"));
    }

    fn warnings(&self, secret: &Value, _old: Option<&Value>) -> Vec<String> {
        match text(secret, "type") {
            "kubernetes.io/tls" => pair_warning(&secret["data"]).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn validate(&self, secret: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let mut size = 0;
        for (key, value) in entries(secret, "data") {
            push(&mut errors, &format!("data[{key}]"), key, config_key(key));
            size += decoded_size(value);
        }
        if size > SIZE_MAX {
            errors.push(FieldError::too_long("data", SIZE_MAX));
        }
        check_type(&mut errors, secret);
        errors
    }

    fn validate_update(&self, secret: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        if text(secret, "type") != text(old, "type") {
            let detail = "field is immutable";
            errors.push(FieldError::invalid_str("type", text(secret, "type"), detail));
        }
        errors.extend(frozen(secret, old, &["data"]));
        errors.extend(self.validate(secret));
        errors
    }

    fn selectable_fields(&self, secret: &Value) -> Option<Vec<(&'static str, String)>> {
        Some(vec![("type", text(secret, "type").to_owned())])
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

fn decoded_size(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.trim_end_matches('=').len() * 3 / 4)
}

/// The rule that an immutable object keeps its contents.
fn frozen(object: &Value, old: &Value, parts: &[&str]) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if old["immutable"] != true {
        return errors;
    }
    let why = "field is immutable when `immutable` is set";
    if object["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", why));
    }
    for part in parts.iter().filter(|part| !same(object, old, part)) {
        errors.push(FieldError::forbidden(*part, why));
    }
    errors
}

/// Why a certificate and its key cannot be read: there is nothing like one in the file.
fn pair_warning(data: &Value) -> Option<String> {
    for (key, what) in [("tls.crt", "certificate"), ("tls.key", "key")] {
        let bytes = STANDARD.decode(text(data, key)).unwrap_or_default();
        let pem = String::from_utf8_lossy(&bytes);
        let kind = pem.split_once("-----BEGIN ").and_then(|(_, rest)| rest.split_once("-----"));
        match kind {
            Some((kind, rest)) if rest.contains(&format!("-----END {kind}-----")) => {}
            _ => return Some(format!("tls: failed to find any PEM data in {what} input")),
        }
    }
    None
}

fn check_type(errors: &mut FieldErrors, secret: &Value) {
    let data = &secret["data"];
    let mut need = |key: &str| {
        let missing = !has(data, key);
        if missing {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
        !missing
    };
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if text(&secret["metadata"]["annotations"], key).is_empty() {
                let path = format!("metadata.annotations[{key}]");
                errors.push(FieldError::required(path, ""));
            }
        }
        "kubernetes.io/dockercfg" if need(".dockercfg") => {
            check_json(errors, data, ".dockercfg");
        }
        "kubernetes.io/dockerconfigjson" if need(".dockerconfigjson") => {
            check_json(errors, data, ".dockerconfigjson");
        }
        "kubernetes.io/basic-auth" if !has(data, "username") && !has(data, "password") => {
            need("username");
            need("password");
        }
        "kubernetes.io/ssh-auth" if text(data, "ssh-privatekey").is_empty() => {
            errors.push(FieldError::required("data[ssh-privatekey]", ""));
        }
        "kubernetes.io/tls" => {
            need("tls.crt");
            need("tls.key");
        }
        _ => {}
    }
}

fn check_json(errors: &mut FieldErrors, data: &Value, key: &str) {
    let bytes = STANDARD.decode(text(data, key)).unwrap_or_default();
    let problem = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            let kind = match other {
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                _ => "array",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        Err(_) => syntax_problem(&bytes),
    };
    errors.push(FieldError::invalid_str(
        format!("data[{key}]"),
        "<secret contents redacted>",
        problem,
    ));
}

/// Go's words for the most frequent ways not to be JSON.
fn syntax_problem(bytes: &[u8]) -> String {
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(bytes.len());
    let rest = &bytes[start..];
    let Some(first) = rest.first() else { return "unexpected end of JSON input".into() };
    for word in ["null", "true", "false"] {
        if word.as_bytes()[0] != *first {
            continue;
        }
        return match word.bytes().zip(rest).find(|(want, got)| want != *got) {
            Some((want, got)) => format!(
                "invalid character '{}' in literal {word} (expecting '{}')",
                char::from(*got),
                char::from(want)
            ),
            None if rest.len() < word.len() => "unexpected end of JSON input".into(),
            None => after_value(&rest[word.len()..]),
        };
    }
    match first {
        b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' => match serde_json::from_slice::<Value>(rest) {
            Err(e) if e.is_eof() => "unexpected end of JSON input".into(),
            Err(e) => {
                let at = rest.get(e.column().saturating_sub(1)).copied().unwrap_or(b' ');
                format!("invalid character '{}' after top-level value", char::from(at))
            }
            Ok(_) => String::new(),
        },
        other => {
            format!("invalid character '{}' looking for beginning of value", char::from(*other))
        }
    }
}

fn after_value(rest: &[u8]) -> String {
    match rest.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b) => format!("invalid character '{}' after top-level value", char::from(*b)),
        None => String::new(),
    }
}
