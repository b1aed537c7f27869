//! Admission policies and their bindings.

use k8s_openapi::api::admissionregistration::v1::NamedRuleWithOperations;
use serde_json::{Value, json};

use super::Objects;
use crate::model::{Model, Policy};

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

impl Model {
    /// Returns the policies that every supported cluster has, each followed by its binding.
    pub fn policy_objects(&self) -> Objects {
        let mut objects = Objects::new();
        for policy in &self.policies {
            for mutating in [true, false] {
                let declared = if mutating { policy.mutates() } else { policy.validates() };
                if declared && self.has_policies(mutating) {
                    objects.extend(self.policy(policy, mutating));
                }
            }
        }
        objects
    }

    /// Returns the name of a policy and of its binding in the cluster.
    pub fn policy_name(&self, policy: &Policy) -> String {
        format!("{}-{}", self.name, policy.name)
    }

    fn policy(&self, policy: &Policy, mutating: bool) -> [Value; 2] {
        let kind = if mutating { "MutatingAdmissionPolicy" } else { "ValidatingAdmissionPolicy" };
        let name = self.policy_name(policy);
        let metadata = json!({"name": name, "labels": self.labels()});
        let mut binding = policy.binding.clone();
        binding.policy_name.clone_from(&name);
        let mut binding = serde_json::to_value(binding).unwrap_or_default();
        if mutating && let Value::Object(fields) = &mut binding {
            fields.remove("validationActions");
        }
        let restricted = self.restricted(policy);
        [
            json!({
                "apiVersion": API_VERSION, "kind": kind, "metadata": metadata,
                "spec": restricted.spec(mutating),
            }),
            json!({
                "apiVersion": API_VERSION, "kind": format!("{kind}Binding"), "metadata": metadata,
                "spec": binding,
            }),
        ]
    }

    /// The policy without the namespaces in which a webhook would not be called either.
    fn restricted(&self, policy: &Policy) -> Policy {
        let mut policy = policy.clone();
        if !policy.everywhere {
            let constraints = policy.spec.match_constraints.get_or_insert_default();
            let is_cluster =
                |rule: &NamedRuleWithOperations| rule.scope.as_deref() == Some("Cluster");
            let cluster = constraints.resource_rules.iter().flatten().any(is_cluster);
            let conditions = &mut policy.spec.match_conditions;
            self.exclude_system(&mut constraints.namespace_selector, conditions, cluster);
        }
        policy
    }
}
