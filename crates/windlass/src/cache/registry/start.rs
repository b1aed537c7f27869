//! The start of a watch: a store, and a reflector for each of its namespaces.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Cache;
use crate::cache::Scope;
use crate::cache::batch::Batch;
use crate::cache::index::{self, IndexId};
use crate::cache::informer::Core;
use crate::cache::reflector::{Reflector, Rules};
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
            true => vec![None],
            false => scope.namespaces.iter().cloned().map(Some).collect(),
        };
        let store_scope = StoreScope {
            namespaces: namespaces.clone(),
            labels: scope.labels.clone(),
            by_fields: scope.fields.is_some(),
        };
        let transform = options.transform.clone();
        let store = Store::new(resource.clone(), options.store, store_scope, transform);
        let states = Arc::new(SyncStates::new(namespaces.len(), !scope.metadata_only));
        let stats = Arc::default();
        let token = CancellationToken::new();
        let rules = self.rules(states.whole());
        // Kinds whose watches break together must not come back together.
        let seed = format!("{}.{}", kind.plural(), kind.group())
            .bytes()
            .fold(rules.seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        for (source, namespace) in namespaces.into_iter().enumerate() {
            let target = Target {
                kind: resource.clone(),
                namespace,
                labels: scope.labels.as_ref().map(ToString::to_string),
                fields: scope.fields.clone(),
                metadata_only: scope.metadata_only,
            };
            let reflector = Reflector::new(
                shared.client.clone(),
                target,
                Rules { seed: seed.wrapping_add(source as u64), ..rules.clone() },
                Batch::new(source, store.clone(), states.clone()),
                Arc::clone(&stats),
            );
            tokio::spawn(token.clone().run_until_cancelled_owned(reflector.run()));
        }
        let owners = store.declare_entries(IndexId::owners(), Arc::new(index::owners));
        let indexes = Mutex::new(owners.into_iter().collect());
        let namespaces = scope.namespaces.clone();
        Arc::new(Core { store, states, stats, namespaces, indexes, _running: token.drop_guard() })
    }

    fn rules(&self, whole: ordered_watch::Receiver<bool>) -> Rules {
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
            whole,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a cache without a seed does not repeat its jitter")]
fn unseeded() -> u64 {
    rand::random()
}
