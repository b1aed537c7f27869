//! The objects that servers are loaded with.

use bench_harness::{NAMESPACE, NODES, name};
use bytes::Bytes;
use serde_json::{Value, json};

/// A pod that takes about 8 KB on the wire once the server has added defaults and managedFields.
pub fn pod(n: usize) -> Value {
    let app = format!("app-{}", n % 50);
    let tier = ["web", "batch", "cache"][n % 3];
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name(n),
            "namespace": NAMESPACE,
            "labels": {
                "app": app, "tier": tier,
                "pod-template-hash": format!("{:08x}", n / 10),
                "app.kubernetes.io/name": app, "app.kubernetes.io/managed-by": "bench",
            },
            "annotations": {
                "prometheus.io/scrape": "true", "prometheus.io/port": "8080",
                "kubernetes.io/description": "A pod of the size that pods of services with a \
                    sidecar have in clusters that people run.",
                "checksum/config": format!("{:064x}", n * 2_654_435_761),
            },
        },
        "spec": {
            "nodeName": format!("node-{}", n % NODES),
            "terminationGracePeriodSeconds": 30,
            "containers": [container("main", 5), container("proxy", 2)],
            "initContainers": [{
                "name": "prepare", "image": "registry.example.com/tools/prepare:v1.4.2",
                "command": ["/bin/prepare", "--wait", "--target=/data"],
            }],
            "volumes": [
                { "name": "data", "emptyDir": {} },
                { "name": "config", "configMap": { "name": format!("{app}-config") } },
                { "name": "secrets", "secret": { "secretName": format!("{app}-secrets") } },
            ],
            "tolerations": [
                { "key": "node.kubernetes.io/not-ready", "operator": "Exists",
                  "effect": "NoExecute", "tolerationSeconds": 300 },
            ],
        },
    })
}

fn container(called: &str, variables: usize) -> Value {
    let env: Vec<Value> = (0..variables)
        .map(|n| match n % 4 {
            3 => json!({
                "name": format!("{}_FIELD_{n}", called.to_uppercase()),
                "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } },
            }),
            _ => json!({
                "name": format!("{}_SETTING_{n}", called.to_uppercase()),
                "value": format!("https://service-{n}.example.svc.cluster.local:8443/v1"),
            }),
        })
        .collect();
    let probe = |path: &str| {
        json!({
            "httpGet": { "path": path, "port": 8080, "scheme": "HTTP" },
            "initialDelaySeconds": 5, "periodSeconds": 10,
        })
    };
    json!({
        "name": called,
        "image": format!("registry.example.com/team/{called}@sha256:{:064x}", 42),
        "args": ["--listen=:8080", "--log-format=json", "--shutdown-delay=10s"],
        "env": env,
        "ports": [{ "name": format!("{called}-http"), "containerPort": 8080 }],
        "resources": {
            "requests": { "cpu": "100m", "memory": "128Mi" },
            "limits": { "cpu": "1", "memory": "512Mi" },
        },
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "volumeMounts": [
            { "name": "data", "mountPath": "/data" },
            { "name": "config", "mountPath": "/etc/config", "readOnly": true },
            { "name": "secrets", "mountPath": "/etc/secrets", "readOnly": true },
        ],
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
    })
}

/// A config map of about 1 KB.
pub fn config_map(called: &str) -> Value {
    let line = "key = value that is as long as lines of configuration tend to be\n";
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": called, "namespace": NAMESPACE, "labels": { "app": "bench" } },
        "data": { "settings": line.repeat(8), "mode": "a" },
    })
}

/// A small config map, for when it is their number that matters.
pub fn small(n: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name(n), "namespace": NAMESPACE },
        "data": { "n": n.to_string() },
    })
}

/// A secret of about 2 KB, as a certificate with its key has.
pub fn secret(n: usize) -> Value {
    let line = "a line of a certificate is sixty-four characters long, as this one\n";
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name(n), "namespace": NAMESPACE, "labels": { "app": "bench" } },
        "stringData": { "tls.crt": line.repeat(20), "tls.key": format!("{n:06}") },
    })
}

/// The bytes of an object.
pub fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}
