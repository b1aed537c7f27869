//! Label selectors.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::key;
use super::lexer::{self, Kind, Token};
use crate::{quote, work};

/// A conjunction of requirements on labels; without any it selects everything.
///
/// ```
/// use std::collections::BTreeMap;
/// use windlass_text::select::LabelSelector;
///
/// let selector = LabelSelector::parse("env in (prod, dev), !old").unwrap();
/// let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
/// assert!(selector.matches(&labels));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// How values are compared.
    pub operator: Operator,
    /// The values, sorted, each once.
    pub values: BTreeSet<String>,
}

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `!key`.
    DoesNotExist,
    /// `key=value` and `key==value`.
    Equals,
    /// `key`.
    Exists,
    /// `key>1`.
    GreaterThan,
    /// `key in (a,b)`.
    In,
    /// `key<1`.
    LessThan,
    /// `key!=value`.
    NotEquals,
    /// `key notin (a,b)`.
    NotIn,
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Parses the text of `labelSelector=`.
    ///
    /// # Errors
    /// The text a server answers with (400).
    pub fn parse(text: &str) -> Result<Self, String> {
        Parser { tokens: lexer::tokens(text), at: 0 }.selector()
    }

    /// Selects everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects nothing: what a missing `LabelSelector` object means.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Reads a `LabelSelector` object (`matchLabels`, `matchExpressions`); null selects nothing.
    ///
    /// # Errors
    /// The text about the first requirement that is not one.
    pub fn from_object(object: &Value) -> Result<Self, String> {
        if object.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        if let Some(labels) = object["matchLabels"].as_object() {
            for (key, value) in labels {
                let value = value.as_str().unwrap_or_default().to_owned();
                requirements.push(Requirement::new(key, Operator::Equals, [value].into())?);
            }
        }
        for expression in object["matchExpressions"].as_array().into_iter().flatten() {
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(format!("{} is not a valid label selector operator", quote(other)));
                }
            };
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values.filter_map(|v| v.as_str().map(str::to_owned)).collect();
            let key = expression["key"].as_str().unwrap_or_default();
            requirements.push(Requirement::new(key, operator, values)?);
        }
        Ok(Self { requirements, nothing: false })
    }

    /// Reads a map of labels that all have to be there (`spec.selector` of a service).
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Self {
        let requirements = labels.iter().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: [value.clone()].into(),
        });
        Self { requirements: requirements.collect(), nothing: false }
    }

    /// Returns `true` if these labels are selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_by(|key| labels.get(key).map(String::as_str))
    }

    /// Returns `true` if the `metadata.labels` of an object are selected.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.matches_by(|key| labels.get(key).and_then(Value::as_str))
    }

    /// Returns `true` if labels read by a lookup are selected.
    pub fn matches_by<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        work::spent(1 + self.requirements.len());
        !self.nothing && self.requirements.iter().all(|r| r.matches(lookup(&r.key)))
    }

    /// Returns `true` if everything is selected.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Returns its requirements, in the order written.
    pub fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        self.requirements.iter()
    }
}

// === impl Requirement ===

impl Requirement {
    /// A checked requirement.
    ///
    /// # Errors
    /// What is wrong with its key or values.
    pub fn new(key: &str, operator: Operator, values: BTreeSet<String>) -> Result<Self, String> {
        let mut errors = Vec::new();
        errors.extend(key::problem("key", key, &key::qualified_name(key)));
        let shown = || serde_json::json!(values).to_string();
        let count = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::NotEquals if values.len() != 1 => {
                Some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan if values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        errors.extend(count.map(|why| format!("values: Invalid value: {}: {why}", shown())));
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (at, value) in values.iter().enumerate().filter(|(_, v)| integer(v).is_none()) {
                errors.push(format!(
                    "values[{at}]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must \
                     be an integer",
                    quote(value)
                ));
            }
        }
        for (at, value) in values.iter().enumerate() {
            let path = format!("values[{at}][{key}]");
            errors.extend(key::problem(&path, value, &key::label_value(value)));
        }
        errors.dedup();
        match errors.len() {
            0 => Ok(Self { key: key.to_owned(), operator, values }),
            1 => Err(errors.remove(0)),
            _ => Err(format!("[{}]", errors.join(", "))),
        }
    }

