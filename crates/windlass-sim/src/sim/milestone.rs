//! Milestones: moments of rest of the reference, at which other runs begin and end.
//!
//! A run whose first fault is after a milestone has the past of the reference, and one that is in the
//! state of a milestone after its last fault has the reference's future. Both hold only for an operator
//! that keeps nothing in memory, and for a scenario that does not look at the cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass::Result;
use windlass::manager::Handle;
use windlass_apiserver::Snapshot;

use super::{Outcome, Phases, Sim};
use crate::canonical::Canonical;
use crate::kernel::Story;
use crate::world::World;

/// A moment of rest of the reference.
pub(crate) struct Milestone {
    /// How often the scenario has waited for rest.
    pub settles: usize,
    /// How many steps the user has taken.
    pub steps: usize,
    /// The reference until now.
    pub run: Outcome,
    pub end: Canonical,
    /// What is known of the past at this moment.
    pub story: Story,
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
    /// Keeps a milestone, or notes that the run has come to one.
    pub(super) fn at_rest(&mut self) -> Result<()> {
        if let Some(collected) = &self.collected
            && collected.iter().all(|milestone| milestone.settles != self.settles)
        {
            let milestone = self.milestone()?;
            self.collected.get_or_insert_default().push(milestone);
            return Ok(());
        }
        let known = self.milestones.clone();
        let here = |m: &&Milestone| m.ends && m.settles == self.settles;
        if let Some(milestone) = known.iter().find(here)
            && self.is_at(milestone)?
        {
            self.rejoined = Some(milestone.settles);
        }
        Ok(())
    }

    fn milestone(&self) -> Result<Milestone> {
        let kernel = self.kernel()?;
        let run = self.so_far()?;
        let snapshot = kernel.server.snapshot();
        Ok(Milestone {
            settles: self.settles,
            steps: self.steps,
            end: Canonical::of(&run),
            kinds: kinds(&run),
            run,
            story: kernel.story(),
            world: World::decode(snapshot.world()),
            snapshot,
            begins: true,
            ends: true,
            standing: self.standing()?,
        })
    }

    /// Returns `true` if the state of the run is that of a milestone: the cluster, what exists outside of
    /// it, and the caches, queues and leases of the operator.
    fn is_at(&self, milestone: &Milestone) -> Result<bool> {
        if !self.kernel()?.state.lock().has_recovered() || self.standing()? != milestone.standing {
            return Ok(false);
        }
        let run = self.so_far()?;
        Ok(kinds(&run) == milestone.kinds && Canonical::of(&run).equals(&milestone.end))
    }

    /// What has happened until now, as if it were a whole run.
    fn so_far(&self) -> Result<Outcome> {
        let kernel = self.kernel()?;
        let now = kernel.now();
        let mut outcome = self.outcome();
        outcome.phases = Phases { healed: now, rest: now, restarted: None, end: now };
        outcome.end.revision = kernel.server.revision();
        self.add_history(&mut outcome);
        let story = kernel.story();
        (outcome.trace, outcome.writes) = (story.trace, story.writes);
        (outcome.ledger, outcome.requests) = (story.ledger, story.requests);
        outcome.attribute();
        Ok(outcome)
    }

    /// What each replica watches, and what it will do later.
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
