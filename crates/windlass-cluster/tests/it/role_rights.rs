//! What the test of a role finds missing or never used: names, namespaces and URLs count.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use windlass::Operator;
use windlass::manifests::rbac::{Grant, Reach, Rule};
use windlass_apiserver::ApiServer;
use windlass_cluster::{RoleReport, RoleTest};

async fn installed(operator: Operator) -> RoleTest {
    let model = operator.model().expect("well described");
    RoleTest::install(&ApiServer::start(), &model).await.expect("can be installed")
}

fn operator() -> Operator {
    Operator::new("map-operator")
}

fn report(test: &RoleTest) -> RoleReport {
    test.check().err().unwrap_or_default()
}

fn none() -> [String; 0] {
    []
}

async fn get(test: &RoleTest, url: &str) -> Result<String, kube::Error> {
    test.client().request_text(http::Request::get(url).body(Vec::new()).expect("valid")).await
}

#[tokio::test(start_paused = true)]
async fn a_right_for_named_objects_is_used_for_each_of_them() {
    let rule = Rule::new("", "secrets", ["get"]).name("a").name("b");
    let test = installed(operator().namespaces(["default"]).allow(rule)).await;
    let secrets = Api::<Secret>::namespaced(test.client(), "default");
    assert!(secrets.get_opt("a").await.expect("allowed").is_none());
    let sentence = "the role allows get on secrets b in namespace default, which was never used: \
                    use it there, or remove the rule";
    assert_eq!(report(&test).unused, [sentence]);
    assert!(secrets.get_opt("b").await.expect("allowed").is_none());
    assert_eq!(test.check(), Ok(()));
    secrets.get_opt("c").await.expect_err("another name");
    let sentence = "the role does not allow get on secrets c: declare it with Operator::allow";
    assert_eq!(report(&test).missing, [sentence]);
}

#[tokio::test(start_paused = true)]
async fn a_right_is_used_in_each_watched_namespace() {
    let rule = Rule::new("", "configmaps", ["list"]);
    let test = installed(operator().namespaces(["blue", "green"]).allow(rule)).await;
    let list = async |namespace: &str| {
        Api::<ConfigMap>::namespaced(test.client(), namespace).list(&ListParams::default()).await
    };
    list("blue").await.expect("allowed");
    let sentence = "the role allows list on configmaps in namespace green, which was never used: \
                    use it there, or remove the declaration of the kind";
    assert_eq!(report(&test).unused, [sentence]);
    list("green").await.expect("allowed");
    assert_eq!(test.check(), Ok(()));
    list("red").await.expect_err("another namespace");
    let sentence = "the role does not allow list on configmaps in namespace red: declare it with \
                    reads, watches or owns";
    assert_eq!(report(&test).missing, [sentence]);
}

#[tokio::test(start_paused = true)]
async fn a_right_on_a_url_is_used_or_missing() {
    let urls = Grant::new(Rule::url("/metrics", ["get"]), Reach::Cluster);
    let below = Grant::new(Rule::url("/logs/*", ["get"]), Reach::Cluster);
    let test = installed(operator().allow(urls).allow(below)).await;
    let sentence = |path: &str| {
        format!("the role allows get on {path}, which was never used: remove the rule")
    };
    assert_eq!(report(&test).unused, [sentence("/logs/*"), sentence("/metrics")]);
    // Whether the server has the page does not matter: the right was needed.
    let _ = get(&test, "/metrics").await;
    let _ = get(&test, "/logs/kubelet").await;
    assert_eq!(test.check(), Ok(()));
    get(&test, "/configz").await.expect_err("forbidden");
    let sentence = "the role does not allow get on /configz: declare it with Operator::allow";
    assert_eq!(report(&test).missing, [sentence]);
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_creates_uses_both_rights_of_its_name() {
    let rule = Rule::new("", "configmaps", ["create", "patch"]).name("a");
    let home = Grant::new(rule, Reach::Home);
    let test = installed(operator().allow(home)).await;
    let maps = Api::<ConfigMap>::namespaced(test.client(), "map-operator-system");
    let apply = PatchParams::apply("test");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(report(&test).unused.len(), 2);
    maps.patch("a", &apply, &Patch::Apply(&map)).await.expect("allowed");
    assert_eq!(report(&test).unused, none());
    let elsewhere = Api::<ConfigMap>::namespaced(test.client(), "default");
    elsewhere.patch("a", &apply, &Patch::Apply(&map)).await.expect_err("another namespace");
    let sentence = "the role does not allow patch on configmaps in namespace default: declare it \
                    with applies, owns or finalizes";
    assert_eq!(report(&test).missing, [sentence]);
}
