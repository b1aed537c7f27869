//! Generated changes of workloads, for the controllers of Kubernetes.

use serde_json::{Value, json};

use crate::draw::Draw;
use crate::run::shown;
use crate::sequence::Step;

/// One move of a script.
#[derive(Clone, Debug)]
pub enum Move {
    /// A request.
    Request(Step),
    /// The pods of the namespace get this phase, as a node would report it: all of them if they run,
    /// one of them if it ends.
    Pods(&'static str),
}

/// Changes of one workload.
#[derive(Clone, Debug)]
pub struct Script {
    /// The kind.
    pub about: &'static str,
    /// The moves; controllers have time to react after each of them.
    pub moves: Vec<Move>,
}

// === impl Move ===

impl Move {
    /// Returns the text of a move for people.
    pub fn shown(&self) -> String {
        match self {
            Self::Request(step) => shown(step),
            Self::Pods("Running") => "all pods run".to_owned(),
            Self::Pods(phase) => format!("one pod has {phase}").to_lowercase(),
        }
    }
}

/// The kinds, and the paths of their collections.
const KINDS: [(&str, &str); 6] = [
    ("Deployment", "/apis/apps/v1/namespaces/{ns}/deployments"),
    ("ReplicaSet", "/apis/apps/v1/namespaces/{ns}/replicasets"),
    ("StatefulSet", "/apis/apps/v1/namespaces/{ns}/statefulsets"),
    ("DaemonSet", "/apis/apps/v1/namespaces/{ns}/daemonsets"),
    ("Job", "/apis/batch/v1/namespaces/{ns}/jobs"),
    ("CronJob", "/apis/batch/v1/namespaces/{ns}/cronjobs"),
];

/// Draws a script.
pub fn script(draw: &mut Draw) -> Script {
    let (kind, path) = *draw.pick(&KINDS);
    let mut moves = Vec::new();
    if draw.chance(40) {
        moves.push(Move::Request(around(draw)));
    }
    if kind == "DaemonSet" {
        let labels = json!({"run": "{id}"});
        let node = json!({"metadata": {"name": "node-{id}.example.com", "labels": labels}});
        moves.push(post("/api/v1/nodes", "v1", "Node", node));
    }
    let version = path.trim_start_matches("/apis/").split("/namespaces").next().unwrap_or_default();
    moves.push(post(path, version, kind, workload(draw, kind)));
    let count = 2 + draw.below(5);
    for _ in 0..count {
        let phases = ["Running", "Running", "Succeeded", "Failed"];
        moves.push(match draw.below(5) {
            0 | 1 => {
                let phase = *draw.pick(&phases);
                Move::Pods(phase)
            }
            2 if draw.chance(30) => delete(draw, path),
            _ => change(draw, kind, path),
        });
    }
    Script { about: kind, moves }
}

fn post(path: &str, version: &str, kind: &str, mut body: Value) -> Move {
    body["apiVersion"] = json!(version);
    body["kind"] = json!(kind);
    Move::Request(Step { request: format!("POST {path}"), body: Some(body), ..Step::default() })
}

/// An object that other controllers relate to the workload. (Autoscalers act every 15 seconds, which
/// is too seldom to be waited for, and pods without a node are no endpoints of a service.)
fn around(draw: &mut Draw) -> Step {
    let metadata = json!({"name": "around"});
    let labels = json!({"app": "a"});
    let (path, body) = match draw.below(2) {
        0 => (
            "/api/v1/namespaces/{ns}/resourcequotas",
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata,
                "spec": {"hard": {"pods": "3", "count/jobs.batch": "5"}}}),
        ),
        _ => (
            "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
                "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}),
        ),
    };
    Step { request: format!("POST {path}"), body: Some(body), ..Step::default() }
}

fn workload(draw: &mut Draw, kind: &str) -> Value {
    let labels = json!({"app": "a"});
    let restart = if kind.ends_with("Job") { "Never" } else { "Always" };
    let mut template = json!({
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i:1"}]},
    });
    let selector = json!({"matchLabels": labels});
    let replicas = draw.below(4);
    let spec = match kind {
        "Deployment" => {
            let strategy = draw
                .pick(&[
                    json!({"type": "Recreate"}),
                    json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
                    json!({"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 1}}),
                ])
                .clone();
            json!({"replicas": replicas, "selector": selector, "template": template,
                "strategy": strategy, "revisionHistoryLimit": draw.below(3)})
        }
        "ReplicaSet" => json!({"replicas": replicas, "selector": selector, "template": template}),
        "StatefulSet" => {
            let policy = *draw.pick(&["OrderedReady", "Parallel"]);
            json!({"replicas": replicas, "selector": selector, "template": template,
                "serviceName": "s", "podManagementPolicy": policy})
        }
        "DaemonSet" => {
            template["spec"]["nodeSelector"] = json!({"run": "{id}"});
            json!({"selector": selector, "template": template})
        }
        "Job" => json!({"template": template, "parallelism": 1 + draw.below(3),
            "completions": 1 + draw.below(3), "backoffLimit": draw.below(2),
            "completionMode": draw.pick(&["NonIndexed", "Indexed"])}),
        _ => json!({"schedule": "0 0 1 1 *", "suspend": draw.chance(50),
            "jobTemplate": {"spec": {"template": template}}}),
    };
    json!({"metadata": {"name": "a", "labels": labels}, "spec": spec})
}

fn change(draw: &mut Draw, kind: &str, path: &str) -> Move {
    let image = format!("i:{}", 2 + draw.below(2));
    let containers = json!([{"name": "c", "image": image}]);
    let template = json!({"template": {"spec": {"containers": containers}}});
    let scale = json!({"replicas": draw.below(5)});
    let spec = match (kind, draw.below(4)) {
        ("Job", 0) => json!({"suspend": true}),
        ("Job", 1) => json!({"suspend": false}),
        ("Job", 2) => json!({"parallelism": draw.below(4)}),
        ("Job", _) => json!({"activeDeadlineSeconds": 1000}),
        ("CronJob", _) => json!({"suspend": draw.chance(50)}),
        ("Deployment", 0) => json!({"paused": draw.chance(60)}),
        ("Deployment", 1) => json!({"minReadySeconds": 0, "replicas": 2}),
        ("DaemonSet", 0) => json!({"updateStrategy": {"type": "OnDelete"}}),
        ("StatefulSet", 0) => json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}),
        ("DaemonSet", _) => template,
        (_, 1 | 2) => scale,
        _ => template,
    };
    Move::Request(Step {
        request: format!("PATCH {path}/a"),
        body: Some(json!({"spec": spec})),
        content_type: Some("application/strategic-merge-patch+json".into()),
        ..Step::default()
    })
}

fn delete(draw: &mut Draw, path: &str) -> Move {
    let policy = draw.pick(&["Background", "Foreground", "Orphan"]);
    let request = format!("DELETE {path}/a?propagationPolicy={policy}");
    Move::Request(Step { request, ..Step::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_draw_equal_scripts_and_all_kinds_come_up() {
        let scripts: Vec<Script> = (0..100).map(|seed| script(&mut Draw::new(seed))).collect();
        for (kind, _) in KINDS {
            assert!(scripts.iter().any(|script| script.about == kind), "{kind}");
        }
        let again = script(&mut Draw::new(7));
        assert_eq!(format!("{:?}", again.moves), format!("{:?}", scripts[7].moves));
    }
}
