//! Who asks, whom they act as, what they may.

use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, User};

use crate::support::*;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const ACCESS: &str = "POST /apis/authorization.k8s.io/v1";
const WHO: &str = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Gives a user rights in namespace `default`.
async fn grant(server: &ApiServer, user: &str, rules: Value) {
    let role = json!({"metadata": {"name": format!("of-{user}")}, "rules": rules});
    ask(server, &format!("POST {ROLES}"), role).await.ok();
    let api_group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": format!("of-{user}")},
        "roleRef": {"apiGroup": api_group, "kind": "Role", "name": format!("of-{user}")},
        "subjects": [{"apiGroup": api_group, "kind": "User", "name": user}],
    });
    ask(server, &format!("POST {BINDINGS}"), binding).await.ok();
}

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({"apiGroups": ["", "rbac.authorization.k8s.io"], "resources": resources, "verbs": verbs})
}

#[tokio::test]
async fn anonymous_users_are_refused_with_the_reason() {
    let server = server();
    let nobody = ask_as(&server, "", &format!("GET {MAPS}"), json!(null)).await;
    assert_eq!(
        nobody.fails(403),
        "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" \
         in API group \"\" in the namespace \"default\""
    );
    let alice = ask_as(&server, "alice", "GET /api/v1/nodes/n", json!(null)).await;
    assert_eq!(
        alice.fails(403),
        "nodes \"n\" is forbidden: User \"alice\" cannot get resource \"nodes\" in API group \"\" \
         at the cluster scope"
    );
    let path = ask_as(&server, "alice", "GET /metrics", json!(null)).await;
    assert_eq!(path.fails(403), "forbidden: User \"alice\" cannot get path \"/metrics\"");
    let unknown = ask_as(&server, "nonsense", &format!("GET {MAPS}"), json!(null)).await;
    assert_eq!(unknown.fails(401), "Unauthorized");
}

#[tokio::test]
async fn a_role_grants_its_rules_until_it_is_deleted() {
    let server = server();
    create_map(&server, "a", "1").await;
    grant(&server, "alice", json!([rule(&["get", "list"], &["configmaps"])])).await;
    let get = format!("GET {MAPS}/a");
    ask_as(&server, "alice", &get, json!(null)).await.ok();
    ask_as(&server, "alice", &format!("GET {MAPS}"), json!(null)).await.ok();
    ask_as(&server, "alice", &format!("DELETE {MAPS}/a"), json!(null)).await.fails(403);
    ask_as(&server, "alice", &format!("GET {MAPS}?watch=1"), json!(null)).await.fails(403);
    let other = "GET /api/v1/namespaces/kube-system/configmaps";
    ask_as(&server, "alice", other, json!(null)).await.fails(403);
    ask_as(&server, "bob", &get, json!(null)).await.fails(403);
    ask(&server, &format!("DELETE {BINDINGS}/of-alice"), json!(null)).await.ok();
    ask_as(&server, "alice", &get, json!(null)).await.fails(403);
}

#[tokio::test]
async fn a_client_of_a_user_has_the_rights_of_the_user() {
    use k8s_openapi::api::core::v1::ConfigMap;
    let server = server();
    create_map(&server, "a", "1").await;
    let client = server.client_as(User::new("carol", &["system:authenticated"]));
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client, "default");
    assert!(maps.get("a").await.unwrap_err().to_string().contains("User \"carol\" cannot get"));
    grant(&server, "carol", json!([rule(&["get"], &["configmaps"])])).await;
    maps.get("a").await.unwrap();
}

#[tokio::test]
async fn nobody_grants_more_than_they_have() {
    let server = server();
    let roles = rule(&["create", "update", "get"], &["roles", "rolebindings"]);
    grant(&server, "alice", json!([roles, rule(&["get"], &["configmaps"])])).await;
    let role = |verbs: &[&str]| {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
        json!({"metadata": {"name": "new"}, "rules": rules})
    };
    let more = ask_as(&server, "alice", &format!("POST {ROLES}"), role(&["delete"])).await;
    let text = more.fails(403);
    assert!(text.contains("is attempting to grant RBAC permissions not currently held"), "{text}");
    ask_as(&server, "alice", &format!("POST {ROLES}"), role(&["get"])).await.ok();
    let api_group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "up"},
        "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": api_group, "kind": "User", "name": "alice"}],
    });
    let up = ask_as(&server, "alice", &format!("POST {BINDINGS}"), binding).await;
    assert!(up.fails(403).contains("permissions not currently held"), "{}", up.text());
}

