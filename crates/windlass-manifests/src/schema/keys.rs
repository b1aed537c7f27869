//! Rules of the keys of maps: JSON allows any text there, and the Rust type does not.

use serde_json::{Map, Value};
use windlass_cel::Schema;

use super::{KEYS, cel, rule};

/// What the rule of the keys of one map may cost at worst, of 10 million that a rule of the author
/// may cost: rules that nobody wrote leave room for the others.
const COST_MAX: u64 = 1_000_000;

/// Digits without leading zeros, in place of the patterns that `schemars` has for numbers.
const NUMBERS: [(&str, &str); 2] =
    [(r"^\d+$", "^(0|[1-9][0-9]*)$"), (r"^-?\d+$", "^(0|-?[1-9][0-9]*)$")];

/// Adds a rule to each map whose keys have a form, where the API server affords it: that depends on
/// `maxProperties` and `maxItems` of the map and of all that is around it.
pub(crate) fn add_rules(schema: &mut Map<String, Value>) {
    node(schema, Some(1));
}

fn node(schema: &mut Map<String, Value>, count: Option<u64>) {
    if let Some(note) = schema.remove(KEYS) {
        one(schema, &note, count);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties
            .values_mut()
            .filter_map(Value::as_object_mut)
            .for_each(|child| node(child, count));
    }
    for (keyword, bound) in [("items", "maxItems"), ("additionalProperties", "maxProperties")] {
        let most = schema.get(bound).and_then(Value::as_u64);
        let count = count.and_then(|count| Some(count.saturating_mul(most?)));
        if let Some(Value::Object(child)) = schema.get_mut(keyword) {
            node(child, count);
        }
    }
}

fn one(schema: &mut Map<String, Value>, note: &Value, count: Option<u64>) {
    let list = |key: &str| note[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    let patterns: Vec<&str> = list("patterns")
        .map(|pattern| {
            NUMBERS.iter().find(|(known, _)| *known == pattern).map_or(pattern, |(_, own)| own)
        })
        .collect();
    if patterns.iter().any(|pattern| windlass_text::pattern::compile(pattern).is_err()) {
        return;
    }
    let names: Vec<&str> = list("names").collect();
    let mut with = schema.clone();
    rule::push_cel(&mut with, cel::keys(&names, &patterns));
    if cost(&with, count).is_some_and(|cost| cost <= COST_MAX) {
        *schema = with;
    }
}

/// Returns what the last rule of a schema costs if there are so many values; `None` if it does not
/// compile or nothing bounds it.
fn cost(schema: &Map<String, Value>, count: Option<u64>) -> Option<u64> {
    let schema = Schema::parse(&Value::Object(schema.clone()));
    schema.compile_rules();
    let compiled = schema.rules.last()?.compiled()?;
    if compiled.error.is_some() {
        return None;
    }
    Some(compiled.max_cost.saturating_mul(count?))
}
