//! The admission webhooks of an operator.

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, RuleWithOperations};
use serde::{Deserialize, Serialize};
use windlass_text::name;

use super::Model;

/// An admission webhook that an operator serves.
///
/// ```
/// use windlass_manifests::Model;
/// use windlass_manifests::model::Webhook;
///
/// let mut webhook = Webhook::new(false, "validate.pod.core", "/validate--v1-pod");
/// webhook.rule("", "v1", "pods", &["CREATE"]);
/// webhook.entry.timeout_seconds = Some(5);
/// let mut model = Model::new("shop-operator");
/// model.webhooks.push(webhook);
/// assert!(model.check().is_ok());
/// assert!(model.install().contains("kind: ValidatingWebhookConfiguration\n"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Whether it may change objects; otherwise it only accepts or denies requests.
    pub mutating: bool,
    /// The path under which it is served.
    pub path: String,
    /// The entry in the webhook configuration. Unless its client configuration names a URL or a
    /// service, it is rendered from the path and from the service of the operator;
    /// `reinvocationPolicy` concerns mutating webhooks only.
    pub entry: MutatingWebhook,
    /// Whether it is called in the namespaces of the system and of the operator too. A webhook that
    /// is down must not keep its own pods from starting, so this is right for kinds that neither the
    /// cluster nor the operator needs to run.
    pub everywhere: bool,
}

// === impl Webhook ===

impl Webhook {
    /// A webhook without rules, which fails closed, has no side effects and is left out in the
    /// namespaces of the system.
    pub fn new(mutating: bool, name: &str, path: &str) -> Self {
        let entry = MutatingWebhook {
            name: name.to_owned(),
            admission_review_versions: vec!["v1".into()],
            failure_policy: Some("Fail".into()),
            match_policy: Some("Equivalent".into()),
            side_effects: "None".into(),
            timeout_seconds: Some(10),
            ..MutatingWebhook::default()
        };
        Self { mutating, path: path.to_owned(), entry, everywhere: false }
    }

    /// Adds a rule for operations on a resource, such as `pods` or `pods/eviction`.
    pub fn rule(&mut self, group: &str, version: &str, resource: &str, operations: &[&str]) {
        let one = |text: &str| Some(vec![text.to_owned()]);
        let rule = RuleWithOperations {
            api_groups: one(group),
            api_versions: one(version),
            resources: one(resource),
            operations: Some(operations.iter().map(|text| (*text).to_owned()).collect()),
            scope: None,
        };
        self.entry.rules.get_or_insert_default().push(rule);
    }

    /// The kind of configuration that lists it.
    pub fn configuration_kind(&self) -> &'static str {
        match self.mutating {
            true => "MutatingWebhookConfiguration",
            false => "ValidatingWebhookConfiguration",
        }
    }

    /// Returns `true` if a failure of the webhook fails the request.
    fn fails_closed(&self) -> bool {
        self.entry.failure_policy.as_deref() != Some("Ignore")
    }

    fn check(&self, found: &mut Vec<String>) {
        let entry = &self.entry;
        let mut wrong = |what: String| found.push(format!("webhook {:?} {what}", entry.name));
        if !name::dns1123_subdomain(&entry.name) || entry.name.split('.').count() < 3 {
            wrong("needs a name of three parts, such as validate.memcached.example.com".into());
        }
        let segments = self.path.strip_prefix('/').unwrap_or_default().split('/');
        if !segments.into_iter().all(name::dns1123_subdomain) {
            wrong(format!("has the path {:?}, which needs segments like a DNS name", self.path));
        }
        if !(1..=30).contains(&entry.timeout_seconds.unwrap_or(10)) {
            wrong("needs a timeout of 1 to 30 seconds".into());
        }
        if !["None", "NoneOnDryRun"].contains(&entry.side_effects.as_str()) {
            wrong("must have the side effects None or NoneOnDryRun".into());
        }
        let rules = entry.rules.as_deref().unwrap_or_default();
        if rules.is_empty() {
            wrong("matches nothing: it has no rules".into());
        }
        for rule in rules.iter().filter(|_| self.fails_closed()) {
            for resource in rule.resources.iter().flatten() {
                if let Some(why) = locks_out(rule, resource, self.everywhere) {
                    wrong(format!(
                        "may not match {resource} with failurePolicy Fail: {why}; name the \
                         resources it needs, or use failurePolicy Ignore"
                    ));
                }
            }
        }
    }
}

