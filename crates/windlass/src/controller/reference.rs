//! Objects that a reconcile refers to by name, such as the Secret of a spec.
//!
//! The metadata of the kind is watched, and the bodies of those objects are read and kept that a
//! reconcile asked for. Nothing else of the kind is in memory. One watch of all metadata was chosen
//! over one watch per object with a field selector: it is a single stream however many objects are
//! referred to, it knows without a request that an object does not exist, and a reference costs a
//! request only after a change. Its price is the metadata of objects that nobody refers to.
//!
//! **Invariant:** a reference is followed before its object is read, so no change between the two is
//! lost.
//! **Invariant:** what a successful reconcile did not ask for is not followed any more, and a body
//! that nobody refers to is dropped.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Builder, Context, Watch};
use crate::cache::Key;
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

/// Most objects that one reconcile can refer to.
const REFERENCES_MAX: usize = 1000;
/// The annotation with the hash of all references.
const ANNOTATION: &str = "windlass.dev/references";

/// An object that is referred to.
type Target = (Kind, Key);

/// The references of one reconcile, each with the hash of what was found.
pub(super) type Asked = BTreeMap<Target, String>;

/// All references of a controller.
#[derive(Debug, Default)]
pub(crate) struct References {
    kinds: BTreeSet<Kind>,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// Which keys refer to an object.
    users: BTreeMap<Target, BTreeSet<Key>>,
    /// Which objects a key refers to.
    targets: HashMap<Key, BTreeSet<Target>>,
    bodies: HashMap<Target, Body>,
}

/// An object as it was read last.
#[derive(Debug, Clone)]
struct Body {
    uid: Option<String>,
    version: Option<String>,
    hash: String,
    object: Arc<dyn Any + Send + Sync>,
}

// === impl Builder ===

impl<K: Object> Builder<K> {
    /// Declares that the reconcile function refers to objects of type `T` by name, with
    /// [`Context::reference`].
    ///
    /// Only the metadata of the kind is cached, unless the kind is also declared with `owns`,
    /// `watch` or `reads`. The role of the operator gets the verbs `get`, `list` and `watch`.
    pub fn references<T: Object<DynamicType = ()>>(mut self) -> Self {
        let kind = Kind::of::<T>();
        self.referenced.insert(kind.clone());
        self.gets(&kind)
    }

    /// Watches the metadata of all kinds that are referred to.
    pub(super) fn follow_references(mut self) -> Self {
        if self.referenced.is_empty() {
            return self;
        }
        let (kinds, tables) = (std::mem::take(&mut self.referenced), Mutex::default());
        let references = Arc::new(References { kinds, tables });
        self.options.references = Some(references.clone());
        for kind in &references.kinds {
            let (users, of) = (references.clone(), kind.clone());
            let watch =
                Watch::changes(kind.clone(), move |change, _| users.users(&of, change.key()));
            self = self.watch(watch.metadata_only());
        }
        self
    }
}

// === impl Context ===

impl<K: Object> Context<K> {
    /// Returns an object that the reconciled object refers to by name, in the same or in another
    /// namespace; `None` if it does not exist.
    ///
    /// The key is reconciled again when that object changes, appears or disappears, until a
    /// reconcile succeeds without asking for it. The kind is declared with
    /// [`Builder::references`]. An object that did not change is not requested again.
    ///
    /// # Errors
    ///
    /// Fails if the kind was not declared, if the manager does not watch that namespace, if the
    /// server refuses the request, or if one reconcile refers to more than 1000 objects.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass::{Context, Controller, Key, Manager, Next, Result};
    ///
    /// /// Follows the secret that `data.secret` names.
    /// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    ///     let Some(map) = cx.object() else { return Ok(Next::Done) };
    ///     let name = map.data.as_ref().and_then(|data| data.get("secret"));
    ///     let Some(name) = name else { return Ok(Next::Done) };
    ///     match cx.reference::<Secret>(&Key::new(cx.namespace(), name)).await? {
    ///         None => cx.event("Waiting", format!("there is no secret {name}")),
    ///         Some(secret) => {
    ///             let keys = secret.data.as_ref().map_or(0, |data| data.len());
    ///             cx.event("Found", format!("{keys} keys"));
    ///             let mut deployment = Deployment::default();
    ///             // Pods are replaced when the secret changes.
    ///             cx.stamp(&mut deployment.spec.get_or_insert_default().template);
    ///         }
    ///     }
    ///     Ok(Next::Done)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let controller =
    ///     Controller::<ConfigMap>::builder("maps").references::<Secret>().build(reconcile);
    /// let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// # handle.ready().await;
    /// # handle.stop().await
    /// # }
    /// ```
    pub async fn reference<T>(&self, key: &Key) -> Result<Option<Arc<T>>>
    where
        T: Object<DynamicType = ()>,
    {
        let kind = Kind::of::<T>();
        let references = self.references().filter(|known| known.kinds.contains(&kind));
        let references = references.ok_or_else(|| {
            Error::Invalid(format!(
                "{kind} is not declared: add references::<{}>() to the controller",
                kind.kind()
            ))
        })?;
        let key = if kind.namespaced() { key.clone() } else { Key::cluster(key.name()) };
        let target = (kind, key);
        references.follow(self.key(), &target)?;
        self.count_read();
        let found = self.find::<T>(references, &target).await?;
        let hash = found.as_ref().map_or("missing", |(_, hash)| hash).to_string();
        self.notes().references.insert(target, hash);
        Ok(found.map(|(object, _)| object))
    }

