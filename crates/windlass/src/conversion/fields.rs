//! Versions that differ in the place or the form of fields.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::scheme::Convert;

/// How the fields of a version differ from those of the stored version.
///
/// # Examples
///
/// ```
/// use windlass::conversion::{Conversion, Fields};
///
/// mod v1 {
///     #[windlass::api(group = "example.com", version = "v1", kind = "Backup", storage = false)]
///     pub struct BackupSpec {
///         pub bucket: String,
///         pub every_minutes: u32,
///     }
/// }
/// mod v2 {
///     #[windlass::api(group = "example.com", version = "v2", kind = "Backup")]
///     pub struct BackupSpec {
///         pub target: Target,
///         pub interval: String,
///     }
///     #[windlass::k8s]
///     pub struct Target {
///         pub bucket: String,
///         pub region: Option<String>,
///     }
/// }
///
/// let fields = Fields::new().moved(".spec.bucket", ".spec.target.bucket").changed(
///     ".spec.everyMinutes",
///     ".spec.interval",
///     |minutes: u32| Ok(format!("{minutes}m")),
///     |interval: String| {
///         let minutes = interval.trim_end_matches('m').parse();
///         Ok(minutes.unwrap_or(0)) // what v1 cannot express is kept anyway
///     },
/// );
/// Conversion::<v2::Backup>::new().version::<v1::Backup>(fields).assert_round_trip();
/// ```
#[derive(Clone, Default)]
#[must_use = "fields describe a version, give them to `Conversion::version`"]
pub struct Fields {
    moves: Vec<Move>,
}

#[derive(Clone)]
struct Move {
    old: String,
    new: String,
    functions: Option<(Change, Change)>,
}

type Change = Arc<dyn Fn(Value) -> Result<Value> + Send + Sync>;

// === impl Fields ===

impl Fields {
    /// Starts with fields that are the same in both versions, except for those that only one has.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares that a field has another name or place in the stored version: paths such as `.spec.size`, `old` of
    /// this version and `new` of the stored one.
    pub fn moved(mut self, old: &str, new: &str) -> Self {
        self.moves.push(Move { old: old.into(), new: new.into(), functions: None });
        self
    }

    /// Declares that a field has another form in the stored version, and possibly another place.
    pub fn changed<A, B>(
        mut self,
        old: &str,
        new: &str,
        to_new: impl Fn(A) -> Result<B> + Send + Sync + 'static,
        to_old: impl Fn(B) -> Result<A> + Send + Sync + 'static,
    ) -> Self
    where
        A: Serialize + DeserializeOwned + 'static,
        B: Serialize + DeserializeOwned + 'static,
    {
        let functions = Some((change(old, to_new), change(new, to_old)));
        self.moves.push(Move { old: old.into(), new: new.into(), functions });
        self
    }

    /// The functions to the stored version and back.
    pub(super) fn functions(
        self,
        (spoke, spoke_schema): (&str, &Value),
        (hub, hub_schema): (&str, &Value),
    ) -> (Convert, Convert) {
        let moves = Arc::new(self.moves);
        let run = |up: bool, api_version: &str, schema: &Value| -> Convert {
            let (moves, schema) = (moves.clone(), schema.clone());
            let api_version = api_version.to_owned();
            Arc::new(move |mut object| {
                let mut taken = Vec::new();
                for one in moves.iter() {
                    let (from, to) = if up { (&one.old, &one.new) } else { (&one.new, &one.old) };
                    if let Some(value) = take(&mut object, from) {
                        let functions = one.functions.as_ref();
                        let change = functions.map(|(there, back)| if up { there } else { back });
                        taken.push((to, change.map_or(Ok(value.clone()), |change| change(value))?));
                    }
                }
                for (path, value) in taken {
                    put(&mut object, path, value);
                }
                prune(&mut object, &schema, true);
                object["apiVersion"] = api_version.clone().into();
                Ok(object)
            })
        };
        (run(true, hub, hub_schema), run(false, spoke, spoke_schema))
    }

