//! Rules in CEL that follow from attributes and from enums.

use serde_json::{Value, json};

use super::rule::Count;

/// The rule of a field that may not change.
pub(super) fn immutable() -> Value {
    json!({ "rule": "self == oldSelf", "message": "field is immutable" })
}

/// The rule of an object one of whose fields may not be removed.
pub(super) fn immutable_once_set(name: &str) -> Value {
    let field = escape(name);
    json!({
        "rule": format!("!has(oldSelf.{field}) || has(self.{field})"),
        "message": format!("field {name} is immutable once set"),
    })
}

/// The rule of an object of which some fields exclude each other.
pub(super) fn count(count: Count, names: &[&str]) -> Value {
    let has = |name: &&str| format!("has(self.{})", escape(name));
    let sum = || {
        let parts: Vec<String> = names.iter().map(|name| format!("({}?1:0)", has(name))).collect();
        parts.join("+")
    };
    let (rule, words) = match count {
        Count::Exactly => (format!("{} == 1", sum()), "exactly one"),
        Count::AtMost => (format!("{} <= 1", sum()), "at most one"),
        Count::AtLeast => (names.iter().map(has).collect::<Vec<_>>().join("||"), "at least one"),
    };
    let may = if count == Count::AtMost { "may" } else { "must" };
    let message = format!("{words} of the fields in [{}] {may} be set", names.join(" "));
    json!({ "rule": rule, "message": message })
}

/// The rule of a field that only some values of the tag allow.
pub(super) fn only_with(tag: &str, values: &[&str], name: &str) -> Value {
    field_only_with(tag, values, None, name)
}

/// The rule of a field that some values of the tag demand.
pub(super) fn required_with(tag: &str, values: &[&str], name: &str) -> Value {
    field_required_with(tag, values, None, name)
}

/// The rule of a field, or of one inside of another field, that only some values of the tag allow.
pub(super) fn field_only_with(
    tag: &str,
    values: &[&str],
    inside: Option<&str>,
    name: &str,
) -> Value {
    let (absent, field, shown) = place(inside, name);
    json!({
        "rule": format!("{absent}!has({field}) || {}", is_one_of(tag, values)),
        "message": format!("{shown} may only be set if {tag} is {}", or(values)),
    })
}

/// The rule of a field, or of one inside of another field, that some values of the tag demand.
pub(super) fn field_required_with(
    tag: &str,
    values: &[&str],
    inside: Option<&str>,
    name: &str,
) -> Value {
    let (absent, field, shown) = place(inside, name);
    json!({
        "rule": format!("{absent}has({field}) || !({})", is_one_of(tag, values)),
        "message": format!("{shown} must be set if {tag} is {}", or(values)),
    })
}

/// The condition that holds if the object around a field is missing, the field, and its name.
fn place(inside: Option<&str>, name: &str) -> (String, String, String) {
    let field = escape(name);
    match inside {
        None => (String::new(), format!("self.{field}"), name.to_owned()),
        Some(outer) => {
            let object = escape(outer);
            let absent = format!("!has(self.{object}) || ");
            (absent, format!("self.{object}.{field}"), format!("{outer}.{name}"))
        }
    }
}

/// The rule of a field whose type follows from the tag: `integer` or `string`.
pub(super) fn of_type(tag: &str, value: &str, name: &str, kind: &str) -> Value {
    let field = escape(name);
    let wanted = if kind == "integer" { "int" } else { kind };
    json!({
        "rule": format!(
            "!has(self.{field}) || self.{} != {} || type(self.{field}) == {wanted}",
            escape(tag), quote(value)
        ),
        "message": format!("{name} is of type {kind} if {tag} is {value}"),
    })
}

/// Lets a rule hold for one value of the tag alone.
pub(super) fn only_if(tag: &str, value: &str, rule: &mut Value) {
    unless(rule, |object| format!("{object}.{} != {}", escape(tag), quote(value)));
}

/// Lets a rule hold only if one of these fields is set.
pub(super) fn only_if_any(names: &[&str], rule: &mut Value) {
    unless(rule, |object| format!("!({})", has(object, names, " || ")));
}

/// Lets a rule hold only if all of these fields are set.
pub(super) fn only_if_all(names: &[&str], rule: &mut Value) {
    unless(rule, |object| format!("!({})", has(object, names, " && ")));
}

/// Lets a rule hold unless a condition does, now or before.
fn unless(rule: &mut Value, condition: impl Fn(&str) -> String) {
    let Some(text) = rule["rule"].as_str() else { return };
    let before = match text.contains("oldSelf") {
        true if rule["optionalOldSelf"] == true => {
            format!("(oldSelf.hasValue() && {}) || ", condition("oldSelf.value()"))
        }
        true => format!("{} || ", condition("oldSelf")),
        false => String::new(),
    };
    rule["rule"] = format!("{} || {before}({text})", condition("self")).into();
}

