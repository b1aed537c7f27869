//! Selectors as the API server reads them: checked, and written so that they mean what was asked for.
//!
//! The parts of a selector often come from objects that other people write, and kube prints them as
//! they are: the label `app!` with the value `x` would be printed as `app!=x`, which selects almost
//! everything. So a selector is printed here only, after the check that client-go makes.
//!
//! **Invariant:** the server reads from a text exactly the requirements that it was made of, or there
//! is no text.

use std::any::Any;
use std::fmt::{self, Write};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Expression, Selector};
use windlass_text::name::{label_value_faults, qualified_name_faults};

/// Most characters of an invalid text that an error shows.
const SHOWN_MAX: usize = 100;

/// A selector that the server would refuse, or read as another one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} selector: {problem}")]
pub(crate) struct InvalidSelector {
    /// `label` or `field`.
    part: &'static str,
    problem: String,
}

/// Converts anything that is a label selector, and checks it.
pub(crate) fn labels_of<T>(selector: T) -> Result<Selector, InvalidSelector>
where
    T: TryInto<Selector, Error: fmt::Display> + 'static,
{
    // The conversion drops the values of an operator that takes none.
    if let Some(selector) = (&selector as &dyn Any).downcast_ref::<LabelSelector>() {
        check_operators(selector)?;
    }
    let selector =
        selector.try_into().map_err(|error| InvalidSelector::labels(error.to_string()))?;
    expressions(&selector)?;
    Ok(selector)
}

/// Returns the expressions of a label selector. Fails if one of them is not valid.
pub(crate) fn expressions(selector: &Selector) -> Result<Vec<Expression>, InvalidSelector> {
    let expressions: Vec<Expression> = selector.clone().into_iter().collect();
    expressions.iter().try_for_each(check_label)?;
    Ok(expressions)
}

/// Returns the text of a label selector. Fails if it is not valid.
pub(crate) fn label_text(selector: &Selector) -> Result<String, InvalidSelector> {
    expressions(selector)?;
    Ok(selector.to_string())
}

/// Returns the text of a field selector, whose values are escaped. Fails if it is not valid.
pub(crate) fn field_text(selector: &Selector) -> Result<String, InvalidSelector> {
    let mut text = String::new();
    for expression in selector.clone() {
        let (name, operator, value) = match &expression {
            Expression::Equal(name, value) => (name, "=", value),
            Expression::NotEqual(name, value) => (name, "!=", value),
            _ => {
                return Err(InvalidSelector::fields(
                    "fields can only be selected by Expression::Equal and Expression::NotEqual"
                        .into(),
                ));
            }
        };
        let special = |c: char| matches!(c, '=' | '!' | ',' | '\\') || c.is_whitespace();
        if name.is_empty() || name.contains(|c: char| special(c) || c.is_control()) {
            return Err(InvalidSelector::fields(format!(
                "{} is not the name of a field, such as metadata.name",
                shown(name)
            )));
        }
        let comma = if text.is_empty() { "" } else { "," };
        // Writing into a String cannot fail.
        let _ = write!(text, "{comma}{name}{operator}");
        for c in value.chars() {
            if matches!(c, '=' | ',' | '\\') {
                text.push('\\');
            }
            text.push(c);
        }
    }
    Ok(text)
}

/// Refuses values where the operator takes none.
fn check_operators(selector: &LabelSelector) -> Result<(), InvalidSelector> {
    for requirement in selector.match_expressions.iter().flatten() {
        let takes_none = matches!(requirement.operator.as_str(), "Exists" | "DoesNotExist");
        if takes_none && requirement.values.as_ref().is_some_and(|values| !values.is_empty()) {
            return Err(InvalidSelector::labels(format!(
                "the operator {} of {} takes no values",
                requirement.operator,
                shown(&requirement.key)
            )));
        }
    }
    Ok(())
}

/// Checks one requirement as client-go does.
fn check_label(expression: &Expression) -> Result<(), InvalidSelector> {
    let (name, values): (&str, Vec<&String>) = match expression {
        Expression::In(name, values) | Expression::NotIn(name, values) => {
            if values.is_empty() {
                return Err(InvalidSelector::labels(format!(
                    "the operators In and NotIn of {} need at least one value",
                    shown(name)
                )));
            }
            (name, values.iter().collect())
        }
        Expression::Equal(name, value) | Expression::NotEqual(name, value) => (name, vec![value]),
        Expression::Exists(name) | Expression::DoesNotExist(name) => (name, Vec::new()),
    };
    if let Some(fault) = qualified_name_faults(name).into_iter().next() {
        return Err(InvalidSelector::labels(format!("invalid label {}: {fault}", shown(name))));
    }
    for value in values {
        if let Some(fault) = label_value_faults(value).into_iter().next() {
            let (name, value) = (shown(name), shown(value));
            let problem = format!("invalid value {value} of the label {name}: {fault}");
            return Err(InvalidSelector::labels(problem));
        }
    }
    Ok(())
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(SHOWN_MAX).collect::<String>())
}

// === impl InvalidSelector ===

impl InvalidSelector {
    fn labels(problem: String) -> Self {
        Self { part: "label", problem }
    }

    fn fields(problem: String) -> Self {
        Self { part: "field", problem }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problem(selector: Value) -> String {
        let selector: LabelSelector = serde_json::from_value(selector).expect("a selector");
        labels_of(selector).expect_err("invalid").to_string()
    }

    #[test]
    fn a_label_selector_that_client_go_refuses_is_refused() {
        let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        for (selector, start) in [
            (json!({"matchLabels": {"app!": "x"}}), "label selector: invalid label \"app!\": name"),
            (
                json!({"matchLabels": {"": "x"}}),
                "label selector: invalid label \"\": name part must",
            ),
            (
                json!({"matchLabels": {"app": "a,!b"}}),
                "label selector: invalid value \"a,!b\" of the label \"app\": a valid label must",
            ),
            (expression("In", json!([") , c"])), "label selector: invalid value \") , c\" of"),
            (expression("In", json!([])), "label selector: the operators In and NotIn of \"app\""),
            (expression("NotIn", json!([])), "label selector: the operators In and NotIn of"),
            (expression("Exists", json!(["a"])), "label selector: the operator Exists of \"app\""),
            (expression("DoesNotExist", json!(["a"])), "label selector: the operator DoesNotExist"),
            (expression("Like", json!(["a"])), "label selector: failed to parse"),
        ] {
            let problem = problem(selector);
            assert!(problem.starts_with(start), "{problem}");
        }
        let long = problem(json!({"matchLabels": {"app": "!".repeat(100_000)}}));
        assert!(long.len() < 500, "{long}");
    }

    #[test]
    fn values_of_fields_are_escaped_and_names_are_checked() {
        let equal = |name: &str, value: &str| Expression::Equal(name.into(), value.into());
        let mut fields = Selector::from(equal("metadata.name", r"a,b=c\d"));
        fields.extend(Expression::NotEqual("type".into(), "x".into()));
        assert_eq!(field_text(&fields).unwrap(), r"metadata.name=a\,b\=c\\d,type!=x");
        for name in ["", "a!", "a=b", "a,b", r"a\", "a b", "a\n"] {
            let error = field_text(&equal(name, "x").into()).unwrap_err().to_string();
            assert!(error.starts_with("field selector: "), "{error}");
        }
        let exists = field_text(&Expression::Exists("metadata.name".into()).into()).unwrap_err();
        assert!(exists.to_string().contains("Expression::Equal"), "{exists}");
    }
}
