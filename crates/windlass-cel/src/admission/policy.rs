//! Admission policies: rules that deny a request, warn about it, or change its object.

use serde_json::Value;
use windlass_text::json_patch::{Refused, Steps};

use super::conditions::Conditions;
use super::environment::{Environment, Gives};
use super::program::{Program, Scope};
use crate::{Output, REQUEST_LIMIT};

/// The longest message that an expression may make.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
/// The longest value of an audit annotation; the rest is cut off.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;

/// The expressions of a policy, compiled.
#[derive(Debug)]
pub struct Policy {
    variables: Vec<(String, Program)>,
    conditions: Conditions,
    validations: Vec<Validation>,
    annotations: Vec<(String, Program)>,
    mutations: Vec<Mutation>,
    ignores_failures: bool,
}

#[derive(Debug)]
struct Validation {
    rule: Program,
    message: String,
    message_rule: Option<Program>,
    reason: String,
}

/// One change of a mutating policy.
#[derive(Debug)]
pub enum Mutation {
    /// A part of the object, merged into it.
    Configuration(Program),
    /// Operations of a JSON patch.
    Steps(Program),
}

/// What a validating policy says about a request.
#[derive(Debug, Default)]
pub struct Verdict {
    /// One for each rule that does not hold, in the order of the rules.
    pub denials: Vec<Denial>,
    /// Keys and values of audit annotations.
    pub annotations: Vec<(String, String)>,
}

/// A rule that does not hold, or that could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What is wrong.
    pub message: String,
    /// The reason that the policy gives; empty for `Invalid`.
    pub reason: String,
    /// The position of the rule; `None` if an audit annotation failed, which denies the request
    /// whatever the actions of the binding are.
    pub rule: Option<usize>,
}

// === impl Policy ===

impl Policy {
    /// Compiles the `spec` of a validating or a mutating policy. An expression that does not compile
    /// fails when it is evaluated, as in an API server that accepted it in the past.
    pub fn compile(spec: &Value) -> Self {
        let mut environment = Environment::composed(spec["paramKind"].is_object());
        let mut variables = Vec::new();
        for variable in items(spec, "variables") {
            let name = text(variable, "name");
            let program =
                Program::compile(text(variable, "expression"), Gives::Anything, &environment);
            environment.declare(name, program.compiled());
            variables.push((name.to_owned(), program));
        }
        let annotation = |annotation: &Value| {
            let value = text(annotation, "valueExpression");
            let program = Program::compile(value, Gives::TextOrNull, &environment);
            (text(annotation, "key").to_owned(), program)
        };
        let validation = |validation: &Value| Validation::compile(validation, &environment);
        let mutation = |mutation: &Value| Mutation::compile(mutation, &environment);
        Self {
            conditions: Conditions::parse(&spec["matchConditions"], &environment),
            validations: items(spec, "validations").iter().map(validation).collect(),
            annotations: items(spec, "auditAnnotations").iter().map(annotation).collect(),
            mutations: items(spec, "mutations").iter().map(mutation).collect(),
            ignores_failures: spec["failurePolicy"] == "Ignore",
            variables,
        }
    }

    /// Returns `true` if a request passes when the policy cannot be evaluated.
    pub fn ignores_failures(&self) -> bool {
        self.ignores_failures
    }

    /// Returns `true` if an expression uses a variable, such as `authorizer`.
    pub fn uses(&self, name: &str) -> bool {
        let programs = self.variables.iter().chain(&self.annotations).map(|(_, program)| program);
        let rules = self.validations.iter().flat_map(|v| [Some(&v.rule), v.message_rule.as_ref()]);
        let mutations = self.mutations.iter().map(Mutation::program);
        self.conditions.uses(name)
            || programs.chain(rules.flatten()).chain(mutations).any(|program| program.uses(name))
    }

    /// Sets the variables of the policy. Returns `true` if its conditions hold.
    ///
    /// # Errors
    /// What could not be evaluated.
    pub fn applies(&self, scope: &mut Scope<'_>) -> Result<bool, String> {
        for (name, program) in &self.variables {
            program.compose(name, scope);
        }
        self.conditions.hold(scope)
    }

