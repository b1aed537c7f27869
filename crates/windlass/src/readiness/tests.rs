use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().expect("a time")
}

/// Returns the readiness in one line: the state and the reason.
fn line(object: &Value) -> String {
    let readiness = Readiness::of(object, now());
    let state = match &readiness {
        Readiness::Ready => return "ready".into(),
        Readiness::Terminating => return "terminating".into(),
        Readiness::InProgress { .. } => "not yet",
        Readiness::Failed { .. } => "failed",
        Readiness::Unknown { .. } => "unknown",
    };
    assert!(!readiness.reason().is_empty() && !readiness.reason().contains(' '), "{readiness}");
    format!("{state} {}", readiness.reason())
}

/// An object of a kind, of generation 2 that its controller has seen.
fn object(api_version: &str, kind: &str, spec: Value, status: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "a", "generation": 2},
        "spec": spec,
        "status": {"observedGeneration": 2},
    });
    let into = object["status"].as_object_mut().expect("an object");
    into.extend(status.as_object().expect("an object").clone());
    object
}

fn check(api_version: &str, kind: &str, rows: &[(Value, Value, &str)]) {
    for (spec, status, wanted) in rows {
        let object = object(api_version, kind, spec.clone(), status.clone());
        assert_eq!(line(&object), *wanted, "{object:#}");
    }
}

/// A status with one more, or another, field.
fn with(status: &Value, name: &str, value: Value) -> Value {
    let mut status = status.clone();
    status[name] = value;
    status
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "says why"})
}

#[test]
fn an_autoscaler_of_version_v1_has_its_conditions_in_an_annotation() {
    let scaler = |api_version: &str, conditions: &str| {
        let mut object = object(api_version, "HorizontalPodAutoscaler", json!({}), json!({}));
        object["metadata"]["annotations"] =
            json!({"autoscaling.alpha.kubernetes.io/conditions": conditions});
        line(&object)
    };
    let able = json!([condition("AbleToScale", "True", "Ready")]).to_string();
    let broken = json!([
        condition("AbleToScale", "True", "Ready"),
        condition("ScalingActive", "False", "FailedGetResourceMetric"),
    ]);
    assert_eq!(scaler("autoscaling/v1", &able), "ready");
    assert_eq!(scaler("autoscaling/v1", &broken.to_string()), "failed FailedGetResourceMetric");
    assert_eq!(scaler("autoscaling/v2", &able), "not yet NotAbleToScale", "v2 has a status");
    for text in ["", "[", "{}", "7", "[7]", r#"[{"type": 1}]"#] {
        assert_eq!(scaler("autoscaling/v1", text), "not yet NotAbleToScale", "{text}");
    }
}

#[test]
fn a_replication_controller_needs_its_replicas() {
    let spec = json!({"replicas": 2});
    let all = json!({"replicas": 2, "fullyLabeledReplicas": 2, "availableReplicas": 2,
        "readyReplicas": 2});
    check(
        "v1",
        "ReplicationController",
        &[
            (spec.clone(), all.clone(), "ready"),
            (spec.clone(), with(&all, "readyReplicas", json!(1)), "not yet LessReady"),
            (spec.clone(), with(&all, "replicas", json!(3)), "not yet ExtraPods"),
            (
                spec,
                json!({"conditions": [condition("ReplicaFailure", "True", "FailedCreate")]}),
                "not yet ReplicaFailure",
            ),
        ],
    );
    let unseen = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {}});
    assert_eq!(line(&unseen), "not yet LatestGenerationNotObserved");
}

#[test]
fn deletion_and_generation_decide_before_everything_else() {
    let ready = json!({"conditions": [condition("Ready", "True", "Fine")]});
    let mut shop = object("example.com/v1", "Shop", json!({}), ready);
    assert_eq!(line(&shop), "ready");
    for (observed, wanted) in [
        (json!(1), "not yet LatestGenerationNotObserved"),
        (json!(3), "not yet LatestGenerationNotObserved"),
        (json!(2), "ready"),
        (Value::Null, "ready"),
        (json!("two"), "ready"),
    ] {
        shop["status"]["observedGeneration"] = observed;
        assert_eq!(line(&shop), wanted, "{shop:#}");
    }
    shop["metadata"]["deletionTimestamp"] = json!("2026-05-01T11:00:00Z");
    assert_eq!(line(&shop), "terminating");
}

