//! The end of a run: faults end, the cluster comes to rest, and what happened is collected.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass::client::Patch;
use windlass::{Key, Kind, Result};

use super::settle::Rest;
use super::zero::merge_patch;
use super::{Assert, AssertKind, Checkpoint, Mode, Sim};
use crate::external::Ledger;
use crate::kernel::{Actor, Kernel, Stopped, Write};
use crate::plan::Fault;
use crate::replica;
use crate::role::Role;
use crate::site::Site;
use crate::trace::{Record, What};
use crate::world::{Change, World, history};

/// How long nothing may happen before the cluster is at rest at the end.
const QUIET: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(1200);

/// What came out of a run.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The scenario did not come to its end.
    pub error: Option<String>,
    pub trace: Vec<Record>,
    pub writes: Vec<Write>,
    pub faults: Vec<(Fault, Site, bool)>,
    pub ledger: Ledger,
    pub history: Vec<Change>,
    /// The write behind each change of the history, if an actor made it.
    pub authors: Vec<Option<usize>>,
    /// What exists at rest of what was changed since the start.
    pub end: World,
    pub phases: Phases,
    /// What still moves at the end.
    pub restless: Option<String>,
    pub asserts: Vec<Asserted>,
    pub requests: u32,
    /// The run was stopped because of too many requests.
    pub stopped: Option<Stopped>,
    pub steps: usize,
    pub expected: BTreeSet<String>,
    pub masks: Vec<(String, String)>,
    pub role: Option<Role>,
    pub embedded: Vec<&'static str>,
    pub terminal_expected: bool,
    pub definitions: Vec<Value>,
    pub replicas: usize,
    /// The moments of rest that were kept.
    pub checkpoints: Vec<Checkpoint>,
    /// The run ended when it was back in the state of the reference after so many waits for rest.
    pub rejoined: Option<usize>,
    /// The scenario has looked at the cluster.
    pub looks: bool,
}

/// When the parts of a run began, in virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Phases {
    pub healed: Duration,
    pub rest: Duration,
    /// All replicas were restarted.
    pub restarted: Option<Duration>,
    pub end: Duration,
}

/// What became of a property that the author stated.
#[derive(Clone, Debug)]
pub(crate) struct Asserted {
    pub kind: AssertKind,
    pub name: String,
    /// How many states were looked at.
    pub looked: u32,
    /// The first revision at which it did not hold.
    pub broken: Option<u64>,
    /// It held at least once.
    pub held: bool,
}

// === impl Sim ===

impl Sim {
    /// Ends the run.
    pub(crate) async fn finish(mut self, result: Result<()>) -> Outcome {
        let mut outcome = self.outcome();
        outcome.error = result.err().map(|error| format!("{error:?}"));
        outcome.checkpoints = self.collected.take().unwrap_or_default();
        if let Err(error) = self.calm_down(&mut outcome).await {
            outcome.error.get_or_insert(format!("{error:?}"));
        }
        let Some(live) = &self.live else { return outcome };
        let world = self.add_history(&mut outcome);
        self.judge_asserts(&mut outcome, world);
        let mut state = live.kernel.state.lock();
        outcome.trace = std::mem::take(&mut state.trace);
        outcome.writes = std::mem::take(&mut state.writes);
        outcome.ledger = state.ledger.clone();
        outcome.requests = state.requests;
        outcome.stopped = state.stopped();
        let faults = state.faults.iter();
        outcome.faults = faults.map(|p| (p.fault, p.site.clone(), p.fired)).collect();
        drop(state);
        outcome.attribute();
        outcome
    }

    /// What was declared, without anything that has happened.
    pub(super) fn outcome(&self) -> Outcome {
        let setup = &self.setup;
        Outcome {
            expected: setup.expected.clone(),
            masks: setup.masks.clone(),
            role: setup.role.clone(),
            embedded: setup.embedded.clone(),
            terminal_expected: setup.terminal_expected,
            definitions: setup.definitions.clone(),
            replicas: setup.replicas,
            steps: self.steps,
            rejoined: self.rejoined,
            looks: self.looks,
            ..Outcome::default()
        }
    }

