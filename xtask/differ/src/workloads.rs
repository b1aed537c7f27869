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
    /// Whether pods that run are on the node of the script.
    pub node: bool,
    /// Whether controllers are slow to react, as autoscalers are.
    pub slow: bool,
}

/// What other controllers relate to a workload.
#[derive(Clone, Copy, PartialEq)]
enum Around {
    Nothing,
    Quota,
    Budget,
    Service,
    Autoscaler,
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
    let version = path.trim_start_matches("/apis/").split("/namespaces").next().unwrap_or_default();
    let mut moves = Vec::new();
    let around = match draw.below(10) {
        0 | 1 => Around::Quota,
        2 | 3 => Around::Budget,
        4 | 5 => Around::Service,
        6 if ["Deployment", "ReplicaSet", "StatefulSet"].contains(&kind) => Around::Autoscaler,
        _ => Around::Nothing,
    };
    moves.extend(around.object(draw, version, kind).map(Move::Request));
    let node = kind == "DaemonSet" || around == Around::Service;
    if node {
        let labels = json!({"run": "{id}"});
        let node = json!({"metadata": {"name": "node-{id}.example.com", "labels": labels}});
        moves.push(post("/api/v1/nodes", "v1", "Node", node));
    }
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
    Script { about: kind, moves, node, slow: around == Around::Autoscaler }
}

fn post(path: &str, version: &str, kind: &str, mut body: Value) -> Move {
    body["apiVersion"] = json!(version);
    body["kind"] = json!(kind);
    Move::Request(Step { request: format!("POST {path}"), body: Some(body), ..Step::default() })
}

// === impl Around ===

impl Around {
    /// Returns the request that creates it.
    fn object(self, draw: &mut Draw, version: &str, kind: &str) -> Option<Step> {
        let labels = json!({"app": "a"});
        let (api, resource, kind, spec) = match self {
            Self::Nothing => return None,
            Self::Quota => (
                "/api/v1",
                "resourcequotas",
                "ResourceQuota",
                json!({"hard": {"pods": "3", "count/jobs.batch": "5"}}),
            ),
            Self::Budget => (
                "/apis/policy/v1",
                "poddisruptionbudgets",
                "PodDisruptionBudget",
                json!({"minAvailable": 1, "selector": {"matchLabels": labels}}),
            ),
            Self::Service => (
                "/api/v1",
                "services",
                "Service",
                json!({"selector": labels, "ports": [{"name": "a", "port": 80}],
                    "clusterIP": draw.pick(&["", "None"]),
                    "publishNotReadyAddresses": draw.chance(20)}),
            ),
            // Nobody serves metrics, so it only keeps to its bounds.
            Self::Autoscaler => (
                "/apis/autoscaling/v2",
                "horizontalpodautoscalers",
                "HorizontalPodAutoscaler",
                json!({"scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "a"},
                    "minReplicas": 1, "maxReplicas": 1 + draw.below(3)}),
            ),
        };
        let api_version = api.trim_start_matches("/apis/").trim_start_matches("/api/");
        let body = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": "around"}, "spec": spec});
        let request = format!("POST {api}/namespaces/{{ns}}/{resource}");
        Some(Step { request, body: Some(body), ..Step::default() })
    }
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