/// Returns why a webhook that is down and fails closed would stop the cluster, or its own recovery.
fn locks_out(rule: &RuleWithOperations, resource: &str, everywhere: bool) -> Option<&'static str> {
    let groups = rule.api_groups.as_deref().unwrap_or_default();
    let concerns = |group: &str| groups.iter().any(|one| one == "*" || one == group);
    // `leases/*` matches leases too.
    match resource.strip_suffix("/*").unwrap_or(resource) {
        "*" | "*/status" if concerns("coordination.k8s.io") || concerns("") => {
            Some("while it is down, nothing of the cluster could be written")
        }
        "leases" if concerns("coordination.k8s.io") => {
            Some("while it is down, no component of the cluster could hold its lease")
        }
        "nodes/status" | "nodes" if concerns("") && resource != "nodes" => {
            Some("while it is down, all nodes would become unreachable")
        }
        "events" if concerns("") || concerns("events.k8s.io") => {
            Some("while it is down, nobody could see what is wrong")
        }
        "pods" if everywhere && concerns("") => {
            Some("while it is down, its own pods could not start")
        }
        "deployments" | "replicasets" if everywhere && concerns("apps") => {
            Some("while it is down, its own deployment could not be rolled out")
        }
        "secrets" if everywhere && concerns("") => {
            Some("before it is up, its own certificate could not be stored")
        }
        _ => None,
    }
}

// === impl Model ===

impl Model {
    /// The name of the service in front of the webhooks.
    pub fn webhook_service(&self) -> String {
        format!("{}-webhook-service", self.name)
    }

    /// The name of the Secret with the certificate of the webhook server.
    pub fn webhook_secret(&self) -> String {
        format!("{}-webhook-server-cert", self.name)
    }

    /// Returns `true` if the operator has a webhook server: for admission or for conversion.
    pub fn serves_webhooks(&self) -> bool {
        !self.webhooks.is_empty() || self.apis.iter().any(|api| api.converts_by_webhook())
    }

    pub(super) fn check_webhooks(&self, found: &mut Vec<String>) {
        for (at, webhook) in self.webhooks.iter().enumerate() {
            webhook.check(found);
            for other in &self.webhooks[..at] {
                if other.mutating == webhook.mutating && other.entry.name == webhook.entry.name {
                    found.push(format!("two webhooks are named {:?}", webhook.entry.name));
                }
                if other.path == webhook.path {
                    found.push(format!("two webhooks have the path {:?}", webhook.path));
                }
            }
        }
        let run = &self.run;
        if self.serves_webhooks() && [run.probe_port, run.metrics_port].contains(&run.webhook_port)
        {
            found.push(format!("webhooks need a port of their own, not {}", run.webhook_port));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_that_fails_closed_may_not_lock_itself_out() {
        let found = |group: &str, resource: &str, everywhere: bool, policy: &str| {
            let mut webhook = Webhook::new(false, "a.b.example.com", "/validate");
            webhook.rule(group, "v1", resource, &["CREATE", "UPDATE"]);
            webhook.everywhere = everywhere;
            webhook.entry.failure_policy = Some(policy.into());
            let mut found = Vec::new();
            webhook.check(&mut found);
            found
        };
        for (group, resource, only_everywhere) in [
            ("*", "*/*", false),
            ("", "*", false),
            ("*", "*/status", false),
            ("coordination.k8s.io", "leases", false),
            ("*", "leases/*", false),
            ("", "nodes/status", false),
            ("", "nodes/*", false),
            ("events.k8s.io", "events", false),
            ("", "events", false),
            ("", "pods", true),
            ("", "secrets", true),
            ("apps", "replicasets", true),
        ] {
            let wrong = found(group, resource, true, "Fail");
            assert_eq!(wrong.len(), 1, "{group} {resource}: {wrong:?}");
            assert!(wrong[0].contains("before it is up") || wrong[0].contains("while it is down"));
            let selected = found(group, resource, false, "Fail");
            assert_eq!(selected.is_empty(), only_everywhere, "{group} {resource}");
            assert_eq!(found(group, resource, true, "Ignore"), [] as [&str; 0]);
        }
        for (group, resource) in [("", "nodes"), ("", "configmaps"), ("example.com", "*")] {
            assert_eq!(found(group, resource, true, "Fail"), [] as [&str; 0], "{group} {resource}");
        }
    }
}
