//! What happens to one object: it stays, loses owner references, or is deleted.

use std::marker::PhantomData;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PropagationPolicy;
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::json;
use windlass::client::{Api, Deletion, Patch};
use windlass::events::EventType;
use windlass::{Error, Key, Kind, Result, ResultExt};

use super::Collector;
use super::graph::{FOREGROUND, Node, ORPHAN};

type Meta = PartialObjectMeta<DynamicObject>;

/// The owners of an object as the server knows them.
#[derive(Default)]
struct Owners {
    /// Existing owners that are not waiting for their dependents.
    solid: Vec<String>,
    /// Owners that do not exist.
    dangling: Vec<String>,
    /// Owners that are deleted as soon as their dependents are.
    waiting: Vec<String>,
}

// === impl Collector ===

impl Collector {
    /// Judges one object by what the server says now.
    pub(super) async fn judge(&self, uid: &str) -> Result<()> {
        let Some(node) = self.graph.lock().get(uid).cloned() else { return Ok(()) };
        if node.deleting && node.orphan {
            return self.orphan(uid, &node).await;
        }
        if node.deleting && !node.foreground {
            return Ok(());
        }
        let Some(latest) = self.latest(&node.kind, &node.key, uid).await? else {
            // The watch is behind: the object is already deleted.
            let affected = self.graph.lock().remove(uid);
            affected.into_iter().for_each(|uid| self.queue.add(uid));
            return Ok(());
        };
        if latest.deletion_timestamp.is_some() && !has(&latest, FOREGROUND) {
            return Ok(());
        }
        if node.waits() {
            return self.release(uid, &node, &latest).await;
        }
        let references = latest.owner_references.clone().unwrap_or_default();
        if references.is_empty() {
            return Ok(());
        }
        let owners = self.owners(&node, uid, &references).await?;
        self.decide(uid, &node, &latest, owners).await
    }

    async fn decide(
        &self,
        uid: &str,
        node: &Node,
        latest: &ObjectMeta,
        owners: Owners,
    ) -> Result<()> {
        let dependents = self.graph.lock().dependents(uid);
        if !owners.solid.is_empty() {
            let lost: Vec<String> = owners.dangling.into_iter().chain(owners.waiting).collect();
            if lost.is_empty() {
                return Ok(());
            }
            return self.drop_references(&node.kind, &node.key, uid, &lost).await;
        }
        let policy = if !owners.waiting.is_empty() && !dependents.is_empty() {
            let circle = {
                let graph = self.graph.lock();
                dependents.iter().any(|d| graph.get(d).is_some_and(Node::waits))
            };
            if circle {
                self.unblock(node, uid, latest).await?;
            }
            PropagationPolicy::Foreground
        } else if has(latest, ORPHAN) {
            PropagationPolicy::Orphan
        } else if has(latest, FOREGROUND) {
            PropagationPolicy::Foreground
        } else {
            PropagationPolicy::Background
        };
        let object = Meta { types: None, metadata: latest.clone(), _phantom: PhantomData };
        let mut how = Deletion::only(&object);
        // Unblocking may have made a new version.
        let unblocked =
            matches!(policy, PropagationPolicy::Foreground) && !owners.waiting.is_empty();
        if let Some(version) = latest.resource_version.as_deref().filter(|_| !unblocked) {
            // Only the state that was judged is deleted.
            how = how.resource_version(version);
        }
        self.api(&node.kind).delete(how.propagation(policy)).await.map(drop)
    }

    /// Asks the server about every owner.
    async fn owners(
        &self,
        node: &Node,
        uid: &str,
        references: &[OwnerReference],
    ) -> Result<Owners> {
        let mut owners = Owners::default();
        for reference in references {
            let kind = self.kind(reference).await?;
            let known = self.graph.lock().get(&reference.uid).cloned();
            let lost = kind.namespaced() && node.key.namespace().is_none();
            if lost || known.is_some_and(|owner| owner.elsewhere(node)) {
                self.report(node, uid, reference);
            }
            if lost {
                // No answer would make sense of it; the object stays as it is.
                owners.solid.push(reference.uid.clone());
                continue;
            }
            let namespace = node.key.namespace().filter(|_| kind.namespaced());
            let key = Key::new(namespace, &reference.name);
            match self.latest(&kind, &key, &reference.uid).await? {
                None => owners.dangling.push(reference.uid.clone()),
                Some(owner) if owner.deletion_timestamp.is_some() && has(&owner, FOREGROUND) => {
                    owners.waiting.push(reference.uid.clone());
                }
                Some(_) => owners.solid.push(reference.uid.clone()),
            }
        }
        Ok(owners)
    }

