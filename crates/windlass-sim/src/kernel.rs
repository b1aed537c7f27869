//! The state of one run that its actors share: sites, faults, trace, lives of the replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use windlass::manager::Handle;
use windlass::webhook::Webhooks;
use windlass_apiserver::ApiServer;

use crate::external::Ledger;
use crate::plan::{Fault, Plan};
use crate::sent::Sent;
use crate::site::Site;
use crate::trace::{Answer, Record, What};

mod names;
mod recorded;
mod views;

pub(crate) use names::{Head, HeadMeta};
pub(crate) use recorded::Recorded;
pub(crate) use views::{Release, Sight};

/// Requests of the operator after which a run is stopped: something loops.
pub(crate) const REQUESTS_MAX: u32 = 3_000;
/// Requests of leases, Events and expected background writes after which a run is stopped; they add up in a long
/// scenario.
pub(crate) const BACKGROUND_MAX: u32 = 30_000;

/// The state of one run.
pub(crate) struct Kernel {
    pub server: ApiServer,
    pub seed: u64,
    /// An instant, and the virtual time of the run then.
    started: Mutex<(Instant, Duration)>,
    pub state: Mutex<State>,
    /// Wakes everybody who waits for a change of `state`.
    pub changed: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    pub trace: Vec<Record>,
    pub writes: Vec<Write>,
    pub faults: Vec<Planned>,
    pub ledger: Ledger,
    /// How often each site occurred.
    counts: BTreeMap<String, u32>,
    pub healed: bool,
    /// Resources that the operator is expected to write all the time.
    pub expected: BTreeSet<String>,
    /// Requests that are under way, watches left out.
    pub in_flight: u32,
    /// Replicas that will be started.
    pub starting: u32,
    /// Counts what has to be quiet for a rest.
    pub activity: u64,
    pub requests: u32,
    /// How many of the requests are about leases, Events and what is expected to be written.
    background: u32,
    pub replicas: Vec<Life>,
    names: names::Names,
    views: views::Views,
    /// Reconciles that began, and that ended.
    pub reconciles: (u32, u32),
    /// A site at which the user's next step happens was reached.
    pub interrupted: bool,
    /// Steps of the user so far.
    pub steps: usize,
    /// The revisions right after the user's last two steps, the newer one first.
    pub step_revisions: [u64; 2],
}

/// Why a run was stopped: too many requests of this sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    Requests,
    Background,
}

/// A fault of the plan.
pub(crate) struct Planned {
    pub fault: Fault,
    pub site: Site,
    pub fired: bool,
}

/// One replica.
#[derive(Default)]
pub(crate) struct Life {
    /// Which life this is, from 1; 0 before the first.
    pub number: u32,
    pub alive: bool,
    pub handle: Option<Handle>,
    pub webhooks: Option<Webhooks>,
    pub paused_until: Option<Instant>,
    /// The first lists show the past.
    pub past: Option<Past>,
}

/// What a life that begins in the past is shown.
pub(crate) struct Past {
    pub revision: u64,
    /// The resources that were listed already.
    pub listed: Vec<String>,
}

/// A request of an actor that may have changed something.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub site: Site,
    pub actor: String,
    pub life: u32,
    pub at: Duration,
    pub reconcile: Option<u32>,
    /// The resource, the namespace and the real name; an empty name stands for a collection.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    /// The group, the version and the plural of the request, and the kind of the response.
    pub kind: [String; 4],
    /// The revisions before and after the request.
    pub from: u64,
    pub to: u64,
    pub status: u16,
    /// The object as the replica knew it.
    pub sight: Option<Sight>,
    /// The field manager that the request names.
    pub manager: String,
    pub sent: Sent,
    /// The fault that hit this request.
    pub fault: Option<Fault>,
}

/// Who sends a request.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub name: Arc<str>,
    /// The number of the replica; `None` for the user.
    pub replica: Option<usize>,
    pub life: u32,
}

/// Counts a request as under way until it is dropped.
pub(crate) struct InFlight(Arc<Kernel>);

// === impl Kernel ===