/// The rule of fields that must be set as soon as one of some others is.
pub(super) fn required_with_any(required: &[&str], names: &[&str]) -> Value {
    let (one, all) = (has("self", names, " || "), has("self", required, " && "));
    let (required, others) = (required.join(" "), names.join(" "));
    json!({
        "rule": format!("!({one}) || ({all})"),
        "message": format!("the fields [{required}] must be set if one of [{others}] is set"),
    })
}

/// The rule of an object that may have so many of some fields.
pub(super) fn at_most(count: u64, names: &[&str]) -> Value {
    let parts: Vec<String> =
        names.iter().map(|name| format!("(has(self.{})?1:0)", escape(name))).collect();
    json!({
        "rule": format!("{} <= {count}", parts.join("+")),
        "message": format!("at most {count} of the fields in [{}] may be set", names.join(" ")),
    })
}

fn has(object: &str, names: &[&str], operator: &str) -> String {
    let has: Vec<String> =
        names.iter().map(|name| format!("has({object}.{})", escape(name))).collect();
    has.join(operator)
}

/// The rule of a map whose keys have a form: one of some names, or of some patterns.
pub(crate) fn keys(names: &[&str], patterns: &[&str]) -> Value {
    let list: Vec<String> = names.iter().map(|name| quote(name)).collect();
    let mut parts: Vec<String> =
        patterns.iter().map(|pattern| format!("key.matches({})", quote(pattern))).collect();
    if !list.is_empty() {
        parts.insert(0, format!("key in [{}]", list.join(", ")));
    }
    let shown: Vec<&str> = names.iter().chain(patterns).copied().collect();
    json!({
        "rule": format!("self.all(key, {})", parts.join(" || ")),
        "message": match patterns {
            [] => format!("each key must be {}", or(&shown)),
            _ => format!("each key must match {}", or(&shown)),
        },
    })
}

/// The names and the patterns of a rule that [`keys`] made; `None` for another rule.
pub(crate) fn keys_in(rule: &str) -> Option<(Vec<String>, Vec<String>)> {
    let mut rest = rule.strip_prefix("self.all(key, ")?;
    let (mut names, mut patterns) = (Vec::new(), Vec::new());
    while let Some((before, after)) = rest.split_once('\'') {
        let (text, end) = unquote(after)?;
        let list = if before.ends_with("key.matches(") { &mut patterns } else { &mut names };
        list.push(text);
        rest = end;
    }
    let (shown_names, shown_patterns): (Vec<&str>, Vec<&str>) =
        (names.iter().map(String::as_str).collect(), patterns.iter().map(String::as_str).collect());
    let is_ours = keys(&shown_names, &shown_patterns)["rule"] == rule;
    is_ours.then_some((names, patterns))
}

/// Reads a string literal after its first quote, and returns what is behind it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut read = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => return Some((read, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => read.push('\n'),
                'r' => read.push('\r'),
                other => read.push(other),
            },
            other => read.push(other),
        }
    }
    None
}

fn is_one_of(tag: &str, values: &[&str]) -> String {
    let field = escape(tag);
    match values {
        [value] => format!("self.{field} == {}", quote(value)),
        _ => {
            let list: Vec<String> = values.iter().map(|value| quote(value)).collect();
            format!("self.{field} in [{}]", list.join(", "))
        }
    }
}

fn or(values: &[&str]) -> String {
    values.join(" or ")
}

/// A string literal.
fn quote(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{}'", text.replace('\n', "\\n").replace('\r', "\\r"))
}

/// The name of a field, as it is written in an expression.
pub(crate) fn escape(name: &str) -> String {
    if windlass_cel::is_reserved(name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cel_cannot_write_are_escaped() {
        assert_eq!(escape("namespace"), "__namespace__");
        assert_eq!(escape("x-prop.a/b"), "x__dash__prop__dot__a__slash__b");
        assert_eq!(escape("a__b"), "a__underscores__b");
        assert_eq!(escape("plain"), "plain");
    }

    #[test]
    fn a_rule_of_keys_can_be_read_again() {
        let both = (vec!["it's".to_owned()], vec![r"^\d'$".to_owned(), "a\nb".to_owned()]);
        let rule = keys(&["it's"], &[r"^\d'$", "a\nb"])["rule"].clone();
        assert_eq!(keys_in(rule.as_str().unwrap()), Some(both));
        assert_eq!(keys_in("self.all(key, key.size() < 3)"), None);
        assert_eq!(keys_in("self.all(key, key.matches('a') && key != 'b')"), None);
    }

    #[test]
    fn literals_are_quoted() {
        assert_eq!(quote(r"it's a \"), r"'it\'s a \\'");
    }
}
