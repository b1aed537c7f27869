//! Random values that fit a schema, for property tests.
//!
//! Values respect types, bounds, lists of values, formats and the keys of lists. A pattern is
//! satisfied by trying texts; conditions such as `oneOf` and rules of the expression language are not
//! looked at, so a caller that needs them skips the values that break them.
//!
//! **Invariant:** equal schemas and seeds give equal values, and every value is small.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};

use crate::schema::{INT_OR_STRING, PRESERVE, cel};

/// Below this depth, only required fields are filled in.
const DEPTH_MAX: usize = 12;
/// How many more items than required a list or map may have.
const MORE_MAX: usize = 3;
/// Texts that patterns often accept.
const TEXTS: [&str; 22] = [
    "a",
    "abc",
    "A",
    "a-b",
    "a.b",
    "a/b",
    "a-1",
    "0",
    "1",
    "42",
    "1.5",
    "100m",
    "1h30m",
    "10s",
    "5m0s",
    "v1",
    "example.com",
    "https://example.com/a",
    "10.0.0.1",
    "* * * * *",
    "Abc",
    "",
];

/// Returns a random value that fits a schema, or `None` if none was found: a pattern that no known
/// text matches, or bounds that exclude each other.
///
/// ```
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object", "required": ["size"],
///     "properties": {"size": {"type": "integer", "minimum": 1, "maximum": 3}},
/// });
/// let value = windlass_manifests::generate::value(&schema, 7).unwrap();
/// assert!((1..=3).contains(&value["size"].as_i64().unwrap()));
/// assert_eq!(windlass_manifests::generate::value(&schema, 7), Some(value));
/// ```
pub fn value(schema: &Value, seed: u64) -> Option<Value> {
    Generator { rng: StdRng::seed_from_u64(seed) }.value(schema, 0)
}

struct Generator {
    rng: StdRng,
}

// === impl Generator ===

