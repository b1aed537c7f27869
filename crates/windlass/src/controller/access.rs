//! The requests that a controller declares to send.
//!
//! Roles are made of these declarations, so a declaration that is missing shows as a request that
//! the API server forbids, and one too many as a right that is never used. Both are found by a test
//! that runs the operator with exactly the role it declares.

use super::{Builder, Controller};
use crate::kind::{Kind, Object};

/// Requests of one kind that a controller declares to send.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "roles are made by an operator"))]
pub(crate) struct Access {
    /// The kind of the objects.
    pub(crate) kind: Kind,
    /// The subresource, such as `status`.
    pub(crate) subresource: Option<&'static str>,
    /// The verbs, as roles name them.
    pub(crate) verbs: &'static [&'static str],
    /// `true` if the requests are sent in rare situations only, such as after a conflict.
    pub(crate) rare: bool,
}

// === impl Access ===

impl Access {
    fn new(kind: &Kind, verbs: &'static [&'static str]) -> Self {
        Self { kind: kind.clone(), subresource: None, verbs, rare: false }
    }

    fn of(self, subresource: &'static str) -> Self {
        Self { subresource: Some(subresource), ..self }
    }

    fn rare(self) -> Self {
        Self { rare: true, ..self }
    }

    /// Returns the resource as roles name it, such as `deployments/status`.
    #[cfg(feature = "operator")]
    pub(crate) fn resource(&self) -> String {
        match self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.kind.plural()),
            None => self.kind.plural().to_owned(),
        }
    }
}

// === impl Builder ===

impl<K: Object> Builder<K> {
    /// Declares that the reconcile function applies objects of type `T`; [`owns`](Self::owns)
    /// includes this.
    pub fn applies<T: Object<DynamicType = ()>>(mut self) -> Self {
        // An apply that creates the object needs both.
        self.options.writes.push(Access::new(&Kind::of::<T>(), &["create", "patch"]));
        self
    }

    /// Declares that the reconcile function deletes objects of type `T`, or has them among its
    /// [children](super::Children).
    pub fn deletes<T: Object<DynamicType = ()>>(mut self) -> Self {
        self.options.writes.push(Access::new(&Kind::of::<T>(), &["delete"]));
        // A child is read before it is deleted, and before it is created if nothing but its mark names
        // the owner.
        self.options.writes.push(Access::new(&Kind::of::<T>(), &["get"]).rare());
        self
    }

    /// Declares that the reconcile function reads single objects of a kind from the server.
    pub(super) fn gets(mut self, kind: &Kind) -> Self {
        self.options.writes.push(Access::new(kind, &["get"]));
        self
    }

    /// Declares that the reconcile function changes the status of the reconciled object.
    pub fn writes_status(mut self) -> Self {
        let kind = self.options.kind.clone();
        self.options.writes.push(Access::new(&kind, &["patch"]).of("status"));
        // The newest state is read after a conflict.
        self.options.writes.push(Access::new(&kind, &["get"]).rare());
        self
    }

    /// Declares that the reconcile function adds and removes a finalizer of the reconciled object.
    pub fn finalizes(mut self) -> Self {
        let kind = self.options.kind.clone();
        self.options.writes.push(Access::new(&kind, &["patch"]));
        self
    }
}

// === impl Controller ===

impl<K: Object> Controller<K> {
    /// Returns the requests that this controller sends: lists and watches of every kind it caches,
    /// the writes it declares, and its events.
    #[cfg(feature = "operator")]
    pub(crate) fn access(&self) -> Vec<Access> {
        let options = &self.options;
        let mut all = Vec::new();
        for watch in &options.watches {
            all.push(Access::new(&watch.kind, &["watch"]));
            // A watch delivers the first list as well, unless the server is too old for that.
            all.push(Access::new(&watch.kind, &["list"]).rare());
            if matches!(watch.mapper, super::source::Mapper::Owner { .. }) {
                // Owner references block the deletion of the owner, which needs this right where
                // the admission plugin OwnerReferencesPermissionEnforcement runs.
                all.push(Access::new(&options.kind, &["update"]).of("finalizers").rare());
            }
        }
        all.extend(options.writes.iter().cloned());
        let events = Kind::new("events.k8s.io", "v1", "Event", "events");
        all.push(Access::new(&events, &["create", "patch"]).rare());
        all
    }
}
