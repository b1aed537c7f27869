//! Which checkpoints of the reference runs begin and end at.

use std::sync::Arc;

use windlass::Result;

use super::ground::Ground;
use crate::canonical::Canonical;
use crate::plan::{Fault, Plan};
use crate::run::{self, Settings};
use crate::sim::{Checkpoint, Outcome, Sim};
use crate::site::Site;
use crate::trace::Record;

// === impl Ground ===

impl<F> Ground<'_, F>
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    /// The checkpoints of the reference, with what they are fit for.
    ///
    /// A run ends only at one at which no oracle objects to the reference, and begins only at one from
    /// which a run without faults does what the reference does: the same sites, and then the state of
    /// the next checkpoint.
    pub(super) fn fit(&self, mut checkpoints: Vec<Checkpoint>) -> Vec<Checkpoint> {
        if self.reference.looks {
            return Vec::new();
        }
        for checkpoint in &mut checkpoints {
            let (reference, end) = (&checkpoint.run, &checkpoint.end);
            checkpoint.ends = self.objections(reference, end).is_empty();
        }
        let checkpoints = Arc::new(checkpoints);
        let begins: Vec<bool> = (0..checkpoints.len())
            .map(|place| {
                let checkpoints = checkpoints.clone();
                let settings =
                    Settings { checkpoints, start: Some(place), ..self.settings.clone() };
                self.repeats(&settings, place)
            })
            .collect();
        let Ok(mut checkpoints) = Arc::try_unwrap(checkpoints).map_err(drop) else {
            return Vec::new();
        };
        for (checkpoint, begins) in checkpoints.iter_mut().zip(begins) {
            checkpoint.begins = begins;
        }
        checkpoints
    }

    /// Returns `true` if a run without faults from a checkpoint is the rest of the reference.
    fn repeats(&self, settings: &Settings, place: usize) -> bool {
        let run = run::run(self.scenario, &Plan::default(), settings);
        let known = settings.checkpoints[place].recorded.trace.len();
        let next = settings.checkpoints[place + 1..].iter().find(|next| next.ends);
        let (reference, ends) = match next {
            Some(next) => (&next.run, run.rejoined == Some(next.settles)),
            None => (&self.reference, Canonical::of(&run).equals(&self.reference_end)),
        };
        run.error.is_none() && ends && sites(&run, known).eq(sites(reference, known))
    }

    /// The place of the last checkpoint before the first fault of a plan.
    pub(super) fn start_of(&self, plan: &Plan) -> Option<usize> {
        let checkpoints = &self.settings.checkpoints;
        if checkpoints.is_empty() || plan.seed != 0 || !plan.skipped.is_empty() {
            return None;
        }
        let place = |(fault, site): &(Fault, Site)| match fault {
            Fault::Transition => Some(usize::MAX),
            _ => self.reference.trace.iter().position(|record| record.site() == Some(site)),
        };
        let places: Option<Vec<usize>> = plan.faults.iter().map(place).collect();
        let first = places?.into_iter().min()?;
        checkpoints.iter().rposition(|m| m.begins && m.recorded.trace.len() <= first)
    }
}

/// The sites of the operator after a place in the trace, until all faults end.
fn sites(run: &Outcome, known: usize) -> impl Iterator<Item = &Site> {
    let records = run.trace.iter().skip(known);
    let records = records.filter(|record| record.actor != "user" && record.at <= run.phases.healed);
    records.filter_map(Record::site)
}
