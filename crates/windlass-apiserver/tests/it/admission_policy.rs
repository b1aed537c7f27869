//! Policies in expressions.

use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::tools::*;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn rules() -> Value {
    json!({"resourceRules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""],
        "apiVersions": ["v1"], "resources": ["configmaps"]}]})
}

async fn policy(server: &ApiServer, spec: Value, binding: Value) {
    made(server, &format!("{GROUP}/validatingadmissionpolicies"), validating(spec)).await;
    let mut spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    for (key, value) in binding.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": spec});
    made(server, &format!("{GROUP}/validatingadmissionpolicybindings"), body).await;
}

fn validating(mut spec: Value) -> Value {
    spec["matchConstraints"] = rules();
    json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec})
}

fn mutating(name: &str, mut spec: Value) -> Value {
    if spec["matchConstraints"].is_null() {
        spec["matchConstraints"] = rules();
    }
    if spec["reinvocationPolicy"].is_null() {
        spec["reinvocationPolicy"] = json!("Never");
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec})
}

async fn mutation(server: &ApiServer, name: &str, spec: Value) {
    made(server, &format!("{GROUP}/mutatingadmissionpolicies"), mutating(name, spec)).await;
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name}});
    made(server, &format!("{GROUP}/mutatingadmissionpolicybindings"), body).await;
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn steps(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn with_data(name: &str, data: Value) -> Value {
    let mut map = config_map(name);
    map["data"] = data;
    map
}

#[tokio::test]
async fn a_rule_that_does_not_hold_refuses_with_its_message() {
    let server = server();
    let spec = json!({"validations": [
        {"expression": "object.data.size() < 2"},
        {"expression": "!('b' in object.data)", "messageExpression": "'no ' + object.metadata.name",
            "reason": "Forbidden"},
    ]});
    policy(&server, spec, json!({})).await;
    assert_eq!(post(&server, MAPS, with_data("a", json!({"a": "1"}))).await.code, 201);
    let refused = post(&server, MAPS, with_data("c", json!({"a": "1", "c": "2"}))).await;
    assert_eq!((refused.code, &refused.body["reason"]), (422, &json!("Invalid")));
    let message = "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.data.size() < 2";
    assert_eq!(refused.message(), message);
    let cause = &refused.body["details"]["causes"][0]["message"];
    assert_eq!(format!("configmaps \"c\" is forbidden: {}", cause.as_str().unwrap()), message);
    let refused = post(&server, MAPS, with_data("d", json!({"b": "1"}))).await;
    assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Forbidden")));
    assert!(refused.message().ends_with("denied request: no d"), "{refused:?}");
}

#[tokio::test]
async fn a_warning_lets_the_request_pass() {
    let server = server();
    let spec = json!({"validations": [{"expression": "false", "message": "mind this"}]});
    policy(&server, spec, json!({"validationActions": ["Warn"]})).await;
    let warned = post(&server, MAPS, config_map("a")).await;
    assert_eq!(warned.code, 201);
    assert_eq!(
        warned.warnings,
        [
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': mind this\""
        ]
    );
}

#[tokio::test]
async fn parameters_variables_and_conditions_are_seen_by_rules() {
    let server = server();
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "not-params", "expression": "object.metadata.name != 'limits'"}],
        "variables": [{"name": "most", "expression": "int(params.data.most)"}],
        "validations": [{"expression": "object.data.size() <= variables.most",
            "messageExpression": "'at most ' + string(variables.most)"}],
    });
    let param_ref = json!({"name": "limits", "namespace": "default",
        "parameterNotFoundAction": "Deny"});
    policy(&server, spec, json!({"paramRef": param_ref})).await;
    let refused = post(&server, MAPS, with_data("a", json!({"a": "1"}))).await;
    assert_eq!(
        refused.message(),
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    );
    let path = format!("{GROUP}/validatingadmissionpolicybindings/b");
    let off = send(&server, "DELETE", &path, Value::Null).await;
    assert_eq!(off.code, 200);
    made(&server, MAPS, with_data("limits", json!({"most": "1"}))).await;
    let spec = json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": param_ref});
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": spec});
    made(&server, &format!("{GROUP}/validatingadmissionpolicybindings"), body).await;
    assert_eq!(post(&server, MAPS, with_data("a", json!({"a": "1"}))).await.code, 201);
    let refused = post(&server, MAPS, with_data("b", json!({"a": "1", "b": "2"}))).await;
    assert!(refused.message().ends_with("denied request: at most 1"), "{refused:?}");
}

