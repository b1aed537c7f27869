use serde_json::{Value, json};

use super::*;

fn pod(annotations: Value, spec: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 1,
                     "annotations": annotations},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending"},
    });
    let extra = spec.as_object().cloned().unwrap_or_default();
    pod["spec"].as_object_mut().expect("a map").extend(extra);
    serde_json::from_value(pod).expect("is a pod")
}

fn place() -> Place {
    Place { host_ip: "192.168.0.1".into(), pod_ip: "10.244.0.1".into() }
}

/// Lets a pod live until nothing happens for an hour; returns its phases with their times.
fn live(pod: &mut Pod, seconds: i64) -> Vec<(i64, String)> {
    let mut phases: Vec<(i64, String)> = Vec::new();
    let mut now = Timestamp::from_second(1_000).expect("in range");
    for _ in 0..1_000 {
        let step = step(pod, &place(), &Missing::default(), now);
        if let Some(status) = step.status {
            let phase = status.phase.clone().unwrap_or_default();
            pod.status = Some(status);
            if phases.last().map(|(_, last)| last) != Some(&phase) {
                phases.push((now.as_second() - 1_000, phase));
            }
            let again = super::step(pod, &place(), &Missing::default(), now);
            assert!(again.status.is_none(), "a step that was written leads to another");
        }
        let Some(wait) = step.again else { return phases };
        assert!(!wait.is_zero(), "a wait of nothing");
        now += wait;
        if now.as_second() - 1_000 > seconds {
            return phases;
        }
    }
    panic!("a pod that never rests");
}

#[test]
fn a_plain_pod_runs_at_once_and_rests() {
    let mut pod = pod(json!({}), json!({}));
    assert_eq!(live(&mut pod, 3600), [(0, "Running".to_string())]);
    let status = pod.status.expect("has one");
    assert!(status.conditions.iter().flatten().all(|c| c.status == "True"));
}

#[test]
fn a_pod_that_ends_ends_once() {
    let annotations = json!({"windlass.dev/complete-after": "7s"});
    let mut pod = pod(annotations, json!({"restartPolicy": "Never"}));
    let expected = [(0, "Running".to_string()), (7, "Succeeded".to_string())];
    assert_eq!(live(&mut pod, 3600), expected);
}

#[test]
fn a_pod_that_is_not_started_again_ends_after_a_second_by_default() {
    for policy in ["Never", "OnFailure"] {
        let mut once = pod(json!({}), json!({"restartPolicy": policy}));
        let expected = [(0, "Running".to_string()), (1, "Succeeded".to_string())];
        assert_eq!(live(&mut once, 3600), expected);
        let annotations = json!({"windlass.dev/complete-after": "never"});
        let mut lasting = pod(annotations, json!({"restartPolicy": policy}));
        assert_eq!(live(&mut lasting, 3600), [(0, "Running".to_string())]);
    }
}

#[test]
fn a_container_without_its_configuration_waits_for_it() {
    let mut pod = pod(json!({}), json!({}));
    let why = "configmap \"m\" not found".to_string();
    let missing =
        Missing { containers: [("c".to_string(), why.clone())].into(), ..Missing::default() };
    let now = Timestamp::from_second(1_000).expect("in range");
    let first = step(&pod, &place(), &missing, now);
    let status = first.status.expect("has one");
    let state = status.container_statuses.as_ref().expect("has containers")[0].state.clone();
    let waiting = state.and_then(|s| s.waiting).expect("waits");
    assert_eq!(waiting.reason.as_deref(), Some("CreateContainerConfigError"));
    assert_eq!(waiting.message, Some(why));
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!(first.events[0].text, "Error: configmap \"m\" not found");
    assert_eq!(first.again, Some(Duration::from_secs(1)));
    pod.status = Some(status);
    let second = step(&pod, &place(), &missing, now);
    assert!(second.status.is_none() && second.events.is_empty());
    assert_eq!(live(&mut pod, 10), [(0, "Running".to_string())]);
}

#[test]
fn a_crashing_pod_is_started_after_10_20_40_seconds_and_at_most_every_five_minutes() {
    let mut pod = pod(json!({"windlass.dev/crash": "true"}), json!({}));
    live(&mut pod, 1 + 10 + 20 + 40 + 80 + 160 + 300 + 300);
    let status = pod.status.expect("has one");
    let container = &status.container_statuses.expect("has containers")[0];
    assert_eq!(container.restart_count, 8);
    assert_eq!(status.phase.as_deref(), Some("Running"));
}

#[test]
fn a_readiness_gate_keeps_a_running_pod_unready() {
    let gates = json!({"readinessGates": [{"conditionType": "example.com/open"}]});
    let mut pod = pod(json!({}), gates);
    live(&mut pod, 10);
    let conditions = pod.status.and_then(|s| s.conditions).expect("has conditions");
    let of = |type_: &str| conditions.iter().find(|c| c.type_ == type_).expect("is there");
    assert_eq!(of("ContainersReady").status, "True");
    assert_eq!(of("Ready").reason.as_deref(), Some("ReadinessGatesNotReady"));
}

#[test]
fn a_deleted_pod_is_removed_after_its_time_and_never_later_than_its_grace() {
    for (after, expected) in [("0s", 0), ("5s", 5), ("99s", 30)] {
        let mut pod = pod(json!({"windlass.dev/terminate-after": after}), json!({}));
        let asked = Timestamp::from_second(1_000).expect("in range");
        let end = asked + Duration::from_secs(30);
        pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(end));
        pod.metadata.deletion_grace_period_seconds = Some(30);
        let first = step(&pod, &place(), &Missing::default(), asked);
        assert_eq!(first.remove, expected == 0);
        let last = step(&pod, &place(), &Missing::default(), asked + Duration::from_secs(expected));
        assert!(last.remove, "{after}");
    }
}
