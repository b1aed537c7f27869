//! What webhooks need: their configurations, a service, and the right to publish a certificate.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, RuleWithOperations,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::{Value, json};

use super::Objects;
use crate::model::{Model, Webhook};
use crate::rbac::{Grant, Reach, Rule};

const GROUP: &str = "admissionregistration.k8s.io";
/// The namespaces without which a cluster does not run.
const SYSTEM: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// Every namespace has this label, with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

impl Model {
    /// Returns the webhook configurations, at most one for mutating and one for validating webhooks.
    ///
    /// They carry no `caBundle`: who applies them again must not take it away.
    pub fn webhook_configurations(&self) -> Objects {
        [true, false].into_iter().filter_map(|mutating| self.configuration(mutating)).collect()
    }

    /// The service in front of the pods.
    pub(super) fn webhook_service_object(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(&self.webhook_service()),
            "spec": {
                "ports": [{
                    "name": "https", "port": 443, "protocol": "TCP", "targetPort": "webhooks",
                }],
                "selector": self.pod_labels(),
            },
        })
    }

    /// The API server is not a pod, so nothing restricts where its requests come from.
    pub(super) fn webhook_network_policy(&self) -> Value {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.metadata(&format!("{}-allow-webhook-traffic", self.name)),
            "spec": {
                "podSelector": {"matchLabels": self.pod_labels()},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": self.run.webhook_port, "protocol": "TCP"}]}],
            },
        })
    }

    /// What the operator may do to manage the certificate of its webhooks: keep it in one Secret,
    /// publish its CA in the objects that name the webhooks, and watch each of them by its name. A
    /// name cannot restrict `create`.
    pub(super) fn webhook_grants(&self) -> Vec<Grant> {
        if !self.serves_webhooks() {
            return Vec::new();
        }
        let secret = self.webhook_secret();
        let mut grants = vec![
            Grant::new(Rule::new("", "secrets", ["create"]), Reach::Home),
            Grant::new(Rule::new("", "secrets", ["get", "update"]).name(&secret), Reach::Home),
        ];
        let patch = |group: &str, resource: &str, name: &str| {
            let verbs = ["get", "list", "patch", "watch"];
            Grant::new(Rule::new(group, resource, verbs).name(name), Reach::Cluster)
        };
        for configuration in self.webhook_configurations() {
            let resource = match configuration["kind"].as_str() {
                Some("MutatingWebhookConfiguration") => "mutatingwebhookconfigurations",
                _ => "validatingwebhookconfigurations",
            };
            let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
            grants.push(patch(GROUP, resource, name));
        }
        for api in self.apis.iter().filter(|api| api.converts_by_webhook()) {
            let name = format!("{}.{}", api.plural(), api.group());
            grants.push(patch("apiextensions.k8s.io", "customresourcedefinitions", &name));
        }
        grants
    }

    fn configuration(&self, mutating: bool) -> Option<Value> {
        let ours = self.webhooks.iter().filter(|webhook| webhook.mutating == mutating);
        let entries: Vec<Value> = ours.map(|webhook| self.entry(webhook)).collect();
        let (kind, prefix) = match mutating {
            true => ("MutatingWebhookConfiguration", "mutating"),
            false => ("ValidatingWebhookConfiguration", "validating"),
        };
        (!entries.is_empty()).then(|| {
            json!({
                "apiVersion": format!("{GROUP}/v1"),
                "kind": kind,
                "metadata": {
                    "name": format!("{}-{prefix}-webhook-configuration", self.name),
                    "labels": self.labels(),
                },
                "webhooks": entries,
            })
        })
    }

    fn entry(&self, webhook: &Webhook) -> Value {
        let mut entry = webhook.entry.clone();
        if !webhook.mutating {
            entry.reinvocation_policy = None;
        }
        if !webhook.everywhere {
            let is_cluster = |rule: &RuleWithOperations| rule.scope.as_deref() == Some("Cluster");
            let cluster = entry.rules.iter().flatten().any(is_cluster);
            let MutatingWebhook { namespace_selector, match_conditions, .. } = &mut entry;
            self.exclude_system(namespace_selector, match_conditions, cluster);
        }
        let is_elsewhere =
            entry.client_config.url.is_some() || entry.client_config.service.is_some();
        let mut value = serde_json::to_value(&entry).unwrap_or_default();
        if !is_elsewhere {
            value["clientConfig"] = json!({"service": {
                "name": self.webhook_service(),
                "namespace": self.namespace,
                "path": webhook.path,
            }});
        }
        value
    }

    /// Leaves out the namespaces without which a webhook that is down could not be repaired. For
    /// kinds without a namespace, requests of the operator itself and of nodes are left out.
    pub(super) fn exclude_system(
        &self,
        selector: &mut Option<LabelSelector>,
        conditions: &mut Option<Vec<MatchCondition>>,
        cluster: bool,
    ) {
        let names = SYSTEM.iter().copied().chain([self.namespace.as_str()]);
        let expressions = &mut selector.get_or_insert_default().match_expressions;
        expressions.get_or_insert_default().push(LabelSelectorRequirement {
            key: NAMESPACE_NAME.into(),
            operator: "NotIn".into(),
            values: Some(names.map(str::to_owned).collect()),
        });
        if cluster {
            let account =
                format!("system:serviceaccount:{}:{}", self.namespace, self.manager_name());
            conditions.get_or_insert_default().push(MatchCondition {
                name: "not-by-the-operator-or-a-node".into(),
                expression: format!(
                    "request.userInfo.username != \"{account}\" && \
                     !(\"system:nodes\" in request.userInfo.groups)"
                ),
            });
        }
    }
}