    /// Returns `true` if a label with this value (or without one) is selected.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::In | Operator::Equals => value.is_some_and(|v| self.values.contains(v)),
            Operator::NotIn | Operator::NotEquals => value.is_none_or(|v| !self.values.contains(v)),
            Operator::GreaterThan | Operator::LessThan => {
                let bound = self.values.first().and_then(|v| integer(v));
                match (value.and_then(integer), bound) {
                    (Some(value), Some(bound)) if self.operator == Operator::GreaterThan => {
                        value > bound
                    }
                    (Some(value), Some(bound)) => value < bound,
                    _ => false,
                }
            }
        }
    }
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

// === impl Parser ===

impl Parser {
    fn selector(mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        loop {
            let (kind, text) = self.peek();
            match kind {
                Kind::End => break,
                Kind::Identifier | Kind::Not => {}
                _ => {
                    return Err(format!(
                        "found '{text}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|e| format!("unable to parse requirement: {e}"))?);
            let (kind, text) = self.next();
            match kind {
                Kind::End => break,
                Kind::Comma => {
                    let (kind, text) = self.peek();
                    if !matches!(kind, Kind::Identifier | Kind::Not) {
                        return Err(format!("found '{text}', expected: identifier after ','"));
                    }
                }
                _ => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
            }
        }
        Ok(LabelSelector { requirements, nothing: false })
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut kind, mut key) = self.next();
        let negated = kind == Kind::Not;
        if negated {
            (kind, key) = self.next();
        }
        if kind != Kind::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        if let Some(error) = key::problem("<nil>", &key, &key::qualified_name(&key)) {
            return Err(error);
        }
        if negated {
            return Requirement::new(&key, Operator::DoesNotExist, BTreeSet::new());
        }
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return Requirement::new(&key, Operator::Exists, BTreeSet::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => [self.exact_value()?].into(),
        };
        Requirement::new(&key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let token = self.take();
        Ok(match token.kind {
            Kind::In => Operator::In,
            Kind::NotIn => Operator::NotIn,
            Kind::Equals | Kind::DoubleEquals => Operator::Equals,
            Kind::NotEquals => Operator::NotEquals,
            Kind::Greater => Operator::GreaterThan,
            Kind::Less => Operator::LessThan,
            _ => {
                return Err(format!(
                    "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                    token.text
                ));
            }
        })
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (kind, text) = self.next();
        if kind != Kind::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        let (kind, text) = self.peek();
        match kind {
            Kind::Identifier | Kind::Comma => {
                let values = self.identifiers()?;
                match self.next().0 {
                    Kind::Close => Ok(values),
                    _ => Err(format!("found '{text}', expected: ')'")),
                }
            }
            Kind::Close => {
                self.next();
                // Empty parentheses hold the empty value.
                Ok([String::new()].into())
            }
            _ => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    fn identifiers(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            let (kind, text) = self.next();
            let (after, after_text) = self.peek();
            match (kind, after) {
                (Kind::Identifier, Kind::Comma) => {
                    values.insert(text);
                }
                (Kind::Identifier, Kind::Close) => {
                    values.insert(text);
                    return Ok(values);
                }
                (Kind::Identifier, _) => {
                    return Err(format!("found '{after_text}', expected: ',' or ')'"));
                }
                (Kind::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    if after == Kind::Close {
                        values.insert(String::new());
                        return Ok(values);
                    }
                    if after == Kind::Comma {
                        self.next();
                        values.insert(String::new());
                    }
                }
                _ => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            (Kind::Identifier, text) => Ok(text),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }

    /// The next token in a place for a name or value, where `in` and `notin` are names.
    fn peek(&self) -> (Kind, String) {
        let token = self.current();
        let kind = match token.kind {
            Kind::In | Kind::NotIn => Kind::Identifier,
            kind => kind,
        };
        (kind, token.text.clone())
    }

    fn next(&mut self) -> (Kind, String) {
        let out = self.peek();
        self.at += 1;
        out
    }

    fn take(&mut self) -> Token {
        let token = self.current().clone();
        self.at += 1;
        token
    }

    fn current(&self) -> &Token {
        let last = self.tokens.last().expect("the lexer ends with an end token");
        self.tokens.get(self.at).unwrap_or(last)
    }
}
