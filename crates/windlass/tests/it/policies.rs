//! Admission policies: one declaration, evaluated by the API server or by a webhook, with the same
//! answers.

use http::{Method, Request};
use http_body_util::BodyExt;
use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::client::Body;
use serde_json::{Value, json};
use windlass::manager::Running;
use windlass::manifests::Model;
use windlass::webhook::Policy;
use windlass::{Operator, api, k8s};
use windlass_apiserver::ApiServer;

#[api(group = "example.com", version = "v1", kind = "Lamp")]
pub struct LampSpec {
    pub watts: Option<i32>,
    #[k8s(max_length = 20)]
    pub color: Option<String>,
    #[k8s(optional, list = map("name"), max_items = 5)]
    pub shades: Vec<Shade>,
    #[k8s(optional, list = atomic, max_items = 5)]
    pub tags: Vec<String>,
    #[k8s(optional, max_items = 1000)]
    pub notes: Vec<String>,
}

#[k8s]
pub struct Shade {
    #[k8s(max_length = 20)]
    pub name: String,
    pub color: Option<String>,
}

#[api(group = "example.com", version = "v1", kind = "Limit")]
pub struct LimitSpec {
    pub watts: i32,
}

/// Everything that a policy can do, for the clusters since a version of Kubernetes.
fn operator(kubernetes: &'static str) -> Operator {
    let limit = Policy::<Lamp>::new("limit")
        .params::<Limit>("lamps")
        .variable("watts", "object.spec.?watts.orValue(0)")
        .variable("most", "params.spec.watts")
        .validate("variables.watts <= variables.most", "")
        .validate("object.spec.?color.orValue('') != 'pink'", "no pink lamps")
        .settings(|policy| {
            let validations = policy.spec.validations.as_mut().expect("two rules");
            validations[0].message_expression =
                Some("string(variables.watts) + ' W of ' + string(variables.most)".into());
            validations[1].reason = Some("Forbidden".into());
        });
    let complete = Policy::<Lamp>::new("complete")
        .merge("Object{spec: Object.spec{watts: object.spec.?watts.orValue(40)}}")
        .merge(
            "Object{metadata: Object.metadata{labels: {'watts': string(object.spec.watts)}},
             spec: Object.spec{shades: [Object.spec.shades{name: 'main', color: 'white'}]}}",
        )
        .patch(
            "[JSONPatch{op: 'test', path: '/metadata/name', value: 'patched'},
              JSONPatch{op: 'add', path: '/spec/tags', value: ['new']}]",
        );
    let whole = Policy::<Lamp>::new("whole")
        .merge("Object{spec: Object.spec{tags: ['a']}}")
        .settings(|policy| {
            let condition =
                json!({"name": "named", "expression": "object.metadata.name == 'whole'"});
            let condition = serde_json::from_value(condition).expect("a condition");
            policy.spec.match_conditions = Some(vec![condition]);
        });
    let advice = Policy::<Lamp>::new("advice")
        .validate("has(object.spec.color)", "a color is usual")
        .validate("object.metadata.name.size() < 20", "the name is long")
        .settings(|policy| {
            policy.binding.validation_actions = vec!["Warn".into(), "Audit".into()];
        });
    let guard = Policy::<Lamp>::new("guard")
        .validate(
            "request.operation != 'DELETE' || oldObject.spec.?color.orValue('') != 'red'",
            "red lamps stay",
        )
        .on_delete();
    let fragile = Policy::<Lamp>::new("fragile")
        .validate("!object.metadata.name.startsWith('fragile') || object.spec.tags[3] == 'x'", "");
    let lenient = Policy::<Lamp>::new("lenient")
        .validate("object.spec.tags[7] == 'x'", "never shown")
        .settings(|policy| policy.spec.failure_policy = Some("Ignore".into()));
    let place = Policy::<Lamp>::new("place")
        .validate(
            "namespaceObject.metadata.name != 'dark' || request.userInfo.username == 'nobody'",
            "it is dark here",
        )
        .settings(|policy| {
            let constraints = policy.spec.match_constraints.as_mut().expect("has rules");
            let mut rule = constraints.resource_rules.as_ref().expect("has a rule")[0].clone();
            rule.resource_names = Some(vec!["torch".into()]);
            constraints.exclude_resource_rules = Some(vec![rule]);
        });
    let operator = Operator::new("lamps").api::<Lamp>().api::<Limit>();
    let operator = operator.policy(limit).policy(complete).policy(whole).policy(advice);
    operator
        .policy(guard)
        .policy(fragile)
        .policy(lenient)
        .policy(place)
        .installation(|model| model.kubernetes = kubernetes.into())
}