    /// What is wrong: paths that lead nowhere, fields of another type at the same place, and required
    /// fields that nothing fills in.
    pub(super) fn problems(&self, spoke: &Value, hub: &Value) -> Vec<String> {
        let mut found = Vec::new();
        for one in &self.moves {
            for (path, schema, whose) in [(&one.old, spoke, "this"), (&one.new, hub, "the stored")]
            {
                let valid = path.starts_with('.') && !path.contains('[');
                if !valid || at(schema, path).is_none() {
                    found.push(format!(
                        "{whose} version has no field {path}; a path is like .spec.size, without lists"
                    ));
                }
            }
            let (old, new) = (at(spoke, &one.old), at(hub, &one.new));
            if let (Some(old), Some(new), None) = (old, new, &one.functions)
                && old["type"] != new["type"]
            {
                found.push(format!(
                    "{} is {} and {} is {}; use `changed`",
                    one.old, old["type"], one.new, new["type"]
                ));
            }
        }
        let names = |new: bool| -> Vec<&str> {
            self.moves
                .iter()
                .map(|one| if new { one.new.as_str() } else { one.old.as_str() })
                .collect()
        };
        unfilled(spoke, hub, "", &names(false), &names(true), &mut found);
        unfilled(hub, spoke, "", &names(true), &names(false), &mut found);
        found
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.moves.iter().map(|one| (&one.old, &one.new))).finish()
    }
}

fn change<A: DeserializeOwned + 'static, B: Serialize + 'static>(
    path: &str,
    function: impl Fn(A) -> Result<B> + Send + Sync + 'static,
) -> Change {
    let path = path.to_owned();
    Arc::new(move |value| {
        let value = serde_json::from_value(value)
            .map_err(|source| Error::Decode { what: format!("the field {path}"), source })?;
        Ok(serde_json::to_value(function(value)?)?)
    })
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|step| !step.is_empty())
}

/// The schema of a field.
fn at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    steps(path).try_fold(schema, |schema, step| schema["properties"].get(step))
}

/// Finds required fields of `to` that `from` does not have, and fields of another type.
fn unfilled(
    from: &Value,
    to: &Value,
    path: &str,
    moved_from: &[&str],
    moved_to: &[&str],
    found: &mut Vec<String>,
) {
    let required: Vec<&Value> = to["required"].as_array().into_iter().flatten().collect();
    for (name, schema) in to["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if moved_to.contains(&path.as_str()) || path == ".metadata" {
            continue;
        }
        let below = format!("{path}.");
        let same = from["properties"].get(name).filter(|_| !moved_from.contains(&path.as_str()));
        match same {
            Some(same) if same["type"] != schema["type"] => found.push(format!(
                "{path} is {} in one version and {} in the other; use `changed`",
                same["type"], schema["type"]
            )),
            Some(same) => unfilled(same, schema, &path, moved_from, moved_to, found),
            None if moved_to.iter().any(|to| to.starts_with(&below)) => {
                unfilled(&Value::Null, schema, &path, moved_from, moved_to, found);
            }
            None if required.iter().any(|r| **r == name.as_str())
                && schema.get("default").is_none() =>
            {
                found.push(format!(
                    "{path} is required in one version and not in the other; give it a default, or use \
                     `version_with`"
                ));
            }
            None => {}
        }
    }
}

fn take(object: &mut Value, path: &str) -> Option<Value> {
    let (parents, name) = path.rsplit_once('.')?;
    let parent = steps(parents).try_fold(object, |at, step| at.as_object_mut()?.get_mut(step));
    parent?.as_object_mut()?.remove(name)
}

/// Puts a value, and makes the objects on the way unless something else is there.
fn put(object: &mut Value, path: &str, value: Value) {
    let Some((parents, name)) = path.rsplit_once('.') else { return };
    let mut at = object;
    for step in steps(parents) {
        let Value::Object(fields) = at else { return };
        at = fields.entry(step).or_insert_with(|| Map::new().into());
    }
    if let Value::Object(fields) = at {
        fields.insert(name.to_owned(), value);
    }
}

/// Removes what a schema does not have, as the API server does.
fn prune(value: &mut Value, schema: &Value, root: bool) {
    match value {
        Value::Object(fields) => {
            let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
            let rest = match &schema["additionalProperties"] {
                Value::Object(_) => Some(&schema["additionalProperties"]),
                Value::Bool(true) => Some(&Value::Null),
                _ => None,
            };
            let framed = root || schema["x-kubernetes-embedded-resource"] == true;
            fields.retain(|name, value| {
                if framed && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                match schema["properties"].get(name).or(rest) {
                    Some(Value::Null) => true,
                    Some(schema) => {
                        prune(value, schema, false);
                        true
                    }
                    None => open,
                }
            });
        }
        Value::Array(items) if schema["items"].is_object() => {
            items.iter_mut().for_each(|item| prune(item, &schema["items"], false));
        }
        _ => {}
    }
}
