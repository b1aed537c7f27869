//! Rules of fields and types, and how they meet rules that are there already.
//!
//! A rule of a field narrows the rules of its type: of two bounds the stricter one holds, of two
//! lists of values those in both, and of two patterns each, by `allOf`.

use serde_json::{Map, Value, json};

use super::{UI, WIDE, cel, entry, unsupported};

pub(crate) const VALIDATIONS: &str = "x-kubernetes-validations";
pub(crate) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
pub(crate) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// One rule, as the attributes spell it. JSON is given as text.
#[derive(Clone, Copy)]
pub enum Rule<'a> {
    /// A bound such as `maxLength`, with its JSON number.
    Bound(&'a str, &'a str),
    /// An exclusive `minimum` or `maximum`.
    Exclusive(&'a str, &'a str),
    /// A number of which values are multiples.
    MultipleOf(&'a str),
    /// A regular expression that strings match.
    Pattern(&'a str),
    /// The format of strings and numbers; an empty one removes that of a number.
    Format(&'a str),
    /// The values that are allowed, as a JSON array.
    Enum(&'a str),
    /// A type in place of the one that follows from the Rust type.
    Type(&'a str),
    /// The description; an empty one removes that of the type.
    Doc(&'a str),
    /// A keyword with its JSON.
    Keyword(&'a str, &'a str),
    /// The value that the API server fills in, as JSON.
    Default(&'a str),
    /// The value that the API server fills in, from a Rust value.
    DefaultOf(fn() -> Value),
    /// An integer or a string.
    IntOrString,
    /// Not empty: at least one character, item or property.
    NotEmpty,
    /// Not to be changed once it is set.
    Immutable,
    /// An expression that must hold.
    Cel(Cel<'a>),
    /// How many of these fields may be set.
    OneOf(Count, &'a [&'a str]),
    /// Rules of the items of a list.
    Items(&'a [Rule<'a>]),
    /// Rules of the values of a map.
    Values(&'a [Rule<'a>]),
    /// How a console shows it, as JSON.
    Ui(&'a str),
}

/// An expression that must hold.
#[derive(Clone, Copy, Debug)]
pub struct Cel<'a> {
    /// The expression.
    pub rule: &'a str,
    /// What is said if it does not hold.
    pub message: Option<&'a str>,
    /// An expression for what is said.
    pub message_expression: Option<&'a str>,
    /// The reason of the refusal.
    pub reason: Option<&'a str>,
    /// The field that is blamed.
    pub field_path: Option<&'a str>,
    /// Whether the rule holds for new objects, too.
    pub optional_old_self: Option<bool>,
}

/// How many of some fields may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// One, no more and no less.
    Exactly,
    /// One or none.
    AtMost,
    /// One or more.
    AtLeast,
}

/// Returns the attribute of a field that bounds how many fields its struct has: only the struct can
/// say which of them may be missing.
pub(super) fn counts_fields(
    schema: &Map<String, Value>,
    rules: &[Rule<'_>],
) -> Option<&'static str> {
    if !schema.contains_key("properties") {
        return None;
    }
    rules.iter().find_map(|rule| match rule {
        Rule::Bound("minProperties", _) => Some("min_properties"),
        Rule::Bound("maxProperties", _) => Some("max_properties"),
        _ => None,
    })
}

/// Applies rules: first those that decide about the type.
pub(super) fn apply_all(schema: &mut Map<String, Value>, rules: &[Rule<'_>]) {
    let is_numeric = |format: &str| matches!(format, "" | "int32" | "int64");
    let decides = |rule: &&Rule<'_>| match rule {
        Rule::Type(_) | Rule::IntOrString => true,
        Rule::Format(format) => is_numeric(format),
        _ => false,
    };
    let counts = |rule: &&Rule<'_>| matches!(rule, Rule::OneOf(..));
    rules.iter().filter(decides).for_each(|rule| apply(schema, rule));
    rules
        .iter()
        .filter(|rule| !decides(rule) && !counts(rule))
        .for_each(|rule| apply(schema, rule));
    rules.iter().filter(counts).for_each(|rule| apply(schema, rule));
}

fn apply(schema: &mut Map<String, Value>, rule: &Rule<'_>) {
    match *rule {
        Rule::Bound(keyword, value) => bound(schema, keyword, parse(value)),
        Rule::Exclusive(keyword, value) => exclusive(schema, keyword, parse(value)),
        Rule::MultipleOf(value) => narrow(schema, "multipleOf", parse(value)),
        Rule::Pattern(pattern) => narrow(schema, "pattern", pattern.into()),
        Rule::Format("") => {
            schema.remove("format");
            widen(schema);
        }
        Rule::Format(format) if is_number(schema) => {
            schema.insert("format".into(), format.into());
            if format == "int64" {
                widen(schema);
            }
        }
        Rule::Format(format) => narrow(schema, "format", format.into()),
        Rule::Enum(values) => choose(schema, parse(values)),
        Rule::Type(name) => retype(schema, name),
        Rule::Doc("") => {
            schema.remove("description");
        }
        Rule::Doc(text) => {
            schema.insert("description".into(), text.into());
        }
        Rule::Keyword(keyword, value) => {
            schema.insert(keyword.into(), parse(value));
        }
        Rule::Default(value) => {
            schema.insert("default".into(), parse(value));
        }
        Rule::DefaultOf(value) => {
            schema.insert("default".into(), value());
        }
        Rule::IntOrString => int_or_string(schema),
        Rule::NotEmpty => not_empty(schema),
        Rule::Immutable => push_cel(schema, cel::immutable()),
        Rule::Cel(cel) => push_cel(schema, cel.to_value()),
        Rule::OneOf(count, names) => push_cel(schema, cel::count(count, names)),
        Rule::Items(rules) => apply_all(entry(schema, "items"), rules),
        Rule::Values(rules) => apply_all(entry(schema, "additionalProperties"), rules),
        Rule::Ui(value) => {
            schema.insert(UI.into(), parse(value));
        }
    }
}

/// Gives a `u32` whose format is not `int32` the maximum of its width.
fn widen(schema: &mut Map<String, Value>) {
    if let Some(most) = schema.remove(WIDE)
        && schema.get("maximum").is_some_and(|current| *current == i32::MAX)
    {
        schema.insert("maximum".into(), most);
    }
}

/// Gives a `u32` with a bound that only 64 bits hold the format of those.
fn widen_for(schema: &mut Map<String, Value>, value: &Value) {
    if schema.contains_key(WIDE) && value.as_f64().is_some_and(|value| value > f64::from(i32::MAX))
    {
        schema.insert("format".into(), "int64".into());
        widen(schema);
    }
}

fn is_number(schema: &Map<String, Value>) -> bool {
    schema.get("type").is_some_and(|kind| kind == "integer" || kind == "number")
}

/// JSON that the macros wrote.
fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Sets a bound unless a stricter one is there.
pub(super) fn bound(schema: &mut Map<String, Value>, keyword: &str, value: Value) {
    widen_for(schema, &value);
    if !is_stricter(schema.get(keyword), keyword, &value) {
        return;
    }
    schema.remove(exclusive_of(keyword));
    schema.insert(keyword.into(), value);
}

/// Sets an exclusive bound unless a stricter one is there.
pub(super) fn exclusive(schema: &mut Map<String, Value>, keyword: &str, value: Value) {
    widen_for(schema, &value);
    let equal = schema.get(keyword).and_then(Value::as_f64) == value.as_f64();
    if equal || is_stricter(schema.get(keyword), keyword, &value) {
        schema.insert(keyword.into(), value);
        schema.insert(exclusive_of(keyword).into(), true.into());
    }
}

fn exclusive_of(keyword: &str) -> &'static str {
    match keyword {
        "minimum" => "exclusiveMinimum",
        "maximum" => "exclusiveMaximum",
        _ => "",
    }
}

fn is_stricter(current: Option<&Value>, keyword: &str, value: &Value) -> bool {
    let Some(current) = current.and_then(Value::as_f64) else { return true };
    let Some(value) = value.as_f64() else { return true };
    if keyword.starts_with("min") { value > current } else { value < current }
}

/// Adds a keyword that narrows: next to a different one it is put into `allOf`.
fn narrow(schema: &mut Map<String, Value>, keyword: &str, value: Value) {
    match schema.remove(keyword) {
        Some(current) if current != value => {
            let slot = schema.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(parts) = slot {
                parts.push(json!({ keyword: current }));
                parts.push(json!({ keyword: value }));
            }
        }
        _ => {
            schema.insert(keyword.into(), value);
        }
    }
}

/// Sets the values that are allowed, which were all allowed before.
fn choose(schema: &mut Map<String, Value>, values: Value) {
    if let (Some(Value::Array(known)), Value::Array(values)) = (schema.get("enum"), &values)
        && let Some(other) = values.iter().find(|value| !value.is_null() && !known.contains(value))
    {
        let known: Vec<String> = known.iter().map(Value::to_string).collect();
        *schema = unsupported(format_args!(
            "`enum` lists {other}, but the values of the type are {}",
            known.join(", ")
        ));
        return;
    }
    schema.insert("enum".into(), values);
}

/// Sets the type, without what only applies to the type before.
fn retype(schema: &mut Map<String, Value>, name: &str) {
    if schema.get("type").is_some_and(|current| current == name) {
        return;
    }
    for keyword in ["format", "minimum", "maximum", "items", "properties", "required", "anyOf"] {
        schema.remove(keyword);
    }
    for keyword in ["additionalProperties", "enum", INT_OR_STRING] {
        schema.remove(keyword);
    }
    schema.insert("type".into(), name.into());
}

fn int_or_string(schema: &mut Map<String, Value>) {
    if schema.contains_key(INT_OR_STRING) {
        return;
    }
    for keyword in ["type", "format", "minimum", "maximum", "properties", "required"] {
        schema.remove(keyword);
    }
    schema.insert(INT_OR_STRING.into(), true.into());
}

fn not_empty(schema: &mut Map<String, Value>) {
    let keyword = match schema.get("type").and_then(Value::as_str) {
        Some("string") => "minLength",
        Some("array") => "minItems",
        Some("object") => "minProperties",
        _ => return,
    };
    bound(schema, keyword, 1.into());
}

/// Adds a rule, unless the same rule is there already.
pub(super) fn push_cel(schema: &mut Map<String, Value>, rule: Value) {
    let slot = schema.entry(VALIDATIONS).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(rules) = slot
        && !rules.contains(&rule)
    {
        rules.push(rule);
    }
}

// === impl Cel ===

impl Cel<'_> {
    /// A rule that says nothing yet.
    pub const NONE: Cel<'static> = Cel {
        rule: "",
        message: None,
        message_expression: None,
        reason: None,
        field_path: None,
        optional_old_self: None,
    };

    fn to_value(self) -> Value {
        let mut rule = Map::new();
        rule.insert("rule".into(), self.rule.into());
        let texts = [
            ("message", self.message),
            ("messageExpression", self.message_expression),
            ("reason", self.reason),
            ("fieldPath", self.field_path),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                rule.insert(key.into(), text.into());
            }
        }
        if let Some(optional) = self.optional_old_self {
            rule.insert("optionalOldSelf".into(), optional.into());
        }
        Value::Object(rule)
    }
}
