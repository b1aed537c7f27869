//! Monitoring: what Prometheus scrapes, when it raises an alarm, and what Grafana shows.

use serde_json::{Value, json};

use super::kustomization;
use crate::files::Files;
use crate::model::Model;

/// An alert. In the expression, `$job` stands for the label that all series of the operator have.
struct Alert {
    name: &'static str,
    expression: &'static str,
    minutes: u32,
    severity: &'static str,
    summary: &'static str,
}

const fn warning(
    name: &'static str,
    expression: &'static str,
    minutes: u32,
    summary: &'static str,
) -> Alert {
    Alert { name, expression, minutes, severity: "warning", summary }
}

/// The alert of an operator that elects a leader.
const LEADER: Alert = Alert {
    name: "OperatorWithoutLeader",
    expression: "sum(leader_election_master_status{$job}) < 1",
    minutes: 5,
    severity: "critical",
    summary: "No replica of the operator has led for 5 minutes",
};

const ALERTS: [Alert; 7] = [
    Alert {
        name: "OperatorDown",
        expression: "absent(up{$job} == 1)",
        minutes: 10,
        severity: "critical",
        summary: "The operator has not been scraped for 10 minutes",
    },
    warning(
        "OperatorReconcileErrors",
        "sum by (controller) (rate(controller_runtime_reconcile_errors_total{$job}[10m])) \
         / sum by (controller) (rate(controller_runtime_reconcile_total{$job}[10m])) > 0.1",
        15,
        "More than a tenth of the reconciles of controller {{ $labels.controller }} fail",
    ),
    warning(
        "OperatorReconcilePanics",
        "sum by (controller) (increase(controller_runtime_reconcile_panics_total{$job}[10m])) > 0",
        0,
        "Controller {{ $labels.controller }} panicked",
    ),
    warning(
        "OperatorQueueGrows",
        "min_over_time(sum by (name) (workqueue_depth{$job})[15m:1m]) > 100",
        15,
        "More than 100 objects have waited for controller {{ $labels.name }} for 15 minutes",
    ),
    warning(
        "OperatorReconcileStuck",
        "max by (name) (workqueue_longest_running_processor_seconds{$job}) > 600",
        5,
        "A reconcile of controller {{ $labels.name }} has run for more than 10 minutes",
    ),
    warning(
        "OperatorWatchStale",
        "max by (kind) (windlass_watch_stale_seconds{$job}) > 300",
        5,
        "The watch of {{ $labels.kind }} has not been up to date for 5 minutes",
    ),
    warning(
        "OperatorUpdateLoop",
        "sum by (controller) (increase(windlass_update_loops_total{$job}[30m])) > 0",
        0,
        "Controller {{ $labels.controller }} writes the same objects again and again",
    ),
];

/// A graph: its title, expression, legend, and the unit as Grafana names it.
type Panel = (&'static str, &'static str, &'static str, &'static str);

const PANELS: [Panel; 12] = [
    (
        "Reconciles",
        "sum by (controller, result) \
         (rate(controller_runtime_reconcile_total{$job}[$__rate_interval]))",
        "{{controller}} {{result}}",
        "ops",
    ),
    (
        "Reconcile errors",
        "sum by (controller) \
         (rate(controller_runtime_reconcile_errors_total{$job}[$__rate_interval]))",
        "{{controller}}",
        "ops",
    ),
    (
        "Reconcile duration, 99th percentile",
        "histogram_quantile(0.99, sum by (controller, le) \
         (rate(controller_runtime_reconcile_time_seconds_bucket{$job}[$__rate_interval])))",
        "{{controller}}",
        "s",
    ),
    (
        "Running reconciles",
        "sum by (controller) (controller_runtime_active_workers{$job})",
        "{{controller}}",
        "short",
    ),
    ("Objects waiting", "sum by (name) (workqueue_depth{$job})", "{{name}}", "short"),
    (
        "Time in the queue, 99th percentile",
        "histogram_quantile(0.99, sum by (name, le) \
         (rate(workqueue_queue_duration_seconds_bucket{$job}[$__rate_interval])))",
        "{{name}}",
        "s",
    ),
    (
        "Requests to the API server",
        "sum by (method, code) (rate(rest_client_requests_total{$job}[$__rate_interval]))",
        "{{method}} {{code}}",
        "ops",
    ),
    (
        "Staleness of the watches",
        "max by (kind) (windlass_watch_stale_seconds{$job})",
        "{{kind}}",
        "s",
    ),
    ("Cached objects", "sum by (kind) (windlass_cache_objects{$job})", "{{kind}}", "short"),
    ("Memory", "process_resident_memory_bytes{$job}", "{{pod}}", "bytes"),
    (
        "CPU",
        "sum by (pod) (rate(process_cpu_seconds_total{$job}[$__rate_interval]))",
        "{{pod}}",
        "short",
    ),
    ("Leader", "max by (pod) (leader_election_master_status{$job})", "{{pod}}", "short"),
];