/// A server with everything that the operator installs, and the operator that serves webhooks.
struct World {
    server: ApiServer,
    model: Model,
    _manager: Running,
}

/// What a client reads: the status, the object or what is said about it, and warnings.
#[derive(Debug, PartialEq)]
struct Answer {
    code: u16,
    reason: Value,
    message: String,
    causes: Value,
    spec: Value,
    labels: Value,
    warnings: Vec<String>,
}

impl World {
    async fn start(operator: Operator) -> Self {
        let server = ApiServer::start();
        let (model, webhooks) = (operator.model().expect("valid"), operator.webhooks());
        for path in webhooks.paths() {
            let (webhooks, path) = (webhooks.clone(), path.to_owned());
            let url = format!("https://{}.{}.svc{path}", model.webhook_service(), model.namespace);
            server.register_webhook(&url, move |review| {
                let (webhooks, path) = (webhooks.clone(), path.clone());
                async move { webhooks.call(&path, review).await }
            });
        }
        let manager = operator.manager(server.client()).spawn().expect("starts");
        manager.ready().await;
        let world = Self { server, model, _manager: manager };
        let name = |name: &str| json!({"metadata": {"name": name}});
        world.send("POST", "/api/v1/namespaces", name("dark")).await;
        for object in world.model.definitions() {
            world.install("/apis/apiextensions.k8s.io/v1", &object).await;
        }
        let limit = json!({"apiVersion": "example.com/v1", "kind": "Limit",
            "metadata": {"name": "lamps"}, "spec": {"watts": 60}});
        for namespace in ["default", "dark"] {
            let made = world.send("POST", &path(namespace, "limits"), limit.clone()).await;
            assert_eq!(made.code, 201, "{made:?}");
        }
        let policies = world.model.policy_objects();
        for object in policies.iter().chain(&world.model.webhook_configurations()) {
            world.install("/apis/admissionregistration.k8s.io/v1", object).await;
        }
        world
    }

    async fn install(&self, group: &str, object: &Value) {
        let kind = object["kind"].as_str().expect("a kind").to_lowercase();
        let plural = match kind.strip_suffix("policy") {
            Some(kind) => format!("{kind}policies"),
            None => format!("{kind}s"),
        };
        let answer = self.send("POST", &format!("{group}/{plural}"), object.clone()).await;
        assert_eq!(answer.code, 201, "{answer:?} {object}");
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        let request = Request::builder()
            .method(method.parse::<Method>().expect("a method"))
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string().into_bytes()))
            .expect("a request");
        let response = self.server.client().send(request).await.expect("an answer");
        let code = response.status().as_u16();
        let text = |value: &http::HeaderValue| value.to_str().expect("a text").to_owned();
        let warnings = response.headers().get_all("warning").iter().map(text).collect();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        Answer {
            code,
            reason: body["reason"].clone(),
            message: said(&body["message"]),
            causes: body["details"]["causes"].clone(),
            spec: body["spec"].clone(),
            labels: body["metadata"]["labels"].clone(),
            warnings,
        }
    }

    async fn lamp(&self, namespace: &str, name: &str, spec: Value) -> Answer {
        let body = json!({"apiVersion": "example.com/v1", "kind": "Lamp",
            "metadata": {"name": name}, "spec": spec});
        self.send("POST", &path(namespace, "lamps"), body).await
    }
}

fn path(namespace: &str, plural: &str) -> String {
    format!("/apis/example.com/v1/namespaces/{namespace}/{plural}")
}

/// A message without what the server puts in front: that is about the webhook, or about the object.
fn said(message: &Value) -> String {
    let message = message.as_str().unwrap_or_default();
    let heads = ["denied the request: ", "is forbidden: "];
    let rest = heads.iter().find_map(|head| message.split_once(head));
    rest.map_or(message, |(_, rest)| rest).to_owned()
}

