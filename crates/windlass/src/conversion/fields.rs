//! Versions that differ in the place or the form of fields.

use std::collections::BTreeMap;
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

/// What a path has after a list to lead into its items.
const ITEMS: &str = "[*]";

/// A move within one object: from a path, to a path, and what changes the value.
type Carried<'a> = (&'a str, &'a str, Option<&'a Change>);

// === impl Fields ===

impl Fields {
    /// Starts with fields that are the same in both versions, except for those that only one has.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares that a field has another name or place in the stored version: paths such as
    /// `.spec.size`, `old` of this version and `new` of the stored one.
    ///
    /// `[*]` leads into every item of a list: `.spec.ports[*].number`. If the list has another place
    /// too, declare that it is moved, and name its place in both paths.
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
                for (lists, moves) in by_list(&moves, up) {
                    each_item(&mut object, &lists, &mut |item| carry(item, &moves))?;
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
                let valid = path.starts_with('.') && !path.ends_with(ITEMS);
                if !valid || at(schema, path).is_none() {
                    found.push(format!(
                        "{whose} version has no field {path}; a path is like .spec.size, or like \
                         .spec.ports[*].name for the items of a list"
                    ));
                }
            }
            found.extend(self.unmoved_list(one));
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

impl Fields {
    /// Returns what is wrong if the lists that two paths lead through are not the same.
    fn unmoved_list(&self, one: &Move) -> Option<String> {
        let lists = |path: &str| -> Vec<String> {
            path.match_indices(ITEMS).map(|(at, _)| path[..at].to_owned()).collect()
        };
        let (old, new) = (lists(&one.old), lists(&one.new));
        if old.len() != new.len() {
            let paths = format!("{} and {}", one.old, one.new);
            return Some(format!("{paths} lead through another number of lists; use `changed`"));
        }
        let is_moved = |old: &str, new: &str| {
            self.moves.iter().any(|other| (other.old.as_str(), other.new.as_str()) == (old, new))
        };
        // A list of the items of a moved list is in the same place of its item.
        let within = |list: &str| list.rsplit(ITEMS).next().unwrap_or(list).to_owned();
        let mut pairs = old.into_iter().zip(new);
        let (old, new) =
            pairs.find(|(old, new)| within(old) != within(new) && !is_moved(old, new))?;
        Some(format!("{} is not in the list {new}; declare that {old} is moved there", one.old))
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

/// The moves in one direction, by the lists that lead to them: those of whole lists come before those
/// in their items.
fn by_list(moves: &[Move], up: bool) -> BTreeMap<Vec<&str>, Vec<Carried<'_>>> {
    let mut all: BTreeMap<Vec<&str>, Vec<Carried<'_>>> = BTreeMap::new();
    for one in moves {
        let (from, to) = if up { (&one.old, &one.new) } else { (&one.new, &one.old) };
        let change = one.functions.as_ref().map(|(there, back)| if up { there } else { back });
        let mut lists: Vec<&str> = to.split(ITEMS).collect();
        let (from, to) = (from.rsplit(ITEMS).next().unwrap_or(from), lists.pop().unwrap_or(to));
        all.entry(lists).or_default().push((from, to, change));
    }
    all
}

/// Visits the items of a list, or of lists in the items of lists; without a list, the object itself.
fn each_item(
    object: &mut Value,
    lists: &[&str],
    visit: &mut impl FnMut(&mut Value) -> Result<()>,
) -> Result<()> {
    let Some((list, inner)) = lists.split_first() else { return visit(object) };
    let list = steps(list).try_fold(object, |at, step| at.as_object_mut()?.get_mut(step));
    for item in list.and_then(Value::as_array_mut).into_iter().flatten() {
        each_item(item, inner, visit)?;
    }
    Ok(())
}

/// Takes all values before it puts any, so that two fields can change places.
fn carry(object: &mut Value, moves: &[Carried<'_>]) -> Result<()> {
    let mut taken = Vec::new();
    for (from, to, change) in moves {
        if let Some(value) = take(object, from) {
            taken.push((to, change.map_or(Ok(value.clone()), |change| change(value))?));
        }
    }
    for (path, value) in taken {
        put(object, path, value);
    }
    Ok(())
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|step| !step.is_empty())
}

/// The schema of a field.
fn at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let mut parts = path.split(ITEMS);
    let inside = |schema, part| {
        steps(part).try_fold(schema, |schema: &'a Value, step| schema["properties"].get(step))
    };
    let first = inside(schema, parts.next().unwrap_or_default());
    parts.fold(first, |schema, part| inside(schema?.get("items")?, part))
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
            Some(same) => {
                unfilled(same, schema, &path, moved_from, moved_to, found);
                let (from, to) = (&same["items"], &schema["items"]);
                unfilled(from, to, &format!("{path}{ITEMS}"), moved_from, moved_to, found);
            }
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
