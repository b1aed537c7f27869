//! The rules of single keywords.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use windlass_text::format::is_supported;

use super::schema::EMBEDDED;
use super::{Report, logic, text, texts};

type Schema = Map<String, Value>;

/// Lower and upper bounds: the keyword, and what is refused on the wrong side of it.
const LOWER: [(&str, &str, &str); 4] = [
    ("minimum", "values below", ""),
    ("minLength", "texts of fewer than", " characters"),
    ("minItems", "lists of fewer than", " items"),
    ("minProperties", "objects of fewer than", " fields"),
];
const UPPER: [(&str, &str, &str); 4] = [
    ("maximum", "values above", ""),
    ("maxLength", "texts of more than", " characters"),
    ("maxItems", "lists of more than", " items"),
    ("maxProperties", "objects of more than", " fields"),
];

pub(super) fn compare(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    bounds(old, new, path, report);
    multiple(old, new, path, report);
    values(old, new, path, report);
    pattern(old, new, path, report);
    format(old, new, path, report);
    nullable(old, new, path, report);
    default(old, new, path, report);
    logic::compare(old, new, path, report);
    rules(old, new, path, report);
    merging(old, new, path, report);
    embedded(old, new, path, report);
}

fn bounds(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    for bound in LOWER {
        limit(old, new, bound, true, path, report);
    }
    for bound in UPPER {
        limit(old, new, bound, false, path, report);
    }
}

/// A bound, and whether the bound itself is excluded. An integer above 2 is one from 3 on.
fn read(schema: &Schema, rule: &str) -> Option<(Value, bool)> {
    let value = schema.get(rule).filter(|value| value.is_number())?;
    let (exclusive, step) = match rule {
        "minimum" => (schema.get("exclusiveMinimum"), 1),
        "maximum" => (schema.get("exclusiveMaximum"), -1),
        _ => (None, 0),
    };
    let excluded = exclusive.is_some_and(|value| value == true);
    let next = value.as_i64().and_then(|value| value.checked_add(step));
    match next.filter(|_| excluded && schema.get("type").is_some_and(|kind| kind == "integer")) {
        Some(next) => Some((next.into(), false)),
        None => Some((value.clone(), excluded)),
    }
}

/// Compares two numbers; integers exactly, because a float does not hold all of them.
fn order(one: &Value, other: &Value) -> Ordering {
    let integer =
        |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal),
    }
}