#[tokio::test]
async fn a_rule_that_fails_is_a_refusal_unless_failures_are_ignored() {
    for (failures, code) in [("Fail", 422), ("Ignore", 201)] {
        let server = server();
        let spec = json!({"failurePolicy": failures,
            "validations": [{"expression": "object.data.missing == 'x'"}]});
        policy(&server, spec, json!({})).await;
        let answer = post(&server, MAPS, with_data("a", json!({"b": "1"}))).await;
        assert_eq!(answer.code, code, "{answer:?}");
        if code == 422 {
            let end = "denied request: expression 'object.data.missing == 'x'' resulted in error: no such key: missing";
            assert!(answer.message().ends_with(end), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_rule_and_all_rules_of_a_policy_cost_no_more_than_the_real_server_lets_them() {
    let loops = json!({"expression": "object.data.all(a, object.data.all(b, a != b || a == b))"});
    let entries = |count: usize| -> Value {
        (0..count).map(|n| (format!("k{n}"), json!(""))).collect::<serde_json::Map<_, _>>().into()
    };
    for (rules, ends) in [
        (1, "resulted in error: operation cancelled: actual cost limit exceeded"),
        (
            24,
            "denied request: validation failed due to running out of cost budget, no further \
             validation rules will be run",
        ),
    ] {
        let server = server();
        policy(&server, json!({"validations": vec![loops.clone(); rules]}), json!({})).await;
        let size = if rules == 1 { 1000 } else { 300 };
        assert_eq!(post(&server, MAPS, with_data("small", entries(20))).await.code, 201);
        let refused = post(&server, MAPS, with_data("large", entries(size))).await;
        assert_eq!(refused.code, 422);
        assert!(refused.message().ends_with(ends), "{refused:?}");
    }
}

#[tokio::test]
async fn a_webhook_is_called_only_when_its_conditions_hold() {
    let server = server();
    let url = "https://hook.example.com/x";
    server
        .register_webhook(url, |review| async move { answer(&review, json!({"allowed": false})) });
    let conditions = json!([{"name": "c", "expression": "object.metadata.name.startsWith('x')"}]);
    configure(&server, false, "v", json!({"url": url}), json!({"matchConditions": conditions}))
        .await;
    assert_eq!(post(&server, MAPS, config_map("a")).await.code, 201);
    assert_eq!(post(&server, MAPS, config_map("xa")).await.code, 400);
    // A deletion has no object: the condition fails, and with it the request.
    let refused = send(&server, "DELETE", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!(refused.code, 403, "{refused:?}");
}

#[tokio::test]
async fn a_policy_merges_a_configuration_into_the_object() {
    let server = server();
    let expression = r#"Object{metadata: Object.metadata{labels: {"by": "policy"}},
        data: {"name": object.metadata.name}}"#;
    mutation(&server, "p", json!({"mutations": [apply(expression)]})).await;
    let made = post(&server, MAPS, with_data("a", json!({"x": "1"}))).await;
    assert_eq!(made.code, 201, "{made:?}");
    assert_eq!(made.body["metadata"]["labels"], json!({"by": "policy"}));
    assert_eq!(made.body["data"], json!({"x": "1", "name": "a"}));
}

#[tokio::test]
async fn a_policy_patches_the_object_step_by_step() {
    let server = server();
    let expression = r#"[
        JSONPatch{op: "test", path: "/data/x", value: "1"},
        JSONPatch{op: "add", path: "/metadata/labels", value: {}},
        JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a.io/b"), value: "c"},
    ]"#;
    mutation(&server, "p", json!({"mutations": [steps(expression)]})).await;
    let made = post(&server, MAPS, with_data("a", json!({"x": "1"}))).await;
    assert_eq!(made.body["metadata"]["labels"], json!({"a.io/b": "c"}), "{made:?}");
    let made = post(&server, MAPS, with_data("b", json!({"x": "2"}))).await;
    assert_eq!((made.code, &made.body["metadata"]["labels"]), (201, &Value::Null));
}

#[tokio::test]
async fn later_mutations_see_earlier_ones_and_variables() {
    let server = server();
    let spec = json!({
        "variables": [{"name": "span", "expression": "duration('90s')"},
            {"name": "more", "expression": "variables.span + duration('30s')"}],
        "mutations": [
            apply(r#"Object{data: {"n": string(variables.more.getMinutes())}}"#),
            apply(r#"Object{data: {"n": object.data.n + "!"}}"#),
        ],
    });
    mutation(&server, "p", spec).await;
    let made = post(&server, MAPS, config_map("a")).await;
    assert_eq!(made.body["data"]["n"], "2!", "{made:?}");
}

#[tokio::test]
async fn a_policy_is_called_again_when_a_later_one_changed_the_object() {
    for (again, count) in [("IfNeeded", "2"), ("Never", "1")] {
        let server = server();
        let counting = r#"Object{data: {"n": string(int(object.?data.?n.orValue("0")) + 1)}}"#;
        let spec = json!({"reinvocationPolicy": again, "mutations": [apply(counting)]});
        mutation(&server, "a-counts", spec).await;
        let spec = json!({"mutations": [apply(r#"Object{data: {"later": "yes"}}"#)]});
        mutation(&server, "b-changes", spec).await;
        let made = post(&server, MAPS, config_map("a")).await;
        assert_eq!(made.body["data"], json!({"n": count, "later": "yes"}), "{made:?}");
    }
}

#[tokio::test]
async fn a_mutation_that_fails_refuses_unless_failures_are_ignored() {
    let server = server();
    let wrong = apply("Object{data: Object.wrong{}}");
    mutation(&server, "p", json!({"mutations": [wrong.clone()]})).await;
    let refused = post(&server, MAPS, config_map("a")).await;
    assert_eq!(refused.body["reason"], "Invalid", "{refused:?}");
    assert_eq!(
        refused.message(),
        "policy 'p' with binding 'p' denied request: type mismatch: unexpected type name \"Object.wrong\", expected \"Object.data\", which matches field name path from root Object type"
    );
    let server = self::server();
    mutation(&server, "p", json!({"failurePolicy": "Ignore", "mutations": [wrong]})).await;
    assert_eq!(post(&server, MAPS, config_map("a")).await.code, 201);
}

#[tokio::test]
async fn what_is_owned_as_a_whole_is_not_merged() {
    let server = server();
    let spec = json!({
        "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": ["apps"],
            "apiVersions": ["v1"], "resources": ["deployments"]}]},
        "mutations": [apply("Object{spec: Object.spec{selector: Object.spec.selector{
            matchLabels: {'a': 'b'}}}}")],
    });
    mutation(&server, "p", spec).await;
    let labels = json!({"app": "x"});
    let body = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let refused = post(&server, "/apis/apps/v1/namespaces/default/deployments", body).await;
    assert!(
        refused.message().contains("may not mutate atomic arrays, maps or structs: .spec.selector")
    );
}

#[tokio::test]
async fn an_expression_that_does_not_compile_is_refused_at_once() {
    let server = server();
    let post_policy = async |body| {
        let path = match &body {
            Value::Object(map) if map["kind"] == "MutatingAdmissionPolicy" => "mutating",
            _ => "validating",
        };
        let made = post(&server, &format!("{GROUP}/{path}admissionpolicies"), body).await;
        assert_eq!(made.code, 422, "{made:?}");
        made.message().to_owned()
    };
    let text =
        post_policy(validating(json!({"validations": [{"expression": "object.x +"}]}))).await;
    assert!(text.contains("spec.validations[0].expression: Invalid value: \"object.x +\": compilation failed: ERROR: <input>:1:11"), "{text}");
    let text = post_policy(validating(json!({"validations": [{"expression": "1"}]}))).await;
    assert!(text.contains("Invalid value: \"1\": must evaluate to bool but got int"), "{text}");
    let text = post_policy(validating(json!({"variables": [{"name": "if", "expression": "1"}],
        "validations": [{"expression": "variables.gone == 1"}]})))
    .await;
    assert!(
        text.contains(
            "spec.variables[0].name: Invalid value: \"if\": must be a valid CEL identifier"
        ),
        "{text}"
    );
    assert!(text.contains("undefined field 'gone'"), "{text}");
    let text = post_policy(mutating(
        "p",
        json!({"mutations": [apply("{'a': 1}"), {"patchType": "JSONPatch"}]}),
    ))
    .await;
    assert!(text.contains("must evaluate to Object but got map(string, int)"), "{text}");
    assert!(text.contains("spec.mutations[1].jsonPatch: Required value: must be specified when patchType is JSONPatch"), "{text}");
}
