//! The admission policies of an operator.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, RuleWithOperations,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_text::name;

use super::{Model, Webhook};

/// The first minor version of Kubernetes 1 with validating policies.
const VALIDATING_SINCE: u32 = 30;
/// The first minor version of Kubernetes 1 with mutating policies.
const MUTATING_SINCE: u32 = 36;

/// Rules in expressions that the API server evaluates. A cluster that is too old for them calls the
/// operator instead, which evaluates the same rules.
///
/// ```
/// use windlass_manifests::Model;
/// use windlass_manifests::model::{Mutation, Policy};
///
/// let mut policy = Policy::new("team");
/// policy.rule("", "v1", "configmaps", &["CREATE"]);
/// policy.mutations.push(Mutation::Merge("Object{data: {\"team\": \"a\"}}".into()));
/// let mut model = Model::new("shop-operator");
/// model.policies.push(policy);
/// model.kubernetes = "1.36".into();
/// assert!(model.check().is_ok());
/// assert!(model.install().contains("kind: MutatingAdmissionPolicy\n"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// The name. In the cluster it starts with the name of the operator.
    pub name: String,
    /// The spec of the validating policy. A mutating policy has the same parameters, variables,
    /// conditions and constraints.
    pub spec: ValidatingAdmissionPolicySpec,
    /// The changes of the mutating policy, in order.
    pub mutations: Vec<Mutation>,
    /// Whether the changes are made again after others changed the object: `Never` or `IfNeeded`.
    pub reinvocation_policy: String,
    /// The binding; its `policyName` is rendered from the name. The actions concern validation only.
    pub binding: ValidatingAdmissionPolicyBindingSpec,
    /// Whether it applies in the namespaces of the system and of the operator too.
    pub everywhere: bool,
}

/// One change of a mutating policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mutation {
    /// An expression for a part of the object, which is merged into it as by server-side apply.
    Merge(String),
    /// An expression for the operations of a JSON patch.
    Patch(String),
}

// === impl Policy ===

