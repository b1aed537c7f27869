//! The start of a watch: a store, and a reflector for each of its namespaces.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Cache;
use crate::cache::Scope;
use crate::cache::index::{self, IndexId};
use crate::cache::informer::Core;
use crate::cache::namespaces::Reflectors;
use crate::cache::reflector::Rules;
use crate::cache::state::SyncStates;
use crate::cache::store::{Store, StoreScope};
use crate::cache::target::Target;
use crate::kind::Kind;
use crate::ordered_watch;

// === impl Cache ===

impl Cache {
    pub(super) fn start(&self, kind: &Kind, scope: &Scope) -> Arc<Core> {
        let shared = &self.shared;
        let options = &shared.options;
        let resource = kind.api_resource();
        let namespaces: Vec<Option<String>> = match scope.namespaces.is_empty() {
            _ if scope.chosen => Vec::new(),
            true => vec![None],
            false => scope.namespaces.iter().cloned().map(Some).collect(),
        };
        let store_scope = StoreScope {
            namespaces: namespaces.clone(),
            labels: scope.labels.clone(),
            by_fields: scope.fields.is_some(),
            chosen: scope.chosen,
        };
        let transform = options.transform.clone();
        let store = Store::new(resource.clone(), options.store, store_scope, transform);
        let states = Arc::new(match scope.chosen {
            true => SyncStates::of_chosen(!scope.metadata_only),
            false => SyncStates::new(namespaces.len(), !scope.metadata_only),
        });
        let mut rules = self.rules(states.full_wanted());
        // Kinds whose watches break together must not come back together.
        rules.seed = format!("{}.{}", kind.plural(), kind.group())
            .bytes()
            .fold(rules.seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let stats = Arc::default();
        let reflectors = Reflectors {
            client: shared.client.clone(),
            target: Target {
                kind: resource,
                namespace: None,
                labels: scope.labels.clone(),
                fields: scope.fields.clone(),
                metadata_only: scope.metadata_only,
            },
            rules,
            store: store.clone(),
            states: states.clone(),
            stats: Arc::clone(&stats),
        };
        let token = CancellationToken::new();
        for (source, namespace) in namespaces.into_iter().enumerate() {
            reflectors.spawn(source, namespace, token.clone());
        }
        if let Some(chosen) = shared.chosen.as_ref().filter(|_| scope.chosen) {
            let follow = reflectors.follow(chosen.names(self.downgrade()), token.clone());
            tokio::spawn(token.clone().run_until_cancelled_owned(follow));
        }
        let owners = store.declare_entries(IndexId::owners(), Arc::new(index::owners));
        let indexes = Mutex::new(owners.into_iter().collect());
        let (namespaces, chosen) = (scope.namespaces.clone(), scope.chosen);
        let _running = token.drop_guard();
        Arc::new(Core { store, states, stats, namespaces, chosen, indexes, _running })
    }

    fn rules(&self, full_wanted: ordered_watch::Receiver<bool>) -> Rules {
        let options = &self.shared.options;
        Rules {
            streaming: options.streaming,
            protobuf: options.protobuf,
            page_size: options.page_size,
            progress: options.progress,
            answer: options.answer,
            object_max: options.object_max,
            keep_managed_fields: options.store.keep_managed_fields,
            pack: options.store.pack,
            seed: options.seed.unwrap_or_else(unseeded),
            transform: options.transform.clone(),
            observe: options.observe.clone(),
            full_wanted,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a cache without a seed does not repeat its jitter")]
fn unseeded() -> u64 {
    rand::random()
}