    async fn kind(&self, reference: &OwnerReference) -> Result<Kind> {
        let version = reference.api_version.as_str();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        self.client.kind_of(group, version, &reference.kind).await
    }

    /// Deletes an owner whose blocking dependents are deleted, or continues with those that are
    /// left.
    async fn release(&self, uid: &str, node: &Node, latest: &ObjectMeta) -> Result<()> {
        let (blocking, others) = {
            let graph = self.graph.lock();
            let waits = |uid: &String| graph.get(uid).is_some_and(Node::waits);
            let blocking = graph.blocking(uid);
            let others: Vec<String> = blocking.iter().filter(|d| !waits(d)).cloned().collect();
            (blocking, others)
        };
        if blocking.is_empty() {
            return self.drop_finalizer(node, latest, FOREGROUND).await;
        }
        others.into_iter().for_each(|uid| self.queue.add(uid));
        Ok(())
    }

    /// Removes the references to an owner from all its dependents, then deletes the owner.
    async fn orphan(&self, uid: &str, node: &Node) -> Result<()> {
        let dependents = self.graph.lock().dependents(uid);
        for dependent in dependents {
            let Some(child) = self.graph.lock().get(&dependent).cloned() else { continue };
            let lost = [uid.to_string()];
            self.drop_references(&child.kind, &child.key, &dependent, &lost).await?;
        }
        match self.latest(&node.kind, &node.key, uid).await? {
            Some(latest) => self.drop_finalizer(node, &latest, ORPHAN).await,
            None => Ok(()),
        }
    }

    async fn drop_references(
        &self,
        kind: &Kind,
        key: &Key,
        uid: &str,
        lost: &[String],
    ) -> Result<()> {
        let Some(meta) = self.latest(kind, key, uid).await? else { return Ok(()) };
        let mut references = meta.owner_references.unwrap_or_default();
        references.retain(|reference| !lost.contains(&reference.uid));
        let patch = json!({"metadata": {
            "uid": uid,
            "resourceVersion": meta.resource_version,
            "ownerReferences": references,
        }});
        self.patch(kind, key, patch).await
    }

    async fn unblock(&self, node: &Node, uid: &str, latest: &ObjectMeta) -> Result<()> {
        let mut references = latest.owner_references.clone().unwrap_or_default();
        for reference in &mut references {
            reference.block_owner_deletion = reference.block_owner_deletion.map(|_| false);
        }
        let patch = json!({"metadata": {
            "uid": uid,
            "resourceVersion": latest.resource_version,
            "ownerReferences": references,
        }});
        self.patch(&node.kind, &node.key, patch).await
    }

    async fn drop_finalizer(&self, node: &Node, latest: &ObjectMeta, name: &str) -> Result<()> {
        let mut finalizers = latest.finalizers.clone().unwrap_or_default();
        let before = finalizers.len();
        finalizers.retain(|finalizer| finalizer != name);
        if finalizers.len() == before {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "uid": latest.uid,
            "resourceVersion": latest.resource_version,
            "finalizers": finalizers,
        }});
        self.patch(&node.kind, &node.key, patch).await
    }

    async fn patch(&self, kind: &Kind, key: &Key, patch: serde_json::Value) -> Result<()> {
        let api = self.client.api_of::<DynamicObject>(kind);
        api.patch(key, &Patch::Merge(patch)).await.ignore_not_found().map(drop)
    }

    /// The metadata on the server; `None` if the object is deleted or another one has its name.
    async fn latest(&self, kind: &Kind, key: &Key, uid: &str) -> Result<Option<ObjectMeta>> {
        let found = match self.api(kind).get(key).await {
            Err(Error::NoKind { .. }) => None,
            other => other?,
        };
        let found = found.map(|object| object.metadata.clone());
        Ok(found.filter(|meta| meta.uid.as_deref() == Some(uid)))
    }

    fn api(&self, kind: &Kind) -> Api<Meta> {
        self.client.api_of(kind)
    }

    fn report(&self, node: &Node, uid: &str, reference: &OwnerReference) {
        let namespace = node.key.namespace().unwrap_or_default();
        let text = format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in \
             namespace \"{namespace}\"",
            reference.api_version, reference.kind, reference.name, reference.uid
        );
        let regarding = ObjectReference {
            api_version: Some(node.kind.api_version()),
            kind: Some(node.kind.kind().to_string()),
            namespace: node.key.namespace().map(str::to_string),
            name: Some(node.key.name().to_string()),
            uid: Some(uid.to_string()),
            ..ObjectReference::default()
        };
        let (warning, reason) = (EventType::Warning, "OwnerRefInvalidNamespace");
        self.recorder.publish(warning, regarding, reason, "GarbageCollect", text);
    }
}

fn has(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|f| f == finalizer)
}
