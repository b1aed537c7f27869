//! The children of an object as one set: applied together, pruned, and deleted in reverse order.
//!
//! What may exist is listed in an annotation of the owner, the *inventory*. It is written together
//! with the finalizer before the first child is created, and a child leaves it only after the server
//! has confirmed that the child is gone. So a process that ends between any two requests leaves
//! nothing behind that the next one does not find.
//!
//! The children are listed by name. A selector, as `kubectl apply --prune` uses it, would cost one
//! list per kind and owner after each start, and would need the right to list every kind.
//!
//! **Invariant:** every child that exists is in the inventory of its owner.
//! **Invariant:** a child is deleted only by its UID and in the version in which its mark was read.

mod child;
mod inventory;
mod mark;
mod memory;
mod removal;
mod steps;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use self::child::Child;
use self::inventory::{Inventory, Member};
use self::mark::Mark;
use self::removal::{Removal, misplaced, remove};
use self::steps::Steps;
use super::Context;
use super::failures::Failures;
use crate::cache::Key;
use crate::client::Patch;
use crate::error::{Error, Result, ResultExt};
use crate::kind::{Kind, Object};
use crate::readiness::Readiness;

pub(crate) use self::mark::marked_owner;
pub(crate) use self::memory::Memory;
pub use self::steps::Step;

/// When a pod that cannot be scheduled is looked at again.
const TIMED: Duration = Duration::from_secs(15);

/// The set of all children of the reconciled object. Made by [`Context::children`].
///
/// The author adds every child that should exist, and [`apply`](Self::apply) brings the cluster
/// there: it creates and changes what was added, and deletes what an earlier reconcile added and
/// this one did not. Once the owner is being deleted, all children are deleted, in reverse order,
/// and then the owner.
///
/// Children may be of any kind, in any namespace, or cluster-scoped. Where Kubernetes allows an owner
/// reference, they have one. All have the annotation and the label `windlass.dev/owner`: the
/// annotation names the owner, and `kubectl get KIND -A -l windlass.dev/owner=UID` finds the
/// children. With [`Builder::owns`](super::Builder::owns), the owner is reconciled when a child of
/// that kind changes, and children that are as they should be cost no request. The role of the
/// operator also needs [`finalizes`](super::Builder::finalizes), and
/// [`deletes`](super::Builder::deletes) for every kind of child.
///
/// # Guarantees
///
/// - A child is listed in the inventory before it is created, and until the server has confirmed
///   that it is gone. The inventory is an annotation of the owner with the name of the set.
/// - Nothing is deleted unless all wanted children were applied.
/// - An object that another controller or another set owns is neither changed nor deleted. An object
///   that belongs to nobody is taken over.
/// - An object that somebody else created under the name of a deleted child is not deleted.
/// - A reconcile with unchanged children sends no request.
///
/// # Errors
///
/// A child that is forbidden, that belongs to somebody else or that the server refuses is an error
/// of the reconcile. The other children of its wave are applied nevertheless, and nothing is pruned.
/// If several children fail, the error names up to five of them.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::controller::Children;
/// use windlass::{Context, Controller, Key, Manager, Next, Result};
///
/// /// Creates one secret per word of `data.secrets`.
/// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
///     let Some(map) = cx.object() else { return Ok(Next::Done) };
///     let mut children: Children<ConfigMap> = cx.children("example.com/secrets");
///     let names = map.data.as_ref().and_then(|data| data.get("secrets"));
///     for name in names.iter().flat_map(|names| names.split_whitespace()) {
///         let mut secret = Secret::default();
///         secret.metadata.name = Some(name.into());
///         children.add(&secret)?;
///     }
///     let state = children.apply().await?;
///     if !state.is_ready() {
///         cx.event("Waiting", state.message());
///     }
///     Ok(Next::Done)
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// let controller = Controller::<ConfigMap>::builder("secrets")
///     .owns::<Secret>()
///     .deletes::<Secret>()
///     .finalizes()
///     .build(reconcile);
/// let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
/// let handle = manager.spawn()?;
/// let client = handle.client();
/// let names = async || -> Result<Vec<String>> {
///     tokio::time::sleep(std::time::Duration::from_secs(5)).await;
///     let secrets = client.api::<Secret>().list().namespace("default").items().await?;
///     Ok(secrets.iter().filter_map(|secret| secret.metadata.name.clone()).collect())
/// };
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("list".into());
/// map.metadata.namespace = Some("default".into());
/// map.data = Some([("secrets".into(), "gold silver".into())].into());
/// client.api().create(&map).await?;
/// assert_eq!(names().await?, ["gold", "silver"]);
///
/// let patch = windlass::client::Patch::Merge(serde_json::json!({"data": {"secrets": "silver"}}));
/// client.api::<ConfigMap>().patch(&Key::of(&map), &patch).await?;
/// assert_eq!(names().await?, ["silver"], "what is no longer wanted is deleted");
///
/// client.api::<ConfigMap>().delete(&Key::of(&map)).await?;
/// assert!(names().await?.is_empty());
/// # handle.stop().await
/// # }
/// ```
#[must_use = "children are not applied until `apply` is called"]
pub struct Children<K: Object> {
    cx: Context<K>,
    name: String,
    wave: usize,
    children: Vec<Child>,
    wanted: Inventory,
    steps: Steps,
}

