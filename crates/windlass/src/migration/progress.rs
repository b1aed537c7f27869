//! How far migrations are, as metrics.

#[cfg(feature = "metrics")]
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
#[cfg(feature = "metrics")]
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

/// What became of an object.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
#[cfg_attr(feature = "metrics", derive(EncodeLabelValue))]
pub(super) enum Result {
    Rewritten,
    Gone,
    Failed,
}

/// The progress of all migrations. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    #[cfg(feature = "metrics")]
    objects: Family<ResultLabels, Counter>,
    #[cfg(feature = "metrics")]
    pending: Family<DefinitionLabels, Gauge>,
}

#[cfg(feature = "metrics")]
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    definition: String,
    result: Result,
}

#[cfg(feature = "metrics")]
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DefinitionLabels {
    definition: String,
}

// === impl Progress ===

#[cfg(feature = "metrics")]
impl Progress {
    /// Adds the metrics to those of a manager.
    pub(crate) fn register(&self, registry: &mut prometheus_client::registry::Registry) {
        registry.register(
            "windlass_storage_migration_objects",
            "Objects of a definition that a storage migration has written",
            self.objects.clone(),
        );
        registry.register(
            "windlass_storage_migration_pending",
            "Whether objects of a definition may be stored in an old version",
            self.pending.clone(),
        );
    }

    pub(super) fn count(&self, definition: &str, result: Result) {
        let labels = ResultLabels { definition: definition.into(), result };
        self.objects.get_or_create(&labels).inc();
    }

    pub(super) fn pending(&self, definition: &str, pending: bool) {
        let labels = DefinitionLabels { definition: definition.into() };
        self.pending.get_or_create(&labels).set(pending.into());
    }
}

#[cfg(not(feature = "metrics"))]
#[expect(clippy::unused_self, reason = "the metrics are disabled")]
impl Progress {
    pub(super) fn count(&self, _definition: &str, _result: Result) {}

    pub(super) fn pending(&self, _definition: &str, _pending: bool) {}
}
