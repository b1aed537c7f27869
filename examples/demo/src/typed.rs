//! The operator with a Rust type for the kind, and what the attribute `#[windlass::api]` would
//! write: the type, its place in the API, and its definition.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::NamespaceResourceScope;
use kube::core::object::HasStatus;
use kube::{CustomResourceExt, Resource};
use serde::{Deserialize, Serialize};
use windlass::finalizer::Finalizing;
use windlass::{Context, Controller, Next, Operator, Result};

use crate::{DEFINITION, DEMO, FINALIZER, deployment, v2};

/// A number of pods with one image.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Demo {
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    /// What people ask for.
    pub spec: DemoSpec,
    /// What the operator reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DemoStatus>,
}

/// What people ask for.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DemoSpec {
    /// What the pods run.
    pub image: String,
    /// How many pods run. The API server fills in a default.
    #[serde(default)]
    pub replicas: i32,
}

/// What the operator reports.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DemoStatus {
    /// How many pods there are.
    #[serde(default)]
    pub replicas: i32,
    /// How many pods are available.
    #[serde(default)]
    pub available_replicas: i32,
    /// The selector of the pods, for autoscalers.
    #[serde(default)]
    pub selector: String,
}

// === impl Demo ===

impl Resource for Demo {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Demo".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "demos".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl HasStatus for Demo {
    type Status = DemoStatus;

    fn status(&self) -> Option<&DemoStatus> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Option<DemoStatus> {
        &mut self.status
    }
}

impl CustomResourceExt for Demo {
    fn crd() -> CustomResourceDefinition {
        definition("v1")
    }

    fn crd_name() -> &'static str {
        "demos.example.com"
    }

    fn api_resource() -> ApiResource {
        ApiResource::erase::<Self>(&())
    }

    fn shortnames() -> &'static [&'static str] {
        &["dm"]
    }
}

/// Returns the definition with one of its versions: a Rust type describes one version, and the
/// operator puts them together again.
pub(crate) fn definition(version: &str) -> CustomResourceDefinition {
    let mut definition: CustomResourceDefinition =
        serde_saphyr::from_str(DEFINITION).expect("a test reads crd.yaml");
    definition.spec.conversion = None;
    definition.spec.versions.retain(|one| one.name == version);
    definition
}

/// Adds the kind to an operator, with both versions and an example.
pub(crate) fn describe(operator: Operator) -> Operator {
    let metadata = ObjectMeta { name: Some("demo-sample".into()), ..ObjectMeta::default() };
    let spec = DemoSpec { image: "nginx:1.29-alpine".into(), replicas: 2 };
    operator
        .version(env!("CARGO_PKG_VERSION"))
        .api::<Demo>()
        .api::<v2::Demo>()
        .conversion(v2::conversion())
        .sample(&Demo { metadata, spec, status: None })
}

/// The controller, ready to be added to a manager.
pub fn controller() -> Controller<Demo> {
    Controller::builder("demo").owns::<Deployment>().writes_status().finalizes().build(reconcile)
}

/// Brings the cluster to what one Demo asks for.
///
/// # Errors
///
/// Fails if the API server refuses a request; the manager retries.
pub async fn reconcile(cx: Context<Demo>) -> Result<Next> {
    let Some(demo) = cx.object() else { return Ok(Next::Done) };
    let goodbye = || async {
        cx.event("Deleted", format!("{} pods are no longer needed", demo.spec.replicas));
        Ok(())
    };
    if let Finalizing::Finalized = cx.finalize(FINALIZER, goodbye).await? {
        return Ok(Next::Done);
    }

    let wanted = deployment(cx.name(), &demo.spec.image, demo.spec.replicas.into());
    let wanted: Deployment = serde_json::from_value(wanted)?;
    let current = cx.apply(&wanted).await?.status.clone().unwrap_or_default();
    cx.status(|status| {
        status.replicas = current.replicas.unwrap_or(0);
        status.available_replicas = current.available_replicas.unwrap_or(0);
        status.selector = format!("{DEMO}={}", cx.name());
    })
    .await?;
    Ok(Next::Done)
}
