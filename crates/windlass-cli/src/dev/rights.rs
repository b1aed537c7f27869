//! Requests of the operator that its role does not allow, with the rule to add.

use std::collections::BTreeSet;

use serde_json::json;
use windlass::manifests::rbac::Rule;
use windlass_apiserver::fault::LogEntry;
use windlass_cluster::Right;

use crate::text::plain;

/// A right that is missing is shown once; more than this number are not.
const SHOWN_MAX: usize = 1_000;

/// What the operator may do, and what it lacked.
pub struct Rights {
    client: kube::Client,
    user: String,
    rules: Vec<Rule>,
    shown: BTreeSet<Right>,
}

// === impl Rights ===

impl Rights {
    /// Knows no operator yet.
    pub fn new(client: kube::Client) -> Self {
        Self { client, user: String::new(), rules: Vec::new(), shown: BTreeSet::new() }
    }

    /// Sets who the operator is, and what it may do. What was missing may be shown again.
    pub fn expect(&mut self, user: String, rules: Vec<Rule>) {
        (self.user, self.rules) = (user, rules);
        self.shown.clear();
    }

    /// Returns what a request lacked, as lines.
    pub async fn read(&mut self, entry: &LogEntry) -> Vec<String> {
        if entry.code != 403 || entry.user != self.user || !entry.request.is_resource {
            return Vec::new();
        }
        // One rule allows it for all objects, so it is shown for the first of them.
        let everywhere = (String::new(), String::new());
        let mut right = Right::of(entry);
        (right.namespace, right.name) = everywhere;
        // An apply that creates the object needs the right to create it.
        if right.verb == "patch" && self.allows(&right, &entry.request.name) {
            right.verb = "create".into();
        }
        if self.shown.len() >= SHOWN_MAX || !self.shown.insert(right.clone()) {
            return Vec::new();
        }
        let kind = self.kind(entry).await;
        let place = match entry.request.namespace.as_str() {
            "" => String::new(),
            namespace => format!(" in {namespace}"),
        };
        let rule = json!({
            "apiGroups": [&right.group], "resources": [&right.resource], "verbs": [&right.verb],
        });
        vec![
            plain(&format!("{} {}{place}", right.verb, right.target())),
            plain(&format!("  the role lacks the rule {rule}")),
            plain(&format!("  declare it with {}", declaration(&right, &kind))),
        ]
    }

    fn allows(&self, right: &Right, name: &str) -> bool {
        let allows = |rule: &Rule| rule.allows(&right.group, &right.resource, name, &right.verb);
        self.rules.iter().any(allows)
    }

    /// The kind of the resource of a request, or what stands for it.
    async fn kind(&self, entry: &LogEntry) -> String {
        let request = &entry.request;
        let served = match request.group.as_str() {
            "" => self.client.list_core_api_resources(&request.version).await,
            group => {
                let version = format!("{group}/{}", request.version);
                self.client.list_api_group_resources(&version).await
            }
        };
        let resources = served.map(|list| list.resources).unwrap_or_default();
        let found = resources.into_iter().find(|resource| resource.name == request.resource);
        found.map_or_else(|| "T".into(), |resource| resource.kind)
    }
}

/// The call that declares a right.
fn declaration(right: &Right, kind: &str) -> String {
    let Right { group, resource, verb, .. } = right;
    let allow = format!(".allow(Rule::new({group:?}, {resource:?}, [{verb:?}])) on the Operator");
    if resource.ends_with("/status") {
        return ".writes_status() on the controller".into();
    }
    match (verb.as_str(), resource.contains('/')) {
        ("list" | "watch", false) => format!(".reads::<{kind}>() on the controller"),
        ("create" | "patch", false) => {
            format!(".applies::<{kind}>() on the controller, or .owns::<{kind}>() to watch it, too")
        }
        ("delete", false) => format!(".deletes::<{kind}>() on the controller"),
        _ => allow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_right_has_a_declaration() {
        let call = |resource: &str, verb: &str| {
            let right = Right {
                group: "apps".into(),
                resource: resource.into(),
                verb: verb.into(),
                ..Right::default()
            };
            declaration(&right, "Deployment")
        };
        assert_eq!(call("deployments", "list"), ".reads::<Deployment>() on the controller");
        assert_eq!(call("deployments", "delete"), ".deletes::<Deployment>() on the controller");
        assert_eq!(call("deployments/status", "patch"), ".writes_status() on the controller");
        assert_eq!(
            call("deployments/scale", "get"),
            ".allow(Rule::new(\"apps\", \"deployments/scale\", [\"get\"])) on the Operator"
        );
    }
}