/// The owner as it is stored, with its inventory.
struct Owner {
    metadata: ObjectMeta,
    recorded: Option<String>,
}

// === impl Context ===

impl<K: Object> Context<K> {
    /// Starts the set of all children of the reconciled object.
    ///
    /// The name is a domain and a word, such as `example.com/children`. It is the name of the
    /// finalizer that keeps the object until its children are gone, and of the annotation that lists
    /// them. It must not change between releases of an operator. An object can have several sets,
    /// for example of several operators.
    pub fn children(&self, name: &str) -> Children<K> {
        Children {
            cx: self.clone(),
            name: name.into(),
            wave: 0,
            children: Vec::new(),
            wanted: Inventory::default(),
            steps: Steps::default(),
        }
    }
}

// === impl Children ===

impl<K: Object> Children<K> {
    /// Adds a child that should exist. A missing namespace is that of the owner.
    ///
    /// # Errors
    ///
    /// Fails if the child has no name, or one that no request can address, if it needs a namespace
    /// and neither it nor the owner has one, or if the set already has a child of this kind and name.
    /// Nothing fails, and nothing is added, while the owner is being deleted.
    pub fn add<T: Object<DynamicType = ()>>(&mut self, child: &T) -> Result<()> {
        self.add_of(&Kind::of::<T>(), child)
    }

    /// Adds a child of a kind that is known at run time only.
    ///
    /// # Errors
    ///
    /// Fails as [`add`](Self::add) does.
    pub fn add_of<T: Object>(&mut self, kind: &Kind, child: &T) -> Result<()> {
        // A spec that asks for what cannot be must not keep its object from being deleted.
        if self.cx.found().is_some_and(|owner| owner.deleting()) {
            return Ok(());
        }
        let metadata = child.meta();
        let namespace = metadata.namespace.as_deref().or(self.cx.namespace());
        let name = metadata.name.as_deref().unwrap_or_default();
        let key = Key::new(namespace.filter(|_| kind.namespaced()), name);
        if name.is_empty() {
            return Err(Error::Invalid(format!("a child of kind {kind} has no name")));
        }
        if let Some(why) = misplaced(kind, &key) {
            return Err(Error::Invalid(format!("a child of kind {kind} cannot exist: {why}")));
        }
        if T::metadata_api() {
            let text = format!("{} {key}: only the metadata of this child is known", kind.kind());
            return Err(Error::Invalid(text));
        }
        if !self.wanted.add(self.wave, kind, &key) {
            let text = format!("{} {key} was added twice to {}", kind.kind(), self.name);
            return Err(Error::Invalid(text));
        }
        let json = serde_json::to_vec(child)
            .map_err(|source| Error::Decode { what: format!("{kind} {key}"), source })?;
        let (kind, wave, once) = (kind.clone(), self.wave, None);
        self.children.push(Child { kind, key, wave, json, once });
        Ok(())
    }