impl Policy {
    /// A policy without rules, which denies requests that it cannot evaluate, and which does not apply
    /// in the namespaces of the system.
    pub fn new(name: &str) -> Self {
        let spec = ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".into()),
            match_constraints: Some(MatchResources {
                match_policy: Some("Equivalent".into()),
                ..MatchResources::default()
            }),
            ..ValidatingAdmissionPolicySpec::default()
        };
        let binding = ValidatingAdmissionPolicyBindingSpec {
            validation_actions: vec!["Deny".into()],
            ..ValidatingAdmissionPolicyBindingSpec::default()
        };
        Self {
            name: name.to_owned(),
            spec,
            mutations: Vec::new(),
            reinvocation_policy: "Never".into(),
            binding,
            everywhere: false,
        }
    }

    /// Applies the policy to operations on a resource, such as `pods`.
    pub fn rule(&mut self, group: &str, version: &str, resource: &str, operations: &[&str]) {
        let one = |text: &str| Some(vec![text.to_owned()]);
        let rule = NamedRuleWithOperations {
            api_groups: one(group),
            api_versions: one(version),
            resources: one(resource),
            operations: Some(operations.iter().map(|text| (*text).to_owned()).collect()),
            ..NamedRuleWithOperations::default()
        };
        let constraints = self.spec.match_constraints.get_or_insert_default();
        constraints.resource_rules.get_or_insert_default().push(rule);
    }

    /// Returns `true` if it accepts and denies requests, or annotates them in the audit log.
    pub fn validates(&self) -> bool {
        let empty = |count: Option<usize>| count.unwrap_or_default() == 0;
        !empty(self.spec.validations.as_ref().map(Vec::len))
            || !empty(self.spec.audit_annotations.as_ref().map(Vec::len))
    }

    /// Returns `true` if it changes objects.
    pub fn mutates(&self) -> bool {
        !self.mutations.is_empty()
    }

    /// Returns the `spec` of the validating or of the mutating policy.
    pub fn spec(&self, mutating: bool) -> Value {
        let mut spec = self.spec.clone();
        if !mutating {
            return serde_json::to_value(spec).unwrap_or_default();
        }
        spec.validations = None;
        spec.audit_annotations = None;
        let constraints = spec.match_constraints.get_or_insert_default();
        constraints.resource_rules = Some(mutating_rules(constraints.resource_rules.take()));
        let mut value = serde_json::to_value(spec).unwrap_or_default();
        value["mutations"] = self.mutations.iter().map(Mutation::to_value).collect();
        value["reinvocationPolicy"] = self.reinvocation_policy.as_str().into();
        value
    }

    /// Returns the webhook that takes the place of the policy in a cluster without such policies.
    /// Selectors of the policy and of its binding select the requests; everything else is evaluated
    /// by the operator.
    pub fn webhook(&self, mutating: bool, operator: &str) -> Webhook {
        let verb = if mutating { "mutate" } else { "validate" };
        let name = format!("{verb}.{}.{operator}", self.name);
        let mut webhook = Webhook::new(mutating, &name, &format!("/{verb}-policy-{}", self.name));
        webhook.everywhere = self.everywhere;
        let entry = &mut webhook.entry;
        entry.failure_policy.clone_from(&self.spec.failure_policy);
        if mutating {
            entry.reinvocation_policy = Some(self.reinvocation_policy.clone());
        }
        let own = self.spec.match_constraints.clone().unwrap_or_default();
        let bound = self.binding.match_resources.clone().unwrap_or_default();
        entry.match_policy = own.match_policy;
        entry.namespace_selector = both(own.namespace_selector, bound.namespace_selector);
        entry.object_selector = both(own.object_selector, bound.object_selector);
        let rules = match mutating {
            true => mutating_rules(own.resource_rules),
            false => own.resource_rules.unwrap_or_default(),
        };
        entry.rules = Some(rules.into_iter().map(unnamed).collect());
        webhook
    }

    fn check(&self, found: &mut Vec<String>) {
        let mut wrong = |what: &str| found.push(format!("policy {:?} {what}", self.name));
        if !name::dns1123_label(&self.name) {
            wrong("needs a name like a DNS label, such as size-limit");
        }
        if !self.validates() && !self.mutates() {
            wrong("does nothing: it has no validations, audit annotations or mutations");
        }
        let constraints = self.spec.match_constraints.as_ref();
        let rules = constraints.and_then(|constraints| constraints.resource_rules.as_ref());
        if rules.is_none_or(Vec::is_empty) {
            wrong("matches nothing: it has no resource rules");
        }
        let actions = &self.binding.validation_actions;
        let acts = |wanted: &str| actions.iter().any(|action| action == wanted);
        if self.validates() && actions.is_empty() {
            wrong("needs a validation action: Deny, Warn or Audit");
        }
        if acts("Deny") && acts("Warn") {
            wrong("may not both Deny and Warn, which would repeat every message");
        }
        if !["Never", "IfNeeded"].contains(&self.reinvocation_policy.as_str()) {
            wrong("must have the reinvocation policy Never or IfNeeded");
        }
        if self.binding.param_ref.is_some() != self.spec.param_kind.is_some() {
            wrong("needs both paramKind and paramRef, or neither");
        }
    }
}

// === impl Mutation ===

impl Mutation {
    fn to_value(&self) -> Value {
        match self {
            Self::Merge(expression) => json!({
                "patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression},
            }),
            Self::Patch(expression) => json!({
                "patchType": "JSONPatch", "jsonPatch": {"expression": expression},
            }),
        }
    }
}

/// The rules of a mutating policy: deleted objects cannot be changed.
fn mutating_rules(rules: Option<Vec<NamedRuleWithOperations>>) -> Vec<NamedRuleWithOperations> {
    let mut rules = rules.unwrap_or_default();
    for operations in rules.iter_mut().filter_map(|rule| rule.operations.as_mut()) {
        operations.retain(|operation| operation != "DELETE");
    }
    rules.retain(|rule| rule.operations.as_ref().is_some_and(|all| !all.is_empty()));
    rules
}

