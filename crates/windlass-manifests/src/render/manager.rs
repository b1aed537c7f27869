//! The pods of an operator and what surrounds them.

use serde_json::{Value, json};

use crate::model::Model;

/// How much longer than its manager a pod may take to stop, in seconds: releasing the lease and
/// sending the last events take up to two each.
const GRACE_MARGIN: u32 = 10;

impl Model {
    pub(super) fn namespace_object(&self) -> Value {
        let mut labels = self.pod_labels();
        labels["pod-security.kubernetes.io/enforce"] = "restricted".into();
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace, "labels": labels},
        })
    }

    pub(super) fn deployment(&self) -> Value {
        let name = self.manager_name();
        let mut metadata = self.metadata(&name);
        metadata["labels"] = self.pod_labels();
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": self.run.replicas,
                "selector": {"matchLabels": self.pod_labels()},
                "template": {
                    "metadata": {
                        "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
                        "labels": self.pod_labels(),
                    },
                    "spec": {
                        "containers": [self.container()],
                        "securityContext": {
                            "runAsNonRoot": true,
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "serviceAccountName": name,
                        "terminationGracePeriodSeconds": self.run.grace_seconds + GRACE_MARGIN,
                    },
                },
            },
        })
    }

    fn container(&self) -> Value {
        let run = &self.run;
        let mut args = vec![
            format!("--health-probe-bind-address=:{}", run.probe_port),
            format!("--metrics-bind-address=:{}", run.metrics_port),
        ];
        if self.lease.is_some() {
            args.insert(0, "--leader-elect".into());
        }
        if !self.watched.is_empty() {
            args.push(format!("--namespaces={}", self.watched.join(",")));
        }
        let mut ports = vec![
            json!({"name": "probes", "containerPort": run.probe_port, "protocol": "TCP"}),
            json!({"name": "metrics", "containerPort": run.metrics_port, "protocol": "TCP"}),
        ];
        if self.serves_webhooks() {
            args.push(format!("--webhook-port={}", run.webhook_port));
            let port = run.webhook_port;
            ports.push(json!({"name": "webhooks", "containerPort": port, "protocol": "TCP"}));
        }
        args.extend(run.args.iter().cloned());
        let probe = |path: &str, delay: u32, period: u32| {
            json!({
                "httpGet": {"path": path, "port": "probes"},
                "initialDelaySeconds": delay,
                "periodSeconds": period,
            })
        };
        json!({
            "name": "manager",
            "image": self.image,
            "args": args,
            "ports": ports,
            "livenessProbe": probe("/healthz", 15, 20),
            "readinessProbe": probe("/readyz", 5, 10),
            "resources": {
                "requests": {"cpu": run.requests.cpu, "memory": run.requests.memory},
                "limits": {"cpu": run.limits.cpu, "memory": run.limits.memory},
            },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
            },
        })
    }

    pub(super) fn metrics_service(&self) -> Value {
        let mut metadata = self.metadata(&format!("{}-metrics-service", self.manager_name()));
        metadata["labels"] = self.pod_labels();
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "ports": [{
                    "name": "https",
                    "port": self.run.metrics_port,
                    "protocol": "TCP",
                    "targetPort": "metrics",
                }],
                "selector": self.pod_labels(),
            },
        })
    }

    /// Nothing reaches the pods but readers of metrics from namespaces labelled `metrics: enabled`.
    /// Probes come from the node, which no policy concerns.
    pub(super) fn network_policy(&self) -> Value {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.metadata(&format!("{}-allow-metrics-traffic", self.name)),
            "spec": {
                "podSelector": {"matchLabels": self.pod_labels()},
                "policyTypes": ["Ingress"],
                "ingress": [{
                    "from": [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}],
                    "ports": [{"port": self.run.metrics_port, "protocol": "TCP"}],
                }],
            },
        })
    }
}