#[tokio::test]
async fn impersonation_needs_a_right_of_its_own() {
    let server = server();
    let headers = [("authorization", "Bearer admin"), ("impersonate-user", "zoe")];
    let me = send(&server, WHO, &headers, "{}").await.ok();
    assert_eq!(me["status"]["userInfo"]["username"], "zoe");
    let groups = &me["status"]["userInfo"]["groups"];
    assert_eq!(groups, &json!(["system:authenticated"]));
    let what = format!("GET {MAPS}");
    let text = send(&server, &what, &headers, "").await.fails(403);
    assert!(text.contains("User \"zoe\" cannot list"), "{text}");
    let headers = [("authorization", "Bearer alice"), ("impersonate-user", "zoe")];
    let text = send(&server, WHO, &headers, "{}").await.fails(403);
    assert!(text.contains("User \"alice\" cannot impersonate"), "{text}");
    let headers = [("authorization", "Bearer admin"), ("impersonate-group", "g")];
    let text = send(&server, WHO, &headers, "{}").await;
    assert!(text.code.is_client_error() || text.code == 500, "{}", text.text());
}

#[tokio::test]
async fn reviews_answer_what_would_be_allowed() {
    let server = server();
    grant(&server, "alice", json!([rule(&["get"], &["configmaps"])])).await;
    let question = |verb: &str| json!({"verb": verb, "resource": "configmaps", "namespace": "default", "name": "a"});
    for (verb, allowed) in [("get", true), ("delete", false)] {
        let own = json!({"spec": {"resourceAttributes": question(verb)}});
        let what = format!("{ACCESS}/selfsubjectaccessreviews");
        let answer = ask_as(&server, "alice", &what, own).await.ok();
        assert_eq!(answer["status"]["allowed"], allowed, "{verb}");
        let other = json!({"spec": {"user": "alice", "resourceAttributes": question(verb)}});
        let answer = ask(&server, &format!("{ACCESS}/subjectaccessreviews"), other).await.ok();
        assert_eq!(answer["status"]["allowed"], allowed, "{verb}");
    }
    let rules = json!({"spec": {"namespace": "default"}});
    let what = format!("{ACCESS}/selfsubjectrulesreviews");
    let rules = ask_as(&server, "alice", &what, rules).await.ok();
    let rules = rules["status"]["resourceRules"].as_array().unwrap().clone();
    assert!(
        rules.iter().any(|r| r["resources"].as_array().unwrap().contains(&json!("configmaps")))
    );
    let review = json!({"spec": {"token": "alice"}});
    let what = "POST /apis/authentication.k8s.io/v1/tokenreviews";
    let known = ask(&server, what, review).await.ok();
    assert_eq!(known["status"]["user"]["username"], "alice");
    let unknown = ask(&server, what, json!({"spec": {"token": "x"}})).await.ok();
    assert_eq!(unknown["status"]["authenticated"], json!(null));
}

#[tokio::test]
async fn who_am_i_is_answered_to_everybody_known() {
    let server = server();
    let me = ask_as(&server, "alice", WHO, json!({})).await.ok();
    let groups = &me["status"]["userInfo"]["groups"];
    assert_eq!(groups, &json!(["dev", "system:authenticated"]));
    ask_as(&server, "", WHO, json!({})).await.fails(403);
}

#[tokio::test]
async fn without_authorization_everybody_may() {
    let options = windlass_apiserver::Options { authorize: false, ..Default::default() };
    let server = server_with(options);
    ask_as(&server, "", &format!("POST {MAPS}"), map("a", "1")).await.ok();
}
