//! What each replica was shown, and what is held back from it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Actor, Head, Kernel, Past};

/// The views of all replicas.
#[derive(Default)]
pub(crate) struct Views {
    /// The last state of each object that a replica was shown.
    pub(super) seen: BTreeMap<(String, String, String, String), Sight>,
    holds: Vec<Hold>,
    /// Watches of a replica and resource that cannot be resumed, and until when nothing is sent.
    gaps: BTreeMap<(String, String), Instant>,
}

/// The state of an object that a replica was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    pub uid: String,
    pub revision: u64,
}

/// When held events are let go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Release {
    /// After the next reconcile, or after the longest time of a hold.
    Reconciled,
    After(Duration),
    Healed,
}

struct Hold {
    replica: String,
    resource: String,
    until: Option<Instant>,
    /// The number of a reconcile whose end ends the hold.
    reconcile: Option<u32>,
}

// === impl Views ===

impl Views {
    pub(crate) fn release_all(&mut self) {
        self.holds.clear();
        self.gaps.clear();
    }

    /// Returns `true` if something is held back, or a watch still has to expire.
    pub(super) fn withholds(&self, now: Instant) -> bool {
        let holds = self.holds.iter().any(|hold| hold.until.is_none_or(|until| until > now));
        holds || !self.gaps.is_empty()
    }
}

// === impl Kernel ===

impl Kernel {
    /// Notes what an actor was shown: an object or a list of a resource.
    pub(crate) fn show(&self, actor: &Actor, resource: &str, head: &Head) {
        let mut state = self.state.lock();
        for shown in std::iter::once(head).chain(&head.items) {
            let meta = &shown.metadata;
            let Some(revision) = meta.revision().filter(|_| !meta.name.is_empty()) else {
                continue;
            };
            let key = (
                actor.name.to_string(),
                resource.to_owned(),
                meta.namespace.clone(),
                meta.name.clone(),
            );
            let sight = Sight { uid: meta.uid.clone(), revision };
            let known = state.views.seen.entry(key).or_insert_with(|| sight.clone());
            if known.revision < revision {
                *known = sight;
            }
        }
    }

    /// The last state of an object that an actor was shown.
    pub(crate) fn sight(
        &self,
        actor: &Actor,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Sight> {
        let key = (actor.name.to_string(), resource.into(), namespace.into(), name.into());
        self.state.lock().views.seen.get(&key).cloned()
    }

    /// Holds back the events of a resource from a replica.
    pub(crate) fn hold(&self, actor: &Actor, resource: &str, release: Release) {
        let mut state = self.state.lock();
        let next = state.reconciles.0 + 1;
        let hold = Hold {
            replica: actor.name.to_string(),
            resource: resource.to_owned(),
            until: match release {
                Release::Reconciled => Some(Instant::now() + crate::HOLD_ONCE),
                Release::After(time) => Some(Instant::now() + time),
                Release::Healed => None,
            },
            reconcile: matches!(release, Release::Reconciled).then_some(next),
        };
        state.views.holds.push(hold);
    }

    /// Waits until the events of a resource are not held back from a replica.
    pub(crate) async fn released(&self, actor: &Actor, resource: &str) {
        loop {
            let changed = self.changed.notified();
            let until = {
                let mut state = self.state.lock();
                let now = Instant::now();
                let (_, ended) = state.reconciles;
                state.views.holds.retain(|hold| {
                    let over = hold.until.is_some_and(|until| until <= now);
                    !over && hold.reconcile.is_none_or(|number| ended < number)
                });
                let mine = |hold: &&Hold| hold.replica == *actor.name && hold.resource == resource;
                match state.views.holds.iter().find(mine) {
                    None => return,
                    Some(hold) => hold.until,
                }
            };
            match until {
                None => changed.await,
                Some(until) => drop(tokio::time::timeout_at(until, changed).await),
            }
        }
    }

    /// Makes the next watch of a resource by a replica fail with 410, after a while.
    pub(crate) fn expire(&self, actor: &Actor, resource: &str) {
        let key = (actor.name.to_string(), resource.to_owned());
        self.state.lock().views.gaps.insert(key, Instant::now() + crate::GAP);
    }

    /// Until when a watch has to wait to be refused with 410, if it has to.
    pub(crate) fn gap(&self, actor: &Actor, resource: &str) -> Option<Instant> {
        let key = (actor.name.to_string(), resource.to_owned());
        self.state.lock().views.gaps.remove(&key)
    }
}

// === the past ===

impl Kernel {
    /// The next life of a replica begins with lists from right after the user's last step but one.
    pub(crate) fn remember_the_past(&self, actor: &Actor) {
        let Some(replica) = actor.replica else { return };
        let mut state = self.state.lock();
        let [_, revision] = state.step_revisions;
        let past = (revision > 0).then(|| Past { revision, listed: Vec::new() });
        state.replicas[replica].past = past;
    }

    /// Returns `true` if a replica has still to be shown the past of a resource.
    pub(crate) fn lives_in_the_past(&self, actor: &Actor, resource: &str) -> bool {
        let Some(replica) = actor.replica else { return false };
        let state = self.state.lock();
        let past = state.replicas[replica].past.as_ref();
        past.is_some_and(|past| !past.listed.iter().any(|listed| listed == resource))
    }

    /// The revision that the first list of a resource shows, if it shows the past; what happened
    /// since arrives late.
    pub(crate) fn past(&self, actor: &Actor, resource: &str) -> Option<u64> {
        if !self.lives_in_the_past(actor, resource) {
            return None;
        }
        let revision = {
            let mut state = self.state.lock();
            let past = state.replicas[actor.replica?].past.as_mut()?;
            past.listed.push(resource.to_owned());
            past.revision
        };
        self.hold(actor, resource, Release::After(crate::HOLD));
        Some(revision)
    }
}
