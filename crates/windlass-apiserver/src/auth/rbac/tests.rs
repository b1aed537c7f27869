use serde_json::json;

use super::*;
use crate::auth::fake::Fake;

fn alice() -> User {
    User::new("alice", &["team", "system:authenticated"])
}

#[test]
fn a_binding_counts_in_its_namespace_only() {
    let fake = Fake::bootstrapped();
    fake.role("ns", "r", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]));
    fake.bind("ns", "r", "Role/r", "User/alice");
    let (rbac, user) = (Authorizer::new(), alice());
    let at = Attributes { namespace: "ns", ..Attributes::resource(&user, "list", "", "pods") };
    let decision = rbac.authorize(&fake, &at);
    assert_eq!(
        decision.reason,
        "RBAC: allowed by RoleBinding \"r/ns\" of Role \"r\" to User \"alice\""
    );
    assert!(!rbac.authorize(&fake, &Attributes { namespace: "", ..at.clone() }).allowed);
    assert!(!rbac.authorize(&fake, &Attributes { namespace: "other", ..at }).allowed);
}

#[test]
fn a_change_counts_at_once() {
    let fake = Fake::bootstrapped();
    let (rbac, user) = (Authorizer::new(), alice());
    let at = Attributes { namespace: "ns", ..Attributes::resource(&user, "list", "", "pods") };
    assert!(!rbac.authorize(&fake, &at).allowed);
    fake.bind("ns", "b", "ClusterRole/view", "Group/team");
    assert!(rbac.authorize(&fake, &at).allowed);
    fake.remove(RBAC_GROUP, "rolebindings", "ns", "b");
    assert!(!rbac.authorize(&fake, &at).allowed);
}

#[test]
fn refusals_read_as_the_real_ones() {
    let (fake, rbac) = (Fake::bootstrapped(), Authorizer::new());
    let user = User::anonymous();
    let message = |at: Attributes<'_>| rbac.check(&fake, &at).unwrap_err().message;
    assert_eq!(
        message(Attributes {
            namespace: "ns",
            name: "d",
            subresource: "scale",
            ..Attributes::resource(&user, "get", "apps", "deployments")
        }),
        "deployments.apps \"d\" is forbidden: User \"system:anonymous\" cannot get resource \
         \"deployments/scale\" in API group \"apps\" in the namespace \"ns\""
    );
    assert_eq!(
        message(Attributes::resource(&user, "list", "", "namespaces")),
        "namespaces is forbidden: User \"system:anonymous\" cannot list resource \"namespaces\" \
         in API group \"\" at the cluster scope"
    );
    let error = rbac.check(&fake, &Attributes::path(&user, "get", "/api")).unwrap_err();
    assert_eq!(error.message, "forbidden: User \"system:anonymous\" cannot get path \"/api\"");
    assert_eq!(error.to_json()["details"], json!({}));
    assert!(rbac.check(&fake, &Attributes::path(&user, "get", "/healthz")).is_ok());
}

#[test]
fn a_binding_without_its_role_is_reported() {
    let fake = Fake::bootstrapped();
    fake.bind("ns", "a", "Role/none", "User/alice");
    fake.bind("ns", "b", "ClusterRole/none", "User/alice");
    let user = alice();
    let at = Attributes { namespace: "ns", ..Attributes::resource(&user, "list", "", "pods") };
    let error = Authorizer::new().check(&fake, &at).unwrap_err();
    assert!(
        error.message.ends_with(
            "in the namespace \"ns\": RBAC: [role.rbac.authorization.k8s.io \"none\" not found, \
             clusterrole.rbac.authorization.k8s.io \"none\" not found]"
        ),
        "{error}"
    );
}

#[test]
fn names_urls_and_subresources_narrow_a_rule() {
    let fake = Fake::bootstrapped();
    fake.role(
        "",
        "r",
        json!([
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"],
             "verbs": ["get", "list"]},
            {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"]},
            {"nonResourceURLs": ["/readyz/*"], "verbs": ["get"]},
        ]),
    );
    fake.bind("", "r", "ClusterRole/r", "User/alice");
    let (rbac, user) = (Authorizer::new(), alice());
    let ok = |at: Attributes<'_>| rbac.authorize(&fake, &at).allowed;
    let maps = Attributes { name: "one", ..Attributes::resource(&user, "get", "", "configmaps") };
    assert!(ok(maps.clone()));
    assert!(!ok(Attributes { name: "two", ..maps.clone() }));
    assert!(!ok(Attributes { name: "", verb: "list", ..maps }));
    let scale = Attributes::resource(&user, "patch", "apps", "deployments");
    assert!(!ok(scale.clone()));
    assert!(ok(Attributes { subresource: "scale", ..scale }));
    assert!(ok(Attributes::path(&user, "get", "/readyz/ping")));
    assert!(!ok(Attributes::path(&user, "get", "/readyz2")));
}

#[test]
fn a_service_account_without_namespace_is_of_the_bindings_namespace() {
    let fake = Fake::bootstrapped();
    fake.bind("ns", "b", "ClusterRole/view", "ServiceAccount/bot");
    let (rbac, user) = (Authorizer::new(), User::service_account("ns", "bot"));
    let at = Attributes { namespace: "ns", ..Attributes::resource(&user, "get", "", "pods") };
    assert!(rbac.authorize(&fake, &at).reason.ends_with("to ServiceAccount \"bot/ns\""));
    let other = User::service_account("else", "bot");
    assert!(!rbac.authorize(&fake, &Attributes { user: &other, ..at }).allowed);
}

#[test]
fn masters_may_do_everything_without_a_reason() {
    let user = User::admin("root");
    let at = Attributes::resource(&user, "smash", "x", "y");
    let decision = Authorizer::new().authorize(&Fake::default(), &at);
    assert_eq!(decision, Decision { allowed: true, reason: String::new() });
}
