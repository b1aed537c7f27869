//! Steps of a set: children that wait until others are ready.
//!
//! A step is one wave of children, or several, with a name. It can need steps that were begun before
//! it, so needs cannot form a cycle. The author writes the steps down one after the other, and there
//! is no graph to build.
//!
//! **Invariant:** a step that waits changes nothing: its children are neither created nor deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::DynamicObject;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::child::{Applier, Child, is_timed};
use super::{Children, Owner, TIMED};
use crate::client::Patch;
use crate::controller::failures::Failures;
use crate::controller::reference::hex;
use crate::controller::rule::with_rule;
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};
use crate::readiness::Readiness;

/// Most bytes of the list of what was done.
const DONE_MAX: usize = 16 << 10;

/// A step of a set of children, for others to need. Returned by [`Children::step`], which has an
/// example.
#[derive(Debug, Clone)]
pub struct Step(Arc<str>);

/// The steps of a set.
#[derive(Debug, Default)]
pub(super) struct Steps {
    all: Vec<Plan>,
    /// The step of each wave.
    of_wave: Vec<Option<usize>>,
    /// What is wrong with the steps, for `apply` to return.
    wrong: Option<String>,
}

#[derive(Debug)]
struct Plan {
    name: Arc<str>,
    needs: Vec<usize>,
}

/// What happened to the children of a set.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The children of no step.
    pub(super) others: Vec<(String, Readiness)>,
    /// The states of the children of each step.
    steps: Vec<Vec<(String, Readiness)>>,
    /// A step waits for another.
    pub(super) waiting: bool,
    pub(super) failed: Failures,
}

/// What was done once, with the hash of the value for which it was done.
type Done = BTreeMap<String, String>;

// === impl Children ===

impl<K: Object> Children<K> {
    /// Begins a step: children that are added from now on belong to it, until the next one begins.
    ///
    /// A step is applied once all steps that it needs are ready. Until then its children are left as
    /// they are, and steps that do not need a waiting one proceed. The name is the type of a
    /// condition, such as `DatabaseReady`, if the controller has
    /// [`conditions`](crate::controller::Builder::conditions). As waves, steps are deleted in
    /// reverse. Nothing is pruned while a step waits, because what takes the place of a former child
    /// may not exist yet.
    ///
    /// A conditional step is an `if` around the children that are added: a step without children is
    /// ready, and what an earlier reconcile added to it is deleted.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
    /// use k8s_openapi::api::batch::v1::Job;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::controller::Step;
    /// use windlass::{Context, Next, Result};
    ///
    /// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    ///     let (mut database, mut migration) = (StatefulSet::default(), Job::default());
    ///     let mut web = Deployment::default();
    ///     database.metadata.name = Some("database".into());
    ///     migration.metadata.name = Some("migrate".into());
    ///     web.metadata.name = Some("web".into());
    ///
    ///     let mut children = cx.children("example.com/app");
    ///     let ready: Step = children.step("DatabaseReady", &[]);
    ///     children.add(&database)?;
    ///     let migrated = children.step("Migrated", &[&ready]);
    ///     children.once(&migration, "v2")?; // once for this version
    ///     children.step("WebReady", &[&migrated]);
    ///     children.add(&web)?;
    ///     children.apply().await?;
    ///     Ok(Next::Done)
    /// }
    /// # let _ = windlass::Controller::<ConfigMap>::builder("apps").build(reconcile);
    /// ```
    pub fn step(&mut self, name: &str, needs: &[&Step]) -> Step {
        let name: Arc<str> = name.into();
        if !self.children.is_empty() || !self.steps.all.is_empty() {
            self.wave += 1;
        }
        self.steps.begin(self.wave, &name, needs, &self.name);
        Step(name)
    }

    /// Adds a child that runs to completion once for each value, such as a Job for each version.
    ///
    /// The name of the child gets a suffix that follows from the value. Once the child is ready,
    /// which for a Job means complete, this is remembered in an annotation of the owner, the name of
    /// the set with `-once`. From then on the child is not created again, also if somebody or its
    /// `ttlSecondsAfterFinished` deletes it. It is deleted when the value changes.
    ///
    /// A child that exists already is left as it is, also if the author, or a newer release of the
    /// operator, now writes it differently: most fields of a Job cannot be changed. Change the value
    /// to have it run again.
    ///
    /// A Job that was deleted after it completed and before the operator saw it runs again: give it
    /// a `ttlSecondsAfterFinished` that is longer than the operator may be away.
    ///
    /// # Errors
    ///
    /// Fails as [`add`](Self::add) does.
    pub fn once<T: Object<DynamicType = ()>>(&mut self, child: &T, value: &str) -> Result<()> {
        let kind = Kind::of::<T>();
        let name = child.meta().name.clone().unwrap_or_default();
        if name.is_empty() {
            return self.add_of(&kind, child); // which says so
        }
        let id = format!("{} {name}", kind.kind());
        let hash = hex(&Sha256::digest(value))[..10].to_string();
        let mut child = child.clone();
        child.meta_mut().name = Some(format!("{name}-{hash}"));
        let before = self.children.len();
        self.add_of(&kind, &child)?;
        if let Some(added) = self.children.get_mut(before) {
            added.once = Some((id, hash));
        }
        Ok(())
    }