/// A rule without the names of objects, which webhooks do not have.
fn unnamed(rule: NamedRuleWithOperations) -> RuleWithOperations {
    RuleWithOperations {
        api_groups: rule.api_groups,
        api_versions: rule.api_versions,
        operations: rule.operations,
        resources: rule.resources,
        scope: rule.scope,
    }
}

/// A selector of what both selectors select.
fn both(first: Option<LabelSelector>, second: Option<LabelSelector>) -> Option<LabelSelector> {
    let (Some(first), Some(second)) = (first.clone(), second.clone()) else {
        return first.or(second);
    };
    let mut expressions = Vec::new();
    for selector in [first, second] {
        let equal = selector.match_labels.into_iter().flatten().map(|(key, value)| {
            let values = Some(vec![value]);
            LabelSelectorRequirement { key, operator: "In".into(), values }
        });
        expressions.extend(equal);
        expressions.extend(selector.match_expressions.into_iter().flatten());
    }
    Some(LabelSelector { match_expressions: Some(expressions), match_labels: None })
}

// === impl Model ===

impl Model {
    /// Returns `true` if every supported cluster has policies of a kind; otherwise webhooks take
    /// their place.
    pub fn has_policies(&self, mutating: bool) -> bool {
        let since = if mutating { MUTATING_SINCE } else { VALIDATING_SINCE };
        self.minor().is_some_and(|minor| minor >= since)
    }

    fn minor(&self) -> Option<u32> {
        self.kubernetes.strip_prefix("1.")?.parse().ok()
    }

    pub(super) fn check_policies(&self, found: &mut Vec<String>) {
        if self.minor().is_none() {
            found.push(format!(
                "the oldest supported version of Kubernetes {:?} must be a version such as 1.30",
                self.kubernetes
            ));
        }
        for (at, policy) in self.policies.iter().enumerate() {
            policy.check(found);
            if self.policies[..at].iter().any(|other| other.name == policy.name) {
                found.push(format!("two policies are named {:?}", policy.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> Option<LabelSelector> {
        Some(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_webhook_selects_what_the_policy_and_its_binding_select() {
        let one = selector(r#"{"matchLabels": {"a": "1"}}"#);
        let other = selector(
            r#"{"matchLabels": {"a": "2"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}"#,
        );
        let made = serde_json::to_value(both(one.clone(), other)).unwrap();
        let expected = json!({"matchExpressions": [
            {"key": "a", "operator": "In", "values": ["1"]},
            {"key": "a", "operator": "In", "values": ["2"]},
            {"key": "b", "operator": "Exists"},
        ]});
        assert_eq!(made, expected);
        assert_eq!(both(None, one.clone()), one);
    }

    #[test]
    fn deletions_are_validated_but_not_changed() {
        let mut policy = Policy::new("p");
        policy.rule("", "v1", "pods", &["CREATE", "DELETE"]);
        policy.rule("", "v1", "secrets", &["DELETE"]);
        let operations = |mutating: bool| policy.spec(mutating)["matchConstraints"].clone();
        assert_eq!(operations(false)["resourceRules"].as_array().unwrap().len(), 2);
        assert_eq!(operations(true)["resourceRules"].as_array().unwrap().len(), 1);
        assert_eq!(operations(true)["resourceRules"][0]["operations"], json!(["CREATE"]));
    }

    #[test]
    fn what_is_wrong_with_a_policy_is_said_in_one_sentence_each() {
        let mut model = Model::new("shop");
        model.kubernetes = "30".into();
        let mut policy = Policy::new("Bad_Name");
        policy.binding.validation_actions.push("Warn".into());
        policy.reinvocation_policy = "Sometimes".into();
        model.policies.push(policy);
        let found = model.check().unwrap_err();
        assert_eq!(found.len(), 6, "{found:#?}");
        assert!(found[0].contains("must be a version such as 1.30"), "{found:?}");
    }
}
