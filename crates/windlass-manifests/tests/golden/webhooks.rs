//! Webhook configurations against those that controller-gen makes of the same webhooks.
//!
//! The names of the configurations and of the service follow from the operator; everything else of a
//! webhook is compared.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, ServiceReference,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::{Value, json};
use windlass::Model;
use windlass::model::Webhook;

/// Compares the webhooks of an operator with the expected ones, by kind of configuration and name.
fn agrees(case: &str, webhooks: Vec<Webhook>) {
    let path = format!("{}/tests/golden/webhooks/{case}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let golden: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let mut model = Model::new("shop");
    model.webhooks = webhooks;
    model.check().unwrap();
    let service = |value: &Value| value["clientConfig"]["service"]["name"] == "webhook-service";
    let entries = |configurations: Vec<Value>| {
        let mut found = Vec::new();
        for configuration in configurations {
            for webhook in configuration["webhooks"].as_array().unwrap() {
                let mut webhook = webhook.clone();
                if service(&webhook) {
                    webhook["clientConfig"]["service"]["name"] = "shop-webhook-service".into();
                    webhook["clientConfig"]["service"]["namespace"] = "shop-system".into();
                }
                found.push(json!([configuration["kind"], webhook["name"], webhook]));
            }
        }
        found.sort_by_key(|entry| format!("{}{}", entry[0], entry[1]));
        found
    };
    model.namespace = "shop-system".into();
    assert_eq!(entries(model.webhook_configurations()), entries(golden));
}

/// A webhook that says what controller-gen says, and nothing more.
fn webhook(mutating: bool, name: &str, path: &str) -> Webhook {
    let mut webhook = Webhook::new(mutating, name, path);
    webhook.everywhere = true;
    webhook.entry.match_policy = None;
    webhook.entry.timeout_seconds = None;
    webhook
}

fn texts(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

#[test]
fn one_validating_webhook() {
    let mut one =
        webhook(false, "vwidget.shop.example.com", "/validate-shop-example-com-v1-widget");
    one.rule("shop.example.com", "v1", "widgets", &["CREATE", "UPDATE"]);
    agrees("webhook-validating", vec![one]);
}

#[test]
fn a_mutating_webhook_with_all_settings() {
    let mut one = webhook(true, "mwidget.shop.example.com", "/mutate-shop-example-com-v1-widget");
    let entry = &mut one.entry;
    entry.failure_policy = Some("Ignore".into());
    entry.match_policy = Some("Exact".into());
    entry.side_effects = "NoneOnDryRun".into();
    entry.timeout_seconds = Some(7);
    entry.reinvocation_policy = Some("IfNeeded".into());
    entry.admission_review_versions = vec!["v1".into(), "v1beta1".into()];
    entry.rules = Some(vec![RuleWithOperations {
        api_groups: texts(&["shop.example.com", "old.example.com"]),
        api_versions: texts(&["v1", "v1beta1"]),
        operations: texts(&["CREATE", "UPDATE", "DELETE", "CONNECT"]),
        resources: texts(&["widgets", "widgets/status"]),
        scope: None,
    }]);
    entry.client_config.service = Some(ServiceReference {
        name: "hooks".into(),
        namespace: "shop".into(),
        path: Some("/mutate-shop-example-com-v1-widget".into()),
        port: Some(8443),
    });
    agrees("webhook-mutating-all", vec![one]);
}

#[test]
fn several_webhooks_of_both_kinds() {
    let group = "shop.example.com";
    let mut crates = webhook(false, "vb.shop.example.com", "/validate-crate");
    crates.entry.match_policy = Some("Equivalent".into());
    crates.rule(group, "v1", "crates", &["CREATE", "UPDATE", "DELETE"]);
    let mut default_boxes = webhook(true, "mb.shop.example.com", "/mutate-box");
    default_boxes.rule(group, "v1", "boxes", &["CREATE"]);
    let mut all = webhook(false, "vc.shop.example.com", "/validate-all");
    all.entry.failure_policy = Some("Ignore".into());
    all.rule("*", "*", "*", &["*"]);
    let mut default_crates = webhook(true, "ma.shop.example.com", "/mutate-crate");
    default_crates.rule(group, "v1", "crates", &["CREATE", "UPDATE"]);
    let mut boxes = webhook(false, "va.shop.example.com", "/validate-box");
    boxes.rule(group, "v1", "boxes", &["UPDATE"]);
    agrees("webhook-many", vec![crates, default_boxes, all, default_crates, boxes]);
}

#[test]
fn a_webhook_at_a_url_and_webhooks_with_selectors_and_conditions() {
    let mut url = webhook(false, "url.shop.example.com", "/validate");
    url.rule("shop.example.com", "v1", "widgets", &["CREATE"]);
    url.entry.client_config.url = Some("https://hooks.example.com:9443/validate".into());
    let mut pods = webhook(true, "pod.shop.example.com", "/mutate-pod");
    pods.rule("", "v1", "pods", &["CREATE"]);
    pods.entry.failure_policy = Some("Ignore".into());
    pods.entry.namespace_selector = Some(LabelSelector {
        match_labels: Some([("inject".to_owned(), "true".to_owned())].into()),
        match_expressions: None,
    });
    pods.entry.object_selector = Some(LabelSelector {
        match_labels: None,
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "tier".into(),
            operator: "In".into(),
            values: texts(&["frontend", "backend"]),
        }]),
    });
    let mut conditions = webhook(false, "cond.shop.example.com", "/validate-cond");
    conditions.rule("shop.example.com", "v1", "widgets", &["UPDATE"]);
    conditions.entry.rules.as_mut().unwrap()[0].scope = Some("Namespaced".into());
    conditions.entry.timeout_seconds = Some(3);
    let condition = |name: &str, expression: &str| MatchCondition {
        name: name.into(),
        expression: expression.into(),
    };
    conditions.entry.match_conditions = Some(vec![
        condition("not-system", "!request.userInfo.username.startsWith('system:')"),
        condition("has-spec", "has(object.spec)"),
    ]);
    agrees("webhook-patch-url", vec![url, pods, conditions]);
}

#[test]
fn webhooks_of_real_operators() {
    let both = &["CREATE", "UPDATE"];
    let mut default_caches = webhook(true, "mcache.example.com", "/mutate-cache");
    default_caches.rule("real-cache.golden.example.com", "v1", "caches", both);
    let mut caches = webhook(false, "vcache.example.com", "/validate-cache");
    caches.rule("real-cache.golden.example.com", "v1", "caches", both);
    agrees("real-cache", vec![default_caches, caches]);
    let mut topics = webhook(false, "vtopic.example.com", "/validate-topic");
    topics.entry.match_policy = Some("Equivalent".into());
    topics.rule("real-topic.golden.example.com", "v1", "topics", both);
    topics.entry.rules.as_mut().unwrap()[0].api_versions = texts(&["v1", "v1beta1"]);
    agrees("real-topic", vec![topics]);
}