    /// Adds the history, and what exists at its end; returns the state before what is new in it, if it
    /// is known.
    pub(super) fn add_history(&self, outcome: &mut Outcome) -> Option<World> {
        let live = self.live.as_ref()?;
        let checkpoint = self.started();
        // From the state that all runs start from: what changed until the first step is left out.
        let mut world = match checkpoint {
            Some(checkpoint) => Some(checkpoint.world.clone()),
            None => live.base.as_ref().map(|base| base.world().clone()),
        };
        let since = world.as_ref().map_or(live.boot, |world| world.revision);
        let mut changes = history(&live.kernel.server, since);
        let first = changes.iter().take_while(|change| change.revision <= live.boot).count();
        for change in changes.drain(..first) {
            world.iter_mut().for_each(|world| world.apply(&change));
        }
        let rest = outcome.end.revision;
        if let Some(checkpoint) = checkpoint {
            outcome.end = checkpoint.run.end.clone();
            outcome.history.clone_from(&checkpoint.run.history);
        }
        let until_rest = changes.iter().take_while(|change| change.revision <= rest);
        until_rest.for_each(|change| outcome.end.apply(change));
        outcome.end.revision = rest;
        outcome.history.append(&mut changes);
        world
    }

    /// Heals everything, waits for rest, and looks whether it lasts.
    async fn calm_down(&mut self, outcome: &mut Outcome) -> Result<()> {
        if self.live.is_none() {
            self.begin().await?;
        }
        let kernel = self.kernel()?.clone();
        if self.rejoined.is_some() {
            let now = kernel.now();
            outcome.phases = Phases { healed: now, rest: now, restarted: None, end: now };
            outcome.end.revision = kernel.server.revision();
            return Ok(());
        }
        self.transitions(&kernel).await?;
        kernel.heal();
        kernel.record(&Actor::user(), What::Healed);
        outcome.phases.healed = kernel.now();
        if let Rest::Restless(why) = self.rest(QUIET, LIMIT).await? {
            outcome.restless = Some(why);
        }
        kernel.record(&Actor::user(), What::Settled("the end".into()));
        outcome.phases.rest = kernel.now();
        outcome.end.revision = kernel.server.revision();
        sleep(QUIET).await;
        if matches!(self.mode, Mode::Reference) {
            outcome.phases.restarted = Some(kernel.now());
            replica::restart_all(&kernel);
            self.rest(QUIET, LIMIT).await?;
        }
        outcome.phases.end = kernel.now();
        Ok(())
    }

    /// Changes fields of specs as the plan says, and changes them back.
    async fn transitions(&mut self, kernel: &Kernel) -> Result<()> {
        let planned: Vec<Site> = {
            let mut state = kernel.state.lock();
            let wanted = state.faults.iter_mut().filter(|p| p.fault == Fault::Transition);
            wanted
                .map(|planned| {
                    planned.fired = true;
                    planned.site.clone()
                })
                .collect()
        };
        for site in planned {
            let Some((kind, key, pointer, value)) = self.transition(&site) else { continue };
            let client = self.live.as_ref().expect("has begun").client.clone();
            let api = client.api_of::<DynamicObject>(&kind);
            let Some(object) = api.get(&key).await? else { continue };
            let object = serde_json::to_value(&*object)?;
            let before = object.pointer(&pointer).cloned().unwrap_or_default();
            kernel.record(&Actor::user(), What::Step(format!("set {pointer} of {key} to {value}")));
            if api.patch(&key, &Patch::Merge(nested(&pointer, value))).await.is_err() {
                continue; // the API server does not allow it
            }
            self.rest(Duration::from_secs(20), Duration::from_secs(600)).await?;
            kernel
                .record(&Actor::user(), What::Step(format!("set {pointer} of {key} to {before}")));
            let Some(object) = api.get(&key).await? else { continue };
            let now = serde_json::to_value(&*object)?;
            let now = now.pointer(&pointer).cloned().unwrap_or_default();
            // As a merge patch, which removes what the other value has in addition.
            let back = merge_patch(&json!({"value": now}), &json!({"value": before}));
            if let Some(back) = back {
                let back = Patch::Merge(nested(&pointer, back["value"].clone()));
                api.patch(&key, &back).await?;
            }
            self.rest(Duration::from_secs(20), Duration::from_secs(600)).await?;
        }
        Ok(())
    }

    /// The kind, the object, the field and the value of a transition.
    fn transition(&self, site: &Site) -> Option<(Kind, Key, String, Value)> {
        let (pointer, value) = site.subresource.split_once('=')?;
        let value = serde_json::from_str(value).ok()?;
        let kind = self.setup.definitions.iter().find_map(|definition| {
            let kind = kind_of(definition)?;
            let resource = crate::site::resource(kind.group(), kind.plural());
            (resource == site.resource).then_some(kind)
        })?;
        let key = match site.object.split_once('/') {
            Some((namespace, name)) => Key::namespaced(namespace, name),
            None => Key::cluster(&site.object),
        };
        Some((kind, key, format!("/{pointer}"), value))
    }

