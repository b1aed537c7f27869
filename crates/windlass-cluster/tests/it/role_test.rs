//! `RoleTest` finds rights that are missing and rights that are not used, also of names and URLs.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use windlass::manifests::Model;
use windlass::manifests::rbac::{Grant, Reach, Rule};
use windlass_apiserver::ApiServer;
use windlass_cluster::RoleTest;

fn model() -> Model {
    let mut model = Model::new("shop-operator");
    let named = Rule::new("", "secrets", ["get"]).name("used").name("spare");
    model.grants.extend([
        Grant::new(named, Reach::Cluster),
        Grant::new(Rule::url("/shop/*", ["get"]), Reach::Cluster),
        Grant::new(Rule::url("/never", ["get"]), Reach::Cluster),
    ]);
    model
}

#[tokio::test(start_paused = true)]
async fn names_and_urls_of_a_role_are_used_or_reported() {
    let server = ApiServer::start();
    let test = RoleTest::install(&server, &model()).await.unwrap();
    let client = test.client();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.get_opt("used").await.unwrap();
    secrets.get_opt("other").await.unwrap_err();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.list(&Default::default()).await.unwrap_err();
    for path in ["/shop/state", "/secret-page"] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let _: Result<String, kube::Error> = client.request_text(request).await;
    }
    let report = test.check().unwrap_err();
    let missing = [
        "the role does not allow get on /secret-page: declare it with Operator::allow",
        "the role does not allow get on secrets: declare it with Operator::allow",
        "the role does not allow list on configmaps: declare it with reads, watches or owns",
    ];
    assert_eq!(report.missing, missing);
    let unused = [
        "the role allows get on /never, which was never used: remove the rule",
        "the role allows get on secrets \"spare\", which was never used: remove the name",
    ];
    assert_eq!(report.unused, unused);
}