    /// Begins the next wave: children that are added from now on are applied after those that were
    /// added before, and are gone before one of those is deleted.
    ///
    /// A child is deleted in the background: what it owns itself, such as the pods of a Deployment,
    /// may exist for longer.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
    /// use windlass::{Context, Next, Result};
    ///
    /// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    ///     let (mut namespace, mut secret) = (Namespace::default(), Secret::default());
    ///     namespace.metadata.name = Some(format!("team-{}", cx.name()));
    ///     secret.metadata.name = Some("token".into());
    ///     secret.metadata.namespace = namespace.metadata.name.clone();
    ///
    ///     let mut children = cx.children("example.com/team");
    ///     children.add(&namespace)?;
    ///     children.then();
    ///     children.add(&secret)?; // created after the namespace, deleted before it
    ///     children.apply().await?;
    ///     Ok(Next::Done)
    /// }
    /// # let _ = windlass::Controller::<ConfigMap>::builder("teams").build(reconcile);
    /// ```
    pub fn then(&mut self) {
        self.wave += 1;
        self.steps.wave(self.wave);
    }

    /// Creates, changes and deletes children until the cluster has exactly those that were added.
    ///
    /// Returns the readiness of all children together: `Ready` when each one is ready and nothing is
    /// left to delete. The controller sees to it that the object is reconciled again while something
    /// is being deleted.
    ///
    /// If the owner is being deleted, all children are deleted, whatever was added, and the result is
    /// [`Readiness::Terminating`]. A reconcile that can fail before it has added all children should
    /// do this first, so that a missing input does not keep the owner from being deleted:
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass::{Context, Next, Result};
    /// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    ///     let Some(map) = cx.object() else { return Ok(Next::Done) };
    ///     if map.metadata.deletion_timestamp.is_some() {
    ///         cx.children("example.com/app").apply().await?;
    ///         return Ok(Next::Done);
    ///     }
    ///     // Read what the children depend on, add them and apply them.
    ///     Ok(Next::Done)
    /// }
    /// # let _ = windlass::Controller::<ConfigMap>::builder("apps").build(reconcile);
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if a child belongs to somebody else, or if the server refuses a request. A conflict
    /// means that the owner or a child changed in between; the retry starts from the newest state.
    pub async fn apply(self) -> Result<Readiness> {
        let (all, unnamed) = self.bring().await?;
        self.cx.notes().report(None, unnamed);
        Ok(all)
    }

    /// Returns the readiness of all children, and that of those which belong to no step.
    async fn bring(&self) -> Result<(Readiness, Readiness)> {
        check_name(&self.name)?;
        let gone = (Readiness::Terminating, Readiness::Terminating);
        let Some(owner) = self.owner()? else { return Ok(gone) };
        if owner.metadata.deletion_timestamp.is_some() {
            self.finalize(owner).await?;
            return Ok(gone);
        }
        let recorded = self.record(&owner).await?;
        let mut progress = self.apply_waves(&owner).await?;
        std::mem::take(&mut progress.failed).into_result()?;
        let deleting = progress.all().any(|(_, state)| state == Readiness::Terminating);
        if recorded != self.wanted && !deleting && !progress.waiting {
            let left = self.prune(recorded, &self.wanted).await?;
            progress.others.extend(left);
        }
        let unnamed = Readiness::summary(progress.others.iter().cloned());
        Ok((Readiness::summary(progress.all()), unnamed))
    }

