//! The rights of the operator: its account, what gives it its rights, and which of them it has to use.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};
use windlass::Kind;
use windlass::manifests::Model;
use windlass::webhook::Webhooks;
use windlass_apiserver::User;

use crate::sim::Outcome;
use crate::trace::What;

const GROUP: &str = "rbac.authorization.k8s.io";

/// A verb on a resource, which may be a subresource such as `pods/status`.
pub(crate) type Right = (String, String);

/// The rights of the operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Role {
    /// The namespace and the name of its account.
    account: (String, String),
    /// The definitions of its kinds.
    pub definitions: Vec<Value>,
    /// What is installed before the operator starts: what gives it its rights, policies, and the
    /// configurations of webhooks.
    pub objects: Vec<Value>,
    /// The host of its webhooks, and their paths.
    pub host: String,
    pub webhooks: Vec<String>,
    /// The rights that an exploration should see used; those that are rarely used are left out.
    pub rights: BTreeSet<Right>,
}

// === impl Role ===

impl Role {
    /// A role with these rules in the whole cluster.
    pub(crate) fn of_rules(rules: &[PolicyRule]) -> Self {
        let account = ("default".to_owned(), "operator".to_owned());
        let subject = json!({"kind": "ServiceAccount", "namespace": account.0, "name": account.1});
        let reference = json!({"kind": "ClusterRole", "name": "operator", "apiGroup": GROUP});
        let version = format!("{GROUP}/v1");
        let objects = vec![
            json!({"apiVersion": version, "kind": "ClusterRole",
                "metadata": {"name": "operator"}, "rules": rules}),
            json!({"apiVersion": version, "kind": "ClusterRoleBinding",
                "metadata": {"name": "operator"}, "roleRef": reference, "subjects": [subject]}),
        ];
        let mut rights = BTreeSet::new();
        for rule in rules {
            let groups = rule.api_groups.as_deref().unwrap_or_default();
            let resources = rule.resources.as_deref().unwrap_or_default();
            add(&mut rights, groups, resources, &rule.verbs);
        }
        Self { account, objects, rights, ..Self::default() }
    }

    /// The role that `windlass manifests` generates for an operator, and its webhooks.
    pub(crate) fn of_model(model: &Model, webhooks: &Webhooks) -> Self {
        let account = (model.namespace.clone(), model.manager_name());
        let namespaces: BTreeSet<&String> =
            model.watched.iter().chain([&model.namespace]).collect();
        let namespaces = namespaces.into_iter().map(
            |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        let access = namespaces.chain(model.access_objects());
        let checks = model.policy_objects().into_iter().chain(model.webhook_configurations());
        let objects = access.chain(checks).collect();
        let host = format!("{}.{}.svc", model.webhook_service(), model.namespace);
        let webhooks = webhooks.paths().map(str::to_owned).collect();
        let mut rights = BTreeSet::new();
        for grant in model.grants.iter().filter(|grant| !grant.rare) {
            let rule = &grant.rule;
            add(&mut rights, &rule.api_groups, &rule.resources, &rule.verbs);
        }
        Self { account, definitions: model.definitions(), objects, host, webhooks, rights }
    }

    /// The resource of an object of one of the operator's kinds, as sites name it.
    pub(crate) fn resource_of(&self, object: &Value) -> String {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let defines = |definition: &&Value| {
            let spec = &definition["spec"];
            spec["group"] == group && spec["names"]["kind"] == object["kind"]
        };
        let definition = self.definitions.iter().find(defines).unwrap_or(&Value::Null);
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
        crate::site::resource(group, plural)
    }

    /// As whom the operator acts.
    pub(crate) fn user(&self) -> User {
        User::service_account(&self.account.0, &self.account.1)
    }

    /// The kind of an object that gives rights.
    pub(crate) fn kind(object: &Value) -> Option<Kind> {
        let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let plural = match kind.strip_suffix('y') {
            Some(stem) => format!("{}ies", stem.to_lowercase()),
            None => format!("{}s", kind.to_lowercase()),
        };
        let whole = matches!(kind, "Namespace" | "ClusterRole" | "ClusterRoleBinding")
            || group == "admissionregistration.k8s.io";
        let found = Kind::new(group, version, kind, &plural);
        Some(if whole { found.cluster_scoped() } else { found })
    }
}

fn add<'a>(
    rights: &mut BTreeSet<Right>,
    groups: impl IntoIterator<Item = &'a String> + Clone,
    resources: impl IntoIterator<Item = &'a String> + Clone,
    verbs: impl IntoIterator<Item = &'a String> + Clone,
) {
    for group in groups {
        for resource in resources.clone() {
            for verb in verbs.clone() {
                if ![group, resource, verb].into_iter().any(|part| part.contains('*')) {
                    rights.insert((verb.clone(), name(group, resource)));
                }
            }
        }
    }
}

/// The resource as sites name it, with its subresource.
fn name(group: &str, resource: &str) -> String {
    match resource.split_once('/') {
        Some((plural, subresource)) => {
            format!("{}/{subresource}", crate::site::resource(group, plural))
        }
        None => crate::site::resource(group, resource),
    }
}

/// The rights that the operator used in a run.
pub(crate) fn used(run: &Outcome) -> BTreeSet<Right> {
    let mut used = BTreeSet::new();
    for record in run.trace.iter().filter(|record| record.life > 0) {
        let What::Request { site, answer, .. } = &record.what else { continue };
        let resource = match site.subresource.as_str() {
            "" => site.resource.clone(),
            subresource => format!("{}/{subresource}", site.resource),
        };
        // An apply that creates the object needs the right to create it.
        if site.verb == "patch" && answer.as_ref().is_some_and(|answer| answer.status == 201) {
            used.insert(("create".to_owned(), resource.clone()));
        }
        used.insert((site.verb.clone(), resource));
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_named_as_sites_are() {
        let rule = PolicyRule {
            api_groups: Some(vec!["apps".into()]),
            resources: Some(vec!["deployments".into(), "deployments/status".into()]),
            verbs: vec!["get".into(), "*".into()],
            ..PolicyRule::default()
        };
        let role = Role::of_rules(&[rule]);
        let rights: Vec<String> = role.rights.iter().map(|(v, r)| format!("{v} {r}")).collect();
        assert_eq!(rights, ["get deployments.apps", "get deployments.apps/status"]);
        let kinds = role.objects.iter().filter_map(Role::kind).map(|kind| kind.plural().to_owned());
        assert_eq!(kinds.collect::<Vec<_>>(), ["clusterroles", "clusterrolebindings"]);
    }
}
