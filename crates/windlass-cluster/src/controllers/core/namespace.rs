//! Deletion of namespaces: first the contents, beginning with pods, then the namespace itself.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Namespace, NamespaceCondition, NamespaceSpec, NamespaceStatus, Pod,
};
use kube::api::PropagationPolicy;
use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::discovery::{Discovery, verbs};
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Kind, Manager, Result, ResultExt};

use crate::controllers::Shared;
use crate::controllers::pod;

const FINALIZER: &str = "kubernetes";

/// Adds the controller.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    let controller = Controller::<Namespace>::builder("namespace-controller")
        .workers(4)
        .build(|cx: Context<Namespace>| async move { reconcile(&cx).await });
    builder.add(controller)
}

/// What is still in a namespace.
#[derive(Default)]
struct Rest {
    /// How many objects of each kind, by `plural.group`.
    kinds: BTreeMap<String, usize>,
    /// How many objects have each finalizer.
    finalizers: BTreeMap<String, usize>,
    /// What could not be deleted, and why.
    failures: Vec<String>,
}

async fn reconcile(cx: &Context<Namespace>) -> Result<Next> {
    let Some(namespace) = cx.object() else { return Ok(Next::Done) };
    let Some(since) = &namespace.metadata.deletion_timestamp else { return Ok(Next::Done) };
    let spec = namespace.spec.as_ref();
    if !spec.and_then(|s| s.finalizers.as_ref()).is_some_and(|f| f.iter().any(|f| f == FINALIZER)) {
        return Ok(Next::Done);
    }
    let rest = empty(cx.client(), cx.name()).await?;
    if let Err(error) = record(cx, &rest).await {
        // Deleted, or changed by another client: the next reconcile sees it.
        return if error.is_not_found() { Ok(Next::Done) } else { Err(error) };
    }
    if rest.kinds.is_empty() && rest.failures.is_empty() {
        return finalize(cx).await;
    }
    let pause = match cx.clock().now().duration_since(since.0).as_secs() {
        ..5 => Duration::from_millis(20),
        5..60 => Duration::from_millis(500),
        _ => Duration::from_secs(5),
    };
    Ok(Next::After(pause))
}

/// Deletes everything in a namespace; other things only once no pod is left.
async fn empty(client: &Client, namespace: &str) -> Result<Rest> {
    let mut rest = Rest::default();
    let pods = Kind::of::<Pod>();
    clear(client, &pods, namespace, &mut rest).await;
    if !rest.kinds.is_empty() {
        return Ok(rest);
    }
    for kind in content(client).await? {
        if kind != pods {
            clear(client, &kind, namespace, &mut rest).await;
        }
    }
    Ok(rest)
}

/// The namespaced kinds that can be deleted.
async fn content(client: &Client) -> Result<Vec<Kind>> {
    let discovery = Discovery::new(client.kube()).run_aggregated().await?;
    let mut kinds = Vec::new();
    for group in discovery.groups_alphabetical() {
        for found in group.resources_by_stability() {
            let kind = Kind::from(&found);
            let able = |verb: &&str| found.1.supports_operation(verb);
            let deletable = [verbs::DELETE, verbs::LIST].iter().all(able);
            if kind.namespaced() && deletable {
                kinds.push(kind);
            }
        }
    }
    // kube keeps the kinds of a group in a hash map.
    kinds.sort();
    Ok(kinds)
}

async fn clear(client: &Client, kind: &Kind, namespace: &str, rest: &mut Rest) {
    let api = client.api_of::<PartialObjectMeta<DynamicObject>>(kind);
    let list = api.list().namespace(namespace);
    let outcome = async {
        if list.items().await?.is_empty() {
            return Ok(Vec::new());
        }
        list.delete(PropagationPolicy::Background).await?;
        list.items().await
    };
    match outcome.await {
        Err(error) if error.is_not_found() => {}
        Err(error) => rest.failures.push(pod::message(&error)),
        Ok(left) if left.is_empty() => {}
        Ok(left) => {
            rest.kinds.insert(format!("{}.{}", kind.plural(), kind.group()), left.len());
            for finalizer in left.iter().flat_map(|o| o.metadata.finalizers.iter().flatten()) {
                *rest.finalizers.entry(finalizer.clone()).or_default() += 1;
            }
        }
    }
}