/// The requests that are compared, and for each one a word that its answer has to contain.
async fn answers(world: &World) -> Vec<(&'static str, Answer)> {
    let mut answers = Vec::new();
    let cases = [
        ("a", json!({}), "40"),
        ("bright", json!({"watts": 61}), "61 W of 60"),
        ("pink", json!({"color": "pink"}), "no pink lamps"),
        ("green", json!({"color": "green", "shades": [{"name": "main"}, {"name": "b"}]}), "white"),
        ("patched", json!({"color": "red"}), "new"),
        ("whole", json!({}), "may not mutate atomic arrays, maps or structs: .spec.tags"),
        ("a-name-that-is-very-long", json!({"color": "blue"}), "the name is long"),
        ("fragile", json!({}), "resulted in error: "),
        ("fragile-too", json!({"tags": ["a"]}), "index out of bounds: 3"),
        ("fragile-not", json!({"tags": ["a", "b", "c", "x"]}), "a color is usual"),
    ];
    for (name, spec, expected) in cases {
        answers.push((expected, world.lamp("default", name, spec).await));
    }
    for (namespace, name, expected) in [
        ("dark", "lamp", "it is dark here"),
        ("dark", "torch", "40"),
        ("kube-system", "a", "no params found"),
    ] {
        answers.push((expected, world.lamp(namespace, name, json!({})).await));
    }
    let red = format!("{}/patched", path("default", "lamps"));
    answers.push(("red lamps stay", world.send("DELETE", &red, Value::Null).await));
    let green = format!("{}/green", path("default", "lamps"));
    answers.push(("", world.send("DELETE", &green, Value::Null).await));
    answers
}

#[tokio::test(start_paused = true)]
async fn a_policy_and_the_webhook_in_its_place_give_the_same_answers() {
    let policies = World::start(operator("1.36")).await;
    let mixed = World::start(operator("1.30")).await;
    let webhooks = World::start(operator("1.29")).await;
    assert!(policies.model.webhook_configurations().is_empty());
    assert_eq!(mixed.model.webhook_configurations().len(), 1);
    assert_eq!(webhooks.model.policy_objects(), Vec::<Value>::new());
    let expected = answers(&policies).await;
    for (word, answer) in &expected {
        assert!(format!("{answer:?}").contains(word), "{word:?} is missing in {answer:#?}");
    }
    for (name, world) in [("1.30", mixed), ("1.29", webhooks)] {
        for ((_, expected), (_, answer)) in expected.iter().zip(answers(&world).await) {
            assert_eq!(*expected, answer, "Kubernetes {name}");
        }
    }
}

/// The error of an operator with one policy.
fn wrong<K>(policy: Policy<K>) -> String {
    let operator = Operator::new("lamps").api::<Lamp>().api::<Limit>().policy(policy);
    operator.model().expect_err("is wrong").to_string()
}

#[test]
fn wrong_expressions_are_found_before_anything_is_installed() {
    let lamp = || Policy::<Lamp>::new("p");
    for (policy, expected) in [
        (
            lamp().validate("object.spec.wats < 3", ""),
            "policy \"p\": the validation \"object.spec.wats < 3\" is wrong for Lamp: undefined \
             field 'wats'",
        ),
        (
            lamp().validate("object.spec.color < 3", ""),
            "policy \"p\": the validation \"object.spec.color < 3\" is wrong for Lamp: found no \
             matching overload for '_<_' applied to '(string, int)'",
        ),
        (
            lamp().validate("object.spec.color", ""),
            "policy \"p\": the validation \"object.spec.color\" is wrong for Lamp: must evaluate to \
             bool but got string",
        ),
        (
            lamp().params::<Limit>("x").variable("most", "params.spec.most"),
            "policy \"p\": the variable \"params.spec.most\" is wrong for Lamp: undefined field \
             'most'",
        ),
        (
            lamp().merge("{'a': 1}"),
            "policy \"p\": the merge \"{'a': 1}\" is wrong for Lamp: must evaluate to Object but got \
             map(string, int)",
        ),
    ] {
        assert_eq!(wrong(policy), expected);
    }
    let untyped = Policy::<ConfigMap>::new("p").validate("object.?immutable.orValue(false)", "");
    assert_eq!(
        wrong(untyped),
        "policy \"p\": the validation \"object.?immutable.orValue(false)\" is wrong for ConfigMap: the \
         API server does not know the types of fields: must evaluate to bool but got dyn"
    );
    let costly = lamp().validate("object.spec.notes.all(n, n.matches('^(a|b)*$'))", "");
    let found = wrong(costly);
    assert!(found.contains("it may cost "), "{found}");
    assert!(found.contains("bound the lists and texts that are read"), "{found}");
}

