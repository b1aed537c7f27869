//! Rules in CEL: their types and their costs.

use serde_json::{Map, Value};
use windlass_cel::{CompiledRule, Rule, Schema};

use super::Report;

/// What one rule may cost at worst.
const RULE_COST_MAX: u64 = 10_000_000;

/// What all rules of a version may cost at worst.
const TOTAL_COST_MAX: u64 = 100_000_000;

const ADVICE: &str = "simplify it, or bound the lists, maps and strings it reads by `max_items`, `max_properties` and `max_length`";

/// Checks all rules of a version.
pub(super) fn check(root: &Map<String, Value>, report: &mut Report) {
    let schema = Schema::parse(&Value::Object(root.clone()));
    schema.compile_rules();
    let mut walker = Walker { report, total: 0 };
    walker.node(&schema, "", &Place { count: Some(1), list: None });
    if walker.total > TOTAL_COST_MAX {
        let factor = factor(walker.total, TOTAL_COST_MAX);
        report.add(
            "",
            format_args!("all rules together may cost {factor} what is allowed, {ADVICE}"),
        );
    }
}

struct Walker<'a> {
    report: &'a mut Report,
    total: u64,
}

/// What the surroundings of a node mean for its rules.
#[derive(Clone)]
struct Place {
    /// How often the node can occur, if something bounds it.
    count: Option<u64>,
    /// The outermost list around it whose items cannot be found again after a change.
    list: Option<String>,
}

// === impl Walker ===

impl Walker<'_> {
    fn node(&mut self, schema: &Schema, path: &str, place: &Place) {
        for rule in &schema.rules {
            if let Some(compiled) = rule.compiled() {
                self.rule(rule, compiled, path, place);
            }
        }
        let count = place.count.and_then(|count| Some(count.saturating_mul(elements(schema)?)));
        let inner = Place { count, list: place.list.clone() };
        for (name, child) in &schema.properties {
            self.node(child, &format!("{path}.{name}"), &inner);
        }
        if let Some(items) = &schema.items {
            let mut inner = inner.clone();
            if schema.list_type.as_deref() != Some("map") {
                inner.list.get_or_insert_with(|| path.to_owned());
            }
            self.node(items, &format!("{path}[]"), &inner);
        }
        if let Some(values) =
            schema.additional.as_ref().and_then(|additional| additional.schema.as_ref())
        {
            self.node(values, &format!("{path}{{}}"), &inner);
        }
    }

    fn rule(&mut self, rule: &Rule, compiled: &CompiledRule, path: &str, place: &Place) {
        let text = rule.rule.trim();
        if let Some(error) = &compiled.error {
            self.report
                .add(path, format_args!("the rule `{text}` does not compile, {}", first(error)));
            return;
        }
        let cost =
            compiled.max_cost.saturating_mul(place.count.unwrap_or(compiled.max_cardinality));
        self.observe(cost, path, &format!("the rule `{text}`"));
        if let Some(error) = &compiled.message_error {
            let message = rule.message_expression.trim();
            self.report.add(
                path,
                format_args!(
                    "the message expression `{message}` does not compile, {}",
                    first(error)
                ),
            );
        } else if let Some(cost) = compiled.message_max_cost {
            let message = rule.message_expression.trim();
            self.observe(cost, path, &format!("the message expression `{message}`"));
        }
        if let Some(list) = place.list.as_ref().filter(|_| compiled.uses_old_self) {
            self.report.add(
                path,
                format_args!(
                    "the rule `{text}` uses oldSelf, but the items of `{list}` have no old values, use `list = map(\"key\")` there"
                ),
            );
        }
        if !compiled.uses_old_self && rule.optional_old_self.is_some() {
            self.report.add(
                path,
                format_args!(
                    "`optional_old_self` has no meaning, the rule `{text}` does not use oldSelf"
                ),
            );
        }
    }

    fn observe(&mut self, cost: u64, path: &str, what: &str) {
        self.total = self.total.saturating_add(cost);
        if cost > RULE_COST_MAX {
            let factor = factor(cost, RULE_COST_MAX);
            self.report
                .add(path, format_args!("{what} may cost {factor} what is allowed, {ADVICE}"));
        }
    }
}

/// How often the parts of a node can occur at most; `None` if nothing bounds it.
fn elements(schema: &Schema) -> Option<u64> {
    let bound = |max: Option<i64>| max.map(|max| max.max(0).unsigned_abs());
    match schema.kind.as_str() {
        "object" if schema.additional.is_some() => bound(schema.max_properties),
        "array" => bound(schema.max_items),
        _ => Some(1),
    }
}

fn factor(cost: u64, max: u64) -> String {
    match cost.div_ceil(max) {
        times if times > 100 => "more than 100 times".into(),
        times => format!("{times} times"),
    }
}

/// The first line of an error, without the place that the lines after it draw.
fn first(error: &str) -> String {
    let error = error.strip_prefix("compilation failed: ").unwrap_or(error);
    let line = error.lines().next().unwrap_or_default();
    line.trim_start_matches("ERROR: <input>:").to_owned()
}