/// Records in the status what is left.
///
/// The real controller sets the transition time whenever a message changes, so `ConditionBuilder`,
/// which follows the API conventions, is of no use here.
async fn record(cx: &Context<Namespace>, rest: &Rest) -> Result<()> {
    let texts = rest.texts();
    let clock = cx.clock();
    cx.status_as(|status: &mut NamespaceStatus| {
        let conditions = status.conditions.get_or_insert_default();
        for (type_, bad, reason, message) in &texts {
            let value = if *bad { "True" } else { "False" };
            let found = conditions.iter_mut().find(|c| c.type_ == *type_);
            let same = found.as_ref().is_some_and(|c| {
                (c.status.as_str(), c.reason.as_deref(), c.message.as_deref())
                    == (value, Some(*reason), Some(message.as_str()))
            });
            if same {
                continue;
            }
            let condition = NamespaceCondition {
                type_: (*type_).into(),
                status: value.into(),
                reason: Some((*reason).into()),
                message: Some(message.clone()),
                last_transition_time: Some(clock.time()),
            };
            match found {
                Some(found) => *found = condition,
                None => conditions.push(condition),
            }
        }
    })
    .await
    .map(drop)
}

async fn finalize(cx: &Context<Namespace>) -> Result<Next> {
    let api = cx.client().api::<Namespace>();
    let Some(namespace) = api.get(cx.key()).await? else {
        return Ok(Next::Done);
    };
    let spec = namespace.spec.as_ref().and_then(|s| s.finalizers.clone());
    let left: Vec<String> =
        spec.unwrap_or_default().into_iter().filter(|f| f != FINALIZER).collect();
    let metadata = ObjectMeta {
        name: namespace.metadata.name.clone(),
        uid: namespace.metadata.uid.clone(),
        resource_version: namespace.metadata.resource_version.clone(),
        ..ObjectMeta::default()
    };
    let spec = Some(NamespaceSpec { finalizers: Some(left) });
    let finalized = Namespace { metadata, spec, status: None };
    let done = api.subresource("finalize").update(&finalized).await;
    done.ignore_not_found().map(|_| Next::Done)
}

// === impl Rest ===

impl Rest {
    /// The conditions: type, whether it is bad, reason, message.
    fn texts(&self) -> [(&'static str, bool, &'static str, String); 5] {
        let content = self.failures.is_empty();
        let counts = |map: &BTreeMap<String, usize>, middle: &str| {
            let parts: Vec<_> = map
                .iter()
                .map(|(name, count)| format!("{name} {middle} {count} resource instances"))
                .collect();
            parts.join(", ")
        };
        [
            (
                "NamespaceDeletionDiscoveryFailure",
                false,
                "ResourcesDiscovered",
                "All resources successfully discovered".into(),
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                false,
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed".into(),
            ),
            if content {
                (
                    "NamespaceDeletionContentFailure",
                    false,
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization".into(),
                )
            } else {
                let text = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    self.failures.len(),
                    self.failures.join(", ")
                );
                ("NamespaceDeletionContentFailure", true, "ContentDeletionFailed", text)
            },
            if self.kinds.is_empty() {
                (
                    "NamespaceContentRemaining",
                    false,
                    "ContentRemoved",
                    "All content successfully removed".into(),
                )
            } else {
                let text = format!("Some resources are remaining: {}", counts(&self.kinds, "has"));
                ("NamespaceContentRemaining", true, "SomeResourcesRemain", text)
            },
            if self.finalizers.is_empty() {
                (
                    "NamespaceFinalizersRemaining",
                    false,
                    "ContentHasNoFinalizers",
                    "All content-preserving finalizers finished".into(),
                )
            } else {
                let text = format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    counts(&self.finalizers, "in")
                );
                ("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", text)
            },
        ]
    }
}
