//! Defaults and a few rules of built-in kinds.

use serde_json::{Value, json};

use crate::support::*;

/// Creates an object and returns what the server made of it.
async fn made(path: &str, body: Value) -> Value {
    ask(&pod_server().await, &format!("POST {path}"), body).await.ok()
}

/// The message of a create that is refused.
async fn refused(path: &str, body: Value) -> String {
    ask(&pod_server().await, &format!("POST {path}"), body).await.fails(422)
}

fn named(spec: Value) -> Value {
    json!({"metadata": {"name": "x"}, "spec": spec})
}

#[tokio::test]
async fn a_pod_gets_its_defaults_and_its_class() {
    let pod = made(PODS, pod("a")).await;
    let spec = &pod["spec"];
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["dnsPolicy"], "ClusterFirst");
    assert_eq!(spec["schedulerName"], "default-scheduler");
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(spec["enableServiceLinks"], true);
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(spec["containers"][0]["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
}

#[tokio::test]
async fn a_pod_without_containers_or_with_two_of_a_name_is_refused() {
    let text = refused(PODS, named(json!({"containers": []}))).await;
    assert!(text.contains("spec.containers: Required value"), "{text}");
    let twice = json!({"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]});
    let text = refused(PODS, named(twice)).await;
    assert!(text.contains("spec.containers[1].name: Duplicate value: \"a\""), "{text}");
    let policy = json!({"restartPolicy": "Maybe", "containers": [{"name": "a", "image": "i"}]});
    let text = refused(PODS, named(policy)).await;
    assert!(text.contains("spec.restartPolicy: Unsupported value: \"Maybe\""), "{text}");
}

#[tokio::test]
async fn a_deployment_needs_labels_that_its_selector_finds() {
    let made = made(DEPLOYMENTS, deployment("web")).await;
    let spec = &made["spec"];
    assert_eq!(spec["strategy"]["type"], "RollingUpdate");
    assert_eq!(spec["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    assert_eq!(
        (&spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]),
        (&json!(10), &json!(600))
    );
    let mut other = deployment("web");
    other["spec"]["selector"]["matchLabels"] = json!({"app": "db"});
    let text = refused(DEPLOYMENTS, other).await;
    assert!(text.contains("`selector` does not match template `labels`"), "{text}");
}

#[tokio::test]
async fn a_selector_can_not_change() {
    let server = server();
    let mut made = ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("web")).await.ok();
    made["spec"]["selector"]["matchLabels"] = json!({"app": "new"});
    made["spec"]["template"]["metadata"]["labels"] = json!({"app": "new"});
    let text = ask(&server, &format!("PUT {DEPLOYMENTS}/web"), made).await.fails(422);
    assert!(text.contains("spec.selector: Invalid value"), "{text}");
    assert!(text.contains("field is immutable"), "{text}");
}

#[tokio::test]
async fn a_service_gets_an_address_and_ports() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let spec = json!({"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]});
    let service = made(SERVICES, named(spec)).await;
    let spec = &service["spec"];
    assert!(spec["clusterIP"].as_str().unwrap().starts_with("10."), "{spec}");
    assert_eq!(spec["clusterIPs"][0], spec["clusterIP"]);
    assert_eq!(spec["ports"][0]["targetPort"], 80);
    assert_eq!(spec["ports"][0]["protocol"], "TCP");
    let port = spec["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30000..32768).contains(&port));
    assert_eq!(spec["sessionAffinity"], "None");
    let text = refused(SERVICES, named(json!({"ports": [{"port": 70000}]}))).await;
    assert!(text.contains("must be between 1 and 65535, inclusive"), "{text}");
}

#[tokio::test]
async fn a_service_gives_its_address_back() {
    let server = server();
    let services = "/api/v1/namespaces/default/services";
    let spec = json!({"clusterIP": "10.0.0.77", "ports": [{"port": 80}]});
    ask(&server, &format!("POST {services}"), named(spec.clone())).await.ok();
    let mut other = named(spec.clone());
    other["metadata"]["name"] = json!("y");
    let taken = ask(&server, &format!("POST {services}"), other.clone()).await;
    assert!(taken.fails(422).contains("provided IP is already allocated"), "{}", taken.text());
    ask(&server, &format!("DELETE {services}/x"), json!(null)).await.ok();
    ask(&server, &format!("POST {services}"), other).await.ok();
}

#[tokio::test]
async fn jobs_and_cron_jobs_get_their_defaults() {
    let template = json!({"spec": {
        "restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}],
    }});
    let job = made("/apis/batch/v1/namespaces/default/jobs", named(json!({"template": template})));
    let job = job.await;
    let spec = &job["spec"];
    assert_eq!((&spec["parallelism"], &spec["completions"]), (&json!(1), &json!(1)));
    assert_eq!((&spec["backoffLimit"], &spec["completionMode"]), (&json!(6), &json!("NonIndexed")));
    let uid = &job["metadata"]["uid"];
    assert_eq!(&spec["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], uid);
    const CRON: &str = "/apis/batch/v1/namespaces/default/cronjobs";
    let cron = json!({"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template}}});
    let made = made(CRON, named(cron.clone())).await;
    assert_eq!(made["spec"]["concurrencyPolicy"], "Allow");
    assert_eq!(made["spec"]["suspend"], false);
    let mut wrong = cron;
    wrong["schedule"] = json!("every now and then");
    let text = refused(CRON, named(wrong)).await;
    assert!(text.contains("spec.schedule: Invalid value"), "{text}");
}

#[tokio::test]
async fn a_secret_is_encoded_by_the_server_and_fixed_in_type() {
    let server = server();
    let secrets = "/api/v1/namespaces/default/secrets";
    let body = json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}});
    let made = ask(&server, &format!("POST {secrets}"), body).await.ok();
    assert_eq!(made["data"], json!({"a": "Yg=="}));
    assert_eq!((&made["type"], &made["stringData"]), (&json!("Opaque"), &json!(null)));
    let change = json!({"type": "example.com/other"});
    let text = patch(&server, &format!("{secrets}/s"), MERGE_PATCH, change).await.fails(422);
    assert!(text.contains("type: Invalid value") && text.contains("immutable"), "{text}");
}

#[tokio::test]
async fn other_kinds_have_their_rules() {
    let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let text = refused(path, named(json!({}))).await;
    assert!(text.contains("either `defaultBackend` or `rules` must be specified"), "{text}");
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"});
    let text = refused(path, named(json!({"maxReplicas": 0, "scaleTargetRef": target}))).await;
    assert!(text.contains("spec.maxReplicas: Invalid value: 0"), "{text}");
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let both = json!({"minAvailable": 1, "maxUnavailable": 1, "selector": {}});
    let text = refused(path, named(both)).await;
    assert!(text.contains("minAvailable and maxUnavailable cannot be both set"), "{text}");
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let text = refused(path, named(json!({"leaseDurationSeconds": 0}))).await;
    assert!(text.contains("must be greater than 0"), "{text}");
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    let text = refused(path, named(json!({"accessModes": []}))).await;
    assert!(text.contains("spec.accessModes: Required value"), "{text}");
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let body = json!({"metadata": {"name": "x"}, "value": 2_000_000_000});
    let text = ask(&server(), &format!("POST {path}"), body).await;
    assert!(text.code.is_client_error(), "{}", text.text());
}

#[tokio::test]
async fn addresses_are_written_in_one_way() {
    let service = |ip: &str| named(json!({"ports": [{"port": 80}], "externalIPs": [ip]}));
    let services = "/api/v1/namespaces/default/services";
    assert_eq!(
        refused(services, service("010.1.2.3")).await,
        "Service \"x\" is invalid: spec.externalIPs[0]: Invalid value: \"010.1.2.3\": must not \
         have leading 0s"
    );
    let policy = named(json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock":
        {"cidr": "10.0.0.1/8"}}]}]}));
    let text = refused("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", policy);
    let text = text.await;
    assert!(text.ends_with("must not have bits set beyond the prefix length"), "{text}");
}

