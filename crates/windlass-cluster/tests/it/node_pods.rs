//! The scheduler and the life of pods on simulated nodes.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass::Key;
use windlass::client::Patch;
use windlass_cluster::Cluster;

use crate::common::{client, deployment, events, gone, key, object, pod, until, value};

fn ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn annotate(name: &str, text: Value) -> Patch {
    Patch::Merge(json!({"metadata": {"annotations": {name: text}}}))
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_placed_started_and_ready() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&pod("p", json!({}))).await.expect("created");
    let p = until::<Pod>(&client, &key("p"), ready).await;
    assert_eq!(p["spec"]["nodeName"], "node-1");
    assert_eq!(p["status"]["phase"], "Running");
    assert_eq!(p["status"]["podIP"], "10.244.0.1");
    assert_eq!(p["status"]["hostIP"], "192.168.0.1");
    assert!(p["status"]["containerStatuses"][0]["state"]["running"].is_object());
    let seen = events(&client, "p").await;
    assert_eq!(
        seen,
        [
            "Created: Container created",
            "Pulled: Container image \"nginx:1\" already present on machine and can be accessed by \
             the pod",
            "Scheduled: Successfully assigned default/p to node-1",
            "Started: Container started",
        ]
    );
    client.api::<Pod>().delete(&key("p")).await.expect("deleted");
    gone::<Pod>(&client, &key("p")).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_delays_readiness() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut slow = value(&pod("slow", json!({})));
    slow["spec"]["containers"][0]["readinessProbe"] =
        json!({"initialDelaySeconds": 30, "tcpSocket": {"port": 80}});
    let start = Instant::now();
    client.api().create(&object::<Pod>(slow)).await.expect("created");
    until::<Pod>(&client, &key("slow"), ready).await;
    let took = start.elapsed().as_secs();
    assert!((28..32).contains(&took), "{took} s");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_waits_until_a_node_changes() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut picky = value(&pod("picky", json!({})));
    picky["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    client.api().create(&object::<Pod>(picky)).await.expect("created");
    let refused = |p: &Value| p["status"]["conditions"][0]["reason"] == "Unschedulable";
    until::<Pod>(&client, &key("picky"), refused).await;
    let text = "FailedScheduling: 0/1 nodes are available: 1 node(s) didn't match Pod's node \
                affinity/selector. no new claims to deallocate, preemption: 0/1 nodes are \
                available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(events(&client, "picky").await, [text]);
    let label = Patch::Merge(json!({"metadata": {"labels": {"disk": "ssd"}}}));
    client.api::<Node>().patch(&Key::cluster("node-1"), &label).await.expect("patched");
    until::<Pod>(&client, &key("picky"), ready).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_too_large_for_the_free_capacity_is_scheduled_when_another_is_deleted() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    for name in ["first", "second"] {
        let mut large = value(&pod(name, json!({})));
        large["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "200"}});
        client.api().create(&object::<Pod>(large)).await.expect("created");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let second = until::<Pod>(&client, &key("second"), |p| !p["status"].is_null()).await;
    assert!(second.to_string().contains("Insufficient cpu"), "{second:#}");
    client.api::<Pod>().delete(&key("first")).await.expect("deleted");
    until::<Pod>(&client, &key("second"), ready).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_spread_over_the_nodes() {
    let cluster = Cluster::with_nodes(3).await;
    let client = client(&cluster);
    client.api().create(&deployment("web", 9)).await.expect("created");
    crate::common::available(&client, "web", 9).await;
    let pods = crate::common::pods_of(&client, "web").await;
    for number in 1..=3 {
        let name = format!("node-{number}");
        let there = pods.iter().filter(|p| value(*p)["spec"]["nodeName"] == name.as_str()).count();
        assert_eq!(there, 3, "pods on {name}");
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_crashes_is_restarted_ever_later_and_recovers() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&pod("p", json!({"windlass.dev/crash": "true"}))).await.expect("created");
    let start = Instant::now();
    let p = until::<Pod>(&client, &key("p"), |p| {
        p["status"]["containerStatuses"][0]["restartCount"] == 3
    })
    .await;
    assert!(start.elapsed().as_secs() >= 28, "10 s and 20 s, not {:?}", start.elapsed());
    let status = &p["status"]["containerStatuses"][0];
    assert_eq!(status["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(p["status"]["phase"], "Running");
    let heal = annotate("windlass.dev/crash", Value::Null);
    client.api::<Pod>().patch(&key("p"), &heal).await.expect("patched");
    until::<Pod>(&client, &key("p"), ready).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_image_is_reported_until_it_is_there() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client
        .api()
        .create(&pod("p", json!({"windlass.dev/image": "missing"})))
        .await
        .expect("created");
    let waits = |reason: &'static str| {
        move |p: &Value| p["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
    };
    until::<Pod>(&client, &key("p"), waits("ErrImagePull")).await;
    let p = until::<Pod>(&client, &key("p"), waits("ImagePullBackOff")).await;
    assert_eq!(p["status"]["phase"], "Pending");
    let heal = annotate("windlass.dev/image", Value::Null);
    client.api::<Pod>().patch(&key("p"), &heal).await.expect("patched");
    until::<Pod>(&client, &key("p"), ready).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_ends_with_the_exit_code_of_its_annotation() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    for (name, code, phase) in [("good", "0", "Succeeded"), ("bad", "7", "Failed")] {
        let annotations =
            json!({"windlass.dev/complete-after": "5s", "windlass.dev/exit-code": code});
        let mut once = value(&pod(name, annotations));
        once["spec"]["restartPolicy"] = json!("Never");
        client.api().create(&object::<Pod>(once)).await.expect("created");
        let ended = |p: &Value| p["status"]["phase"] == phase;
        let p = until::<Pod>(&client, &key(name), ended).await;
        let state = &p["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(state["exitCode"].to_string(), code);
        assert!(!ready(&p));
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_may_take_its_time() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let annotations = json!({"windlass.dev/terminate-after": "12s"});
    client.api().create(&pod("p", annotations)).await.expect("created");
    until::<Pod>(&client, &key("p"), ready).await;
    let start = Instant::now();
    client.api::<Pod>().delete(&key("p")).await.expect("deleted");
    gone::<Pod>(&client, &key("p")).await;
    let took = start.elapsed().as_secs();
    assert!((10..14).contains(&took), "{took} s");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_reports_what_its_annotations_say() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let node = Key::cluster("node-1");
    let is = |status: &'static str| {
        move |n: &Value| {
            let conditions = n["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == status)
        }
    };
    until::<Node>(&client, &node, is("True")).await;
    client
        .api::<Node>()
        .patch(&node, &annotate("windlass.dev/ready", json!("false")))
        .await
        .expect("ok");
    until::<Node>(&client, &node, is("False")).await;
    client
        .api::<Node>()
        .patch(&node, &annotate("windlass.dev/offline", json!("true")))
        .await
        .expect("ok");
    until::<Node>(&client, &node, is("Unknown")).await;
    let both = Patch::Merge(json!({"metadata": {"annotations": {
        "windlass.dev/ready": null, "windlass.dev/offline": null}}}));
    client.api::<Node>().patch(&node, &both).await.expect("patched");
    until::<Node>(&client, &node, is("True")).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_once_completes_by_itself() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut test = value(&pod("test", json!({})));
    test["spec"]["restartPolicy"] = json!("Never");
    client.api().create(&object::<Pod>(test)).await.expect("created");
    until::<Pod>(&client, &key("test"), |p| p["status"]["phase"] == "Succeeded").await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_config_map_of_its_environment() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut p = value(&pod("p", json!({})));
    p["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    p["spec"]["containers"][0]["env"] = json!([
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "x", "key": "b", "optional": true}}}]);
    client.api().create(&object::<Pod>(p)).await.expect("created");
    let waiting = |p: &Value| p["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    let says = |text: &'static str| {
        move |p: &Value| {
            let state = waiting(p);
            state["reason"] == "CreateContainerConfigError" && state["message"] == text
        }
    };
    until::<Pod>(&client, &key("p"), says("configmap \"settings\" not found")).await;
    let map = |data: Value| {
        object::<ConfigMap>(json!({
            "metadata": {"name": "settings", "namespace": "default"}, "data": data}))
    };
    client.api().create(&map(json!({}))).await.expect("created");
    let text = "couldn't find key a in ConfigMap default/settings";
    until::<Pod>(&client, &key("p"), says(text)).await;
    let data = Patch::Merge(json!({"data": {"a": "1"}}));
    client.api::<ConfigMap>().patch(&key("settings"), &data).await.expect("patched");
    let p = until::<Pod>(&client, &key("p"), ready).await;
    assert_eq!(p["status"]["phase"], "Running");
    let failed = "Failed: Error: configmap \"settings\" not found".to_string();
    assert!(events(&client, "p").await.contains(&failed));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_secret_it_mounts() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut p = value(&pod("p", json!({})));
    p["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "s"}}]);
    client.api().create(&object::<Pod>(p)).await.expect("created");
    let reason = |p: &Value| {
        let status = &p["status"]["containerStatuses"][0];
        status["state"]["waiting"]["reason"] == "ContainerCreating"
            && p["status"]["podIP"].is_null()
    };
    until::<Pod>(&client, &key("p"), reason).await;
    let text = "FailedMount: MountVolume.SetUp failed for volume \"v\" : secret \"s\" not found";
    assert!(events(&client, "p").await.contains(&text.to_string()));
    let secret = json!({"metadata": {"name": "s", "namespace": "default"}});
    client.api().create(&object::<Secret>(secret)).await.expect("created");
    until::<Pod>(&client, &key("p"), ready).await;
    cluster.stop().await;
}

fn large(name: &str, class: &str, cpu: &str) -> Pod {
    let mut pod = value(&pod(name, json!({"windlass.dev/terminate-after": "3s"})));
    pod["spec"]["priorityClassName"] = json!(class);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    object(pod)
}

#[tokio::test(start_paused = true)]
async fn an_important_pod_takes_the_place_of_the_least_important_ones() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    for (name, level) in [("low", 1), ("middle", 5), ("high", 10)] {
        let class = json!({"metadata": {"name": name}, "value": level});
        client.api().create(&object::<PriorityClass>(class)).await.expect("created");
    }
    for (name, class) in [("a", "middle"), ("b", "low")] {
        client.api().create(&large(name, class, "120")).await.expect("created");
        until::<Pod>(&client, &key(name), ready).await;
    }
    client.api().create(&large("c", "low", "120")).await.expect("created");
    let refused = |p: &Value| p["status"]["conditions"][0]["reason"] == "Unschedulable";
    until::<Pod>(&client, &key("c"), refused).await;
    client.api().create(&large("vip", "high", "120")).await.expect("created");
    let nominated = |p: &Value| p["status"]["nominatedNodeName"] == "node-1";
    until::<Pod>(&client, &key("vip"), nominated).await;
    let b =
        until::<Pod>(&client, &key("b"), |b| !b["metadata"]["deletionTimestamp"].is_null()).await;
    let conditions = b["status"]["conditions"].as_array().expect("has conditions");
    let target = conditions.iter().find(|c| c["type"] == "DisruptionTarget").expect("is marked");
    assert_eq!(target["reason"], "PreemptionByScheduler");
    let vip = until::<Pod>(&client, &key("vip"), ready).await;
    let uid = vip["metadata"]["uid"].as_str().expect("has one");
    let text = format!("Preempted: Preempted by pod {uid} on node node-1");
    assert!(events(&client, "b").await.contains(&text));
    gone::<Pod>(&client, &key("b")).await;
    let a = client.api::<Pod>().get(&key("a")).await.expect("read").expect("is still there");
    assert!(a.metadata.deletion_timestamp.is_none());
    until::<Pod>(&client, &key("c"), refused).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_preempts_never_waits() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let class = json!({"metadata": {"name": "polite"}, "value": 10, "preemptionPolicy": "Never"});
    client.api().create(&object::<PriorityClass>(class)).await.expect("created");
    let mut first = value(&large("first", "", "200"));
    first["spec"].as_object_mut().expect("a map").remove("priorityClassName");
    client.api().create(&object::<Pod>(first)).await.expect("created");
    until::<Pod>(&client, &key("first"), ready).await;
    client.api().create(&large("second", "polite", "200")).await.expect("created");
    let refused = |p: &Value| p["status"]["conditions"][0]["reason"] == "Unschedulable";
    let second = until::<Pod>(&client, &key("second"), refused).await;
    assert!(second["status"]["nominatedNodeName"].is_null());
    let first =
        client.api::<Pod>().get(&key("first")).await.expect("read").expect("is still there");
    assert!(first.metadata.deletion_timestamp.is_none());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_behind_simulated_pods_is_reported_and_not_dialled() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&deployment("hook", 1)).await.expect("created");
    let service = json!({"metadata": {"name": "hook", "namespace": "default"},
        "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443}]}});
    client.api().create(&object::<Service>(service)).await.expect("created");
    let name = "kubernetes.io/service-name";
    let slices = client.api::<EndpointSlice>().list().namespace("default").labels([(name, "hook")]);
    for _ in 0..1_000 {
        let slices = slices.items().await.expect("can be listed");
        if slices.iter().any(|slice| slice.endpoints.iter().flatten().count() > 0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let hooks = json!({"metadata": {"name": "hooks"}, "webhooks": [{
        "name": "v.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"]}]}]});
    client.api().create(&object::<ValidatingWebhookConfiguration>(hooks)).await.expect("created");
    let map = json!({"metadata": {"name": "m", "namespace": "default"}});
    let refused = client.api().create(&object::<ConfigMap>(map)).await.expect_err("is not called");
    let refused = format!("{refused:?}");
    assert!(refused.contains("service \"hook\" is simulated"), "{refused}");
    cluster.stop().await;
}