impl Generator {
    fn value(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        if schema["nullable"] == true && self.one_in(8) {
            return Some(Value::Null);
        }
        if let Some(values) = schema["enum"].as_array() {
            return self.pick(values).cloned();
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") => self.array(schema, depth),
            Some("string") => self.string(schema).map(Value::String),
            Some("boolean") => Some(self.rng.random::<bool>().into()),
            Some("integer") => self.integer(schema),
            Some("number") => self.number(schema),
            _ if schema[INT_OR_STRING] == true => match self.rng.random::<bool>() {
                true => self.integer(schema),
                false => self.string(schema).map(Value::String),
            },
            _ => Some(json!({"any": self.rng.random_range(0..100)})),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let mut fields = Map::new();
        if schema["x-kubernetes-embedded-resource"] == true {
            fields.insert("apiVersion".into(), "v1".into());
            fields.insert("kind".into(), "ConfigMap".into());
            fields.insert("metadata".into(), json!({"name": "embedded"}));
        }
        let most = count(&schema["maxProperties"]).unwrap_or(usize::MAX);
        let required: BTreeSet<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object();
        for name in &required {
            let of = properties.and_then(|all| all.get(*name))?;
            fields.insert((*name).to_owned(), self.value(of, depth + 1)?);
        }
        let mut optional: Vec<(&String, &Value)> = properties
            .into_iter()
            .flatten()
            .filter(|(name, _)| !required.contains(name.as_str()) && !fields.contains_key(*name))
            .collect();
        let least = count(&schema["minProperties"]).unwrap_or(0);
        while !optional.is_empty() && fields.len() < most {
            let (name, of) = optional.remove(self.rng.random_range(0..optional.len()));
            let wanted = fields.len() < least || depth < DEPTH_MAX && self.rng.random::<bool>();
            if wanted && let Some(value) = self.value(of, depth + 1) {
                fields.insert(name.clone(), value);
            }
        }
        let rest = match &schema["additionalProperties"] {
            Value::Object(_) => Some(&schema["additionalProperties"]),
            Value::Bool(true) => Some(&Value::Null),
            _ if schema[PRESERVE] == true && properties.is_none() => Some(&Value::Null),
            _ => None,
        };
        if let Some(of) = rest {
            let wanted = fields.len().max(least) + self.more(depth);
            for key in keys(schema, wanted) {
                if fields.len() < most.min(wanted) {
                    fields.insert(key, self.value(of, depth + 1)?);
                }
            }
        }
        Some(Value::Object(fields))
    }

    fn array(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let least = count(&schema["minItems"]).unwrap_or(0);
        let most = count(&schema["maxItems"]).unwrap_or(usize::MAX);
        let wanted = (least + self.more(depth)).min(most);
        let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let unique = matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map"));
        let (mut items, mut seen) = (Vec::new(), BTreeSet::new());
        for _ in 0..wanted * 4 {
            if items.len() == wanted {
                break;
            }
            let item = self.value(&schema["items"], depth + 1)?;
            let identity = match keys[..] {
                [] => item.to_string(),
                _ => keys.iter().map(|key| format!("{}\n", identity(schema, &item, key))).collect(),
            };
            if seen.insert(identity) || !unique {
                items.push(item);
            }
        }
        (items.len() >= least).then_some(Value::Array(items))
    }

    fn string(&mut self, schema: &Value) -> Option<String> {
        let least = count(&schema["minLength"]).unwrap_or(0);
        let most = count(&schema["maxLength"]).unwrap_or(usize::MAX);
        let one = schema["anyOf"][0]["format"].as_str();
        let format = schema["format"].as_str().or(one);
        let format = format.filter(|name| windlass_text::format::known(name));
        let patterns: Vec<_> = schema["allOf"]
            .as_array()
            .into_iter()
            .flatten()
            .chain([schema])
            .filter_map(|part| part["pattern"].as_str())
            .map(windlass_text::pattern::compile)
            .collect();
        let fits = |text: &str| {
            let length = text.chars().count();
            (least..=most).contains(&length)
                && format.is_none_or(|format| windlass_text::format::matches(format, text))
                && patterns.iter().all(|p| p.as_ref().is_ok_and(|regex| regex.is_match(text)))
        };
        let mut candidates: Vec<String> = Vec::new();
        for given in ["example", "default"] {
            candidates.extend(schema[given].as_str().map(str::to_owned));
        }
        if format.is_none() && patterns.is_empty() {
            let length = (least + self.more(0) * 2).min(most);
            candidates = vec![(0..length).map(|_| self.letter()).collect()];
        } else {
            candidates.extend(format.and_then(formatted).map(str::to_owned));
            candidates.extend(TEXTS.iter().map(|text| (*text).to_owned()));
            candidates.push("a".repeat(least.min(256)));
        }
        candidates.retain(|text| fits(text));
        self.pick(&candidates).cloned()
    }

    fn letter(&mut self) -> char {
        const LETTERS: [char; 12] = ['a', 'b', 'Z', '0', ' ', '-', '.', '/', '~', '"', 'é', '世'];
        LETTERS[self.rng.random_range(0..LETTERS.len())]
    }

    #[expect(clippy::cast_possible_truncation, reason = "bounds are clamped to the range of i64")]
    fn integer(&mut self, schema: &Value) -> Option<Value> {
        let (low, high) = match schema["format"].as_str() {
            Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (-(1 << 53), 1 << 53),
        };
        let bound = |key: &str| schema[key].as_f64();
        let least = bound("minimum").map_or(low, |number| number.ceil() as i64);
        let most = bound("maximum").map_or(high, |number| number.floor() as i64);
        let least = least.saturating_add(i64::from(schema["exclusiveMinimum"] == true));
        let most = most.saturating_sub(i64::from(schema["exclusiveMaximum"] == true));
        let (least, most) = (least.max(low), most.min(high));
        if least > most {
            return None;
        }
        let step = bound("multipleOf").map_or(1, |step| (step.ceil() as i64).max(1));
        let (first, last) = (-(-least).div_euclid(step), most.div_euclid(step));
        if first > last {
            return None;
        }
        let near = self.rng.random_range(first..=last.min(first.saturating_add(9)));
        let edge = self.pick(&[first, last, near, near, 0, 1]).copied().unwrap_or(near);
        Some((edge.clamp(first, last) * step).into())
    }

    fn number(&mut self, schema: &Value) -> Option<Value> {
        if schema["multipleOf"].is_number() || self.rng.random::<bool>() {
            return self.integer(schema);
        }
        let least = schema["minimum"].as_f64().unwrap_or(-1000.0);
        let most = schema["maximum"].as_f64().unwrap_or(least.abs() + 1000.0);
        (least < most).then(|| json!(least + (most - least) * 0.5))
    }

    /// How many more items than required.
    fn more(&mut self, depth: usize) -> usize {
        if depth < DEPTH_MAX { self.rng.random_range(0..=MORE_MAX) } else { 0 }
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.rng.random_range(0..count) == 0
    }

    fn pick<'a, T>(&mut self, values: &'a [T]) -> Option<&'a T> {
        (!values.is_empty()).then(|| &values[self.rng.random_range(0..values.len())])
    }
}