impl Kernel {
    pub(crate) fn new(server: ApiServer, seed: u64, plan: &Plan, replicas: usize) -> Arc<Self> {
        let planned = |(fault, site): &(Fault, Site)| Planned {
            fault: *fault,
            site: site.clone(),
            fired: false,
        };
        let state = State {
            faults: plan.faults.iter().map(planned).collect(),
            replicas: (0..replicas).map(|_| Life::default()).collect(),
            ..State::default()
        };
        Arc::new(Self {
            server,
            seed: seed.wrapping_add(plan.seed),
            started: Mutex::new((Instant::now(), Duration::ZERO)),
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    pub(crate) fn now(&self) -> Duration {
        let (instant, time) = *self.started.lock();
        time + instant.elapsed()
    }

    /// Names a replica.
    pub(crate) fn replica_name(&self, replica: usize) -> String {
        match self.state.lock().replicas.len() {
            1 => "operator".into(),
            _ => format!("operator-{}", replica + 1),
        }
    }

    /// Adds a record and returns its place.
    pub(crate) fn record(&self, actor: &Actor, what: What) -> usize {
        let record =
            Record { at: self.now(), actor: actor.name.to_string(), life: actor.life, what };
        let mut state = self.state.lock();
        state.trace.push(record);
        state.trace.len() - 1
    }

    pub(crate) fn answered(&self, place: usize, answer: Answer) {
        if let Some(Record { what: What::Request { answer: slot, .. }, .. }) =
            self.state.lock().trace.get_mut(place)
        {
            *slot = Some(answer);
        }
    }

    /// Notes why the reconcile with this place in the trace runs.
    pub(crate) fn caused(&self, place: usize, why: String) {
        if let Some(Record { what: What::Reconcile { causes, .. }, .. }) =
            self.state.lock().trace.get_mut(place)
        {
            *causes = why;
        }
    }

    /// Counts a site and returns the fault that the plan has for it.
    pub(crate) fn arrive(&self, site: &mut Site) -> Option<Fault> {
        let mut state = self.state.lock();
        let count = state.counts.entry(site.key()).or_default();
        *count += 1;
        site.occurrence = *count;
        if state.healed {
            return None;
        }
        let planned = state.faults.iter_mut().find(|p| !p.fired && p.site == *site)?;
        planned.fired = true;
        Some(planned.fault)
    }

    /// A small latency that depends on the seed and the site alone.
    pub(crate) fn latency(&self, site: &Site) -> Duration {
        let text = site.to_string();
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let start = 0xcbf2_9ce4_8422_2325 ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = text.bytes().fold(start, step);
        Duration::from_millis(1 + (hash >> 32) % 2)
    }

    /// Waits while the actor is cut off, and for ever if its life has ended.
    pub(crate) async fn gate(&self, actor: &Actor) {
        let Some(replica) = actor.replica else { return };
        loop {
            let paused = {
                let state = self.state.lock();
                let life = &state.replicas[replica];
                let running = state.stopped().is_none();
                match life.number == actor.life && life.alive && running {
                    false => None,
                    true => match life.paused_until.filter(|until| *until > Instant::now()) {
                        None => return,
                        until => until,
                    },
                }
            };
            match paused {
                None => std::future::pending().await,
                Some(until) => tokio::time::sleep_until(until).await,
            }
        }
    }

    /// Ends the life of a replica immediately.
    pub(crate) fn crash(&self, actor: &Actor) {
        let Some(replica) = actor.replica else { return };
        let handle = {
            let mut state = self.state.lock();
            let life = &mut state.replicas[replica];
            if life.number != actor.life || !life.alive {
                return;
            }
            life.alive = false;
            life.handle.clone()
        };
        if let Some(handle) = handle {
            handle.abort();
        }
        self.record(actor, What::Crashed);
        self.touch();
    }

    /// Returns `true` if a replica of the operator has a controller of this name.
    pub(crate) fn is_operator(&self, controller: &str) -> bool {
        let handles: Vec<Handle> =
            self.state.lock().replicas.iter().filter_map(|life| life.handle.clone()).collect();
        handles.iter().any(|handle| handle.controller(controller).is_some())
    }

    /// Returns `true` if at least one replica is alive.
    pub(crate) fn someone_lives(&self) -> bool {
        self.state.lock().replicas.iter().any(|life| life.alive)
    }

    pub(crate) fn pause(&self, actor: &Actor, time: Duration) {
        if let Some(replica) = actor.replica {
            self.state.lock().replicas[replica].paused_until = Some(Instant::now() + time);
        }
    }

    /// Returns `true` if writes of a resource do not matter for a rest.
    pub(crate) fn is_background(&self, resource: &str) -> bool {
        crate::site::is_background(resource) || self.state.lock().expected.contains(resource)
    }

    /// Something moved.
    pub(crate) fn touch(&self) {
        self.state.lock().activity += 1;
        self.changed.notify_waiters();
    }

    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.state.lock().in_flight += 1;
        InFlight(self.clone())
    }

    /// Ends all faults: nothing is held or cut off any more.
    pub(crate) fn heal(&self) {
        let mut state = self.state.lock();
        state.healed = true;
        state.interrupted = false;
        state.views.release_all();
        for life in &mut state.replicas {
            life.paused_until = life.paused_until.map(|_| Instant::now());
        }
        drop(state);
        self.touch();
    }

    /// Lets the user act now, and waits until they have, or for two seconds.
    pub(crate) async fn interrupt(&self) {
        let steps = {
            let mut state = self.state.lock();
            state.interrupted = true;
            state.steps
        };
        self.changed.notify_waiters();
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state.lock();
                if state.steps > steps || state.healed || Instant::now() >= deadline {
                    state.interrupted = false;
                    return;
                }
            }
            let _ = tokio::time::timeout_at(deadline, changed).await;
        }
    }
}

// === impl State ===

impl State {
    /// Counts a request of the operator.
    pub(crate) fn request(&mut self, resource: &str) {
        self.requests += 1;
        let background = crate::site::is_background(resource) || self.expected.contains(resource);
        self.background += u32::from(background);
    }

    /// Why the run has to stop, if it has to.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        match () {
            () if self.requests - self.background > REQUESTS_MAX => Some(Stopped::Requests),
            () if self.background > BACKGROUND_MAX => Some(Stopped::Background),
            () => None,
        }
    }

    /// The user has ended a step.
    pub(crate) fn stepped(&mut self, revision: u64) {
        self.steps += 1;
        self.step_revisions = [revision, self.step_revisions[0]];
    }
}

// === impl InFlight ===

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.state.lock().in_flight -= 1;
    }
}

// === impl Actor ===

impl Actor {
    pub(crate) fn user() -> Self {
        Self { name: "user".into(), replica: None, life: 0 }
    }
}