    /// Returns the newest metadata of the owner; `None` if it does not exist any more.
    fn owner(&self) -> Result<Option<Owner>> {
        let Some(found) = self.cx.found() else { return Ok(None) };
        let newest = self.cx.client().cached().metadata(self.cx.kind(), self.cx.key())?;
        let Some(metadata) = newest else { return Ok(None) };
        if metadata.uid.as_deref() != Some(found.uid()) {
            return Err(self.cx.recreated("apply the children of"));
        }
        let stored = metadata.annotations.as_ref().and_then(|all| all.get(&self.name)).cloned();
        // Somebody may have replaced the owner without its annotations.
        let uid = found.uid();
        let recorded = stored.or_else(|| self.memory().recorded(&self.name, self.cx.key(), uid));
        Ok(Some(Owner { metadata, recorded }))
    }

    fn memory(&self) -> &Memory {
        self.cx.children_memory()
    }

    /// Writes down every child that may exist from now on, before anything is created. Returns all
    /// that may exist.
    async fn record(&self, owner: &Owner) -> Result<Inventory> {
        let wanted = self.wanted.text()?;
        let finalizers = owner.metadata.finalizers.iter().flatten();
        let mut finalizers: Vec<&str> = finalizers.map(String::as_str).collect();
        let kept = finalizers.contains(&self.name.as_str());
        let stored = owner.metadata.annotations.as_ref().and_then(|all| all.get(&self.name));
        if kept && stored == Some(&wanted) {
            self.remember(owner, &wanted);
            return Ok(self.wanted.clone());
        }
        let known = self.parse(owner)?;
        if self.wanted == Inventory::default() && known == self.wanted {
            return Ok(known);
        }
        let all = known.union(&self.wanted);
        let text = all.text()?;
        if !kept {
            finalizers.push(&self.name);
        }
        if !kept || stored != Some(&text) {
            let patch = self.patch(owner, &json!(text), &finalizers);
            self.cx
                .client()
                .api_of::<DynamicObject>(self.cx.kind())
                .patch(self.cx.key(), &patch)
                .await?;
        }
        self.remember(owner, &text);
        Ok(all)
    }

    fn remember(&self, owner: &Owner, text: &str) {
        let uid = owner.metadata.uid.as_deref().unwrap_or_default();
        self.memory().record(&self.name, self.cx.key(), uid, text);
    }

    fn parse(&self, owner: &Owner) -> Result<Inventory> {
        let Some(text) = &owner.recorded else { return Ok(Inventory::default()) };
        Inventory::parse(text).map_err(|why| {
            Error::terminal(Error::Invalid(format!(
                "annotation {} of {} {} does not list children ({why}): restore it, or remove it \
                 and delete the children yourself",
                self.name,
                self.cx.kind().kind(),
                self.cx.key()
            )))
        })
    }

    /// A change of the inventory and the finalizers, of the version of the owner that was read.
    fn patch(&self, owner: &Owner, inventory: &Value, finalizers: &[&str]) -> Patch {
        Patch::Merge(json!({"metadata": {
            "uid": owner.metadata.uid,
            "resourceVersion": owner.metadata.resource_version,
            "finalizers": finalizers,
            "annotations": {&self.name: inventory},
        }}))
    }

    fn mark(&self) -> Mark {
        let uid = self.cx.found().map(|found| found.uid()).unwrap_or_default();
        Mark::new(&self.name, self.cx.kind(), self.cx.key(), uid)
    }

    /// Deletes the last wave of what may exist and is not wanted; forgets what is gone.
    async fn prune(
        &self,
        mut all: Inventory,
        wanted: &Inventory,
    ) -> Result<Vec<(String, Readiness)>> {
        let mut waiting = Vec::new();
        let mut failed = Failures::default();
        loop {
            let last = all.last_unwanted(wanted);
            if last.is_empty() {
                break;
            }
            for member in &last {
                match self.remove(member).await {
                    Ok(Some(state)) => waiting.push(state),
                    Ok(None) => all.remove(member),
                    Err(error) => failed.add(error),
                }
            }
            if !failed.is_empty() || last.iter().any(|member| all.contains(member)) {
                break;
            }
        }
        self.forget(&all).await?;
        failed.into_result().map(|()| waiting)
    }