    /// Asks the author's properties, beginning with the state before the first step.
    fn judge_asserts(&self, outcome: &mut Outcome, start: Option<World>) {
        if self.asserts.is_empty() {
            return;
        }
        let live = self.live.as_ref().expect("has begun");
        let mut world = start.unwrap_or_else(|| {
            // What was not changed since, and what changed objects were before.
            let mut world = World::of(&live.kernel.server);
            for change in outcome.history.iter().rev() {
                match &change.before {
                    Some(object) => world.objects.insert(change.key.clone(), object.clone()),
                    None => world.objects.remove(&change.key),
                };
            }
            world
        });
        let mut asserted: Vec<Asserted> = self.asserts.iter().map(Asserted::new).collect();
        let known = self.started().map_or(0, |checkpoint| checkpoint.run.history.len());
        for change in &outcome.history[known..] {
            world.apply(change);
            for (assert, asserted) in self.asserts.iter().zip(&mut asserted) {
                if matches!(assert.kind, AssertKind::Always | AssertKind::Sometimes) {
                    asserted.look(&world, assert);
                }
            }
        }
        // A run that ends at a checkpoint has the end of the reference.
        let ends = outcome.rejoined.is_none();
        for (assert, asserted) in self.asserts.iter().zip(&mut asserted) {
            if ends && matches!(assert.kind, AssertKind::Eventually | AssertKind::Truth) {
                asserted.look(&world, assert);
            }
        }
        outcome.asserts = asserted;
    }
}

// === impl Asserted ===

impl Asserted {
    fn new(assert: &Assert) -> Self {
        let (kind, name) = (assert.kind, assert.name.clone());
        Self { kind, name, looked: 0, broken: None, held: false }
    }

    fn look(&mut self, world: &World, assert: &Assert) {
        self.looked += 1;
        match (assert.holds)(world) {
            true => self.held = true,
            false => drop(self.broken.get_or_insert(world.revision)),
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// Finds the write behind each change.
    pub(super) fn attribute(&mut self) {
        let author = |change: &Change| {
            let wrote = |write: &Write| {
                let key = &change.key;
                let within = write.from < change.revision && change.revision <= write.to;
                let place = write.namespace == key.namespace || key.resource == "namespaces";
                let named = write.name.is_empty() || write.name == key.name;
                within && place && named && write.resource == key.resource
            };
            self.writes.iter().position(wrote)
        };
        self.authors = self.history.iter().map(author).collect();
    }

    /// The changes with their writes, oldest first.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&Change, Option<&Write>)> {
        let write = |author: &Option<usize>| author.map(|place| &self.writes[place]);
        self.history.iter().zip(self.authors.iter().map(write))
    }

    /// The changes that the operator made, apart from leases and events.
    pub(crate) fn by_operator(&self) -> impl Iterator<Item = (&Change, &Write)> {
        self.changes().filter_map(|(change, write)| {
            let write = write.filter(|write| write.actor != "user")?;
            (!crate::site::is_background(&change.key.resource)).then_some((change, write))
        })
    }

    /// The kinds that actors wrote, by resource.
    pub(crate) fn kinds(&self) -> BTreeMap<String, Kind> {
        let mut kinds = BTreeMap::new();
        for write in self.writes.iter().filter(|write| !write.kind[3].is_empty()) {
            let [group, version, plural, kind] = &write.kind;
            if kind == "Status" || kind == "Scale" {
                continue;
            }
            let kind = Kind::new(group, version, kind, plural);
            let kind = if write.namespace.is_empty() { kind.cluster_scoped() } else { kind };
            kinds.entry(write.resource.clone()).or_insert(kind);
        }
        kinds
    }
}

/// The kind that a definition defines, in its stored version.
pub(crate) fn kind_of(definition: &Value) -> Option<Kind> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array()?;
    let version = versions.iter().find(|version| version["storage"] == true)?["name"].as_str()?;
    let names = &spec["names"];
    let kind = Kind::new(
        spec["group"].as_str()?,
        version,
        names["kind"].as_str()?,
        names["plural"].as_str()?,
    );
    Some(if spec["scope"] == "Cluster" { kind.cluster_scoped() } else { kind })
}

/// An object with one field at a pointer.
fn nested(pointer: &str, value: Value) -> Value {
    pointer.split('/').skip(1).collect::<Vec<_>>().into_iter().rev().fold(value, |inner, field| {
        let mut outer = json!({});
        outer[field.replace("~1", "/").replace("~0", "~")] = inner;
        outer
    })
}