fn limit(
    old: &Schema,
    new: &Schema,
    (rule, refused, unit): (&'static str, &str, &str),
    lower: bool,
    path: &str,
    report: &mut Report,
) {
    let (wider, tighter) = if lower { ("lowered", "raised") } else { ("raised", "lowered") };
    // Nothing has fewer than no items.
    let is_idle =
        |bound: &Value| lower && rule != "minimum" && bound.as_f64().is_some_and(|n| n <= 0.0);
    match (&read(old, rule), &read(new, rule)) {
        (None, None) => {}
        (None, Some((bound, _))) | (Some((bound, _)), None) if is_idle(bound) => {}
        (None, Some((after, _))) => {
            let message =
                format!("the {rule} {after} is added, so {refused} {after}{unit} are refused");
            report.breaking(path, rule, message);
        }
        (Some((before, _)), None) => {
            report.safe(path, rule, format!("the {rule} {before} is removed"));
        }
        (Some((before, was)), Some((after, is))) => {
            let moved = if lower { order(after, before) } else { order(before, after) };
            match moved {
                Ordering::Greater => {
                    let message = format!(
                        "the {rule} is {tighter} from {before} to {after}, so {refused} {after}{unit} are \
                         refused"
                    );
                    report.breaking(path, rule, message);
                }
                Ordering::Less => {
                    let message = format!("the {rule} is {wider} from {before} to {after}");
                    report.safe(path, rule, message);
                }
                Ordering::Equal if *is && !was => {
                    let message = format!("the {rule} {after} itself is no longer allowed");
                    report.breaking(path, rule, message);
                }
                Ordering::Equal if *was && !is => {
                    report.safe(path, rule, format!("the {rule} {after} itself becomes allowed"));
                }
                Ordering::Equal => {}
            }
        }
    }
}

fn multiple(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    let step = |schema: &Schema| {
        let step = schema.get("multipleOf").and_then(Value::as_f64);
        let integer = schema.get("type").is_some_and(|kind| kind == "integer");
        step.filter(|step| !integer || *step != 1.0) // which every integer is a multiple of
    };
    match (step(old), step(new)) {
        (None, Some(after)) => {
            let message = format!("values must be multiples of {after}, so others are refused");
            report.breaking(path, "multipleOf", message);
        }
        (Some(before), None) => {
            report.safe(path, "multipleOf", format!("values need not be multiples of {before}"));
        }
        (Some(before), Some(after)) if before != after => {
            let times = before / after;
            if after != 0.0 && (times - times.round()).abs() < 1e-9 {
                let message =
                    format!("multiples of {after} are allowed, which those of {before} are");
                report.safe(path, "multipleOf", message);
            } else {
                let message = format!("values must be multiples of {after} instead of {before}");
                report.breaking(path, "multipleOf", message);
            }
        }
        _ => {}
    }
}

fn values(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    let list = |schema: &Schema| schema.get("enum").and_then(Value::as_array).cloned();
    let show = |values: Vec<&Value>| -> String {
        values.into_iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
    };
    match (list(old), list(new)) {
        (None, Some(after)) => {
            let message = format!(
                "values are limited to {}, so others are refused",
                show(after.iter().collect())
            );
            report.breaking(path, "enum", message);
        }
        (Some(_), None) => report.safe(path, "enum", "values are no longer limited to a list"),
        (Some(before), Some(after)) => {
            let known = |values: &[Value]| -> BTreeSet<String> {
                values.iter().map(Value::to_string).collect()
            };
            let (was, is) = (known(&before), known(&after));
            let gone = before.iter().filter(|value| !is.contains(&value.to_string()));
            let more = after.iter().filter(|value| !was.contains(&value.to_string()));
            let (gone, more): (Vec<&Value>, Vec<&Value>) = (gone.collect(), more.collect());
            if !gone.is_empty() {
                let message = format!("the value {} is no longer allowed", show(gone));
                report.breaking(path, "enum", message);
            }
            if !more.is_empty() {
                report.safe(path, "enum", format!("the value {} becomes allowed", show(more)));
            }
        }
        (None, None) => {}
    }
}

fn pattern(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    let of = |schema: &Schema| schema.get("pattern").and_then(Value::as_str).map(str::to_owned);
    match (of(old), of(new)) {
        (None, Some(after)) => {
            let message =
                format!("the pattern {after} is added, so texts that do not match are refused");
            report.breaking(path, "pattern", message);
        }
        (Some(before), None) => {
            report.safe(path, "pattern", format!("the pattern {before} is removed"));
        }
        (Some(before), Some(after)) if before != after => {
            let message = format!(
                "the pattern changes from {before} to {after}, so texts that matched may be refused"
            );
            report.breaking(path, "pattern", message);
        }
        _ => {}
    }
}

fn format(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    // The API server ignores formats that it does not know.
    let of = |schema: &Schema| {
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        let format = schema.get("format").and_then(Value::as_str);
        format.filter(|format| is_supported(kind, format)).map(str::to_owned)
    };
    match (of(old).as_deref(), of(new).as_deref()) {
        (before, after) if before == after => {}
        // Every number has these.
        (None, Some("int64" | "double")) | (Some("int64" | "double"), None) => {}
        (Some(before), None) => {
            report.safe(path, "format", format!("the format {before} is removed"));
        }
        (Some(before @ ("int32" | "float")), Some(after @ ("int64" | "double"))) => {
            report.safe(path, "format", format!("the format widens from {before} to {after}"));
        }
        (None, Some(after)) => {
            let message =
                format!("the format {after} is added, so values of another format may be refused");
            report.breaking(path, "format", message);
        }
        (before, after) => {
            let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
            let message = format!(
                "the format changes from {before} to {after}, so values that fitted may be refused"
            );
            report.breaking(path, "format", message);
        }
    }
}

fn nullable(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    let set = |schema: &Schema| schema.get("nullable").is_some_and(|value| value == true);
    match (set(old), set(new)) {
        (true, false) => {
            let why =
                "null is no longer allowed, so objects that have it are refused or lose the field";
            report.breaking(path, "nullable", why);
        }
        (false, true) => report.safe(path, "nullable", "null becomes allowed"),
        _ => {}
    }
}

pub(super) fn default(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    let message = match (old.get("default"), new.get("default")) {
        (None, Some(after)) => {
            format!(
                "the default {after} is added, so stored objects without a value get it when they are read"
            )
        }
        (Some(before), None) => {
            format!("the default {before} is removed, so stored objects without a value have none")
        }
        (Some(before), Some(after)) if before != after => format!(
            "the default changes from {before} to {after}, so stored objects without a value change \
             when they are read"
        ),
        _ => return,
    };
    report.breaking(path, "default", message);
}

/// Rules of the expression language. Their messages, reasons and paths do not matter.
fn rules(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    const RULE: &str = "x-kubernetes-validations";
    // Whether a rule about the old value is checked without one too.
    let of = |schema: &Schema| -> BTreeMap<String, bool> {
        let rules = schema.get(RULE).and_then(Value::as_array).into_iter().flatten();
        let all =
            rules.map(|rule| (on_one_line(text(rule, "/rule")), rule["optionalOldSelf"] == true));
        all.collect()
    };
    let (before, after) = (of(old), of(new));
    for (rule, &optional) in &after {
        match before.get(rule) {
            Some(&was) if was == optional => {}
            Some(true) => {
                let message = format!("the rule `{rule}` is no longer checked for new values");
                report.safe(path, RULE, message);
            }
            Some(false) => {
                let message = format!(
                    "the rule `{rule}` is checked for new values too, so objects that break it are refused"
                );
                report.breaking(path, RULE, message);
            }
            None if !optional && rule.contains("oldSelf") => {
                let message =
                    format!("the rule `{rule}` is added, so updates that break it are refused");
                report.breaking(path, RULE, message);
            }
            None => {
                let message = format!(
                    "the rule `{rule}` is added, so objects that break it are refused; stored ones can be \
                     updated as long as this value stays as it is"
                );
                report.breaking(path, RULE, message);
            }
        }
    }
    for rule in before.keys().filter(|rule| !after.contains_key(*rule)) {
        report.safe(path, RULE, format!("the rule `{rule}` is removed"));
    }
}

/// A rule without line breaks and repeated spaces, except in its texts: YAML has several ways to
/// write the same rule.
fn on_one_line(rule: &str) -> String {
    let (mut made, mut quote, mut escaped) = (String::new(), None, false);
    for c in rule.trim().chars() {
        let space = c.is_whitespace() && quote.is_none();
        match quote {
            None if matches!(c, '\'' | '"') => quote = Some(c),
            Some(open) if c == open && !escaped => quote = None,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        match space {
            true if made.ends_with(' ') => {}
            true => made.push(' '),
            false => made.push(c),
        }
    }
    made
}

/// How server-side apply merges the value.
fn merging(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    const LIST: &str = "x-kubernetes-list-type";
    const KEYS: &str = "x-kubernetes-list-map-keys";
    const MAP: &str = "x-kubernetes-map-type";
    for (rule, usual) in [(LIST, "atomic"), (MAP, "granular")] {
        let of =
            |schema: &Schema| schema.get(rule).and_then(Value::as_str).unwrap_or(usual).to_owned();
        let (before, after) = (of(old), of(new));
        if before != after {
            let refused = match after.as_str() {
                "set" | "map" => ", and stored lists with duplicates are refused",
                _ => "",
            };
            let message = format!(
                "the type for merging changes from {before} to {after}, so server-side apply of existing \
                 clients owns and overwrites other parts{refused}"
            );
            report.breaking(path, rule, message);
        }
    }
    let keys = |schema: &Schema| {
        let list = schema.get(KEYS).cloned().unwrap_or_default();
        texts(&list).into_iter().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let (before, after) = (keys(old), keys(new));
    if before != after && old.get(LIST) == new.get(LIST) {
        let join = |keys: BTreeSet<String>| keys.into_iter().collect::<Vec<_>>().join(", ");
        let message = format!(
            "the keys of the list change from [{}] to [{}], so server-side apply matches other items",
            join(before),
            join(after)
        );
        report.breaking(path, KEYS, message);
    }
}

fn embedded(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    let set = |schema: &Schema| schema.get(EMBEDDED).is_some_and(|value| value == true);
    let why = match (set(old), set(new)) {
        (false, true) => {
            "the value becomes an embedded object, so values without apiVersion and kind are refused"
        }
        (true, false) => {
            "the value is no longer an embedded object, so its metadata may be dropped"
        }
        _ => return,
    };
    report.breaking(path, EMBEDDED, why);
}