#[test]
fn a_custom_kind_is_judged_by_its_conditions() {
    let rows = [
        (vec![], "unknown NoReadyCondition"),
        (vec![condition("Ready", "True", "")], "ready"),
        (vec![condition("Ready", "False", "Waiting")], "not yet Waiting"),
        (vec![condition("Ready", "Unknown", "")], "not yet NotReady"),
        (vec![condition("Reconciling", "True", "Busy")], "not yet Busy"),
        (vec![condition("Reconciling", "False", "Idle")], "unknown NoReadyCondition"),
        (
            vec![condition("Reconciling", "True", "Busy"), condition("Stalled", "True", "Stuck")],
            "failed Stuck",
        ),
        (
            vec![condition("Stalled", "True", ""), condition("Ready", "True", "Fine")],
            "failed Stalled",
        ),
    ];
    for (conditions, wanted) in rows {
        let status = json!({"conditions": conditions});
        check("example.com/v1", "Shop", &[(json!({}), status, wanted)]);
    }
    let nothing = json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {}});
    assert_eq!(line(&nothing), "unknown NoReadyCondition");
}

#[test]
fn a_condition_of_an_older_generation_is_not_believed() {
    let old = |type_, status| {
        let mut condition = condition(type_, status, "Old");
        condition["observedGeneration"] = json!(1);
        json!({"observedGeneration": null, "conditions": [condition]})
    };
    check(
        "example.com/v1",
        "Shop",
        &[
            (json!({}), old("Ready", "True"), "not yet LatestGenerationNotObserved"),
            (json!({}), old("Stalled", "True"), "unknown NoReadyCondition"),
        ],
    );
}

#[test]
fn deployments_are_judged_as_kubectl_does() {
    let full = json!({
        "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "readyReplicas": 3,
        "conditions": [
            condition("Progressing", "True", "NewReplicaSetAvailable"),
            condition("Available", "True", "MinimumReplicasAvailable"),
        ],
    });
    let late = json!([condition("Progressing", "False", "ProgressDeadlineExceeded")]);
    let updating = json!([
        condition("Progressing", "True", "ReplicaSetUpdated"),
        condition("Available", "True", ""),
    ]);
    let unavailable = json!([condition("Progressing", "True", "NewReplicaSetAvailable")]);
    let three = json!({"replicas": 3, "progressDeadlineSeconds": 600});
    let patient = json!({"replicas": 3, "progressDeadlineSeconds": i32::MAX});
    check(
        "apps/v1",
        "Deployment",
        &[
            (three.clone(), full.clone(), "ready"),
            (
                three.clone(),
                json!({"observedGeneration": null}),
                "not yet LatestGenerationNotObserved",
            ),
            (three.clone(), with(&full, "replicas", json!(2)), "not yet LessReplicas"),
            (three.clone(), with(&full, "updatedReplicas", json!(2)), "not yet LessUpdated"),
            (three.clone(), with(&full, "replicas", json!(4)), "not yet ExtraPods"),
            (three.clone(), with(&full, "availableReplicas", json!(2)), "not yet LessAvailable"),
            (three.clone(), with(&full, "readyReplicas", json!(2)), "not yet LessReady"),
            (
                three.clone(),
                with(&full, "conditions", updating.clone()),
                "not yet ReplicaSetNotAvailable",
            ),
            (patient, with(&full, "conditions", updating), "ready"),
            (
                three.clone(),
                with(&full, "conditions", unavailable),
                "not yet DeploymentNotAvailable",
            ),
            (three.clone(), with(&full, "conditions", late), "failed ProgressDeadlineExceeded"),
            (json!({"replicas": 3, "paused": true}), full, "unknown Suspended"),
            (json!({}), json!({"replicas": 0}), "not yet LessReplicas"),
        ],
    );
}

#[test]
fn stateful_sets_are_judged_by_partition_and_revision() {
    let full = json!({
        "replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
        "currentRevision": "b", "updateRevision": "b",
    });
    let three = json!({"replicas": 3});
    let partition =
        |n: i64| json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": n}}});
    let on_delete = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
    let old = with(&with(&full, "currentRevision", json!("a")), "updatedReplicas", json!(1));
    check(
        "apps/v1",
        "StatefulSet",
        &[
            (three.clone(), full.clone(), "ready"),
            (
                json!({"replicas": 0}),
                json!({"observedGeneration": null}),
                "not yet LatestGenerationNotObserved",
            ),
            (three.clone(), with(&full, "replicas", json!(2)), "not yet LessReplicas"),
            (three.clone(), with(&full, "readyReplicas", json!(2)), "not yet LessReady"),
            (three.clone(), with(&full, "replicas", json!(4)), "not yet ExtraPods"),
            (three.clone(), with(&full, "currentReplicas", json!(2)), "not yet LessCurrent"),
            (three.clone(), old.clone(), "not yet RevisionMismatch"),
            (partition(2), old.clone(), "ready"),
            (partition(1), old.clone(), "not yet PartitionRollout"),
            (on_delete.clone(), old, "ready"),
            (on_delete, with(&full, "readyReplicas", json!(1)), "not yet LessReady"),
        ],
    );
}