#[test]
fn expressions_are_held_to_what_the_api_server_lets_them_cost() {
    let pods = || Policy::<Pod>::new("images");
    let pairs = "object.spec.containers.all(a, object.spec.containers.all(b, size(a.name) != size(b.name)))";
    let model = |policy: Policy<Pod>| Operator::new("pods").policy(policy).model();
    let each = wrong(pods().validate(
        "object.spec.containers.all(a, object.spec.containers.all(b, a.name + b.name != a.name))",
        "",
    ));
    assert!(each.contains(", more than 1000000: "), "{each}");
    let with_condition = |policy: Policy<Pod>, name: String| {
        policy.settings(|policy| {
            let condition = MatchCondition { name, expression: pairs.into() };
            policy.spec.match_conditions.get_or_insert_default().push(condition);
        })
    };
    let checked = || pods().validate("true", "");
    model(with_condition(checked(), "pairs".into())).expect("one condition");
    model(pods().validate(pairs, "")).expect("one rule");
    let conditions = (0..60).fold(checked(), |policy, n| with_condition(policy, format!("c{n}")));
    let conditions = wrong(conditions);
    assert!(conditions.starts_with("policy \"images\": all match conditions together may cost "));
    assert!(conditions.contains(", more than 2500000: "), "{conditions}");
    let rules = (0..400).fold(pods(), |policy, _| policy.validate(pairs, ""));
    let rules = wrong(rules);
    assert!(rules.starts_with("policy \"images\": all expressions together may cost "), "{rules}");
    assert!(rules.contains(", more than 10000000: "), "{rules}");
}

#[test]
fn the_cost_for_built_in_kinds_is_estimated_for_objects_of_a_usual_size() {
    let pods = |rule: &str| Policy::<Pod>::new("images").validate(rule, "");
    for rule in [
        "object.spec.containers.all(c, c.?image.orValue('').startsWith('r.io/'))",
        "object.spec.containers.all(c, c.?env.orValue([]).all(e, e.name.startsWith('APP_')))",
        "object.metadata.?labels.orValue({}).all(key, key.matches('^[a-z./-]+$'))",
        "object.spec.?nodeSelector.orValue({}).size() < 3",
    ] {
        Operator::new("pods").policy(pods(rule)).model().expect(rule);
    }
    let each = "object.spec.containers.all(a, object.spec.containers.all(b, object.spec.containers.all(c, \
                a.name + b.name != c.name)))";
    let found = wrong(pods(each));
    assert!(found.contains("with lists of 100 items and texts of 1000 characters"), "{found}");
    // Parameters in a ConfigMap do not make every rule too expensive.
    let lamp = Policy::<Lamp>::new("colors")
        .params::<ConfigMap>("colors")
        .validate("object.spec.?color.orValue('') in params.?data.orValue({})", "");
    Operator::new("lamps").api::<Lamp>().policy(lamp).model().expect("is valid");
}

#[test]
fn an_old_cluster_cannot_ask_for_permissions() {
    let rule = "authorizer.group('').resource('pods').check('get').allowed()";
    let policy = || Policy::<ConfigMap>::new("p").validate(rule, "");
    Operator::new("maps").policy(policy()).model().expect("1.30 has policies");
    let old = Operator::new("maps").policy(policy());
    let old = old.installation(|model| model.kubernetes = "1.28".into());
    let error = old.model().expect_err("a webhook has no authorizer").to_string();
    assert!(error.starts_with("policy \"p\" uses `authorizer`"), "{error}");
}

#[test]
fn the_role_reads_what_a_webhook_in_place_of_a_policy_needs() {
    let install = operator("1.29").model().expect("valid").install();
    assert!(install.contains("  - limits\n  verbs:\n  - get\n  - list\n"), "{install}");
    assert!(install.contains("  - namespaces\n  verbs:\n  - get\n"), "{install}");
    let install = operator("1.36").model().expect("valid").install();
    assert!(!install.contains("  - namespaces\n"), "policies need no rights of the operator");
}

#[test]
fn a_policy_of_a_built_in_kind_leaves_out_the_namespaces_of_the_system() {
    let policy = Policy::<ConfigMap>::new("p").validate("true", "");
    let model = Operator::new("maps").policy(policy).model().expect("valid");
    let spec = &model.policy_objects()[0]["spec"];
    let excluded = &spec["matchConstraints"]["namespaceSelector"]["matchExpressions"][0];
    assert_eq!(excluded["operator"], "NotIn");
    assert!(excluded["values"].as_array().expect("names").contains(&"kube-system".into()));
}
