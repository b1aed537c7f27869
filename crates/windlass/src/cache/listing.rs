//! Lists of cached objects.

use std::sync::Arc;

use super::informer::Core;
use super::store::State;
use super::{Cache, Entry, Index, IndexId, Key, index, select};
use crate::error::Result;
use crate::kind::Object;
use crate::list::List;

/// Finds the entries that an index files under a value.
#[derive(Clone)]
pub(crate) struct IndexLookup(Arc<Lookup>);

type Lookup = dyn Fn(&State) -> Result<Vec<Arc<Entry>>> + Send + Sync;

/// Which controller the listed objects have.
#[derive(Debug, Clone)]
pub(crate) enum OwnerFilter {
    Any,
    /// Controlled by the object with this UID; the empty one means no controller.
    Is(String),
    /// Controlled by an object that does not exist.
    Missing,
}

// === impl List ===

impl<K: Object> List<K, Cache> {
    /// Starts in the namespace of a reconciled object, with its UID for [`owned`](Self::owned).
    pub(crate) fn beside(mut self, namespace: Option<&str>, uid: Option<&str>) -> Self {
        let namespace = namespace.filter(|_| self.kind.namespaced());
        self.query.namespace = namespace.map(str::to_string);
        self.me = uid.map(str::to_string);
        self
    }

    /// Selects objects that the reconciled object controls; found by an index, not by a scan.
    ///
    /// Outside of a reconcile this selects nothing: use [`owned_by`](Self::owned_by).
    pub fn owned(mut self) -> Self {
        self.owner = self.me.clone().map_or(OwnerFilter::Missing, OwnerFilter::Is);
        self
    }

    /// Selects objects that the object with this UID controls; found by an index, not by a scan.
    ///
    /// An empty UID selects objects that no controller owns.
    pub fn owned_by(mut self, uid: &str) -> Self {
        self.owner = OwnerFilter::Is(uid.into());
        self
    }

    /// Selects objects that an index files under a value.
    ///
    /// The index has to be declared; otherwise the list fails.
    pub fn by<V>(self, index: &Index<K, V>, value: impl Into<V>) -> Self
    where
        V: Ord + Clone + Send + Sync + 'static,
    {
        let (index, value) = (index.clone(), value.into());
        self.looked_up(move |state| index.find(state, &value))
    }

    /// Selects the entries that a function of a snapshot returns, by key.
    pub(super) fn looked_up<F>(mut self, lookup: F) -> Self
    where
        F: Fn(&State) -> Result<Vec<Arc<Entry>>> + Send + Sync + 'static,
    {
        self.index = Some(IndexLookup(Arc::new(lookup)));
        self
    }

    /// Returns the objects, sorted by key.
    ///
    /// # Errors
    ///
    /// Fails if no controller has declared the kind with `owns`, `watch` or `reads`, if the kind
    /// has not synced yet, or if a selector is invalid. An object that does not decode is left out,
    /// logged and counted.
    pub fn items(&self) -> Result<Vec<Arc<K>>> {
        let core = self.source.readable::<K>(&self.kind)?;
        let entries = self.entries(&core)?;
        Ok(core.store.reader::<K>().decode(entries, self.query.limit))
    }

    /// Returns the keys, sorted, without decoding the objects.
    ///
    /// # Errors
    ///
    /// Fails as [`items`](Self::items) does.
    pub fn keys(&self) -> Result<Vec<Key>> {
        let core = match &self.index {
            // An index of whole objects does not know those of which only metadata are cached.
            Some(_) => self.source.readable::<K>(&self.kind)?,
            None => self.source.known(&self.kind)?,
        };
        let entries = self.entries(&core)?.into_iter().take(self.query.limit.unwrap_or(usize::MAX));
        Ok(entries.map(|entry| entry.key().clone()).collect())
    }

    /// Returns the names, sorted by key, without decoding the objects.
    ///
    /// # Errors
    ///
    /// Fails as [`items`](Self::items) does.
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.keys()?.iter().map(|key| key.name().to_string()).collect())
    }

    /// Returns the entries that were selected, by key, as of one moment.
    fn entries(&self, core: &Core) -> Result<Vec<Arc<Entry>>> {
        let namespace = self.query.namespace.as_deref().filter(|_| self.kind.namespaced());
        core.within(&self.kind, namespace)?;
        let labels = self.query.expressions()?;
        let within = |key: &Key| namespace.is_none() || key.namespace() == namespace;
        let selected = |entry: &Arc<Entry>| {
            self.owner.controls(entry) && select::matches_all(&labels, entry.label_set())
        };
        let state = core.store.state();
        let found = match (&self.index, &self.owner) {
            (_, OwnerFilter::Missing) => return Ok(Vec::new()),
            (Some(IndexLookup(lookup)), _) => lookup(&state)?,
            (None, OwnerFilter::Is(uid)) => {
                let uid: Arc<str> = Arc::from(uid.as_str());
                index::find(&state, &IndexId::owners(), &uid).unwrap_or_default()
            }
            (None, OwnerFilter::Any) => {
                return Ok(state.within(namespace).filter(|e| selected(e)).cloned().collect());
            }
        };
        Ok(found.into_iter().filter(|e| within(e.key()) && selected(e)).collect())
    }
}

// === impl OwnerFilter ===

impl OwnerFilter {
    fn controls(&self, entry: &Entry) -> bool {
        let mut controllers = entry.owners().iter().filter(|owner| owner.controller);
        match self {
            Self::Any => true,
            Self::Is(uid) if uid.is_empty() => controllers.next().is_none(),
            Self::Is(uid) => controllers.any(|owner| *owner.uid == **uid),
            Self::Missing => false,
        }
    }
}