#[tokio::test]
async fn the_scopes_of_a_quota_go_with_what_it_limits() {
    let quota = named(json!({"hard": {"services": "1"}, "scopeSelector": {"matchExpressions": [
        {"scopeName": "Terminating", "operator": "In"}]}}));
    assert_eq!(
        refused("/api/v1/namespaces/default/resourcequotas", quota).await,
        "ResourceQuota \"x\" is invalid: [spec.scopeSelector.matchExpressions: Invalid value: \
         {\"MatchExpressions\":[{\"ScopeName\":\"Terminating\",\"Operator\":\"In\",\
         \"Values\":null}]}: unsupported scope applied to resource, \
         spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' \
         when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
         ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
         ResourceQuotaScopeCrossNamespacePodAffinity, \
         spec.scopeSelector.matchExpressions.values: Required value: must be at least one value \
         when `operator` is 'In' or 'NotIn' for scope selector]"
    );
}

#[tokio::test]
async fn a_privileged_container_may_escalate() {
    let context = json!({"privileged": true, "allowPrivilegeEscalation": false});
    let pod = named(json!({"containers": [
        {"name": "c", "image": "i", "securityContext": context}]}));
    assert_eq!(
        refused(PODS, pod).await,
        "Pod \"x\" is invalid: spec.containers[0].securityContext: Invalid value: \
         {\"Capabilities\":null,\"Privileged\":true,\"SELinuxOptions\":null,\
         \"WindowsOptions\":null,\"RunAsUser\":null,\"RunAsGroup\":null,\"RunAsNonRoot\":null,\
         \"ReadOnlyRootFilesystem\":null,\"AllowPrivilegeEscalation\":false,\"ProcMount\":null,\
         \"SeccompProfile\":null,\"AppArmorProfile\":null}: cannot set \
         `allowPrivilegeEscalation` to false and `privileged` to true"
    );
}

#[tokio::test]
async fn label_keys_need_a_selector() {
    let pod = named(json!({
        "containers": [{"name": "c", "image": "i"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"]}],
    }));
    assert_eq!(
        refused(PODS, pod).await,
        "Pod \"x\" is invalid: spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must \
         not be specified when labelSelector is not set"
    );
}

#[tokio::test(start_paused = true)]
async fn labels_count_in_the_generation_of_an_endpoint_slice() {
    let server = server();
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({"metadata": {"name": "a"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["1.2.3.4"]}]});
    ask(&server, &format!("POST {slices}"), slice).await.ok();
    let path = format!("{slices}/a");
    for (change, generation) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), 2),
        (json!({"metadata": {"annotations": {"a": "b"}}}), 2),
        (json!({"endpoints": [{"addresses": ["1.2.3.5"]}]}), 3),
    ] {
        let changed = patch(&server, &path, MERGE_PATCH, change).await.ok();
        assert_eq!(changed["metadata"]["generation"], generation);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_names_the_key_without_the_prefix_of_the_storage() {
    let server = server();
    create_map(&server, "a", "0").await;
    let mut other = map("a", "1");
    other["metadata"]["uid"] = json!("x");
    for (query, key) in [("", "/registry/configmaps/"), ("?dryRun=All", "/configmaps/")] {
        let answer = ask(&server, &format!("PUT {MAPS}/a{query}"), other.clone()).await;
        let message = answer.fails(409);
        assert!(message.contains(&format!("Key: {key}default/a,")), "{message}");
    }
}
