//! What is done with each operator, and what kubectl has to print then.

use std::path::Path;

use crate::peers::kubectl::Kubectl;
use crate::peers::until;

/// An operator of `examples/`.
pub struct Example {
    pub program: &'static str,
    /// Further arguments of the program.
    pub arguments: &'static [&'static str],
    /// Whether it runs as administrator: webhook configurations of a process outside of the cluster
    /// are installed by it, which its role does not allow.
    pub administrator: bool,
    pub steps: &'static [Step],
}

/// One step.
pub enum Step {
    /// Applies the samples of the manifests.
    Samples,
    /// Applies a manifest.
    Apply(&'static str),
    /// Applies a manifest that is refused with an error that contains a text.
    Refused(&'static str, &'static str),
    /// Runs a command that has to succeed.
    Run(&'static [&'static str]),
    /// Runs a command until it prints a text.
    Prints(&'static [&'static str], &'static str),
    /// Deletes all pods, and waits until the status of an object of a kind names as many others.
    Replaced(&'static str, &'static str, usize),
}

use Step::{Apply, Prints, Refused, Replaced, Run, Samples};

/// All of them.
pub const EXAMPLES: &[Example] = &[
    example("memcached-operator", WEBHOOKS, MEMCACHED),
    example("guestbook-operator", &[], GUESTBOOK),
    example("appservice-controller", &[], APPSERVICE),
    example("warpdrive-operator", &[], WARPDRIVE),
    example("demo-operator", WEBHOOKS, DEMO),
    Example { administrator: true, ..example("cronjob-operator", WEBHOOKS, CRONJOB) },
];

const fn example(
    program: &'static str,
    arguments: &'static [&'static str],
    steps: &'static [Step],
) -> Example {
    Example { program, arguments, administrator: false, steps }
}

const MEMCACHED: &[Step] = &[
    Prints(
        &["get", "crd", "memcacheds.cache.example.com", "-o", CONVERTED_AT],
        "https://127.0.0.1:9453/convert",
    ),
    Samples,
    // The memory is a field in one version and an annotation in the other, which is stored.
    Run(&[
        "patch",
        "memcacheds.v1beta1.cache.example.com",
        "memcached-sample",
        "--type=merge",
        "-p",
        r#"{"spec":{"memoryMegabytes":128}}"#,
    ]),
    Prints(
        &[
            "get",
            "memcacheds.v1alpha1.cache.example.com",
            "memcached-sample",
            "-o",
            r"jsonpath={.metadata.annotations.cache\.example\.com/memory-megabytes}",
        ],
        "128",
    ),
    Prints(
        &["get", "deployment", "memcached-sample", "-o", "jsonpath={.status.availableReplicas}"],
        "3",
    ),
    Prints(&["get", "memcached", "memcached-sample", "-o", READY], "True"),
    Refused(
        r#"{"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
            "metadata": {"name": "large", "namespace": "default"}, "spec": {"size": 6}}"#,
        "spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5",
    ),
    // The operator heals what others change.
    Run(&["scale", "deployment", "memcached-sample", "--replicas=1"]),
    Prints(&["get", "deployment", "memcached-sample", "-o", "jsonpath={.spec.replicas}"], "3"),
    Replaced("memcached", "memcached-sample", 3),
    Run(&[
        "patch",
        "memcached",
        "memcached-sample",
        "--type=merge",
        "-p",
        r#"{"spec":{"size":5}}"#,
    ]),
    Prints(
        &["get", "deployment", "memcached-sample", "-o", "jsonpath={.status.availableReplicas}"],
        "5",
    ),
    Run(&["delete", "memcached", "memcached-sample", "--timeout=60s"]),
    Prints(&["get", "deployments", "-o", "name"], ""),
];

const GUESTBOOK: &[Step] = &[
    Samples,
    Prints(
        &[
            "get",
            "guestbook",
            "guestbook-sample",
            "-o",
            "jsonpath={.status.conditions[?(@.type==\"ConfigFound\")].status}",
        ],
        "False",
    ),
    Run(&["create", "configmap", "guestbook-config", "--from-literal=title=Guests"]),
    Prints(&["get", "guestbook", "guestbook-sample", "-o", READY], "True"),
    // One pod is the active one, the other stands by, as in the quick start.
    Prints(
        &[
            "get",
            "guestbook",
            "guestbook-sample",
            "-o",
            "go-template={{len .status.standby}}{{if .status.active}} and the active one{{end}}",
        ],
        "1 and the active one",
    ),
    Run(&["delete", "guestbook", "guestbook-sample", "--timeout=60s"]),
    Prints(&["get", "statefulsets,deployments", "-o", "name"], ""),
    Run(&["delete", "configmap", "guestbook-config"]),
];

