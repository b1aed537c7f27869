//! The webhooks and policies of an operator that runs on this machine.
//!
//! The operator installs them itself, with its own URL and certificate, and removes them when it
//! ends. In a cluster it does not do that, so its role does not allow it: the session adds the rights.

use serde_json::{Value, json};

use super::operator::Account;
use crate::failure::Failure;
use crate::objects::Objects;

/// The end of the names of what an operator installs for its own process.
const LOCAL: &str = "-local";
const GROUP: &str = "admissionregistration.k8s.io";

/// What an operator installs for its webhooks and policies.
#[derive(Debug, Default)]
pub struct Webhooks {
    /// Webhook configurations, policies and their bindings: kind and name.
    configurations: Vec<(String, String)>,
    /// The definitions with conversion, and the URLs that they had before the operator started.
    definitions: Vec<(Value, Option<String>)>,
}

// === impl Webhooks ===

impl Webhooks {
    /// Finds them in everything that is installed with an operator, and in its definitions.
    pub fn of(installation: &[Value], definitions: &[Value]) -> Self {
        let version = format!("{GROUP}/v1");
        let found = installation.iter().filter(|object| object["apiVersion"] == version.as_str());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let configurations = found.map(|object| {
            (text(&object["kind"]), format!("{}{LOCAL}", text(&object["metadata"]["name"])))
        });
        let converted = definitions.iter().filter(|one| converts(one));
        Self {
            configurations: configurations.collect(),
            definitions: converted.map(|one| (one.clone(), None)).collect(),
        }
    }

    /// The role and the binding that let an account install and remove the configurations.
    pub fn access(&self, account: &Account) -> Vec<Value> {
        if self.configurations.is_empty() {
            return Vec::new();
        }
        let rules = self.configurations.iter().flat_map(|(kind, name)| {
            let resource = resource(kind);
            let rule = |verb: &str| json!({"apiGroups": [GROUP], "resources": [resource], "verbs": [verb]});
            let mut delete = rule("delete");
            delete["resourceNames"] = json!([name]);
            [rule("create"), delete]
        });
        let name = format!("{}-local-webhooks", account.name);
        let version = "rbac.authorization.k8s.io/v1";
        let role = json!({
            "apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name},
            "rules": rules.collect::<Vec<_>>(),
        });
        let subject =
            json!({"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace});
        let role_ref =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let binding = json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": role_ref, "subjects": [subject],
        });
        vec![role, binding]
    }

    /// Prepares for the start of an operator while none runs: what one that was killed has left
    /// calls nobody.
    pub async fn prepare(&mut self, objects: &mut Objects) -> Result<(), Failure> {
        for configuration in self.objects() {
            objects.delete(&configuration).await?;
        }
        for (definition, before) in &mut self.definitions {
            *before = objects.get(definition).await?.and_then(|found| url(&found));
        }
        Ok(())
    }

    /// Returns `true` once the operator has installed everything.
    pub async fn installed(&self, objects: &mut Objects) -> Result<bool, Failure> {
        for configuration in self.objects() {
            if objects.get(&configuration).await?.is_none() {
                return Ok(false);
            }
        }
        for (definition, before) in &self.definitions {
            let now = objects.get(definition).await?.and_then(|found| url(&found));
            if now.is_none() || now == *before {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn objects(&self) -> Vec<Value> {
        let objects = self.configurations.iter().map(|(kind, name)| {
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name}})
        });
        objects.collect()
    }
}

/// The resource of a kind.
fn resource(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{lower}s"),
    }
}

fn converts(definition: &Value) -> bool {
    definition["spec"]["conversion"]["strategy"] == "Webhook"
}

/// The URL of the conversion webhook of a definition.
fn url(definition: &Value) -> Option<String> {
    let config = &definition["spec"]["conversion"]["webhook"]["clientConfig"];
    config["url"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(config: Value) -> Value {
        let webhook = json!({"clientConfig": config, "conversionReviewVersions": ["v1"]});
        json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
    }

    #[test]
    fn only_an_operator_with_webhooks_or_policies_gets_more_rights() {
        let account = Account { namespace: "shop-system".into(), name: "shop".into() };
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"}});
        let none = Webhooks::of(std::slice::from_ref(&service), &[definition(json!({}))]);
        assert_eq!((none.access(&account), none.definitions.len()), (Vec::new(), 1));
        let object = |kind: &str, name: &str| json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name}});
        let installation = [
            service,
            object("MutatingWebhookConfiguration", "shop-hooks"),
            object("ValidatingAdmissionPolicy", "shop-size"),
        ];
        let access = Webhooks::of(&installation, &[]).access(&account);
        let expected = json!([
            {"apiGroups": [GROUP], "resources": ["mutatingwebhookconfigurations"], "verbs": ["create"]},
            {"apiGroups": [GROUP], "resources": ["mutatingwebhookconfigurations"],
             "resourceNames": ["shop-hooks-local"], "verbs": ["delete"]},
            {"apiGroups": [GROUP], "resources": ["validatingadmissionpolicies"], "verbs": ["create"]},
            {"apiGroups": [GROUP], "resources": ["validatingadmissionpolicies"],
             "resourceNames": ["shop-size-local"], "verbs": ["delete"]},
        ]);
        assert_eq!(access[0]["rules"], expected);
        assert_eq!(access[1]["subjects"][0]["name"], "shop");
    }
}