    /// Evaluates the rules and audit annotations of a validating policy.
    pub fn validate(&self, scope: &mut Scope<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        match self.applies(scope) {
            Ok(true) => {}
            Ok(false) => return verdict,
            Err(message) => {
                verdict.denials.extend(self.failed(message));
                return verdict;
            }
        }
        scope.allow(REQUEST_LIMIT);
        for (at, validation) in self.validations.iter().enumerate() {
            let denial = match validation.rule.run(scope) {
                Err(message) if scope.is_spent() => return self.spent(message),
                Ok(Output::Bool(true)) => continue,
                Ok(_) => match validation.message(scope) {
                    Ok(message) => {
                        Some(Denial { message, reason: validation.reason.clone(), rule: Some(at) })
                    }
                    Err(why) => self.failed(format!("failed messageExpression: {why}")),
                },
                Err(message) => self.failed(message),
            };
            verdict.denials.extend(denial.map(|denial| Denial { rule: Some(at), ..denial }));
        }
        scope.allow(REQUEST_LIMIT);
        for (key, program) in &self.annotations {
            match program.run(scope) {
                Err(message) if scope.is_spent() => return self.spent(message),
                Ok(Output::String(value)) if !value.trim().is_empty() => {
                    verdict.annotations.push((key.clone(), cut(value.trim())));
                }
                Ok(_) => {}
                Err(message) => {
                    let denial = self.failed(message);
                    verdict.denials.extend(denial.map(|denial| Denial { rule: None, ..denial }));
                }
            }
        }
        verdict
    }

    /// The verdict of a policy whose expressions cost too much: nothing else counts.
    fn spent(&self, message: String) -> Verdict {
        Verdict { denials: self.failed(message).into_iter().collect(), ..Verdict::default() }
    }

    /// Returns the changes of a mutating policy, in order.
    pub fn mutations(&self) -> &[Mutation] {
        &self.mutations
    }

    /// Returns what follows if something could not be evaluated: nothing if failures are ignored.
    pub fn failed(&self, message: String) -> Option<Denial> {
        let denial = || Denial { message, reason: String::new(), rule: Some(0) };
        (!self.ignores_failures).then(denial)
    }
}

// === impl Validation ===

impl Validation {
    fn compile(validation: &Value, environment: &Environment) -> Self {
        let field = |name: &str| text(validation, name).trim().to_owned();
        let message_rule = text(validation, "messageExpression");
        Self {
            rule: Program::compile(text(validation, "expression"), Gives::Bool, environment),
            message: field("message"),
            message_rule: (!message_rule.is_empty())
                .then(|| Program::compile(message_rule, Gives::Text, environment)),
            reason: field("reason"),
        }
    }

