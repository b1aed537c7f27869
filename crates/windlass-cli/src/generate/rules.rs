//! Keywords of schemas as arguments of `#[k8s(..)]`.

use serde_json::{Map, Value};

use super::Lost;
use super::item::literal;

/// The JSON that a schema describes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    String,
    Integer,
    Number,
    Boolean,
    List,
    Object,
    IntOrString,
    Any,
}

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Keywords, the arguments that write them, and the JSON that they are about.
const COUNTS: [(&str, &str, Shape); 6] = [
    ("minLength", "min_length", Shape::String),
    ("maxLength", "max_length", Shape::String),
    ("minItems", "min_items", Shape::List),
    ("maxItems", "max_items", Shape::List),
    ("minProperties", "min_properties", Shape::Object),
    ("maxProperties", "max_properties", Shape::Object),
];

const FLAGS: [(&str, &str); 2] = [
    ("x-kubernetes-preserve-unknown-fields", "preserve_unknown"),
    ("x-kubernetes-embedded-resource", "embedded_resource"),
];

/// Reads the keywords of one schema.
pub struct Reader<'a> {
    pub schema: &'a Map<String, Value>,
    pub shape: Shape,
    /// Keywords that the Rust type or another argument says.
    pub said: &'a [&'a str],
    /// The version and the path of the field.
    pub path: &'a str,
    pub lost: &'a mut Lost,
}

/// Returns JSON as the attributes write it.
pub fn json(value: &Value) -> String {
    match value {
        Value::String(text) => literal(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) if fields.is_empty() => "{}".into(),
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(key, value)| format!("{}: {}", literal(key), json(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Returns the arguments for all keywords that are not said otherwise.
    pub fn read(mut self) -> Vec<String> {
        let mut rules = Vec::new();
        self.bounds(&mut rules);
        for (keyword, argument, shape) in COUNTS {
            let Some(value) = self.get(keyword) else { continue };
            match value.as_u64() {
                Some(count) if self.is(shape) => rules.push(format!("{argument} = {count}")),
                _ => self.lose(keyword),
            }
        }
        self.texts(&mut rules);
        self.choices(&mut rules);
        self.merging(&mut rules);
        for (keyword, argument) in FLAGS {
            if self.get(keyword).is_some_and(|value| *value == true) {
                rules.push(argument.into());
            }
        }
        self.logic(&mut rules);
        self.documentation(&mut rules);
        for rule in
            self.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
        {
            match cel(rule) {
                Ok(rule) => rules.push(rule),
                Err(why) => self.lost.add(self.path, why),
            }
        }
        for keyword in [
            "$ref",
            "definitions",
            "dependencies",
            "patternProperties",
            "additionalItems",
            "id",
            "$schema",
        ] {
            if self.get(keyword).is_some() {
                self.lose(keyword);
            }
        }
        if self.get("uniqueItems").is_some_and(|unique| *unique == true) {
            self.lose("uniqueItems");
        }
        rules
    }

    fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.schema.get(keyword).filter(|_| !self.said.contains(&keyword))
    }

    fn is(&self, wanted: Shape) -> bool {
        self.shape == wanted
            || self.shape == Shape::Any
            || (self.shape == Shape::IntOrString && wanted == Shape::String)
    }

    fn lose(&mut self, keyword: &str) {
        self.lost.add(self.path, format_args!("`{keyword}` has no attribute for this type"));
    }

    fn bounds(&mut self, rules: &mut Vec<String>) {
        let is_number =
            matches!(self.shape, Shape::Integer | Shape::Number | Shape::IntOrString | Shape::Any);
        let fits = |value: &Value| {
            is_number && (self.shape != Shape::Integer || value.is_i64() || value.is_u64())
        };
        let sides =
            [("minimum", "exclusiveMinimum", "min"), ("maximum", "exclusiveMaximum", "max")];
        let mut lost = Vec::new();
        for (keyword, exclusive, argument) in sides {
            let is_exclusive = self.get(exclusive).is_some_and(|value| *value == true);
            let prefix = if is_exclusive { "exclusive_" } else { "" };
            match self.get(keyword) {
                Some(value) if fits(value) => {
                    rules.push(format!("{prefix}{argument} = {}", json(value)));
                }
                Some(_) => lost.push(keyword),
                None if is_exclusive => lost.push(exclusive),
                None => {}
            }
        }
        match self.get("multipleOf") {
            Some(value) if fits(value) && value.as_f64().is_some_and(|step| step > 0.0) => {
                rules.push(format!("multiple_of = {}", json(value)));
            }
            Some(_) => lost.push("multipleOf"),
            None => {}
        }
        lost.into_iter().for_each(|keyword| self.lose(keyword));
    }

    fn texts(&mut self, rules: &mut Vec<String>) {
        if let Some(pattern) = self.get("pattern").and_then(Value::as_str) {
            let valid = windlass_text::pattern::compile(pattern).is_ok();
            if valid && self.is(Shape::String) {
                rules.push(format!("pattern = {}", literal(pattern)));
            } else {
                self.lose("pattern");
            }
        }
        let is_number = matches!(self.shape, Shape::Integer | Shape::Number);
        if let Some(format) = self.get("format").and_then(Value::as_str) {
            if !format.is_empty() && (is_number || self.is(Shape::String)) {
                rules.push(format!("format = {}", literal(format)));
            } else {
                self.lose("format");
            }
        }
    }

    fn choices(&mut self, rules: &mut Vec<String>) {
        let Some(values) = self.get("enum") else { return };
        let fits = |value: &Value| match self.shape {
            Shape::String => value.is_string(),
            Shape::Integer => value.is_i64() || value.is_u64(),
            Shape::Number => value.is_number(),
            Shape::Boolean => value.is_boolean(),
            Shape::List => value.is_array(),
            Shape::Object => value.is_object(),
            Shape::IntOrString | Shape::Any => true,
        };
        let list = values.as_array().map(Vec::as_slice).unwrap_or_default();
        if !list.is_empty() && list.iter().all(|value| fits(value) || value.is_null()) {
            rules.push(format!("enum = {}", json(values)));
        } else {
            self.lose("enum");
        }
    }

    fn merging(&mut self, rules: &mut Vec<String>) {
        let keys = self.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        let keys: Vec<String> = keys.into_iter().flatten().map(json).collect();
        match self.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some(word @ ("atomic" | "set")) if self.shape == Shape::List && keys.is_empty() => {
                rules.push(format!("list = {word}"));
            }
            Some("map") if self.shape == Shape::List && !keys.is_empty() => {
                rules.push(format!("list = map({})", keys.join(", ")));
            }
            Some(_) => self.lose("x-kubernetes-list-type"),
            None if !keys.is_empty() => self.lose("x-kubernetes-list-map-keys"),
            None => {}
        }
        match self.get("x-kubernetes-map-type").and_then(Value::as_str) {
            Some(word @ ("atomic" | "granular")) if self.shape == Shape::Object => {
                rules.push(format!("map = {word}"));
            }
            Some(_) => self.lose("x-kubernetes-map-type"),
            None => {}
        }
    }

    fn logic(&self, rules: &mut Vec<String>) {
        let mut logic = Map::new();
        for keyword in ["allOf", "anyOf", "oneOf", "not"] {
            if let Some(value) = self.get(keyword) {
                logic.insert(keyword.into(), value.clone());
            }
        }
        if !logic.is_empty() {
            rules.push(format!("schema = {}", json(&Value::Object(logic))));
        }
    }

    fn documentation(&mut self, rules: &mut Vec<String>) {
        if let Some(title) = self.get("title") {
            rules.push(format!("title = {}", json(title)));
        }
        if let Some(example) = self.get("example") {
            rules.push(format!("example = {}", json(example)));
        }
        let Some(docs) = self.get("externalDocs") else { return };
        let Some(url) = docs["url"].as_str().filter(|url| is_url(url)) else {
            return self.lose("externalDocs");
        };
        let mut arguments = format!("url = {}", literal(url));
        if let Some(text) = docs["description"].as_str() {
            arguments += &format!(", description = {}", literal(text));
        }
        rules.push(format!("docs({arguments})"));
    }
}

/// What the attribute takes for a URL.
fn is_url(text: &str) -> bool {
    let clean = !text.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    let scheme = text.split_once("://").is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && !scheme.is_empty()
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric())
    });
    clean && (scheme || text.starts_with('/'))
}