    /// Applies all children, wave by wave and as far as their steps need nothing that is not ready.
    pub(super) async fn apply_waves(&self, owner: &Owner) -> Result<Progress> {
        if let Some(wrong) = &self.steps.wrong {
            return Err(Error::Invalid(wrong.clone()));
        }
        let applier = Applier {
            client: self.cx.client(),
            memory: self.memory(),
            mark: &self.mark(),
            owner: &owner.metadata,
            owner_kind: self.cx.kind(),
            clock: self.cx.clock(),
        };
        let known = self.done(owner);
        let mut done = Done::new();
        let mut progress = Progress::new(self.steps.all.len());
        let (mut before, mut stopped) = (None, false);
        for wave in 0..=self.wave {
            let step = self.steps.of_wave.get(wave).copied().flatten();
            if step != before || wave == 0 {
                before = step;
                stopped = step.is_some_and(|step| self.waits(step, &mut progress));
            }
            let of_wave = self.children.iter().filter(|child| child.wave == wave);
            let of_wave: Vec<&Child> = if stopped { Vec::new() } else { of_wave.collect() };
            for child in of_wave {
                let state = match &child.once {
                    Some((id, hash)) if known.get(id) == Some(hash) => Ok(Readiness::Ready),
                    Some(_) => applier.apply_once(child).await,
                    None => applier.apply(child).await,
                };
                if let (Some((id, hash)), Ok(Readiness::Ready)) = (&child.once, &state) {
                    done.insert(id.clone(), hash.clone());
                }
                stopped |= state.is_err();
                self.note(child, step, state, &mut progress);
            }
        }
        // What waits was not looked at: its past stays.
        let wanted = self.children.iter().filter_map(|child| child.once.as_ref());
        let kept = wanted.filter(|(id, hash)| known.get(id) == Some(hash)).cloned();
        done.extend(kept);
        if done != known {
            self.remember_done(&done).await?;
        }
        self.report_steps(&progress);
        Ok(progress)
    }

    fn note(
        &self,
        child: &Child,
        step: Option<usize>,
        state: Result<Readiness>,
        progress: &mut Progress,
    ) {
        let name = format!("{} {}", child.kind.kind(), child.key);
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                let error = with_rule(error);
                let state = Readiness::in_progress("ApplyFailed", error.chain());
                progress.failed.add(error);
                state
            }
        };
        if is_timed(&state) {
            self.cx.wake_after(TIMED);
        }
        progress.states(step).push((name, state));
    }

    /// Returns `true` if a step needs another one that is not ready, and notes that.
    fn waits(&self, step: usize, progress: &mut Progress) -> bool {
        let plan = &self.steps.all[step];
        let missing = plan.needs.iter().find(|need| !progress.ready(**need));
        let Some(missing) = missing else { return false };
        let missing = &self.steps.all[*missing].name;
        let state = Readiness::in_progress("Waiting", format!("it waits for {missing}"));
        progress.states(Some(step)).push((plan.name.to_string(), state));
        progress.waiting = true;
        true
    }

    fn report_steps(&self, progress: &Progress) {
        let mut notes = self.cx.notes();
        for (plan, states) in self.steps.all.iter().zip(&progress.steps) {
            notes.report(Some(&plan.name), Readiness::summary(states.iter().cloned()));
        }
    }

    /// The annotation that remembers what was done once.
    fn once_annotation(&self) -> String {
        format!("{}-once", self.name)
    }

    fn done(&self, owner: &Owner) -> Done {
        let text = owner.metadata.annotations.as_ref();
        let text = text.and_then(|all| all.get(&self.once_annotation()));
        // Somebody edited it: what it said is lost, and is done once more.
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    async fn remember_done(&self, done: &Done) -> Result<()> {
        let Some(owner) = self.owner()? else { return Ok(()) };
        let text = serde_json::to_string(done)?;
        if text.len() > DONE_MAX {
            let text = format!("{} has too many children that run once", self.name);
            return Err(Error::Invalid(text));
        }
        let text = (!done.is_empty()).then_some(text);
        let patch = Patch::Merge(json!({"metadata": {
            "uid": owner.metadata.uid,
            "resourceVersion": owner.metadata.resource_version,
            "annotations": {self.once_annotation(): text},
        }}));
        let api = self.cx.client().api_of::<DynamicObject>(self.cx.kind());
        api.patch(self.cx.key(), &patch).await?;
        Ok(())
    }
}

// === impl Steps ===

impl Steps {
    fn begin(&mut self, wave: usize, name: &Arc<str>, needs: &[&Step], set: &str) {
        let known = |wanted: &Arc<str>| self.all.iter().position(|plan| plan.name == *wanted);
        if known(name).is_some() {
            self.wrong.get_or_insert(format!("step {name} of {set} was begun twice"));
        }
        let mut found = Vec::new();
        for Step(need) in needs {
            match known(need) {
                Some(at) => found.push(at),
                None => {
                    let text = format!("step {name} needs {need}, which is no step of {set}");
                    self.wrong.get_or_insert(text);
                }
            }
        }
        self.all.push(Plan { name: name.clone(), needs: found });
        self.wave(wave);
    }

    /// Notes that a wave belongs to the step that was begun last.
    pub(super) fn wave(&mut self, wave: usize) {
        self.of_wave.resize(wave + 1, None);
        self.of_wave[wave] = self.all.len().checked_sub(1);
    }
}

// === impl Progress ===

impl Progress {
    fn new(steps: usize) -> Self {
        Self { steps: vec![Vec::new(); steps], ..Self::default() }
    }

    fn states(&mut self, step: Option<usize>) -> &mut Vec<(String, Readiness)> {
        match step {
            Some(step) => &mut self.steps[step],
            None => &mut self.others,
        }
    }

    fn ready(&self, step: usize) -> bool {
        self.steps[step].iter().all(|(_, state)| state.is_ready())
    }

    /// Returns the states of all children.
    pub(super) fn all(&self) -> impl Iterator<Item = (String, Readiness)> {
        self.steps.iter().flatten().chain(&self.others).cloned()
    }
}
