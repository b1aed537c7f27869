//! The built-in plugins, request by request.

use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Options, User};

use crate::tools::*;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn quota(server: &ApiServer, hard: Value, used: Value) {
    let body = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": hard}});
    made(server, QUOTAS, body).await;
    let status = json!({"status": {"hard": hard, "used": used}});
    let set = send(server, "PATCH", &format!("{QUOTAS}/q/status"), status).await;
    assert_eq!(set.code, 200, "{set:?}");
}

#[tokio::test]
async fn a_quota_is_booked_with_each_create_and_not_without_one() {
    let server = server();
    quota(&server, json!({"pods": "2"}), json!({"pods": "0"})).await;
    made(&server, PODS, pod("a")).await;
    assert_eq!(post(&server, PODS, pod("a")).await.code, 409);
    assert_eq!(post(&server, &format!("{PODS}?dryRun=All"), pod("x")).await.code, 201);
    made(&server, PODS, pod("b")).await;
    let refused = post(&server, PODS, pod("c")).await;
    assert_eq!(
        refused.message(),
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );
    let read = get(&server, &format!("{QUOTAS}/q")).await;
    assert_eq!(read.body["status"]["used"], json!({"pods": "2"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_at_the_same_time_never_exceed_a_quota() {
    let server = server();
    quota(&server, json!({"count/configmaps": "5"}), json!({"count/configmaps": "0"})).await;
    let tries = (0..20).map(|index| {
        let server = server.clone();
        tokio::spawn(
            async move { post(&server, MAPS, config_map(&format!("m{index}"))).await.code },
        )
    });
    let mut made = 0;
    for one in tries.collect::<Vec<_>>() {
        made += usize::from(one.await.unwrap() == 201);
    }
    assert_eq!(made, 5);
    let read = get(&server, &format!("{QUOTAS}/q")).await;
    assert_eq!(read.body["status"]["used"], json!({"count/configmaps": "5"}));
}

#[tokio::test]
async fn a_pod_is_given_the_priority_of_its_class_or_refused() {
    let server = server();
    let mut named = pod("a");
    named["spec"]["priorityClassName"] = "high".into();
    let refused = post(&server, PODS, named.clone()).await;
    assert_eq!(
        refused.message(),
        "pods \"a\" is forbidden: no PriorityClass with name high was found"
    );
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never",
        "globalDefault": true});
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    made(&server, classes, class.clone()).await;
    let given = made(&server, PODS, named).await;
    assert_eq!(given["spec"]["priority"], 7);
    assert_eq!(given["spec"]["preemptionPolicy"], "Never");
    assert_eq!(made(&server, PODS, pod("b")).await["spec"]["priorityClassName"], "high");
    let mut second = class;
    second["metadata"]["name"] = "other".into();
    let refused = post(&server, classes, second).await;
    assert_eq!(
        refused.message(),
        "priorityclasses.scheduling.k8s.io \"other\" is forbidden: PriorityClass high is already marked as default. Only one default can exist"
    );
}

#[tokio::test]
async fn pods_run_as_an_account_if_the_server_is_configured_so() {
    let options = Options {
        tokens: vec![("t".to_owned(), User::admin("admin"))],
        service_account_admission: true,
        ..Options::default()
    };
    let server = ApiServer::with_options(options).unwrap();
    let refused = post(&server, PODS, pod("a")).await;
    assert_eq!(
        refused.message(),
        "pods \"a\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found"
    );
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default"}, "imagePullSecrets": [{"name": "s"}]});
    made(&server, "/api/v1/namespaces/default/serviceaccounts", account).await;
    let spec = made(&server, PODS, pod("a")).await["spec"].clone();
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "s"}]));
    let mount = &spec["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(mount["name"], spec["volumes"][0]["name"]);
}

#[tokio::test]
async fn the_labels_of_a_namespace_bind_its_pods() {
    let server = server();
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/warn": "restricted"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "safe", "labels": labels}});
    made(&server, "/api/v1/namespaces", namespace).await;
    let pods = "/api/v1/namespaces/safe/pods";
    let mut host = pod("a");
    host["spec"]["hostPID"] = true.into();
    let refused = post(&server, pods, host).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        "pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)"
    );
    let warned = post(&server, pods, pod("b")).await;
    assert_eq!(warned.code, 201);
    assert!(warned.warnings[0].contains("would violate PodSecurity \\\"restricted:latest\\\""));
}

#[tokio::test]
async fn classes_fill_in_what_is_left_out() {
    let server = server();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "fast",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "p"});
    made(&server, "/apis/storage.k8s.io/v1/storageclasses", class).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let given = made(&server, claims, claim).await;
    assert_eq!(given["spec"]["storageClassName"], "fast");
    assert_eq!(given["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let runtime = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "r"}, "handler": "h", "overhead": {"podFixed": {"cpu": "10m"}},
        "scheduling": {"nodeSelector": {"k": "v"}}});
    made(&server, "/apis/node.k8s.io/v1/runtimeclasses", runtime).await;
    let mut body = pod("p");
    body["spec"]["runtimeClassName"] = "r".into();
    let given = made(&server, PODS, body).await;
    assert_eq!(given["spec"]["overhead"], json!({"cpu": "10m"}));
    assert_eq!(given["spec"]["nodeSelector"], json!({"k": "v"}));
    let mut body = pod("q");
    body["spec"]["runtimeClassName"] = "none".into();
    assert_eq!(
        post(&server, PODS, body).await.message(),
        "pods \"q\" is forbidden: pod rejected: RuntimeClass \"none\" not found"
    );
}
