//! The Demo operator: a custom resource without macros.
//!
//! The definition is `crd.yaml`, written by hand. The operator exists twice: [`typed`] has a Rust
//! type for it, also written by hand, and [`dynamic`] has none and reads and writes JSON. Both do the
//! same, and the same tests run for both. [`v2`] is another version of the kind: objects are stored
//! as `v1`, and the operator converts.

pub mod dynamic;
pub mod typed;
pub mod v2;

use serde_json::{Value, json};
use windlass::Operator;

pub use typed::{Demo, DemoSpec, DemoStatus};

/// The finalizer of a Demo.
const FINALIZER: &str = "example.com/demo";
/// The label of the pods with the name of the Demo.
const DEMO: &str = "example.com/demo";
/// The definition, as people apply it.
const DEFINITION: &str = include_str!("../crd.yaml");

/// The operator: run by `main`, installed by its manifests.
pub fn operator() -> Operator {
    typed::describe(Operator::new("demo-operator").controller(typed::controller()))
}

/// The same operator without a Rust type for the kind.
pub fn dynamic_operator() -> Operator {
    typed::describe(Operator::new("demo-operator").controller(dynamic::controller()))
}

/// The Deployment of a Demo.
fn deployment(name: &str, image: &str, replicas: i64) -> Value {
    let labels = json!({DEMO: name});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "demo", "image": image}]},
            },
        },
    })
}