const APPSERVICE: &[Step] = &[
    Samples,
    Prints(
        &["get", "appservice", "appservice-sample", "-o", "jsonpath={.status.availableReplicas}"],
        "3",
    ),
    Run(&[
        "patch",
        "appservice",
        "appservice-sample",
        "--type=merge",
        "-p",
        r#"{"spec":{"deploymentName":"site","replicas":1}}"#,
    ]),
    Prints(&["get", "deployments", "-o", "name"], "deployment.apps/site"),
    Run(&["delete", "appservice", "appservice-sample", "--timeout=60s"]),
    Prints(&["get", "deployments", "-o", "name"], ""),
];

const WARPDRIVE: &[Step] = &[
    Samples,
    Prints(&["get", "warpdrivepool", "pool-sample", "-o", READY], "True"),
    Prints(&["get", "wdp", "pool-sample", "-o", "jsonpath={.status.capacity}"], "20Gi"),
    Run(&["scale", "warpdrivepool", "pool-sample", "--replicas=2"]),
    Prints(&["get", "wdp", "pool-sample", "-o", "jsonpath={.status.capacity}"], "40Gi"),
    // A pool in use is protected.
    Apply(
        r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "pool-sample",
                     "volumeName": "pool-sample-node-1-0",
                     "resources": {"requests": {"storage": "10Gi"}}}}"#,
    ),
    Prints(&["get", "wdp", "pool-sample", "-o", "jsonpath={.status.volumesInUse}"], "1"),
    Run(&["delete", "wdp", "pool-sample", "--wait=false"]),
    Prints(&["get", "wdp", "-o", "name"], "warpdrivepool.tos.transwarp.io/pool-sample"),
    Run(&["delete", "pvc", "data", "--timeout=60s"]),
    Prints(&["get", "pv", "pool-sample-node-1-0", "-o", "jsonpath={.status.phase}"], "Released"),
    Run(&[
        "patch",
        "pv",
        "pool-sample-node-1-0",
        "--type=merge",
        "-p",
        r#"{"spec":{"claimRef":null}}"#,
    ]),
    Prints(&["get", "wdp", "-o", "name"], ""),
    Prints(&["get", "persistentvolumes", "-o", "name"], ""),
];

const DEMO: &[Step] = &[
    Prints(
        &["get", "crd", "demos.example.com", "-o", CONVERTED_AT],
        "https://127.0.0.1:9453/convert",
    ),
    Samples,
    Prints(
        &["get", "demos.v1.example.com", "demo-sample", "-o", "jsonpath={.spec.image}"],
        "nginx:1.29-alpine",
    ),
    Prints(
        &["get", "demos.v2.example.com", "demo-sample", "-o", "jsonpath={.spec.image.tag}"],
        "1.29-alpine",
    ),
    Prints(
        &["get", "deployment", "demo-sample", "-o", "jsonpath={.status.availableReplicas}"],
        "2",
    ),
    Run(&["scale", "demo", "demo-sample", "--replicas=3"]),
    Prints(
        &["get", "deployment", "demo-sample", "-o", "jsonpath={.status.availableReplicas}"],
        "3",
    ),
    Run(&["delete", "demo", "demo-sample", "--timeout=60s"]),
    Prints(&["get", "deployments", "-o", "name"], ""),
];

/// Lets the API server call the webhooks of a program on this machine.
const WEBHOOKS: &[&str] = &["--webhook-port", "9453", "--webhook-url", "https://127.0.0.1:9453"];

