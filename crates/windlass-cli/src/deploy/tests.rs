//! Deploying and removing the Memcached operator, on an embedded cluster in virtual time.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use memcached_operator::{Memcached, MemcachedSpec};
use serde_json::json;
use windlass_cluster::Cluster;

use super::*;
use crate::objects::reference;

#[allow(dead_code, reason = "the tests of the command use the rest")]
#[path = "../../tests/it/transcript.rs"]
mod transcript;

const MINUTE: Duration = Duration::from_secs(60);

fn manifests() -> Vec<Value> {
    memcached_operator::operator().model().unwrap().objects()
}

fn sample(finalizer: Option<&str>) -> Value {
    let mut sample = Memcached::new("sample", MemcachedSpec { size: 1 });
    sample.metadata.namespace = Some("default".into());
    sample.metadata.finalizers = finalizer.map(|one| vec![one.to_owned()]);
    serde_json::to_value(sample).unwrap()
}

async fn deployed() -> (Cluster, Objects, Vec<String>) {
    let cluster = Cluster::start().await;
    let mut objects = Objects::new(cluster.client());
    let mut said = Vec::new();
    let mut wanted = manifests();
    wanted.sort_by_key(rank);
    apply(&mut objects, &wanted, MINUTE, &mut |line: Line<'_>| said.push(line.to_string()))
        .await
        .unwrap();
    (cluster, objects, said)
}

async fn removed(
    objects: &mut Objects,
    delete_resources: bool,
    crds: bool,
) -> (Result<(), String>, Vec<String>) {
    let mut said = Vec::new();
    let mut lines = |line: Line<'_>| said.push(line.to_string());
    let mut wait = Wait::new(MINUTE, &mut lines);
    let done = remove_all(objects, manifests(), delete_resources, crds, &mut wait).await;
    (done.map_err(|failure| failure.to_string()), said)
}

#[tokio::test(start_paused = true)]
async fn everything_is_created_in_order_and_the_operator_becomes_ready() {
    let (_cluster, mut objects, said) = deployed().await;
    assert_eq!(said[0], "namespace/memcached-operator-system created");
    let crd = "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com created";
    assert_eq!(said[1], crd);
    let deployment = "deployment.apps/memcached-operator-controller-manager";
    assert!(said.contains(&format!("{deployment} created")), "{said:#?}");
    transcript::assert_shown("docs/dev.md", "controller-manager created", &said);

    let mut again = Vec::new();
    let wanted = manifests();
    apply(&mut objects, &wanted, MINUTE, &mut |line: Line<'_>| again.push(line.to_string()))
        .await
        .unwrap();
    assert!(again.iter().all(|line| line.ends_with(" unchanged")), "{again:#?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_removed_while_custom_resources_exist() {
    let (_cluster, mut objects, _) = deployed().await;
    objects.apply(&sample(None)).await.unwrap();
    let (done, said) = removed(&mut objects, false, true).await;
    let error = done.unwrap_err();
    let named = "memcached.cache.example.com/sample in namespace default";
    assert!(error.contains(named) && error.contains("--delete-resources"), "{error}");
    assert_eq!(said, Vec::<String>::new());
    let deployment = manifests().into_iter().find(|one| one["kind"] == "Deployment").unwrap();
    assert!(objects.get(&deployment).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_removed_before_the_operator_and_definitions_last() {
    let (_cluster, mut objects, _) = deployed().await;
    objects.apply(&sample(None)).await.unwrap();
    let (done, said) = removed(&mut objects, true, true).await;
    done.unwrap();
    let at = |start: &str| said.iter().position(|line| line.starts_with(start));
    let order = [
        at("memcached.cache.example.com/sample deleted"),
        at("deployment.apps/memcached-operator-controller-manager deleted"),
        at("serviceaccount/memcached-operator-controller-manager deleted"),
        at("customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com deleted"),
        at("namespace/memcached-operator-system deleted"),
    ];
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?} in {said:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_definition_has_a_url_or_a_service_however_often_it_is_applied() {
    let (cluster, mut objects, _) = deployed().await;
    let definition = manifests().into_iter().find(|one| rank(one) == Rank::Definition).unwrap();
    let url = "https://127.0.0.1:9443/convert";
    // What an operator on this machine does.
    let config = json!({"url": url, "caBundle": "", "service": null});
    let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": config}}}});
    let definitions = windlass::Client::new(cluster.client());
    let definitions = definitions.api::<CustomResourceDefinition>();
    let key = windlass::Key::cluster("memcacheds.cache.example.com");
    definitions.patch(&key, &windlass::client::Patch::Merge(patch)).await.unwrap();
    let found = async |objects: &mut Objects| {
        objects.apply(&definition).await.unwrap();
        let found = objects.get(&definition).await.unwrap().unwrap();
        found["spec"]["conversion"]["webhook"]["clientConfig"].clone()
    };
    let mut development = Objects::new(cluster.client()).keep_local_conversion(true);
    let config = found(&mut development).await;
    assert_eq!((&config["url"], &config["service"]), (&json!(url), &json!(null)));
    let config = found(&mut objects).await;
    assert_eq!(config["url"], json!(null));
    assert_eq!(config["service"]["name"], "memcached-operator-webhook-service");
}

#[tokio::test(start_paused = true)]
async fn definitions_stay_unless_they_are_asked_for() {
    let (_cluster, mut objects, _) = deployed().await;
    let (done, said) = removed(&mut objects, false, false).await;
    done.unwrap();
    assert!(!said.iter().any(|line| line.contains("customresourcedefinition")), "{said:#?}");
    let crd = serde_json::to_value(Memcached::crd()).unwrap();
    assert!(objects.get(&crd).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn waiting_names_the_finalizer_and_ends_with_the_timeout() {
    let (_cluster, mut objects, _) = deployed().await;
    objects.apply(&sample(Some("cache.example.com/cleanup"))).await.unwrap();
    let (done, said) = removed(&mut objects, true, false).await;
    let object = "memcached.cache.example.com/sample in namespace default";
    let reason = "finalizer cache.example.com/cleanup is still set";
    assert_eq!(said, [format!("waiting for {object}: {reason}")]);
    transcript::assert_shown("docs/dev.md", reason, &said);
    assert_eq!(done.unwrap_err(), format!("{object} is not gone after 60 s: {reason}"));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_what_belongs_to_others_is_kept() {
    let (_cluster, mut objects, _) = deployed().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "password", "namespace": "memcached-operator-system"},
    });
    objects.apply(&secret).await.unwrap();
    let (done, said) = removed(&mut objects, false, false).await;
    done.unwrap();
    let kept = "namespace/memcached-operator-system kept: it holds secret/password";
    assert_eq!(said.last().unwrap(), kept);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_does_not_become_ready_says_which_pod_is_in_trouble() {
    let cluster = Cluster::with_nodes(0).await;
    let mut objects = Objects::new(cluster.client());
    let mut said = Vec::new();
    let mut wanted = manifests();
    wanted.sort_by_key(rank);
    let done =
        apply(&mut objects, &wanted, MINUTE, &mut |line: Line<'_>| said.push(line.to_string()))
            .await;
    let error = done.unwrap_err().to_string();
    let deployment = "deployment.apps/memcached-operator-controller-manager in namespace";
    assert!(error.starts_with(deployment) && error.contains("is not ready after 60 s"), "{error}");
    assert!(error.contains("pod/memcached-operator-controller-manager-"), "{error}");
    assert!(said.iter().any(|line| line.starts_with(&format!("waiting for {deployment}"))));
}

#[test]
fn webhooks_are_removed_before_the_operator_that_answers_them() {
    let object = |kind: &str| json!({"kind": kind, "metadata": {"name": "x"}});
    let mut all =
        ["Deployment", "Service", "ValidatingWebhookConfiguration", "Namespace"].map(object);
    all.sort_by_key(rank);
    let order: Vec<String> = all.iter().map(reference).collect();
    let expected = ["namespace/x", "service/x", "validatingwebhookconfiguration/x", "deployment/x"];
    assert_eq!(order, expected);
}