/// So many keys of a map, or as many as are known, if a rule says what they look like.
fn keys(schema: &Value, wanted: usize) -> Vec<String> {
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    let mut known = rules.filter_map(|rule| cel::keys_in(rule["rule"].as_str()?));
    let Some((mut keys, patterns)) = known.next() else {
        return (0..wanted).map(|number| format!("key-{number}")).collect();
    };
    for pattern in patterns.iter().filter_map(|text| windlass_text::pattern::compile(text).ok()) {
        let fitting = TEXTS.iter().filter(|text| pattern.is_match(text));
        keys.extend(fitting.map(|text| (*text).to_owned()));
    }
    keys.truncate(wanted);
    keys
}

fn count(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

/// The value of a key of an item, or its default.
fn identity<'a>(list: &'a Value, item: &'a Value, key: &str) -> &'a Value {
    item.get(key).unwrap_or(&list["items"]["properties"][key]["default"])
}

/// A text of a format.
fn formatted(format: &str) -> Option<&'static str> {
    Some(match format {
        "date" => "2024-02-29",
        "date-time" | "datetime" => "2024-02-29T12:30:45Z",
        "duration" => "1h30m",
        "byte" => "YWJj",
        "email" => "a@example.com",
        "hostname" | "uri" => "example.com",
        "ipv4" | "ip" => "10.0.0.1",
        "ipv6" => "2001:db8::1",
        "cidr" => "10.0.0.0/8",
        "mac" => "01:23:45:67:89:ab",
        "uuid" | "uuid4" => "9b2c6b1e-3c4d-4e5f-8a9b-0c1d2e3f4a5b",
        "uuid3" => "9b2c6b1e-3c4d-3e5f-8a9b-0c1d2e3f4a5b",
        "uuid5" => "9b2c6b1e-3c4d-5e5f-8a9b-0c1d2e3f4a5b",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_form_that_their_rule_asks_for() {
        let map = |rule: Value| {
            json!({
                "type": "object", "minProperties": 2, "additionalProperties": {"type": "string"},
                "x-kubernetes-validations": [rule],
            })
        };
        let keys = |schema: &Value| -> Vec<String> {
            let value = value(schema, 7).expect("found");
            value.as_object().expect("a map").keys().cloned().collect()
        };
        let numbers = keys(&map(cel::keys(&[], &["^[0-9]+$"])));
        assert!(numbers.len() > 1 && numbers.iter().all(|key| key.parse::<u32>().is_ok()));
        assert_eq!(keys(&map(cel::keys(&["a", "b"], &[]))), ["a", "b"]);
    }
}
