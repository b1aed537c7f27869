//! Sequences of requests as data.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The requests of one run, and what has to exist before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sequence {
    /// What the sequence is about: a kind, usually.
    pub about: String,
    /// The requests, one after the other.
    pub steps: Vec<Step>,
}

/// A request. In all of its texts `{ns}` is the namespace of the run, `{id}` a part of the names
/// of cluster-scoped objects that is unique to the run, and `{rv}` the resource version at which
/// the run began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    /// The method and the path with its query.
    #[serde(rename = "do")]
    pub request: String,
    /// The body, if it is not an edited object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Changes of the object as the server has it; the result is the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edit: Vec<Edit>,
    /// The content type of the body; JSON unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    pub content_type: Option<String>,
    /// The form of the answer; JSON unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// The user who sends it; an administrator unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "as")]
    pub user: Option<String>,
    /// Repeats the request until it is answered with 200, for at most five seconds. The answer is not
    /// compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
    /// Sends the request from two clients at once. The answer is the sorted list of the two
    /// statuses: which client wins is not compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub twice: bool,
}

/// One change of an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Edit {
    /// The steps from the root to the value; a number is an index, `-` the end of a list.
    pub path: Vec<String>,
    /// The new value; `None` removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

// === impl Edit ===

impl Edit {
    /// Applies the change; parents that are missing are created, and what does not fit is left out.
    pub fn apply(&self, object: &mut Value) {
        let Some((last, parents)) = self.path.split_last() else { return };
        let mut here = object;
        for part in parents {
            let Some(next) = child(here, part, self.to.is_some()) else { return };
            here = next;
        }
        if here.is_null() && self.to.is_some() {
            *here = empty(last);
        }
        match (here, &self.to) {
            (Value::Object(map), Some(to)) => {
                map.insert(last.clone(), to.clone());
            }
            (Value::Object(map), None) => {
                map.remove(last);
            }
            (Value::Array(list), Some(to)) => match last.parse::<usize>() {
                Ok(index) if index < list.len() => list[index] = to.clone(),
                _ => list.push(to.clone()),
            },
            (Value::Array(list), None) => {
                if let Some(index) = last.parse().ok().filter(|index: &usize| *index < list.len()) {
                    list.remove(index);
                }
            }
            _ => {}
        }
    }
}

/// Returns an empty container in which `part` can be set.
fn empty(part: &str) -> Value {
    match part {
        "-" | "0" => Value::Array(Vec::new()),
        _ => Value::Object(Map::new()),
    }
}

fn child<'a>(here: &'a mut Value, part: &str, create: bool) -> Option<&'a mut Value> {
    if here.is_null() && create {
        *here = empty(part);
    }
    match here {
        Value::Object(map) => match create {
            true => Some(map.entry(part).or_insert(Value::Null)),
            false => map.get_mut(part),
        },
        Value::Array(list) => match part.parse().ok().filter(|index: &usize| *index < list.len()) {
            Some(index) => list.get_mut(index),
            None if create => {
                list.push(Value::Null);
                list.last_mut()
            }
            None => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edits_create_parents_and_remove_values() {
        let edit = |path: &[&str], to: Option<Value>| Edit {
            path: path.iter().map(|part| (*part).to_owned()).collect(),
            to,
        };
        let mut object = json!({"spec": {"ports": [{"port": 80}]}});
        edit(&["spec", "ports", "0", "name"], Some(json!("http"))).apply(&mut object);
        edit(&["spec", "ports", "-", "port"], Some(json!(443))).apply(&mut object);
        edit(&["spec", "selector", "app"], Some(json!("web"))).apply(&mut object);
        edit(&["spec", "ports", "0", "port"], None).apply(&mut object);
        edit(&["spec", "nothing", "here"], None).apply(&mut object);
        let expected = json!({"spec": {"ports": [{"name": "http"}, {"port": 443}], "selector": {"app": "web"}}});
        assert_eq!(object, expected);
    }
}
