//! Namespaces that come and go while a cache runs: chosen by their labels, or a set that can be
//! replaced.
//!
//! Each kind keeps one store, which each namespace feeds by a watch of its own. A namespace that is
//! chosen gets a watch per kind, and what is in it becomes visible with its first list. A namespace
//! that is no longer chosen loses its watches, and handlers receive its objects as deleted.
//!
//! **Invariant:** an object of a namespace is shown only while the namespace is chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::{DynamicObject, Selector};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::batch::Batch;
use super::reflector::{Reflector, Rules, WatchStats};
use super::registry::WeakCache;
use super::state::SyncStates;
use super::target::Target;
use super::{Cache, Change, Informer, Scope, Store};
use crate::kind::Kind;
use crate::ordered_watch;

/// The namespaces of kinds that no scope is set for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Namespaces {
    /// All of them, in one watch per kind.
    #[default]
    All,
    /// These.
    Fixed(Vec<String>),
    /// Those that are chosen at any time.
    Chosen(Choice),
}

/// How namespaces are chosen.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// By name.
    #[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "for settings from a file"))]
    Names(BTreeSet<String>),
    /// By their labels.
    Labels(Selector),
}

/// The namespaces that are chosen now.
pub(super) struct Chosen {
    choice: ordered_watch::Sender<Choice>,
    /// `None` until they are known.
    names: ordered_watch::Sender<Option<BTreeSet<String>>>,
    /// Ends the task that follows the choice.
    end: DropGuard,
    started: std::sync::Once,
}

/// Creates the reflectors of one kind.
pub(super) struct Reflectors {
    pub(super) client: kube::Client,
    /// What is asked for, in any namespace.
    pub(super) target: Target,
    pub(super) rules: Rules,
    pub(super) store: Store,
    pub(super) states: Arc<SyncStates>,
    pub(super) stats: Arc<WatchStats>,
}

/// The reflector of one namespace.
struct Running {
    source: usize,
    token: CancellationToken,
    task: JoinHandle<()>,
}

// === impl Chosen ===

impl Chosen {
    pub(super) fn new(choice: Choice) -> Self {
        Self {
            choice: ordered_watch::Sender::new(choice),
            names: ordered_watch::Sender::default(),
            end: CancellationToken::new().drop_guard(),
            started: std::sync::Once::new(),
        }
    }

    /// Chooses other namespaces from now on.
    #[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "for settings from a file"))]
    pub(super) fn choose(&self, choice: Choice) {
        self.choice.send_replace(choice);
    }

    /// Returns the namespaces, and begins to follow the choice if nobody does.
    pub(super) fn names(
        &self,
        cache: WeakCache,
    ) -> ordered_watch::Receiver<Option<BTreeSet<String>>> {
        self.started.call_once(|| {
            let follow = follow_choice(cache, self.choice.subscribe(), self.names.clone());
            tokio::spawn(self.end.token().clone().run_until_cancelled_owned(follow));
        });
        self.names.subscribe()
    }

    /// Stops following the choice.
    pub(super) fn end(&self) {
        self.end.token().cancel();
    }
}

/// Keeps the names of the chosen namespaces up to date.
async fn follow_choice(
    cache: WeakCache,
    mut choices: ordered_watch::Receiver<Choice>,
    names: ordered_watch::Sender<Option<BTreeSet<String>>>,
) {
    loop {
        let choice = choices.borrow_and_update().clone();
        let ended = match choice {
            Choice::Names(set) => {
                publish(&names, &set);
                choices.changed().await.is_err()
            }
            Choice::Labels(selector) => {
                // The cache is not kept alive while its namespaces are followed.
                let Some(informer) = cache.upgrade().map(|cache| namespaces(&cache, selector))
                else {
                    return;
                };
                tokio::select! {
                    biased;
                    changed = choices.changed() => changed.is_err(),
                    () = follow_labels(&informer, &names) => true,
                }
            }
        };
        if ended {
            return;
        }
    }
}

/// Watches the namespaces that match a selector.
fn namespaces(cache: &Cache, selector: Selector) -> Informer<DynamicObject> {
    let scope = Scope::default().labels(selector).metadata_only();
    cache.informer_of(&Kind::of::<Namespace>(), &scope)
}

async fn follow_labels(
    informer: &Informer<DynamicObject>,
    names: &ordered_watch::Sender<Option<BTreeSet<String>>>,
) {
    let (mut changes, mut known) = (informer.subscribe(), BTreeSet::new());
    if informer.states().wait_for(|state| state.synced()).await.is_err() {
        return;
    }
    loop {
        // Everything that waits, so that a long list is published once.
        while let Some(Some(change)) = changes.recv().now_or_never() {
            note(&mut known, &change);
        }
        publish(names, &known);
        let Some(change) = changes.recv().await else { return };
        note(&mut known, &change);
    }
}

fn note(known: &mut BTreeSet<String>, change: &Change) {
    let name = change.key().name();
    if change.is_delete() {
        known.remove(name);
    } else {
        known.insert(name.to_owned());
    }
}

fn publish(names: &ordered_watch::Sender<Option<BTreeSet<String>>>, set: &BTreeSet<String>) {
    names.send_if_modified(|known| {
        let changed = known.as_ref() != Some(set);
        *known = Some(set.clone());
        changed
    });
}

// === impl Reflectors ===

impl Reflectors {
    /// Runs a reflector of one namespace, or of all of them, until it is cancelled.
    pub(super) fn spawn(
        &self,
        source: usize,
        namespace: Option<String>,
        token: CancellationToken,
    ) -> JoinHandle<()> {
        let mut target = Target { namespace, ..self.target.clone() };
        target.metadata_only &= !self.states.wants_full();
        let reflector = Reflector::new(
            self.client.clone(),
            target,
            Rules { seed: self.rules.seed.wrapping_add(source as u64), ..self.rules.clone() },
            Batch::new(source, self.store.clone(), self.states.clone()),
            self.stats.clone(),
        );
        tokio::spawn(async move {
            let _ended = token.run_until_cancelled_owned(reflector.run()).await;
        })
    }

    /// Starts and ends reflectors as namespaces come and go; never completes.
    pub(super) async fn follow(
        self,
        mut names: ordered_watch::Receiver<Option<BTreeSet<String>>>,
        token: CancellationToken,
    ) {
        let mut running: BTreeMap<String, Running> = BTreeMap::new();
        loop {
            let wanted = names.borrow_and_update().clone();
            if let Some(wanted) = wanted {
                let gone: Vec<String> =
                    running.keys().filter(|name| !wanted.contains(*name)).cloned().collect();
                for name in gone {
                    let ended = running.remove(&name).expect("was found above");
                    ended.token.cancel();
                    // After this no delta of the namespace can come any more.
                    let _ = ended.task.await;
                    self.states.end(ended.source);
                    self.store.end_source(ended.source);
                }
                for name in wanted {
                    if running.contains_key(&name) {
                        continue;
                    }
                    let source = self.store.add_source(&name);
                    self.states.add(source, &name);
                    let token = token.child_token();
                    let task = self.spawn(source, Some(name.clone()), token.clone());
                    running.insert(name, Running { source, token, task });
                }
                self.store.sources_known();
                self.states.sources_known();
            }
            if names.changed().await.is_err() {
                // The cache is gone, and readers of this kind keep what there is.
                return std::future::pending().await;
            }
        }
    }
}
