//! Validating policies are checked against the kinds they match.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use serde_json::{Value, json};
use windlass::Key;
use windlass_cluster::Cluster;

use crate::common::{client, object, until};

#[tokio::test(start_paused = true)]
async fn a_policy_reports_which_fields_its_kinds_do_not_have() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let policy = |name: &str, expressions: &[&str]| -> ValidatingAdmissionPolicy {
        let validations: Vec<Value> =
            expressions.iter().map(|text| json!({"expression": text})).collect();
        object(json!({"metadata": {"name": name}, "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["deployments", "deployments/scale"]}]},
            "validations": validations}}))
    };
    let good = [
        "object.spec.replicas <= 5 && object.metadata.labels['a'] == 'b'",
        "object.spec.template.spec.containers.all(c, c.image.startsWith('x'))",
    ];
    client.api().create(&policy("good", &good)).await.expect("created");
    client
        .api()
        .create(&policy("bad", &["true", "object.spec.replica > 1"]))
        .await
        .expect("created");
    let checked = |p: &Value| p["status"]["observedGeneration"] == 1;
    let good = until::<ValidatingAdmissionPolicy>(&client, &Key::cluster("good"), checked).await;
    assert_eq!(good["status"]["typeChecking"], json!({}));
    let bad = until::<ValidatingAdmissionPolicy>(&client, &Key::cluster("bad"), checked).await;
    let warnings = &bad["status"]["typeChecking"]["expressionWarnings"];
    assert_eq!(warnings.as_array().map(Vec::len), Some(1));
    assert_eq!(warnings[0]["fieldRef"], "spec.validations[1].expression");
    let text = warnings[0]["warning"].as_str().expect("is a text");
    assert!(text.starts_with("apps/v1, Kind=Deployment: "), "{text}");
    assert!(text.contains("undefined field 'replica'"), "{text}");
    cluster.stop().await;
}