#[test]
fn daemon_sets_and_replica_sets_are_judged_by_their_counts() {
    let full = json!({
        "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": 3,
        "numberAvailable": 3, "numberReady": 3,
    });
    check(
        "apps/v1",
        "DaemonSet",
        &[
            (json!({}), full.clone(), "ready"),
            (json!({}), json!({}), "not yet NoDesiredNumber"),
            (json!({}), json!({"desiredNumberScheduled": 0}), "ready"),
            (
                json!({}),
                with(&full, "observedGeneration", Value::Null),
                "not yet LatestGenerationNotObserved",
            ),
            (json!({}), with(&full, "currentNumberScheduled", json!(2)), "not yet LessCurrent"),
            (json!({}), with(&full, "updatedNumberScheduled", json!(2)), "not yet LessUpdated"),
            (json!({}), with(&full, "numberAvailable", json!(2)), "not yet LessAvailable"),
            (json!({}), with(&full, "numberReady", json!(2)), "not yet LessReady"),
        ],
    );
    let full = json!({
        "replicas": 2, "fullyLabeledReplicas": 2, "availableReplicas": 2, "readyReplicas": 2,
    });
    let failing = json!([condition("ReplicaFailure", "True", "FailedCreate")]);
    let two = json!({"replicas": 2});
    check(
        "apps/v1",
        "ReplicaSet",
        &[
            (two.clone(), full.clone(), "ready"),
            (two.clone(), with(&full, "conditions", failing), "not yet ReplicaFailure"),
            (two.clone(), with(&full, "fullyLabeledReplicas", json!(1)), "not yet LessLabelled"),
            (two.clone(), with(&full, "availableReplicas", json!(1)), "not yet LessAvailable"),
            (two.clone(), with(&full, "readyReplicas", json!(1)), "not yet LessReady"),
            (two, with(&full, "replicas", json!(3)), "not yet ExtraPods"),
            (
                json!({"replicas": 0}),
                json!({"observedGeneration": null}),
                "not yet LatestGenerationNotObserved",
            ),
        ],
    );
}

#[test]
fn a_job_is_ready_when_it_is_complete() {
    let started = json!({"startTime": "2026-05-01T11:00:00Z", "active": 1});
    check(
        "batch/v1",
        "Job",
        &[
            (json!({}), json!({}), "not yet JobNotStarted"),
            (json!({}), started, "not yet JobInProgress"),
            (json!({}), json!({"conditions": [condition("Complete", "True", "")]}), "ready"),
            (
                json!({}),
                json!({"conditions": [condition("Failed", "True", "")]}),
                "failed JobFailed",
            ),
            (
                json!({}),
                json!({"conditions": [condition("Failed", "False", "")]}),
                "not yet JobNotStarted",
            ),
            (json!({"suspend": true}), json!({}), "unknown Suspended"),
            (
                json!({"suspend": true}),
                json!({"conditions": [condition("Complete", "True", "")]}),
                "ready",
            ),
        ],
    );
}