    async fn find<T>(
        &self,
        references: &References,
        target: &Target,
    ) -> Result<Option<(Arc<T>, String)>>
    where
        T: Object<DynamicType = ()>,
    {
        let (kind, key) = target;
        let Some(metadata) = self.client().cached().metadata(kind, key)? else { return Ok(None) };
        if let Some(body) = references.body(target)
            && (&body.uid, &body.version) == (&metadata.uid, &metadata.resource_version)
            && let Ok(object) = body.object.downcast::<T>()
        {
            return Ok(Some((object, body.hash)));
        }
        // Somebody may cache the whole kind.
        let object = match self.client().cached().get::<T>(key) {
            Ok(object) => object,
            Err(_) => self.client().api::<T>().get(key).await?,
        };
        let Some(object) = object else { return Ok(None) };
        let (metadata, hash) = (object.meta(), content_hash(kind, &*object)?);
        let (uid, version) = (metadata.uid.clone(), metadata.resource_version.clone());
        references.keep(target, Body { uid, version, hash: hash.clone(), object: object.clone() });
        Ok(Some((object, hash)))
    }

    /// Puts a hash of everything that this reconcile has referred to into the annotations of a pod
    /// template, so that pods are replaced when one of those objects changes.
    ///
    /// The hash is about the contents: `metadata` and `status` are not part of it. An object that
    /// does not exist counts as such. The annotation is `windlass.dev/references`. A template
    /// without references is left as it is.
    pub fn stamp(&self, template: &mut PodTemplateSpec) {
        let notes = self.notes();
        if notes.references.is_empty() {
            return;
        }
        let mut digest = Sha256::new();
        for ((kind, key), hash) in &notes.references {
            digest.update(format!("{kind}\n{key}\n{hash}\n"));
        }
        let metadata = template.metadata.get_or_insert_default();
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(ANNOTATION.into(), hex(&digest.finalize()));
    }

    /// Ends the references that a successful reconcile did not ask for.
    pub(super) fn settle_references(&self, succeeded: bool) {
        if let Some(references) = self.references() {
            let asked = self.notes().references.keys().cloned().collect();
            references.settle(self.key(), asked, succeeded);
        }
    }
}

// === impl References ===

impl References {
    /// Returns the keys that refer to an object.
    fn users(&self, kind: &Kind, key: &Key) -> Vec<Key> {
        let target = (kind.clone(), key.clone());
        let tables = self.tables.lock();
        tables.users.get(&target).into_iter().flatten().cloned().collect()
    }

    /// Has a key reconciled when an object changes, from now on.
    fn follow(&self, user: &Key, target: &Target) -> Result<()> {
        let mut tables = self.tables.lock();
        let targets = tables.targets.entry(user.clone()).or_default();
        if targets.len() >= REFERENCES_MAX && !targets.contains(target) {
            return Err(Error::Invalid(format!(
                "{user} refers to more than {REFERENCES_MAX} objects"
            )));
        }
        targets.insert(target.clone());
        tables.users.entry(target.clone()).or_default().insert(user.clone());
        Ok(())
    }

    fn body(&self, target: &Target) -> Option<Body> {
        self.tables.lock().bodies.get(target).cloned()
    }

    fn keep(&self, target: &Target, body: Body) {
        let mut tables = self.tables.lock();
        if tables.users.contains_key(target) {
            tables.bodies.insert(target.clone(), body);
        }
    }

    /// Replaces the references of a key by what its reconcile asked for; one that failed may not
    /// have asked for all.
    fn settle(&self, user: &Key, asked: BTreeSet<Target>, succeeded: bool) {
        let mut tables = self.tables.lock();
        let Some(known) = tables.targets.get(user) else { return };
        if !succeeded || *known == asked {
            return;
        }
        let left: Vec<Target> = known.difference(&asked).cloned().collect();
        match asked.is_empty() {
            true => drop(tables.targets.remove(user)),
            false => drop(tables.targets.insert(user.clone(), asked)),
        }
        for target in left {
            let Some(users) = tables.users.get_mut(&target) else { continue };
            users.remove(user);
            if users.is_empty() {
                tables.users.remove(&target);
                tables.bodies.remove(&target);
            }
        }
    }
}

/// Returns the hash of an object without its metadata and status.
fn content_hash(kind: &Kind, object: &impl Serialize) -> Result<String> {
    let mut content = serde_json::to_value(object)?;
    if let Value::Object(fields) = &mut content {
        for name in ["apiVersion", "kind", "metadata", "status"] {
            fields.remove(name);
        }
        // Pods see no difference between a Secret that may be changed and one that may not.
        if kind.group().is_empty() && ["ConfigMap", "Secret"].contains(&kind.kind()) {
            fields.remove("immutable");
        }
    }
    // The keys of a map are sorted, so equal contents are equal texts.
    Ok(hex(&Sha256::digest(content.to_string())))
}

/// Returns bytes as text.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use crate::controller::{Controller, Next};

    #[test]
    fn a_kind_that_is_referred_to_is_in_the_role() {
        let controller = Controller::<ConfigMap>::builder("maps")
            .references::<Secret>()
            .build(|_| async { Ok(Next::Done) });
        let access = controller.access();
        for verb in ["get", "list", "watch"] {
            let declared =
                access.iter().any(|a| a.resource() == "secrets" && a.verbs.contains(&verb));
            assert!(declared, "{verb}");
        }
    }
}
