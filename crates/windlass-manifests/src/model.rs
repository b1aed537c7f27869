//! One description of an operator, from which everything that is installed is made.
//!
//! **Invariant:** the model is plain data: equal models give equal files, to the byte.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rbac::Grant;

mod check;
mod policy;
mod webhook;

pub use policy::{Mutation, Policy};
pub use webhook::Webhook;

/// An operator: its APIs, what it may do, and how it runs.
///
/// ```
/// use windlass_manifests::Model;
/// use windlass_manifests::rbac::{Grant, Reach, Rule};
///
/// let mut model = Model::new("memcached-operator");
/// let pods = Rule::new("", "pods", ["list", "watch"]);
/// model.grants.push(Grant::new(pods, Reach::Watched));
/// let install = model.install();
/// assert!(install.contains("name: memcached-operator-controller-manager\n"));
///
/// let json = serde_json::to_string(&model).unwrap();
/// assert_eq!(serde_json::from_str::<Model>(&json).unwrap(), model);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// The name, which all names in the cluster start with.
    pub name: String,
    /// The version of the operator.
    pub version: String,
    /// The image of the container.
    pub image: String,
    /// The namespace of the operator itself.
    pub namespace: String,
    /// The namespaces that it watches; empty for all.
    pub watched: Vec<String>,
    /// The kinds that it defines.
    pub apis: Vec<Api>,
    /// The names of its controllers, as metrics show them.
    pub controllers: Vec<String>,
    /// Its admission webhooks.
    #[serde(default)]
    pub webhooks: Vec<Webhook>,
    /// Its admission policies.
    #[serde(default)]
    pub policies: Vec<Policy>,
    /// The oldest version of Kubernetes that the operator is installed on, such as `1.30`. Policies
    /// that this version does not have are served as webhooks.
    #[serde(default = "kubernetes")]
    pub kubernetes: String,
    /// What it may do, besides leader election, metrics and the certificate of its webhooks.
    pub grants: Vec<Grant>,
    /// The name of the lease for leader election; without one, every replica works.
    pub lease: Option<String>,
    /// How it runs.
    pub run: Run,
}

/// A kind that an operator defines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Api {
    /// The CustomResourceDefinition.
    pub definition: Value,
    /// Examples of objects; if there is none, one is made from the schema.
    pub samples: Vec<Value>,
}

/// How the operator runs in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// How many pods run, of which one leads.
    pub replicas: u32,
    /// The grace period of the manager, in seconds; the pod gets ten seconds more.
    pub grace_seconds: u32,
    /// The port of `/healthz` and `/readyz`.
    pub probe_port: u16,
    /// The port of `/metrics`, which is served over TLS to authorized clients.
    pub metrics_port: u16,
    /// The port of the webhooks.
    #[serde(default = "webhook_port")]
    pub webhook_port: u16,
    /// Requested CPU and memory.
    pub requests: Resources,
    /// Limits of CPU and memory.
    pub limits: Resources,
    /// Further arguments of the command.
    pub args: Vec<String>,
}

/// CPU and memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// CPU, such as `500m`.
    pub cpu: String,
    /// Memory, such as `128Mi`.
    pub memory: String,
}

// === impl Model ===

impl Model {
    /// An operator without APIs and rights, with the defaults of all settings.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: "0.1.0".into(),
            image: format!("{name}:latest"),
            namespace: format!("{name}-system"),
            watched: Vec::new(),
            apis: Vec::new(),
            controllers: Vec::new(),
            webhooks: Vec::new(),
            policies: Vec::new(),
            kubernetes: kubernetes(),
            grants: Vec::new(),
            lease: Some(name.to_owned()),
            run: Run::default(),
        }
    }

    /// The name of the deployment and of its service account.
    pub fn manager_name(&self) -> String {
        format!("{}-controller-manager", self.name)
    }
}

/// All clusters that Kubernetes still maintains are newer.
fn kubernetes() -> String {
    "1.30".into()
}

/// The port that controller-runtime uses.
fn webhook_port() -> u16 {
    9443
}

// === impl Run ===

impl Default for Run {
    fn default() -> Self {
        let resources =
            |cpu: &str, memory: &str| Resources { cpu: cpu.into(), memory: memory.into() };
        Self {
            replicas: 1,
            grace_seconds: 30,
            probe_port: 8081,
            metrics_port: 8443,
            webhook_port: webhook_port(),
            requests: resources("10m", "64Mi"),
            limits: resources("500m", "128Mi"),
            args: Vec::new(),
        }
    }
}

// === impl Api ===

impl Api {
    /// A kind without samples.
    pub fn new(definition: Value) -> Self {
        Self { definition, samples: Vec::new() }
    }

    /// The API group.
    pub fn group(&self) -> &str {
        self.text("/spec/group")
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        self.text("/spec/names/kind")
    }

    /// The name of the resource.
    pub fn plural(&self) -> &str {
        self.text("/spec/names/plural")
    }

    /// The name of one object, in lower case.
    pub fn singular(&self) -> String {
        match self.text("/spec/names/singular") {
            "" => self.kind().to_lowercase(),
            singular => singular.to_owned(),
        }
    }

    /// Returns `true` if objects belong to a namespace.
    pub fn namespaced(&self) -> bool {
        self.text("/spec/scope") == "Namespaced"
    }

    /// The version that is stored, or else the first one.
    pub fn stored(&self) -> &Value {
        let versions =
            self.definition["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
        let stored = versions.iter().find(|version| version["storage"] == true);
        stored.or(versions.first()).unwrap_or(&Value::Null)
    }

    /// The name of that version.
    pub fn version(&self) -> &str {
        self.stored()["name"].as_str().unwrap_or_default()
    }

    /// The schema of that version.
    pub fn schema(&self) -> &Value {
        &self.stored()["schema"]["openAPIV3Schema"]
    }

    /// Returns `true` if objects have a status subresource.
    pub fn has_status(&self) -> bool {
        self.stored()["subresources"].get("status").is_some()
    }

    /// Returns `true` if objects are converted between versions by a webhook.
    pub fn converts_by_webhook(&self) -> bool {
        self.text("/spec/conversion/strategy") == "Webhook"
    }

    /// Returns `true` if the status has conditions.
    pub fn has_conditions(&self) -> bool {
        let path = "/properties/status/properties/conditions/items/properties/type";
        self.schema().pointer(path).is_some()
    }

    fn text(&self, pointer: &str) -> &str {
        self.definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}
