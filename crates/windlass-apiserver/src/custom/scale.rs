//! The scale subresource of custom resources.

use serde_json::{Map, Value, json};

use crate::status::{FieldError, FieldErrors, Status, quote};

/// Where an object keeps its replicas; the paths start with a dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// `specReplicasPath`.
    pub spec: String,
    /// `statusReplicasPath`.
    pub status: String,
    /// `labelSelectorPath`.
    pub selector: Option<String>,
}

/// The replicas in the scale that an update starts from, if they were never set.
const UNSET: i64 = i32::MIN as i64;

impl ScalePaths {
    /// Reads the paths of a version's `subresources.scale`.
    pub fn parse(value: &Value) -> Option<Self> {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        value.as_object()?;
        Some(Self {
            spec: text("specReplicasPath").unwrap_or_default(),
            status: text("statusReplicasPath").unwrap_or_default(),
            selector: text("labelSelectorPath"),
        })
    }

    /// Returns the scale of an object.
    ///
    /// # Errors
    /// 500 if the object has no replicas, or something else in their place.
    pub fn read(&self, object: &Value) -> Result<Value, Status> {
        match self.scale(object) {
            Ok((scale, true)) => Ok(scale),
            Ok((_, false)) => Err(Status::internal(format!(
                "the spec replicas field {} does not exist",
                quote(&self.spec)
            ))),
            Err(why) => Err(Status::untyped(why)),
        }
    }

    /// Returns the scale an update starts from: as [`ScalePaths::read`], with a mark for unset
    /// replicas.
    ///
    /// # Errors
    /// 500 if their field has another type.
    pub fn read_for_update(&self, object: &Value) -> Result<Value, Status> {
        let (mut scale, found) = self.scale(object).map_err(Status::untyped)?;
        if !found {
            scale["spec"]["replicas"] = UNSET.into();
        }
        Ok(scale)
    }

    /// Returns the scale after an update.
    ///
    /// # Errors
    /// 400 if the field of the replicas has another type.
    pub fn answer(&self, object: &Value) -> Result<Value, Status> {
        self.scale(object).map(|(scale, _)| scale).map_err(Status::bad_request)
    }

    /// Writes the replicas (and resourceVersion, if given) of a changed scale into the object.
    ///
    /// # Errors
    /// 400 if the scale has no replicas, 500 if there is no place for them.
    pub fn write(&self, object: &mut Value, scale: &Value) -> Result<(), Status> {
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas == UNSET {
            let text = format!("the spec replicas field {} cannot be empty", quote(&self.spec));
            return Err(Status::bad_request(text));
        }
        let steps: Vec<&str> = split(&self.spec).collect();
        let mut at = &mut *object;
        for (index, step) in steps.iter().enumerate() {
            let Value::Object(map) = at else {
                let place = steps[..index].join(".");
                return Err(Status::untyped(format!(
                    "value cannot be set because .{place} is not a map[string]interface{{}}"
                )));
            };
            at = map.entry(*step).or_insert_with(|| Value::Object(Map::new()));
        }
        *at = replicas.into();
        if let Some(version) = scale["metadata"]["resourceVersion"].as_str()
            && !version.is_empty()
        {
            super::put(object, &["metadata", "resourceVersion"], version.into());
        }
        Ok(())
    }

    /// Problems of the replicas in the spec.
    pub fn validate_spec(&self, object: &Value) -> FieldErrors {
        check(object, &self.spec)
    }

    /// Problems of the replicas and the selector in the status.
    pub fn validate_status(&self, object: &Value) -> FieldErrors {
        let mut errors = check(object, &self.status);
        if let Some(path) = &self.selector
            && let Err(why) = text(object, path)
        {
            errors.push(FieldError::invalid_str(path, "", why));
        }
        errors
    }

    fn scale(&self, object: &Value) -> Result<(Value, bool), String> {
        let spec = whole(object, &self.spec)?;
        let status = whole(object, &self.status)?;
        let selector = match self.selector.as_deref().filter(|path| !path.is_empty()) {
            Some(path) => text(object, path)?,
            None => None,
        };
        let mut metadata = Map::new();
        for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object["metadata"].get(key) {
                metadata.insert(key.into(), value.clone());
            }
        }
        let mut scale = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
            "spec": {}, "status": {"replicas": status.unwrap_or_default() as i32},
        });
        if let Some(replicas) = spec.filter(|replicas| *replicas as i32 != 0) {
            scale["spec"]["replicas"] = (replicas as i32).into();
        }
        if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
            scale["status"]["selector"] = selector.into();
        }
        Ok((scale, spec.is_some()))
    }
}

fn check(object: &Value, path: &str) -> FieldErrors {
    let wrong = |value: i64, detail: String| -> FieldErrors {
        [FieldError::invalid(path, &value.into(), detail)].into()
    };
    match whole(object, path) {
        Err(why) => wrong(0, why),
        Ok(Some(n)) if n < 0 => wrong(n, "should be a non-negative integer".into()),
        Ok(Some(n)) if n > i64::from(i32::MAX) => {
            wrong(n, format!("should be less than or equal to {}", i32::MAX))
        }
        Ok(_) => FieldErrors::default(),
    }
}

fn split(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    let mut done = String::new();
    for step in split(path) {
        done.push('.');
        done.push_str(step);
        match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(step) {
                Some(next) => value = next,
                None => return Ok(None),
            },
            other => return Err(accessor(&done, other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn whole(object: &Value, path: &str) -> Result<Option<i64>, String> {
    let Some(value) = find(object, path)? else { return Ok(None) };
    let place = format!(".{}", path.strip_prefix('.').unwrap_or(path));
    value.as_i64().map(Some).ok_or_else(|| accessor(&place, value, "int64"))
}

fn text(object: &Value, path: &str) -> Result<Option<String>, String> {
    let Some(value) = find(object, path)? else { return Ok(None) };
    let place = format!(".{}", path.strip_prefix('.').unwrap_or(path));
    match value {
        Value::String(text) => Ok(Some(text.clone())),
        other => Err(accessor(&place, other, "string")),
    }
}

fn accessor(path: &str, value: &Value, expected: &str) -> String {
    let (shown, kind) = (go_value(value), go_type(value));
    format!("{path} accessor error: {shown} is of the type {kind}, expected {expected}")
}

/// Returns the Go type of a decoded JSON value.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Returns a decoded JSON value as Go's `%v` prints it.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Number(n) if n.as_i64().is_none() => {
            windlass_text::number::go_float(n.as_f64().unwrap_or_default())
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let items: Vec<String> =
                map.iter().map(|(k, v)| format!("{k}:{}", go_value(v))).collect();
            format!("map[{}]", items.join(" "))
        }
        other => other.to_string(),
    }
}