impl Model {
    pub(super) fn add_monitoring(&self, files: &mut Files) {
        files.add_yaml("config/prometheus/monitor.yaml", &[self.service_monitor()]);
        files.add_yaml("config/prometheus/alerts.yaml", &[self.alerts()]);
        let names = ["monitor.yaml", "alerts.yaml"].map(str::to_owned);
        kustomization(files, "config/prometheus", &names);
        let dashboard = serde_json::to_string_pretty(&self.dashboard()).unwrap_or_default();
        files.add_plain(&format!("config/grafana/{}.json", self.name), &format!("{dashboard}\n"));
    }

    fn service_monitor(&self) -> Value {
        json!({
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": self.metadata(&format!("{}-metrics-monitor", self.manager_name())),
            "spec": {
                "endpoints": [{
                    "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                    "path": "/metrics",
                    "port": "https",
                    "scheme": "https",
                    // The certificate is generated by the process itself; the token is what counts.
                    "tlsConfig": {"insecureSkipVerify": true},
                }],
                "selector": {"matchLabels": self.pod_labels()},
            },
        })
    }

    /// Puts the label that all series of the operator have into an expression.
    fn of_job(&self, expression: &str) -> String {
        let job = format!("job=\"{}-metrics-service\"", self.manager_name());
        expression.replace("$job", &job)
    }

    /// Returns the alerts of the operator, as a `PrometheusRule`.
    pub fn alerts(&self) -> Value {
        let rule = |alert: &Alert| {
            json!({
                "alert": alert.name,
                "expr": self.of_job(alert.expression),
                "for": format!("{}m", alert.minutes),
                "labels": {"severity": alert.severity, "operator": self.name},
                "annotations": {"summary": alert.summary},
            })
        };
        let leader = self.lease.as_ref().map(|_| &LEADER);
        let rules: Vec<Value> = ALERTS.iter().chain(leader).map(rule).collect();
        json!({
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": self.metadata(&format!("{}-alerts", self.name)),
            "spec": {"groups": [{"name": self.name, "rules": rules}]},
        })
    }

    /// Returns a Grafana dashboard of the operator's metrics.
    pub fn dashboard(&self) -> Value {
        let panels = PANELS.iter().enumerate().map(|(at, (title, expression, legend, unit))| {
            panel(at, title, &self.of_job(expression), legend, unit)
        });
        let panels: Vec<Value> = panels.collect();
        let variable = json!({
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
        });
        json!({
            "title": self.name,
            "uid": self.name,
            "schemaVersion": 39,
            "editable": true,
            "refresh": "30s",
            "tags": ["operator"],
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [variable]},
            "panels": panels,
        })
    }
}

/// One graph; three of them fill a row.
fn panel(at: usize, title: &str, expression: &str, legend: &str, unit: &str) -> Value {
    let datasource = json!({"type": "prometheus", "uid": "${datasource}"});
    json!({
        "id": at + 1,
        "type": "timeseries",
        "title": title,
        "datasource": datasource,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "gridPos": {"h": 8, "w": 8, "x": at % 3 * 8, "y": at / 3 * 8},
        "targets": [{
            "refId": "A",
            "datasource": datasource,
            "expr": expression,
            "legendFormat": legend,
        }],
    })
}
