//! Nobody grants what they do not have: the check on writes of roles and bindings.

use serde_json::Value;

use super::rule::{self, quoted};
use super::{Attributes, Authorizer, RBAC_GROUP, Rule, User, text};
use crate::lookup::Lookup;
use crate::status::{GroupResource, Status, quote};

/// A write of a role or binding.
pub struct Write<'a> {
    /// Who writes.
    pub user: &'a User,
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'a str,
    /// The namespace of the request; empty at the cluster scope.
    pub namespace: &'a str,
    /// The name in the request's path; empty for a POST.
    pub name: &'a str,
    /// The object as it would be stored.
    pub new: &'a Value,
    /// The object as it is stored; `None` for a create.
    pub old: Option<&'a Value>,
}

/// Gives the error of a write that would grant more than the writer has.
pub fn check(
    authorizer: &Authorizer,
    lookup: &dyn Lookup,
    write: &Write<'_>,
) -> Result<(), Status> {
    if write.user.is_master() || write.old.is_some_and(|old| same_but_for_deletion(write.new, old))
    {
        return Ok(());
    }
    match write.resource {
        "roles" | "clusterroles" => check_role(authorizer, lookup, write),
        "rolebindings" | "clusterrolebindings" => check_binding(authorizer, lookup, write),
        _ => Ok(()),
    }
}

fn check_role(
    authorizer: &Authorizer,
    lookup: &dyn Lookup,
    write: &Write<'_>,
) -> Result<(), Status> {
    let escalate = Attributes {
        version: "*",
        namespace: write.namespace,
        name: write.name,
        ..Attributes::resource(write.user, "escalate", RBAC_GROUP, write.resource)
    };
    if authorizer.authorize(lookup, &escalate).allowed {
        return Ok(());
    }
    confirm(authorizer, lookup, write, &Rule::parse_all(write.new))?;
    let aggregated = |role: &Value| !role["aggregationRule"].is_null();
    if write.resource == "clusterroles"
        && (aggregated(write.new) || write.old.is_some_and(aggregated))
    {
        confirm(authorizer, lookup, write, &Rule::everything()).map_err(|_| {
            write.forbidden("must have cluster-admin privileges to use an aggregationRule")
        })?;
    }
    Ok(())
}

fn check_binding(
    authorizer: &Authorizer,
    lookup: &dyn Lookup,
    write: &Write<'_>,
) -> Result<(), Status> {
    let reference = &write.new["roleRef"];
    let (kind, name) = (text(reference, &["kind"]), text(reference, &["name"]));
    let resource = match kind {
        "Role" => "roles",
        "ClusterRole" => "clusterroles",
        _ => "",
    };
    let bind = Attributes {
        version: "*",
        namespace: write.namespace,
        name,
        ..Attributes::resource(write.user, "bind", text(reference, &["apiGroup"]), resource)
    };
    if !resource.is_empty() && authorizer.authorize(lookup, &bind).allowed {
        return Ok(());
    }
    // The role is looked up within the request, so its absence is reported for the binding's
    // resource.
    let rules =
        authorizer.role_rules(lookup, kind, name, write.namespace).ok_or_else(
            || match resource {
                "" => Status::untyped(format!("unsupported role reference kind: {}", quote(kind))),
                _ => Status::not_found(&write.gr(), name),
            },
        )?;
    confirm(authorizer, lookup, write, &rules)
}

fn confirm(
    authorizer: &Authorizer,
    lookup: &dyn Lookup,
    write: &Write<'_>,
    wanted: &[Rule],
) -> Result<(), Status> {
    let (owned, error) = authorizer.rules_for(lookup, write.user, write.namespace);
    let missing = rule::missing(&owned, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let mut why = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&write.user.name),
        quoted(&write.user.groups),
        rule::compact_texts(&missing).join("\n"),
    );
    if !error.is_empty() {
        why.push_str(&format!("; resolution errors: [{error}]"));
    }
    Err(write.forbidden(&why))
}

impl Write<'_> {
    fn gr(&self) -> GroupResource<'_> {
        GroupResource { group: RBAC_GROUP, resource: self.resource }
    }

    fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(&self.gr(), text(self.new, &["metadata", "name"]), why)
    }
}

/// Returns `true` if two states differ at most in what the garbage collector writes.
fn same_but_for_deletion(new: &Value, old: &Value) -> bool {
    let strip = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for key in ["ownerReferences", "finalizers", "managedFields"] {
                metadata.remove(key);
            }
        }
        object
    };
    strip(new) == strip(old)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::fake::Fake;

    fn store() -> Fake {
        let fake = Fake::bootstrapped();
        fake.role(
            "ns",
            "maker",
            json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]),
        );
        fake.bind("ns", "maker", "Role/maker", "User/alice");
        fake
    }

    fn attempt(fake: &Fake, resource: &str, new: &Value) -> Result<(), Status> {
        let user = User::new("alice", &["system:authenticated"]);
        let write = Write { user: &user, resource, namespace: "ns", name: "", new, old: None };
        check(&Authorizer::new(), fake, &write)
    }

    #[test]
    fn a_role_may_hold_only_what_its_writer_has() {
        let fake = store();
        let role = |rules: Value| json!({"metadata": {"name": "more"}, "rules": rules});
        let ok = role(json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
        attempt(&fake, "roles", &ok).unwrap();
        let more = role(json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        ]));
        let error = attempt(&fake, "roles", &more).unwrap_err();
        assert_eq!(
            error.message,
            "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"alice\" \
             (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not \
             currently held:\n{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"*\"]}\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"
        );
    }

    #[test]
    fn the_escalate_and_bind_verbs_lift_the_check() {
        let fake = store();
        fake.role(
            "ns",
            "lift",
            json!([{"apiGroups": [RBAC_GROUP], "resources": ["roles", "clusterroles"],
                    "verbs": ["escalate", "bind"]}]),
        );
        fake.bind("ns", "lift", "Role/lift", "User/alice");
        let role = json!({"metadata": {"name": "r"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
        attempt(&fake, "roles", &role).unwrap();
        let binding = json!({"metadata": {"name": "b"}, "roleRef":
            {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "cluster-admin"}});
        attempt(&fake, "rolebindings", &binding).unwrap();
    }

    #[test]
    fn a_binding_to_a_stronger_or_missing_role_is_refused() {
        let fake = store();
        let binding = |kind: &str, name: &str| {
            json!({"metadata": {"name": "b"},
                "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}})
        };
        let error =
            attempt(&fake, "rolebindings", &binding("ClusterRole", "cluster-admin")).unwrap_err();
        assert!(error.message.ends_with(
            ":\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n\
             {NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"
        ));
        let error = attempt(&fake, "rolebindings", &binding("Role", "missing")).unwrap_err();
        assert_eq!(error.message, "rolebindings.rbac.authorization.k8s.io \"missing\" not found");
        attempt(&fake, "rolebindings", &binding("Role", "maker")).unwrap();
    }
}
