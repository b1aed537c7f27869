//! Checkpoints: moments of rest of the reference, at which other runs begin and end.
//!
//! A run whose first fault is after a checkpoint has the past of the reference, and one that is in the
//! state of a checkpoint after its last fault has the reference's future. Both hold only for an operator
//! that keeps nothing in memory, and for a scenario that does not look at the cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass::Result;
use windlass::manager::Handle;
use windlass_apiserver::Snapshot;

use super::{Outcome, Phases, Sim};
use crate::canonical::Canonical;
use crate::kernel::Recorded;
use crate::world::World;

/// A moment of rest of the reference.
pub(crate) struct Checkpoint {
    /// How often the scenario has waited for rest.
    pub settles: usize,
    /// How many steps the user has taken.
    pub steps: usize,
    /// The reference until now.
    pub run: Outcome,
    pub end: Canonical,
    /// What the run has recorded up to this moment.
    pub recorded: Recorded,
    pub snapshot: Snapshot,
    /// The state of the snapshot.
    pub world: World,
    /// A run can begin here.
    pub begins: bool,
    /// A run can end here.
    pub ends: bool,
    standing: Vec<Value>,
    kinds: BTreeMap<(String, String), usize>,
}

// === impl Sim ===

impl Sim {
    /// Keeps a checkpoint, or notes that the run has come to one.
    pub(super) fn at_rest(&mut self) -> Result<()> {
        if let Some(collected) = &self.collected
            && collected.iter().all(|checkpoint| checkpoint.settles != self.settles)
        {
            let checkpoint = self.checkpoint()?;
            self.collected.get_or_insert_default().push(checkpoint);
            return Ok(());
        }
        let known = self.checkpoints.clone();
        let here = |m: &&Checkpoint| m.ends && m.settles == self.settles;
        if let Some(checkpoint) = known.iter().find(here)
            && self.is_at(checkpoint)?
        {
            self.rejoined = Some(checkpoint.settles);
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<Checkpoint> {
        let kernel = self.kernel()?;
        let run = self.so_far()?;
        let snapshot = kernel.server.snapshot();
        Ok(Checkpoint {
            settles: self.settles,
            steps: self.steps,
            end: Canonical::of(&run),
            kinds: kinds(&run),
            run,
            recorded: kernel.recorded(),
            world: World::decode(snapshot.world()),
            snapshot,
            begins: true,
            ends: true,
            standing: self.standing()?,
        })
    }

    /// Returns `true` if the state of the run is that of a checkpoint: the cluster, what exists outside of
    /// it, and the caches, queues and leases of the operator.
    fn is_at(&self, checkpoint: &Checkpoint) -> Result<bool> {
        if !self.kernel()?.state.lock().has_recovered() || self.standing()? != checkpoint.standing {
            return Ok(false);
        }
        let run = self.so_far()?;
        Ok(kinds(&run) == checkpoint.kinds && Canonical::of(&run).equals(&checkpoint.end))
    }

    /// Returns the outcome of a run that ends now.
    fn so_far(&self) -> Result<Outcome> {
        let kernel = self.kernel()?;
        let now = kernel.now();
        let mut outcome = self.outcome();
        outcome.phases = Phases { healed: now, rest: now, restarted: None, end: now };
        outcome.end.revision = kernel.server.revision();
        self.add_history(&mut outcome);
        let recorded = kernel.recorded();
        (outcome.trace, outcome.writes) = (recorded.trace, recorded.writes);
        (outcome.ledger, outcome.requests) = (recorded.ledger, recorded.requests);
        outcome.attribute();
        Ok(outcome)
    }

    /// Returns what each replica watches, and how much work it has queued.
    fn standing(&self) -> Result<Vec<Value>> {
        let handles: Vec<Handle> = {
            let state = self.kernel()?.state.lock();
            state.replicas.iter().filter_map(|life| life.handle.clone()).collect()
        };
        Ok(handles.iter().map(|handle| standing(&handle.diagnostics())).collect())
    }
}

/// The part of the diagnostics of a replica that says in which state it is.
fn standing(page: &Value) -> Value {
    let each = |list: &Value, fields: &[&str]| -> Vec<Value> {
        let list = list.as_array().into_iter().flatten();
        list.map(|item| fields.iter().map(|field| item[*field].clone()).collect()).collect()
    };
    let clusters = page["clusters"].as_array().into_iter().flatten();
    let watches = clusters.map(|c| each(&c["watches"], &["kind", "synced", "objects"]));
    let controllers = page["controllers"].as_array().into_iter().flatten().map(|controller| {
        let queue = &controller["queue"];
        json!([controller["name"], queue["depth"], queue["waiting"], queue["processing"]])
    });
    json!({
        "watches": watches.collect::<Vec<_>>(),
        "controllers": controllers.collect::<Vec<_>>(),
        "held": page["lease"]["held"],
    })
}

/// How many objects of each resource and namespace exist, of those that were changed.
fn kinds(run: &Outcome) -> BTreeMap<(String, String), usize> {
    let mut kinds = BTreeMap::new();
    for key in run.end.objects.keys().filter(|key| !run.expected.contains(&key.resource)) {
        if !crate::site::is_background(&key.resource) {
            *kinds.entry((key.resource.clone(), key.namespace.clone())).or_default() += 1;
        }
    }
    kinds
}