    /// The result of an expression, or the fixed text, or the rule itself.
    ///
    /// # Errors
    /// That the expressions of the policy cost too much.
    fn message(&self, scope: &Scope<'_>) -> Result<String, String> {
        if let Some(rule) = &self.message_rule {
            match rule.run(scope) {
                Err(message) if scope.is_spent() => return Err(message),
                Ok(Output::String(made)) => {
                    let made = made.trim();
                    if !made.is_empty() && made.len() <= MESSAGE_BYTES_MAX && !made.contains('\n') {
                        return Ok(made.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(match self.message.as_str() {
            "" => format!("failed expression: {}", self.rule.text().trim()),
            message => message.to_owned(),
        })
    }
}

// === impl Mutation ===

impl Mutation {
    fn compile(mutation: &Value, environment: &Environment) -> Self {
        let source = |form: &str| text(&mutation[form], "expression");
        match text(mutation, "patchType") {
            "JSONPatch" => {
                Self::Steps(Program::compile(source("jsonPatch"), Gives::Steps, environment))
            }
            _ => {
                let source = source("applyConfiguration");
                Self::Configuration(Program::compile(source, Gives::Object, environment))
            }
        }
    }

    fn program(&self) -> &Program {
        let (Self::Configuration(program) | Self::Steps(program)) = self;
        program
    }

    /// Returns what the object becomes; `merge` merges a part of an object into it.
    ///
    /// # Errors
    /// Why the policy failed.
    pub fn apply(
        &self,
        scope: &Scope<'_>,
        object: &Value,
        merge: impl FnOnce(Value) -> Result<Value, String>,
    ) -> Result<Value, String> {
        scope.allow(REQUEST_LIMIT);
        let patch = self.program().patch(scope)?;
        let Self::Steps(_) = self else {
            return merge(patch).map_err(|why| format!("error applying patch: {why}"));
        };
        let (mut made, mut steps) = (object.clone(), Steps::new());
        for step in patch.as_array().into_iter().flatten() {
            match steps.apply(&mut made, step) {
                Ok(()) => {}
                Err(why @ Refused::TooMuchWork) => return Err(format!("JSON Patch: {why}")),
                // A test that fails means that nothing is to be done.
                Err(_) if step["op"] == "test" => return Ok(object.clone()),
                Err(_) => {
                    let (operation, path) = (text(step, "op"), text(step, "path"));
                    return Err(format!(
                        "JSON Patch: {operation} operation does not apply: doc is missing path: \
                         {path}: missing value"
                    ));
                }
            }
        }
        Ok(made)
    }
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The beginning of a text that is too long.
fn cut(value: &str) -> String {
    let mut end = value.len().min(ANNOTATION_BYTES_MAX);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(spec: Value, object: Value) -> Verdict {
        let old = Value::Null;
        Policy::compile(&spec).validate(&mut Scope::new(&object, &old, json!({})))
    }

    #[test]
    fn audit_annotations_are_published_and_deny_if_they_fail() {
        let annotations = json!([
            {"key": "size", "valueExpression": "'size ' + string(object.size)"},
            {"key": "none", "valueExpression": "object.size > 1 ? 'large' : ''"},
        ]);
        let made = verdict(json!({"auditAnnotations": annotations}), json!({"size": 1}));
        assert_eq!(made.annotations, [("size".to_owned(), "size 1".to_owned())]);
        assert!(made.denials.is_empty());
        let made = verdict(json!({"auditAnnotations": annotations}), json!({}));
        assert_eq!(made.denials.len(), 2);
        assert!(made.denials.iter().all(|denial| denial.rule.is_none()));
        let lenient = json!({"auditAnnotations": annotations, "failurePolicy": "Ignore"});
        assert!(verdict(lenient, json!({})).denials.is_empty());
    }

    /// An expression that costs half of what one may cost alone.
    const COSTLY: &str = "object.l.all(a, object.l.all(b, a != b || a == b))";

    fn list() -> Value {
        json!({"l": (0..300).collect::<Vec<u32>>()})
    }

    #[test]
    fn the_rules_of_a_policy_together_cost_no_more_than_the_limit() {
        let rule = json!({"expression": COSTLY});
        let few = json!({"validations": vec![rule.clone(); 3]});
        assert!(verdict(few, list()).denials.is_empty(), "each of them is cheap enough");
        let failing = json!({"expression": "false"});
        let many: Vec<Value> = std::iter::once(failing).chain(vec![rule; 24]).collect();
        let made = verdict(json!({"validations": many}), list());
        assert_eq!(made.denials.len(), 1, "only that it was too much");
        assert_eq!(made.denials[0].message, crate::OUT_OF_BUDGET);
        let lenient = json!({"validations": many, "failurePolicy": "Ignore"});
        assert!(verdict(lenient, list()).denials.is_empty());
    }

    #[test]
    fn variables_are_charged_once_to_what_uses_them() {
        let with = |variables: usize, rules: Vec<String>| {
            let variable = |n| json!({"name": format!("v{n}"), "expression": COSTLY});
            let variables: Vec<Value> = (0..variables).map(variable).collect();
            let rule = |rule: String| json!({"expression": rule});
            let rules: Vec<Value> = rules.into_iter().map(rule).collect();
            verdict(json!({"variables": variables, "validations": rules}), list()).denials
        };
        let many: Vec<String> = (0..24).map(|n| format!("variables.v{n}")).collect();
        assert_eq!(with(24, many)[0].message, crate::OUT_OF_BUDGET);
        assert!(with(24, vec!["true".into()]).is_empty(), "nothing uses them");
        assert!(with(1, vec!["variables.v0".into(); 24]).is_empty(), "the same again and again");
    }

    #[test]
    fn match_conditions_and_audit_annotations_have_limits_of_their_own() {
        let condition = |n: usize| json!({"name": format!("c{n}"), "expression": COSTLY});
        let conditions =
            |count| json!({"matchConditions": (1..=count).map(condition).collect::<Vec<_>>()});
        assert!(verdict(conditions(2), list()).denials.is_empty());
        assert_eq!(verdict(conditions(6), list()).denials[0].message, crate::OUT_OF_BUDGET);
        let annotation = json!({"key": "a", "valueExpression": format!("{COSTLY} ? 'a' : 'b'")});
        let annotations = |count| json!({"auditAnnotations": vec![annotation.clone(); count]});
        assert_eq!(verdict(annotations(2), list()).annotations.len(), 2);
        let made = verdict(annotations(24), list());
        assert_eq!(made.denials[0].message, crate::OUT_OF_BUDGET);
        assert!(made.annotations.is_empty());
    }

    #[test]
    fn a_test_that_fails_leaves_the_object_as_it_is() {
        let steps = "[JSONPatch{op: 'add', path: '/b', value: 1},
            JSONPatch{op: 'test', path: '/a', value: 2}]";
        let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": steps}});
        let policy = Policy::compile(&json!({"mutations": [mutation]}));
        for (a, expected) in [(1, json!({"a": 1})), (2, json!({"a": 2, "b": 1}))] {
            let (object, old) = (json!({"a": a}), Value::Null);
            let scope = Scope::new(&object, &old, json!({}));
            let made = policy.mutations()[0].apply(&scope, &object, Ok);
            assert_eq!(made, Ok(expected));
        }
    }
}
