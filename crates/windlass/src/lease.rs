//! Leader election on a Lease object.
//!
//! Whether another holder is gone is judged by how long *this* process has seen no change of the
//! record, never by comparing clocks: machines may disagree about the time by any amount, as long
//! as their clocks run at about the same rate. The margin between `renew_deadline` and `duration`
//! is what slow clocks and slow requests may use up.
//!
//! A jump of the wall clock neither wins nor loses a lease: both are judged by tokio's time. But it
//! may be all that a machine which was suspended sees of the time it slept, so the fence counts
//! wall time too. A holder that wakes writes nothing until it has renewed; if another process
//! leads by then, it finds that and stops.
//!
//! **Invariant:** the [`Fence`] is open only until the renew deadline after the moment the last
//! successful renewal *began*, by tokio's clock and by wall time.
//! **Invariant:** the lease is released only when nothing it guards is running any more; the
//! manager sees to that.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use kube::core::ObjectMeta;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cache::Key;
use crate::client::{Api, Client};
use crate::clock::{self, Clock, Deadline};
use crate::error::{Error, Result};
use crate::events::{EventType, Recorder};
use crate::fence::Fence;
use crate::kind::Kind;

/// How often a release is tried that meets another version of the record.
const RELEASE_TRIES_MAX: u32 = 4;

/// Which lease is asked for, and how patiently.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::Manager;
/// use windlass::lease::LeaseOptions;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// let replica = |identity: &str| LeaseOptions {
///     namespace: Some("default".into()),
///     identity: identity.into(),
///     ..LeaseOptions::new("my-operator")
/// };
/// let one = Manager::builder(server.client()).lease(replica("one")).spawn()?;
/// tokio::time::sleep(Duration::from_secs(1)).await;
/// let two = Manager::builder(server.client()).lease(replica("two")).spawn()?;
/// tokio::time::sleep(Duration::from_secs(60)).await;
/// assert_eq!(two.lease().expect("was asked for").holder, "one");
///
/// one.stop().await?; // hands it over, so that nobody has to wait for it to run out
/// tokio::time::sleep(Duration::from_secs(5)).await;
/// assert!(two.lease().expect("was asked for").held);
/// two.stop().await?;
///
/// let hasty = LeaseOptions { duration: Duration::from_secs(5), ..replica("three") };
/// let refused = Manager::builder(server.client()).lease(hasty).spawn().unwrap_err();
/// let text = "lease my-operator: duration must be longer than renew_deadline";
/// assert_eq!(refused.to_string(), text);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LeaseOptions {
    /// Where the lease lives; `None` is the namespace of the client.
    pub namespace: Option<String>,
    /// The name of the lease.
    pub name: String,
    /// Who asks; has to differ from process to process.
    pub identity: String,
    /// How long the others wait after the last sign of life.
    pub duration: Duration,
    /// How long a holder tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry_period: Duration,
    /// Hands the lease over at a clean stop instead of letting it run out.
    pub release: bool,
}

/// One process asking for one lease.
///
/// A manager does this by itself when told so with
/// [`Builder::lease`](crate::manager::Builder::lease).
///
/// # Examples
///
/// ```
/// use windlass::clock::Clock;
/// use windlass::lease::{Lease, LeaseOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = windlass::Client::new(server.client());
/// let options = LeaseOptions { namespace: Some("default".into()), ..LeaseOptions::new("my-op") };
/// let mut lease = Lease::new(&client, Clock::system(), options)?;
/// assert!(client.fence().check().is_err(), "no write leaves before the lease is held");
/// lease.acquire().await;
/// assert!(lease.status().borrow().held && client.fence().check().is_ok());
/// // Work, while `lease.hold()` renews; then hand over.
/// lease.release().await?;
/// assert!(client.fence().check().is_err());
/// # Ok(())
/// # }
/// ```
pub struct Lease {
    options: LeaseOptions,
    namespace: String,
    api: Api<LeaseObject>,
    clock: Clock,
    fence: Fence,
    client: Client,
    observed: Option<Observed>,
    status: Arc<watch::Sender<LeaseStatus>>,
    /// This process has held it.
    led: bool,
    jitter: u64,
}

/// What is known about a lease.
///
/// # Examples
///
/// ```
/// use windlass::lease::LeaseStatus;
/// use windlass::Manager;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let handle = Manager::builder(client).spawn()?;
/// let lease: Option<LeaseStatus> = handle.lease();
/// assert!(lease.is_none(), "this manager works without one");
/// handle.stop().await
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseStatus {
    /// Whether this process holds it.
    pub held: bool,
    /// Who holds it.
    pub holder: String,
    /// How often it changed hands.
    pub transitions: i32,
}

/// The record as last seen, and when it last *changed* by the local clock.
#[derive(Debug, Clone)]
struct Observed {
    object: LeaseObject,
    at: Instant,
}

// === impl LeaseOptions ===

impl LeaseOptions {
    /// The usual 15 s, 10 s and 2 s; the identity is the host name and a random part.
    pub fn new(name: &str) -> Self {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".into());
        Self {
            namespace: None,
            name: name.into(),
            identity: format!("{host}_{}", uuid::Uuid::new_v4()),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release: true,
        }
    }

    fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(Error::Invalid(format!("lease {}: {text}", self.name)));
        if self.name.is_empty() || self.identity.is_empty() {
            return wrong("name and identity must not be empty");
        }
        if self.duration < Duration::from_secs(1) || self.retry_period.is_zero() {
            return wrong("duration must be at least a second and retry_period more than none");
        }
        if self.duration <= self.renew_deadline {
            return wrong("duration must be longer than renew_deadline");
        }
        if self.renew_deadline <= self.retry_period.mul_f64(1.2) {
            return wrong("renew_deadline must be longer than 1.2 times retry_period");
        }
        Ok(())
    }
}

// === impl Lease ===

impl Lease {
    /// Asks for a lease with `client`, whose fence it closes until the lease is held.
    ///
    /// # Errors
    ///
    /// Fails if the durations do not leave a margin.
    pub fn new(client: &Client, clock: Clock, options: LeaseOptions) -> Result<Self> {
        options.check()?;
        let namespace =
            options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_string());
        let timeout = (options.renew_deadline / 2).max(Duration::from_secs(1));
        let api = client.unfenced().timeout(timeout).field_owner("windlass-lease").api();
        let lease = Self {
            namespace,
            api,
            clock,
            fence: client.fence().clone(),
            client: client.clone(),
            observed: None,
            status: Arc::new(watch::Sender::new(LeaseStatus::default())),
            led: false,
            jitter: options.identity.bytes().fold(7, |h, b| h * 31 % 1_000_003 + u64::from(b)),
            options,
        };
        lease.fence.close(&lease.label());
        lease.client.metrics().leader(&lease.options.name, false);
        Ok(lease)
    }

    /// What is known, and news of it.
    pub fn status(&self) -> watch::Receiver<LeaseStatus> {
        self.status.subscribe()
    }

    /// `namespace/name`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.namespace, self.options.name)
    }

    /// Tells whether this process has held the lease.
    pub(crate) fn led(&self) -> bool {
        self.led
    }

    /// Records on the lease what became of this process, as people look for it.
    pub(crate) fn tell(&self, recorder: &Recorder, what: &str) {
        let key = Key::namespaced(&self.namespace, &self.options.name);
        let mut regarding = key.object_reference(&Kind::of::<LeaseObject>().api_resource());
        regarding.uid = self.observed.as_ref().and_then(|seen| seen.object.metadata.uid.clone());
        let note = format!("{} {what}", self.options.identity);
        recorder.publish(EventType::Normal, regarding, "LeaderElection", "LeaderElection", note);
    }

    /// Waits until this process holds the lease.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; the lease may then be held until it runs out.
    pub async fn acquire(&mut self) {
        tracing::info!(lock = self.label(), "Attempting to acquire leader lease...");
        let mut told = String::new();
        loop {
            let deadline = self.clock.deadline(self.options.renew_deadline);
            match self.try_once().await {
                Ok(true) => {
                    self.renewed(deadline);
                    self.led = true;
                    tracing::info!(lock = self.label(), "Successfully acquired lease");
                    return;
                }
                Ok(false) => told.clear(),
                Err(error) if error.chain() == told => {}
                Err(error) => {
                    told = error.chain();
                    tracing::warn!(
                        lock = self.label(),
                        error = told,
                        "lease cannot be read or taken, trying again"
                    );
                }
            }
            tokio::time::sleep(self.jittered()).await;
        }
    }

    /// Renews until that fails for the whole renew deadline, then returns.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; the fence then closes by itself after the renew deadline.
    pub async fn hold(&mut self) {
        let mut deadline = clock::after(self.options.renew_deadline);
        loop {
            let next = clock::after(self.options.retry_period);
            tokio::time::sleep_until(next.min(deadline)).await;
            if Instant::now() >= deadline {
                tracing::error!(lock = self.label(), "leader election lost: not renewed in time");
                break;
            }
            let renewed = self.clock.deadline(self.options.renew_deadline);
            match tokio::time::timeout_at(deadline, self.try_once()).await {
                Ok(Ok(true)) => {
                    deadline = renewed.instant();
                    self.renewed(renewed);
                }
                Ok(Ok(false)) => {
                    // Somebody else holds it: waiting for the deadline would be two leaders.
                    tracing::error!(lock = self.label(), "leader election lost: another holder");
                    break;
                }
                Ok(Err(error)) => {
                    tracing::warn!(lock = self.label(), error = error.chain(), "lease not renewed");
                }
                Err(_) => {}
            }
        }
        self.lost();
    }

    /// Gives the lease back, so that the next process need not wait; call when nothing runs.
    ///
    /// # Errors
    ///
    /// Fails if the server does not take it; the lease runs out then.
    pub async fn release(&mut self) -> Result<()> {
        let held = self.status.borrow().held;
        self.lost();
        let observed = self.observed.clone().filter(|_| held && self.options.release);
        let Some(Observed { mut object, .. }) = observed else { return Ok(()) };
        let mut tries = 1;
        loop {
            match self.api.update(&self.released(object)).await {
                // A renewal whose answer was not waited for, or somebody else: look again.
                Err(error) if error.is_conflict() && tries < RELEASE_TRIES_MAX => tries += 1,
                Err(error) => return Err(error),
                Ok(_) => break,
            }
            let key = Key::namespaced(&self.namespace, &self.options.name);
            let Some(found) = self.api.get(&key).await? else { return Ok(()) };
            self.observe((*found).clone());
            if self.holder() != self.options.identity {
                return Ok(());
            }
            object = (*found).clone();
        }
        tracing::info!(lock = self.label(), "lease released");
        Ok(())
    }

    /// The record of a lease that nobody holds.
    fn released(&self, mut object: LeaseObject) -> LeaseObject {
        let now = self.clock.micro_time();
        if let Some(spec) = object.spec.as_mut() {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(now.clone());
            spec.acquire_time = Some(now);
        }
        object
    }

    /// One try to get or keep the lease.
    async fn try_once(&mut self) -> Result<bool> {
        // A holder need not look first: its version of the record is the newest unless it lost.
        if self.status.borrow().held
            && let Some(observed) = self.observed.clone()
        {
            let wanted = self.record(Some(&observed.object), true);
            match self.api.update(&wanted).await {
                Ok(stored) => {
                    self.observe(stored);
                    return Ok(true);
                }
                // Somebody wrote or deleted it: look again.
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let key = Key::namespaced(&self.namespace, &self.options.name);
        let Some(found) = self.api.get(&key).await? else {
            let stored = self.api.create(&self.record(None, false)).await?;
            self.observe(stored);
            return Ok(true);
        };
        self.observe((*found).clone());
        let mine = self.holder() == self.options.identity;
        if !mine && !self.holder().is_empty() && !self.expired() {
            return Ok(false);
        }
        let stored = self.api.update(&self.record(Some(&found), mine)).await?;
        self.observe(stored);
        Ok(true)
    }

    /// Notes the record; the clock of the holder's life starts anew only if it changed.
    fn observe(&mut self, object: LeaseObject) {
        let changed = self.observed.as_ref().is_none_or(|seen| seen.object.spec != object.spec);
        let at = match &self.observed {
            Some(seen) if !changed => seen.at,
            _ => Instant::now(),
        };
        self.observed = Some(Observed { object, at });
        let holder = self.holder().to_string();
        let transitions = self.spec().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        self.status.send_if_modified(|status| {
            let news = status.holder != holder || status.transitions != transitions;
            (status.holder, status.transitions) = (holder.clone(), transitions);
            news
        });
    }

    fn spec(&self) -> Option<&LeaseSpec> {
        self.observed.as_ref().and_then(|seen| seen.object.spec.as_ref())
    }

    fn holder(&self) -> &str {
        self.spec().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
    }

    /// No change of the record was seen here for as long as its holder asked for.
    fn expired(&self) -> bool {
        let seconds = self.spec().and_then(|spec| spec.lease_duration_seconds);
        let duration = seconds
            .and_then(|s| u64::try_from(s).ok())
            .map_or(self.options.duration, Duration::from_secs);
        self.observed.as_ref().is_none_or(|seen| seen.at.elapsed() > duration)
    }

    /// The record this process wants, starting from the one it saw.
    fn record(&self, seen: Option<&LeaseObject>, mine: bool) -> LeaseObject {
        let now = self.clock.micro_time();
        let before = seen.and_then(|object| object.spec.clone()).unwrap_or_default();
        let transitions = before.lease_transitions.unwrap_or_default();
        let transitions = if mine || seen.is_none() { transitions } else { transitions + 1 };
        let acquired = before.acquire_time.clone().filter(|_| mine);
        // Never less than what the fence of this process counts on.
        let duration = self.options.duration;
        let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        LeaseObject {
            metadata: seen.map_or_else(
                || ObjectMeta {
                    name: Some(self.options.name.clone()),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectMeta::default()
                },
                |object| object.metadata.clone(),
            ),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.options.identity.clone()),
                lease_duration_seconds: Some(seconds),
                acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
                renew_time: Some(now),
                lease_transitions: Some(transitions),
                ..before
            }),
        }
    }

    fn renewed(&self, deadline: Deadline) {
        self.fence.open_until(&self.label(), deadline);
        self.client.metrics().leader(&self.options.name, true);
        self.status.send_if_modified(|status| !std::mem::replace(&mut status.held, true));
    }

    fn lost(&self) {
        self.fence.close(&self.label());
        self.client.metrics().leader(&self.options.name, false);
        self.status.send_if_modified(|status| std::mem::take(&mut status.held));
    }

    /// The retry period and up to 1.2 times more, spread by identity so that two do not collide.
    fn jittered(&mut self) -> Duration {
        self.jitter = self.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let fraction = (self.jitter >> 40) as f64 / f64::from(1 << 24);
        self.options.retry_period.mul_f64(1.0 + 1.2 * fraction)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("lease", &self.label())
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}