    /// Deletes a child. Returns `None` once it is gone.
    async fn remove(&self, member: &Member) -> Result<Option<(String, Readiness)>> {
        let (kind, key) = (&member.kind, &member.key);
        self.memory().forget(kind, key);
        match remove(self.cx.client(), &self.mark(), member, self.cx.clock()).await? {
            Removal::Gone => Ok(None),
            Removal::NotOurs => {
                tracing::info!(child = %key, kind = %kind, "a former child belongs to somebody else");
                Ok(None)
            }
            Removal::Pending(look) => {
                self.cx.wake_after(look);
                let name = format!("{} {key}", kind.kind());
                let state = Readiness::in_progress("Pruning", "it is being deleted");
                Ok(Some((name, state)))
            }
        }
    }

    /// Writes down what may still exist, after deletions were confirmed.
    async fn forget(&self, left: &Inventory) -> Result<()> {
        let Some(owner) = self.owner()? else { return Ok(()) };
        let text = left.text()?;
        let deleting = owner.metadata.deletion_timestamp.is_some();
        let finalizers = owner.metadata.finalizers.iter().flatten().map(String::as_str);
        let finished = deleting && *left == Inventory::default();
        let finalizers: Vec<&str> =
            finalizers.filter(|name| !finished || *name != self.name).collect();
        let inventory = if finished { Value::Null } else { json!(text) };
        if !finished && owner.recorded.as_ref() == Some(&text) {
            return Ok(());
        }
        let patch = self.patch(&owner, &inventory, &finalizers);
        let done = self
            .cx
            .client()
            .api_of::<DynamicObject>(self.cx.kind())
            .patch(self.cx.key(), &patch)
            .await;
        if finished {
            done.ignore_not_found()?;
            self.memory().forget_owner(&self.name, self.cx.key());
            return Ok(());
        }
        done?;
        self.remember(&owner, &text);
        Ok(())
    }

    /// Deletes all children of an owner that is being deleted, then lets it go.
    async fn finalize(&self, owner: Owner) -> Result<()> {
        if owner.metadata.finalizers.iter().flatten().any(|name| *name == self.name) {
            let all = self.parse(&owner)?;
            self.prune(all, &Inventory::default()).await?;
        }
        Ok(())
    }
}

impl<K: Object> std::fmt::Debug for Children<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Children")
            .field("name", &self.name)
            .field("owner", self.cx.key())
            .field("children", &self.children.len())
            .finish_non_exhaustive()
    }
}

/// Refuses a name that cannot be both a finalizer and an annotation.
fn check_name(name: &str) -> Result<()> {
    let word = |text: &str, max: usize, more: &[char]| {
        let inner = |c: char| c.is_ascii_alphanumeric() || more.contains(&c);
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        text.len() <= max
            && text.chars().all(inner)
            && edge(text.chars().next())
            && edge(text.chars().next_back())
    };
    let valid = name.split_once('/').is_some_and(|(domain, rest)| {
        word(domain, 253, &['-', '.'])
            && domain.contains('.')
            && word(rest, 63, &['-', '_', '.'])
            && !domain.chars().any(|c| c.is_ascii_uppercase())
    });
    if valid {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "a set of children is named by a domain and a word, such as example.com/children, unlike \
         {name:?}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_set_is_a_finalizer_and_an_annotation() {
        for name in ["example.com/children", "a.b/c_d.e-f", "shop.example.com/1"] {
            check_name(name).expect(name);
        }
        let long = format!("example.com/{}", "x".repeat(64));
        for name in
            ["", "children", "example.com/", "/x", "com/x", "Example.com/x", "a.b/c/d", &long]
        {
            let error = check_name(name).expect_err(name).to_string();
            assert!(error.contains("such as example.com/children, unlike"), "{error}");
        }
    }
}