/// Returns a rule in CEL as an argument, or why it cannot be one.
pub fn cel(rule: &Value) -> Result<String, String> {
    let text = |key: &str| rule[key].as_str().filter(|text| !text.is_empty());
    let expression = text("rule").unwrap_or_default();
    let parses = |expression: &str| windlass_cel::check_syntax(expression).is_ok();
    if !parses(expression) {
        return Err(format!("the rule `{expression}` is not an expression of CEL"));
    }
    let mut arguments = vec![literal(expression)];
    if let Some(message) = text("message") {
        arguments.push(format!("message = {}", literal(message)));
    }
    if let Some(message) = text("messageExpression") {
        if !parses(message) {
            return Err(format!("the message expression `{message}` is not an expression of CEL"));
        }
        arguments.push(format!("message_expression = {}", literal(message)));
    }
    if let Some(reason) = text("reason") {
        if !REASONS.contains(&reason) {
            return Err(format!("the rule `{expression}` has the unknown reason `{reason}`"));
        }
        arguments.push(format!("reason = {reason}"));
    }
    if let Some(path) = text("fieldPath") {
        if !path.starts_with(['.', '[']) {
            return Err(format!(
                "the rule `{expression}` has the path `{path}`, which begins with no dot"
            ));
        }
        arguments.push(format!("path = {}", literal(path)));
    }
    if let Some(optional) = rule["optionalOldSelf"].as_bool() {
        arguments.push(format!("optional_old_self = {optional}"));
    }
    Ok(format!("cel({})", arguments.join(", ")))
}
