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
    let Some(text) = rule["rule"].as_str() else { return };
    let other = |object: &str| format!("{object}.{} != {} || ", escape(tag), quote(value));
    let before = match text.contains("oldSelf") {
        true if rule["optionalOldSelf"] == true => {
            format!("(oldSelf.hasValue() && {}false) || ", other("oldSelf.value()"))
        }
        true => other("oldSelf"),
        false => String::new(),
    };
    rule["rule"] = format!("{}{before}({text})", other("self")).into();
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
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
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
    fn literals_are_quoted() {
        assert_eq!(quote(r"it's a \"), r"'it\'s a \\'");
    }
}
