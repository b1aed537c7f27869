//! The statistics of a watch.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Store;
use super::reflector::WatchStats;

/// The statistics of a watch.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::cache::{Cache, InformerStats, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let namespaces = Cache::new(client).informer::<Namespace>(&Scope::default());
/// namespaces.synced(Duration::from_secs(30)).await.expect("can be watched");
/// let figures: InformerStats = namespaces.stats();
/// assert!(figures.objects > 0 && figures.failures == 0);
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerStats {
    /// Objects in the store.
    pub objects: usize,
    /// Bytes the objects take.
    pub bytes: usize,
    /// Lists sent, counting pages.
    pub lists: u64,
    /// Watches opened.
    pub watches: u64,
    /// Events received.
    pub events: u64,
    /// Bookmarks received.
    pub bookmarks: u64,
    /// Failed lists and watches.
    pub failures: u64,
    /// Objects that could not be read.
    pub skipped: u64,
    /// Streaming lists that were replaced by plain ones.
    pub fallbacks: u64,
    /// How often the observer of requests panicked.
    pub observer_panics: u64,
    /// Connections of watches that broke, or ended within an event.
    pub breaks: u64,
    /// Objects that did not decode into a type they were read as.
    pub undecodable: u64,
    /// How often functions of indexes panicked.
    pub index_panics: u64,
    /// Objects with changes that the slowest handler has not taken yet.
    pub lag: usize,
}

// === impl InformerStats ===

impl InformerStats {
    pub(super) fn read(store: &Store, stats: &WatchStats) -> Self {
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Self {
            objects: store.len(),
            bytes: store.size(),
            lists: read(&stats.lists),
            watches: read(&stats.watches),
            events: read(&stats.events),
            bookmarks: read(&stats.bookmarks),
            failures: read(&stats.failures),
            skipped: read(&stats.skipped),
            fallbacks: read(&stats.fallbacks),
            observer_panics: read(&stats.observer_panics),
            breaks: read(&stats.breaks),
            undecodable: store.undecodable(),
            index_panics: store.index_panics(),
            lag: store.lag(),
        }
    }
}
