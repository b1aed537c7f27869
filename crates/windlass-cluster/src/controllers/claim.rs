//! Taking and letting go: which objects belong to a controller's object by owner and by selector.
//!
//! **Invariant:** an object that another controller owns is never adopted, and an owner that is
//! being deleted adopts nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use serde_json::{Value, json};
use windlass::cache::{Cache, Change};
use windlass::client::Patch;
use windlass::controller::Watch;
use windlass::{Context, Error, Key, Kind, Object, Result, ResultExt};

/// How objects are claimed.
pub struct Claim<'a, O: Object> {
    /// The reconcile on whose behalf this happens.
    pub cx: &'a Context<O>,
    /// The object that claims.
    pub owner: &'a O,
    /// What has to match.
    pub selector: Selector,
    /// A finalizer that is added and removed together with the owner reference.
    pub finalizer: Option<&'static str>,
}

// === impl Claim ===

impl<'a, O: Object<DynamicType = ()>> Claim<'a, O> {
    /// A claim by a label selector.
    pub fn new(cx: &'a Context<O>, owner: &'a O, selector: &LabelSelector) -> Result<Self> {
        let selector = Selector::try_from(selector.clone())
            .map_err(|e| Error::terminal(format!("label selector: {e}")))?;
        Ok(Self { cx, owner, selector, finalizer: None })
    }

    /// All objects of the owner, after adopting orphans that match and releasing objects that do
    /// not; `may_own` checks all other conditions.
    pub async fn objects<K>(&self, may_own: impl Fn(&K) -> bool) -> Result<Vec<Arc<K>>>
    where
        K: Object<DynamicType = ()>,
    {
        let mut mine = Vec::new();
        let going = self.owner.meta().deletion_timestamp.is_some();
        for object in self.cx.list::<K>().owned().items()? {
            if !may_own(&object) {
                continue;
            }
            if self.matches(&*object) {
                mine.push(object);
            } else if !going {
                self.release(&*object).await?;
            }
        }
        if going {
            return Ok(mine);
        }
        let candidates =
            self.cx.list::<K>().owned_by("").matching(self.selector.clone()).items()?;
        let orphans = candidates.into_iter().filter(|o| may_own(o));
        let orphans = orphans.filter(|o| o.meta().deletion_timestamp.is_none());
        let mut allowed = None;
        for orphan in orphans {
            let allowed = match allowed {
                Some(known) => known,
                None => *allowed.insert(self.still_there().await?),
            };
            if allowed && let Some(taken) = self.adopt(&*orphan).await? {
                mine.push(Arc::new(taken));
            }
        }
        mine.sort_by_key(|object| Key::of(&**object));
        Ok(mine)
    }

    fn matches<K: Object>(&self, object: &K) -> bool {
        let none = Default::default();
        self.selector.matches(object.meta().labels.as_ref().unwrap_or(&none))
    }

    /// Asks the server whether the owner is still the one that was seen, and stays.
    async fn still_there(&self) -> Result<bool> {
        let fresh = self.cx.client().api::<O>().get(self.cx.key()).await?;
        let uid = &self.owner.meta().uid;
        Ok(fresh.is_some_and(|o| o.meta().uid == *uid && o.meta().deletion_timestamp.is_none()))
    }

    async fn adopt<K: Object<DynamicType = ()>>(&self, object: &K) -> Result<Option<K>> {
        let kind = self.cx.kind();
        let owner = self.owner.meta();
        let mut patch = json!({"metadata": {
            "uid": object.meta().uid,
            "ownerReferences": [{
                "apiVersion": kind.api_version(),
                "kind": kind.kind(),
                "name": owner.name,
                "uid": owner.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        }});
        if let Some(finalizer) = self.finalizer {
            patch["metadata"]["finalizers"] = json!([finalizer]);
        }
        self.patch(object, patch).await
    }

    async fn release<K: Object<DynamicType = ()>>(&self, object: &K) -> Result<()> {
        let mut patch = json!({"metadata": {
            "uid": object.meta().uid,
            "ownerReferences": [{"$patch": "delete", "uid": self.owner.meta().uid}],
        }});
        if let Some(finalizer) = self.finalizer {
            patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
        }
        self.patch(object, patch).await.map(drop)
    }

    /// Patches an object; `None` if it has been deleted or replaced.
    async fn patch<K>(&self, object: &K, patch: Value) -> Result<Option<K>>
    where
        K: Object<DynamicType = ()>,
    {
        let key = Key::of(object);
        let done = self.cx.client().api::<K>().patch(&key, &Patch::Strategic(patch)).await;
        match done.ignore_not_found() {
            Err(error)
                if matches!(error.status(), Some(status) if status.code == 422)
                    || error.is_conflict() =>
            {
                Ok(None)
            }
            other => other,
        }
    }
}

/// The keys of all cached objects of kind `K` whose selector matches these labels.
pub fn matching<K: Object<DynamicType = ()>>(
    cache: &Cache,
    namespace: Option<&str>,
    labels: &BTreeMap<String, String>,
    selector: impl Fn(&K) -> Option<LabelSelector>,
) -> Vec<Key> {
    let all = cache.list::<K>().namespace(namespace.unwrap_or_default());
    let candidates = all.items().unwrap_or_default();
    let fits = |candidate: &&Arc<K>| {
        let selector = selector(candidate).and_then(|s| Selector::try_from(s).ok());
        selector.is_some_and(|s| s.matches(labels))
    };
    candidates.iter().filter(fits).map(|object| Key::of(&**object)).collect()
}

/// Pods without a controller, for the objects of kind `K` whose selector matches them.
pub fn orphans<K: Object<DynamicType = ()>>(selector: fn(&K) -> Option<LabelSelector>) -> Watch {
    Watch::reading(Kind::of::<Pod>(), move |change: &Change, cache: &Cache| {
        let namespace = change.key().namespace().map(str::to_string);
        let labels = orphan_labels(change).into_iter().filter(|labels| !labels.is_empty());
        let keys =
            labels.flat_map(|labels| matching::<K>(cache, namespace.as_deref(), &labels, selector));
        keys.collect::<Vec<_>>()
    })
}

/// The labels of a changed object if no controller owns it, before or after.
pub fn orphan_labels(change: &Change) -> Vec<BTreeMap<String, String>> {
    let states = [&change.old, &change.new].into_iter().flatten();
    let free = states.filter(|entry| !entry.owners().iter().any(|o| o.controller));
    let labels =
        free.map(|entry| entry.labels().map(|(k, v)| (k.to_string(), v.to_string())).collect());
    labels.collect()
}
