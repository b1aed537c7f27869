//! The service account of an operator, its roles, and the roles for the users of its kinds.

use serde_json::{Value, json};

use super::Objects;
use crate::model::{Api, Model};
use crate::rbac::{Grant, Reach, Role, Rule, roles};

/// What may be done with the kinds of an operator, and the role of Kubernetes that includes it.
const USERS: [(&str, &str, &[&str]); 3] = [
    (
        "admin",
        "admin",
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    ),
    ("editor", "edit", &["create", "delete", "get", "list", "patch", "update", "watch"]),
    ("viewer", "view", &["get", "list", "watch"]),
];

impl Model {
    /// Returns the roles of the operator itself: of the manager, for leader election, and for the
    /// review of who reads its metrics.
    pub fn roles(&self) -> Vec<Role> {
        let mut all = self.manager_roles();
        all.extend(self.lease_role());
        all.push(self.metrics_auth_role());
        all
    }

    /// Returns every object about access, by file name.
    pub(super) fn access(&self) -> Vec<(String, Objects)> {
        let (labels, name) = (self.labels(), self.manager_name());
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": self.metadata(&name),
        });
        let file = |name: &str, objects: Objects| (format!("{name}.yaml"), objects);
        let values = |roles: &[Role]| roles.iter().map(|role| role.to_value(&labels)).collect();
        let bindings = |roles: &[Role], suffix: &str| -> Objects {
            let bind = |role: &Role| {
                let binding = format!("{}{suffix}", role.name);
                role.binding(&binding, (&self.namespace, &name), &labels)
            };
            roles.iter().map(bind).collect()
        };
        let mut files = vec![file("service_account", vec![account])];
        let manager = self.manager_roles();
        if !manager.is_empty() {
            files.push(file("role", values(&manager)));
            files.push(file("role_binding", bindings(&manager, "binding")));
        }
        let lease: Vec<Role> = self.lease_role().into_iter().collect();
        if !lease.is_empty() {
            files.push(file("leader_election_role", values(&lease)));
            files.push(file("leader_election_role_binding", bindings(&lease, "binding")));
        }
        let auth = [self.metrics_auth_role()];
        files.push(file("metrics_auth_role", values(&auth)));
        files.push(file("metrics_auth_role_binding", bindings(&auth, "binding")));
        files.push(file("metrics_reader_role", values(&[self.metrics_reader_role()])));
        for api in &self.apis {
            for (user, aggregated, verbs) in USERS {
                let role = self.user_role(api, user, verbs);
                let value = role.to_value(&self.user_labels(api, aggregated));
                files.push(file(&format!("{}_{user}_role", api.singular()), vec![value]));
            }
        }
        files
    }

    fn manager_roles(&self) -> Vec<Role> {
        let name = format!("{}-manager-role", self.name);
        let prefixed = |grant: &Grant| Grant {
            role: grant.role.as_ref().map(|role| format!("{}-{role}", self.name)),
            ..grant.clone()
        };
        let own = self.grants.iter().map(prefixed);
        let grants: Vec<Grant> = own.chain(self.webhook_grants()).collect();
        roles(&name, &self.namespace, &self.watched, &grants)
    }

    /// The role for leader election: one lease, by its name, and Events about it. A name cannot restrict
    /// `create`.
    fn lease_role(&self) -> Option<Role> {
        let lease = self.lease.as_deref()?;
        let leases = |verbs: &[&'static str]| {
            Rule::new("coordination.k8s.io", "leases", verbs.iter().copied())
        };
        Some(Role {
            name: format!("{}-leader-election-role", self.name),
            namespace: Some(self.namespace.clone()),
            rules: Rule::normalize([
                leases(&["create"]),
                leases(&["get", "update"]).name(lease),
                Rule::new("events.k8s.io", "events", ["create", "patch"]),
            ]),
        })
    }

    fn metrics_auth_role(&self) -> Role {
        let create = |group: &str, resource: &str| Rule::new(group, resource, ["create"]);
        Role {
            name: format!("{}-metrics-auth-role", self.name),
            namespace: None,
            rules: Rule::normalize([
                create("authentication.k8s.io", "tokenreviews"),
                create("authorization.k8s.io", "subjectaccessreviews"),
            ]),
        }
    }

    fn metrics_reader_role(&self) -> Role {
        let grants = [Grant::new(Rule::url("/metrics", ["get"]), Reach::Cluster)];
        roles(&format!("{}-metrics-reader", self.name), &self.namespace, &[], &grants).remove(0)
    }

    fn user_role(&self, api: &Api, user: &str, verbs: &[&'static str]) -> Role {
        let rule = |resource: &str, verbs: &[&'static str]| {
            Rule::new(api.group(), resource, verbs.iter().copied())
        };
        let mut rules = vec![rule(api.plural(), verbs)];
        if api.has_status() {
            rules.push(rule(&format!("{}/status", api.plural()), &["get"]));
        }
        Role {
            name: format!("{}-{}-{user}-role", self.name, api.singular()),
            namespace: None,
            rules: Rule::normalize(rules),
        }
    }

    /// Objects without a namespace are nothing for the roles of namespaces.
    fn user_labels(&self, api: &Api, aggregated: &str) -> Value {
        let mut labels = self.labels();
        if api.namespaced() {
            let label = format!("rbac.authorization.k8s.io/aggregate-to-{aggregated}");
            labels[label] = "true".into();
        }
        labels
    }
}