#[test]
fn pods_are_judged_by_phase_containers_and_time() {
    let stuck = |since: &str| {
        let mut scheduled = condition("PodScheduled", "False", "Unschedulable");
        scheduled["lastTransitionTime"] = json!(since);
        json!({"phase": "Pending", "conditions": [scheduled]})
    };
    let crashing = json!({"phase": "Running", "containerStatuses": [
        {"name": "a", "state": {"running": {}}},
        {"name": "b", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
    ]});
    check(
        "v1",
        "Pod",
        &[
            (json!({}), json!({}), "not yet PodNotObserved"),
            (json!({}), json!({"phase": "Pending"}), "not yet PodPending"),
            (json!({}), stuck("2026-05-01T11:59:50Z"), "not yet PodNotScheduled"),
            (json!({}), stuck("2026-05-01T11:59:40Z"), "failed PodUnschedulable"),
            (json!({}), stuck("yesterday"), "not yet PodNotScheduled"),
            (json!({}), json!({"phase": "Running"}), "not yet PodRunningNotReady"),
            (json!({}), crashing.clone(), "failed ContainerCrashLooping"),
            (
                json!({}),
                with(&crashing, "conditions", json!([condition("Ready", "True", "")])),
                "ready",
            ),
            (json!({}), json!({"phase": "Succeeded"}), "ready"),
            (json!({}), json!({"phase": "Failed"}), "failed PodFailed"),
            (json!({}), json!({"phase": "Unknown"}), "unknown PodPhaseUnknown"),
        ],
    );
}

#[test]
fn other_built_in_kinds_have_rules_of_their_own() {
    let balancer = json!({"type": "LoadBalancer"});
    let conditions = |list: Value| json!({"conditions": list});
    let rows = [
        ("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Bound"}), "ready"),
        ("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Pending"}), "not yet NotBound"),
        ("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Lost"}), "failed ClaimLost"),
        ("v1", "Service", json!({}), json!({}), "ready"),
        ("v1", "Service", balancer.clone(), json!({}), "not yet NoIPAssigned"),
        (
            "v1",
            "Service",
            json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}),
            json!({}),
            "ready",
        ),
        ("v1", "Namespace", json!({}), json!({"phase": "Active"}), "ready"),
        ("v1", "Namespace", json!({}), json!({}), "not yet NotActive"),
        ("v1", "Secret", json!({}), json!({}), "ready"),
        (
            "v1",
            "Node",
            json!({}),
            conditions(json!([condition("Ready", "False", "Down")])),
            "not yet Down",
        ),
        ("batch/v1", "CronJob", json!({}), json!({}), "ready"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", json!({}), json!({}), "ready"),
        (
            "gateway.networking.k8s.io/v1",
            "Gateway",
            json!({}),
            json!({}),
            "unknown NoReadyCondition",
        ),
        ("policy/v1", "PodDisruptionBudget", json!({}), json!({}), "ready"),
        (
            "policy/v1",
            "PodDisruptionBudget",
            json!({}),
            json!({"observedGeneration": null}),
            "not yet LatestGenerationNotObserved",
        ),
        ("apps/v2", "Deployment", json!({}), json!({}), "not yet LessReplicas"),
        ("example.com/v1", "Deployment", json!({}), json!({}), "unknown NoReadyCondition"),
    ];
    for (api_version, kind, spec, status, wanted) in rows {
        check(api_version, kind, &[(spec, status, wanted)]);
    }
}

#[test]
fn definitions_autoscalers_and_api_services_are_judged_by_their_conditions() {
    let rows = [
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", vec![], "not yet Installing"),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            vec![condition("Established", "False", "Installing")],
            "not yet Installing",
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            vec![condition("Established", "False", "NotAccepted")],
            "failed NotAccepted",
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            vec![condition("NamesAccepted", "False", "")],
            "failed NamesNotAccepted",
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            vec![condition("Established", "True", "")],
            "ready",
        ),
        ("autoscaling/v2", "HorizontalPodAutoscaler", vec![], "not yet NotAbleToScale"),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            vec![condition("AbleToScale", "True", "Ready")],
            "ready",
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            vec![
                condition("AbleToScale", "True", "Ready"),
                condition("ScalingActive", "False", "FailedGetResourceMetric"),
            ],
            "failed FailedGetResourceMetric",
        ),
        ("apiregistration.k8s.io/v1", "APIService", vec![], "not yet NotAvailable"),
        (
            "apiregistration.k8s.io/v1",
            "APIService",
            vec![condition("Available", "False", "NoBackend")],
            "not yet NoBackend",
        ),
        (
            "apiregistration.k8s.io/v1",
            "APIService",
            vec![condition("Available", "True", "")],
            "ready",
        ),
    ];
    for (api_version, kind, conditions, wanted) in rows {
        check(api_version, kind, &[(json!({}), json!({"conditions": conditions}), wanted)]);
    }
}

#[test]
fn a_rust_type_is_read_as_its_json() {
    assert_eq!(Readiness::of(&ConfigMap::default(), now()), Readiness::Ready);
    let failed = Readiness::failed("JobFailed", "3 pods have failed");
    assert_eq!(failed.to_string(), "3 pods have failed (JobFailed)");
    assert_eq!(Readiness::Terminating.reason(), "Terminating");
}

/// Any JSON, with the names that the rules look at.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[A-Za-z]{0,8}".prop_map(Value::from),
        Just(json!("True")),
    ];
    let name = proptest::sample::select(vec![
        "conditions",
        "type",
        "status",
        "replicas",
        "readyReplicas",
        "observedGeneration",
        "phase",
        "updateStrategy",
        "rollingUpdate",
        "partition",
        "containerStatuses",
        "state",
        "reason",
    ]);
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name.clone().prop_map(str::to_string), inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_object_panics(spec in any_json(), status in any_json(), kind in 0usize..8) {
        let kinds = [
            ("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"),
            ("apps/v1", "ReplicaSet"), ("batch/v1", "Job"), ("v1", "Pod"),
            ("autoscaling/v2", "HorizontalPodAutoscaler"), ("example.com/v1", "Shop"),
        ];
        let (api_version, kind) = kinds[kind];
        let object = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"generation": 1}, "spec": spec, "status": status,
        });
        line(&object);
    }
}
