//! The Guestbook operator: a front end of `size` pods, a store behind it, and settings from a
//! ConfigMap that the guestbook names.
//!
//! [`Guestbook`] is the custom resource, [`reconcile`] decides what should exist, and the module
//! [`children`] describes the objects. [`controller`] declares what is watched.

pub mod children;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::{Context, Controller, Key, Next, Operator, Readiness, Result, Watch, api, k8s};

use crate::children::INSTANCE;

/// The finalizer of a guestbook, and the name of the annotation that lists its children.
const CHILDREN: &str = "webapp.tutorial.kubebuilder.io/children";

/// A guestbook: a front end, and a store behind it.
#[api(
    group = "webapp.tutorial.kubebuilder.io",
    version = "v1",
    kind = "Guestbook",
    status = GuestbookStatus,
    column("Size", ".spec.size"),
    column("Active", ".status.active"),
    column("Ready", ".status.conditions[?(@.type==\"Ready\")].status"),
    column("Age", ".metadata.creationTimestamp"),
    cel("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,44}[a-z0-9])?$')",
        message = "the name has to be a DNS label of at most 46 characters: services are named after it")
)]
pub struct GuestbookSpec {
    /// How many pods serve the front end.
    #[k8s(min = 1, max = 10)]
    pub size: i32,
    /// The ConfigMap with the settings of the front end, in the namespace of the guestbook.
    #[k8s(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    pub config_map_name: String,
    /// What the front end shows of a guest.
    #[k8s(default = Alias::Name)]
    pub alias: Alias,
}

/// A part of an entry.
#[k8s]
#[derive(Copy, PartialEq, Eq)]
pub enum Alias {
    /// The number.
    Phone,
    /// The place.
    Address,
    /// The name.
    Name,
}

/// What the operator reports.
#[k8s(optional)]
#[derive(Default)]
pub struct GuestbookStatus {
    /// The pod that is shown to visitors.
    pub active: Option<String>,
    /// The other pods.
    #[k8s(list = set)]
    pub standby: Vec<String>,
    /// `Ready` is true while everything works; `ConfigFound` while the ConfigMap exists.
    #[k8s(list = map("type"))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that the conditions are about.
    pub observed_generation: Option<i64>,
}

/// The operator: run by `main`, installed by its manifests.
pub fn operator() -> Operator {
    let spec =
        GuestbookSpec { size: 2, config_map_name: "guestbook-config".into(), alias: Alias::Name };
    Operator::new("guestbook-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .api::<Guestbook>()
        .sample(&Guestbook::new("guestbook-sample", spec))
        .controller(controller())
}

/// The controller, ready to be added to a manager.
pub fn controller() -> Controller<Guestbook> {
    Controller::builder("guestbook")
        .owns::<Deployment>()
        .deletes::<Deployment>()
        .owns::<StatefulSet>()
        .deletes::<StatefulSet>()
        .owns::<Service>()
        .deletes::<Service>()
        .finalizes()
        .conditions()
        .references::<ConfigMap>()
        .watch(Watch::map(|pod: &Pod| {
            let name = pod.metadata.labels.as_ref()?.get(INSTANCE)?;
            Some(Key::new(pod.metadata.namespace.as_deref(), name))
        }))
        .build(reconcile)
}

/// Brings the cluster to what one Guestbook asks for.
///
/// # Errors
///
/// Fails if the API server refuses a request; the manager retries.
pub async fn reconcile(cx: Context<Guestbook>) -> Result<Next> {
    let Some(guestbook) = cx.object() else { return Ok(Next::Done) };
    // Before everything that may be missing: a guestbook without settings can be deleted.
    if guestbook.metadata.deletion_timestamp.is_some() {
        cx.children(CHILDREN).apply().await?;
        return Ok(Next::Done);
    }

    let config = &guestbook.spec.config_map_name;
    let key = Key::new(cx.namespace(), config);
    let Some(settings) = cx.reference::<ConfigMap>(&key).await? else {
        let message = format!("there is no ConfigMap {config}");
        cx.report("ConfigFound", &Readiness::InProgress { reason: "Missing".into(), message });
        return Ok(Next::Done); // its creation leads to another reconcile
    };
    cx.report("ConfigFound", &Readiness::Ready);

    let mut all = cx.children(CHILDREN);
    all.add(&children::store_service(cx.name())?)?;
    all.add(&children::store(cx.name())?)?;
    all.then(); // the front end comes after its store, and is gone before it
    all.add(&children::front_end(cx.name(), &guestbook.spec, &settings)?)?;
    all.add(&children::front_end_service(cx.name())?)?;
    all.apply().await?;
    report_pods(&cx).await
}

/// Writes which pod is active and which ones stand by.
async fn report_pods(cx: &Context<Guestbook>) -> Result<Next> {
    let labels = [(INSTANCE, cx.name()), children::TIER_OF_FRONT_END];
    let pods = cx.list::<Pod>().labels(labels).items()?;
    let alive = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut ready = Vec::new();
    let mut others = Vec::new();
    for pod in alive {
        let list = if Readiness::of(&**pod, cx.clock().now()).is_ready() {
            &mut ready
        } else {
            &mut others
        };
        list.extend(pod.metadata.name.clone());
    }
    cx.status(|status| {
        // Visitors stay where they are for as long as possible.
        let kept = status.active.take().filter(|active| ready.contains(active));
        status.active = kept.or_else(|| ready.first().cloned());
        let standby = ready.iter().chain(&others).filter(|pod| status.active.as_ref() != Some(pod));
        status.standby = standby.cloned().collect();
        status.standby.sort();
    })
    .await?;
    Ok(Next::Done)
}
