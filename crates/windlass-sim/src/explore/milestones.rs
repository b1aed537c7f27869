//! Which milestones of the reference runs begin and end at.

use std::sync::Arc;

use windlass::Result;

use super::ground::Ground;
use crate::canonical::Canonical;
use crate::plan::{Fault, Plan};
use crate::run::{self, Settings};
use crate::sim::{Milestone, Outcome, Sim};
use crate::site::Site;
use crate::trace::Record;

// === impl Ground ===

impl<F> Ground<'_, F>
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    /// The milestones of the reference, with what they are fit for.
    ///
    /// A run ends only at one at which no oracle objects to the reference, and begins only at one from
    /// which a run without faults does what the reference does: the same sites, and then the state of
    /// the next milestone.
    pub(super) fn fit(&self, mut milestones: Vec<Milestone>) -> Vec<Milestone> {
        if self.reference.looks {
            return Vec::new();
        }
        for milestone in &mut milestones {
            let (reference, end) = (&milestone.run, &milestone.end);
            milestone.ends = self.objections(reference, end).is_empty();
        }
        let milestones = Arc::new(milestones);
        let begins: Vec<bool> = (0..milestones.len())
            .map(|place| {
                let milestones = milestones.clone();
                let settings = Settings { milestones, start: Some(place), ..self.settings.clone() };
                self.repeats(&settings, place)
            })
            .collect();
        let Ok(mut milestones) = Arc::try_unwrap(milestones).map_err(drop) else {
            return Vec::new();
        };
        for (milestone, begins) in milestones.iter_mut().zip(begins) {
            milestone.begins = begins;
        }
        milestones
    }

    /// Returns `true` if a run without faults from a milestone is the rest of the reference.
    fn repeats(&self, settings: &Settings, place: usize) -> bool {
        let run = run::run(self.scenario, &Plan::default(), settings);
        let known = settings.milestones[place].story.trace.len();
        let next = settings.milestones[place + 1..].iter().find(|next| next.ends);
        let (reference, ends) = match next {
            Some(next) => (&next.run, run.rejoined == Some(next.settles)),
            None => (&self.reference, Canonical::of(&run).equals(&self.reference_end)),
        };
        run.error.is_none() && ends && sites(&run, known).eq(sites(reference, known))
    }

    /// The place of the last milestone before the first fault of a plan.
    pub(super) fn start_of(&self, plan: &Plan) -> Option<usize> {
        let milestones = &self.settings.milestones;
        if milestones.is_empty() || plan.seed != 0 || !plan.skipped.is_empty() {
            return None;
        }
        let place = |(fault, site): &(Fault, Site)| match fault {
            Fault::Transition => Some(usize::MAX),
            _ => self.reference.trace.iter().position(|record| record.site() == Some(site)),
        };
        let places: Option<Vec<usize>> = plan.faults.iter().map(place).collect();
        let first = places?.into_iter().min()?;
        milestones.iter().rposition(|m| m.begins && m.story.trace.len() <= first)
    }
}

/// The sites of the operator after a place in the trace, until all faults end.
fn sites(run: &Outcome, known: usize) -> impl Iterator<Item = &Site> {
    let records = run.trace.iter().skip(known);
    let records = records.filter(|record| record.actor != "user" && record.at <= run.phases.healed);
    records.filter_map(Record::site)
}