const CRONJOB: &[Step] = &[
    // The webhooks are installed by now: nothing sets this default but one of them.
    Prints(
        &["get", "mutatingwebhookconfigurations", "-o", "name"],
        "mutatingwebhookconfiguration.admissionregistration.k8s.io/\
         cronjob-operator-mutating-webhook-configuration-local",
    ),
    Prints(
        &["get", "crd", "cronjobs.batch.tutorial.kubebuilder.io", "-o", CONVERTED_AT],
        "https://127.0.0.1:9453/convert",
    ),
    Apply(
        r#"{"apiVersion": "batch.tutorial.kubebuilder.io/v2", "kind": "CronJob",
            "metadata": {"name": "structured", "namespace": "default"},
            "spec": {"schedule": {"minute": "*/5", "dayOfWeek": "MON"}, "suspend": true,
                     "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
                       "containers": [{"name": "c", "image": "busybox"}]}}}}}}"#,
    ),
    Prints(
        &[
            "get",
            "cronjobs.v1.batch.tutorial.kubebuilder.io",
            "structured",
            "-o",
            "jsonpath={.spec.schedule}|{.spec.successfulJobsHistoryLimit}",
        ],
        "*/5 * * * MON|3",
    ),
    Prints(
        &[
            "get",
            "cronjobs.v2.batch.tutorial.kubebuilder.io",
            "structured",
            "-o",
            "jsonpath={.spec.schedule.minute}",
        ],
        "*/5",
    ),
    Refused(
        r#"{"apiVersion": "batch.tutorial.kubebuilder.io/v2", "kind": "CronJob",
            "metadata": {"name": "wrong", "namespace": "default"},
            "spec": {"schedule": {"hour": "25"},
                     "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
                       "containers": [{"name": "c", "image": "busybox"}]}}}}}}"#,
        "spec.schedule: Invalid value: \"* 25 * * *\": schedule \"* 25 * * *\": field 2 (hour)",
    ),
    Run(&["delete", "cronjob.batch.tutorial.kubebuilder.io", "structured", "--timeout=60s"]),
    Samples,
    // The sample is due every minute.
    Prints(
        &[
            "get",
            "jobs",
            "-o",
            "jsonpath={.items[0].metadata.ownerReferences[0].kind}/{.items[0].status.succeeded}",
        ],
        "CronJob/1",
    ),
    Run(&["delete", "cronjob.batch.tutorial.kubebuilder.io", "cronjob-sample", "--timeout=60s"]),
    Prints(&["get", "jobs", "-o", "name"], ""),
];

/// The output format that prints where objects of a definition are converted.
const CONVERTED_AT: &str = "jsonpath={.spec.conversion.webhook.clientConfig.url}";

/// The output format that prints the status of the condition `Ready`.
const READY: &str = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";

// === impl Step ===

impl Step {
    /// Takes the step; `config` is the folder with the manifests of the operator.
    pub fn take(&self, kubectl: &Kubectl, config: &Path) -> Result<(), String> {
        match self {
            Samples => {
                let samples = config.join("samples").display().to_string();
                kubectl.run(&["apply", "-k", &samples]).map(drop)
            }
            Apply(manifest) => kubectl.with_input(&["apply", "-f", "-"], manifest).map(drop),
            Refused(manifest, text) => {
                let error = kubectl.refused(&["apply", "-f", "-"], manifest)?;
                match error.contains(text) {
                    true => Ok(()),
                    false => {
                        Err(format!("refused with {error:?}, which does not contain {text:?}"))
                    }
                }
            }
            Run(arguments) => kubectl.run(arguments).map(drop),
            Replaced(kind, name, count) => replaced(kubectl, kind, name, *count),
            Prints(arguments, text) => until(|| {
                let printed = kubectl.run(arguments)?;
                match printed.trim_end() == *text {
                    true => Ok(()),
                    false => Err(format!(
                        "kubectl {} prints {printed:?}, not {text:?}",
                        arguments.join(" ")
                    )),
                }
            }),
        }
    }
}

/// Deletes the pods that the status of an object names, and waits until it names as many others.
fn replaced(kubectl: &Kubectl, kind: &str, name: &str, count: usize) -> Result<(), String> {
    let nodes = || -> Result<Vec<String>, String> {
        let printed = kubectl.run(&["get", kind, name, "-o", "jsonpath={.status.nodes[*]}"])?;
        Ok(printed.split_whitespace().map(str::to_owned).collect())
    };
    let mut gone = Vec::new();
    until(|| {
        gone = nodes()?;
        match gone.len() == count {
            true => Ok(()),
            false => Err(format!("{kind} {name} names the pods {gone:?}, not {count}")),
        }
    })?;
    kubectl.run(&["delete", "pod", "--all", "-n", "default", "--wait=false"])?;
    until(|| {
        let new = nodes()?;
        match new.len() == count && new.iter().all(|pod| !gone.contains(pod)) {
            true => Ok(()),
            false => Err(format!("{kind} {name} names the pods {new:?} after those of {gone:?}")),
        }
    })
}
