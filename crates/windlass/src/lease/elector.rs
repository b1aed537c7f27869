//! One process asking for one lease.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::core::ObjectMeta;
use tokio::time::Instant;

use super::{LeaseOptions, LeaseStatus};
use crate::cache::Key;
use crate::client::{Api, Client};
use crate::clock::{self, Clock, Deadline};
use crate::error::Result;
use crate::events::{EventType, Recorder};
use crate::fence::Fence;
use crate::kind::Kind;
use crate::ordered_watch;

/// How often the release is tried if the Lease has changed meanwhile.
const RELEASE_TRIES_MAX: u32 = 4;

/// Acquires, renews and releases a lease, and opens and closes the fence of the client accordingly.
pub(crate) struct Elector {
    options: LeaseOptions,
    identity: String,
    namespace: String,
    api: Api<Lease>,
    clock: Clock,
    fence: Fence,
    client: Client,
    observed: Option<Observed>,
    status: Arc<ordered_watch::Sender<LeaseStatus>>,
    /// This process has held the lease.
    has_led: bool,
    jitter: u64,
}

/// The Lease as last read, and when it last *changed* by the local clock.
#[derive(Debug, Clone)]
struct Observed {
    object: Lease,
    at: Instant,
}

// === impl Elector ===

impl Elector {
    /// Asks for a lease with `client`, whose fence is closed until the lease is held, as `identity`
    /// unless the options have one.
    ///
    /// # Errors
    ///
    /// Fails if the durations leave no margin.
    pub(crate) fn new(
        client: &Client,
        clock: Clock,
        options: LeaseOptions,
        identity: String,
    ) -> Result<Self> {
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
            status: Arc::new(ordered_watch::Sender::new(LeaseStatus::default())),
            has_led: false,
            jitter: identity.bytes().fold(7, |h, b| h * 31 % 1_000_003 + u64::from(b)),
            identity,
            options,
        };
        lease.fence.close(&lease.label());
        lease.client.metrics().leader(&lease.options.name, false);
        Ok(lease)
    }

    /// The current status, and its changes.
    pub(crate) fn status(&self) -> ordered_watch::Receiver<LeaseStatus> {
        self.status.subscribe()
    }

    /// `namespace/name`.
    pub(crate) fn label(&self) -> String {
        format!("{}/{}", self.namespace, self.options.name)
    }

    /// Returns `true` if this process has held the lease.
    pub(crate) fn has_led(&self) -> bool {
        self.has_led
    }

    /// Publishes an event about the lease, such as `<identity> became leader`.
    pub(crate) fn publish_event(&self, recorder: &Recorder, what: &str) {
        let key = Key::namespaced(&self.namespace, &self.options.name);
        let mut regarding = key.object_reference(&Kind::of::<Lease>());
        regarding.uid = self.observed.as_ref().and_then(|seen| seen.object.metadata.uid.clone());
        let note = format!("{} {what}", self.identity);
        recorder.publish(EventType::Normal, regarding, "LeaderElection", "LeaderElection", note);
    }

    /// Waits until this process holds the lease.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; the lease may then be held until it expires.
    pub(crate) async fn acquire(&mut self) {
        tracing::info!(lock = self.label(), "Attempting to acquire leader lease...");
        let mut logged = String::new();
        loop {
            let deadline = self.clock.deadline(self.options.renew_deadline);
            match self.try_once().await {
                Ok(true) => {
                    self.renewed(deadline);
                    self.has_led = true;
                    tracing::info!(lock = self.label(), "Successfully acquired lease");
                    return;
                }
                Ok(false) => logged.clear(),
                Err(error) if error.chain() == logged => {}
                Err(error) => {
                    logged = error.chain();
                    tracing::warn!(
                        lock = self.label(),
                        error = logged,
                        "lease cannot be read or taken, trying again"
                    );
                }
            }
            tokio::time::sleep(self.jittered()).await;
        }
    }

    /// Renews the lease, and returns when that has failed for the whole renew deadline.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; the fence then closes by itself after the renew deadline.
    pub(crate) async fn hold(&mut self) {
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
                    // Waiting for the deadline would mean two leaders.
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

    /// Releases the lease, so that the next process does not have to wait. Nothing that the lease
    /// guards may be running.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses; the lease expires then.
    pub(crate) async fn release(&mut self) -> Result<()> {
        let held = self.status.borrow().held;
        self.lost();
        let observed = self.observed.clone().filter(|_| held);
        let Some(Observed { mut object, .. }) = observed else { return Ok(()) };
        let mut tries = 1;
        loop {
            match self.api.update(&self.released(object)).await {
                // Changed by a renewal whose answer was not awaited, or by another process.
                Err(error) if error.is_conflict() && tries < RELEASE_TRIES_MAX => tries += 1,
                Err(error) => return Err(error),
                Ok(_) => break,
            }
            let key = Key::namespaced(&self.namespace, &self.options.name);
            let Some(found) = self.api.get(&key).await? else { return Ok(()) };
            self.observe((*found).clone());
            if self.holder() != self.identity {
                return Ok(());
            }
            object = (*found).clone();
        }
        tracing::info!(lock = self.label(), "lease released");
        Ok(())
    }

    /// The Lease with no holder.
    fn released(&self, mut object: Lease) -> Lease {
        let now = self.clock.micro_time();
        if let Some(spec) = object.spec.as_mut() {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(now.clone());
            spec.acquire_time = Some(now);
        }
        object
    }

    /// Tries once to acquire or renew the lease; returns `false` if another process holds it.
    async fn try_once(&mut self) -> Result<bool> {
        // The holder does not have to read first: its version is the newest unless it lost the lease.
        if self.status.borrow().held
            && let Some(observed) = self.observed.clone()
        {
            let wanted = self.record(Some(&observed.object), true);
            match self.api.update(&wanted).await {
                Ok(stored) => {
                    self.observe(stored);
                    return Ok(true);
                }
                // Somebody changed or deleted it.
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
        let mine = self.holder() == self.identity;
        if !mine && !self.holder().is_empty() && !self.expired() {
            return Ok(false);
        }
        let stored = self.api.update(&self.record(Some(&found), mine)).await?;
        self.observe(stored);
        Ok(true)
    }

    /// Remembers the Lease; its time to expire starts again only if it has changed.
    fn observe(&mut self, object: Lease) {
        let changed = self.observed.as_ref().is_none_or(|seen| seen.object.spec != object.spec);
        let at = match &self.observed {
            Some(seen) if !changed => seen.at,
            _ => Instant::now(),
        };
        self.observed = Some(Observed { object, at });
        let holder = self.holder().to_string();
        let transitions = self.spec().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        self.status.send_if_modified(|status| {
            let changed = status.holder != holder || status.transitions != transitions;
            (status.holder, status.transitions) = (holder.clone(), transitions);
            changed
        });
    }

    fn spec(&self) -> Option<&LeaseSpec> {
        self.observed.as_ref().and_then(|seen| seen.object.spec.as_ref())
    }

    fn holder(&self) -> &str {
        self.spec().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
    }

    /// Returns `true` if the Lease has not changed for as long as its holder asked for.
    fn expired(&self) -> bool {
        let seconds = self.spec().and_then(|spec| spec.lease_duration_seconds);
        let duration = seconds
            .and_then(|s| u64::try_from(s).ok())
            .map_or(self.options.duration, Duration::from_secs);
        self.observed.as_ref().is_none_or(|seen| seen.at.elapsed() > duration)
    }

    /// The Lease that this process wants to write, based on the one it has read.
    fn record(&self, seen: Option<&Lease>, mine: bool) -> Lease {
        let now = self.clock.micro_time();
        let before = seen.and_then(|object| object.spec.clone()).unwrap_or_default();
        let transitions = before.lease_transitions.unwrap_or_default();
        let transitions = if mine || seen.is_none() { transitions } else { transitions + 1 };
        let acquired = before.acquire_time.clone().filter(|_| mine);
        // Rounded up: never less than what this process relies on.
        let duration = self.options.duration;
        let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        Lease {
            metadata: seen.map_or_else(
                || ObjectMeta {
                    name: Some(self.options.name.clone()),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectMeta::default()
                },
                |object| object.metadata.clone(),
            ),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
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

    /// Between 1 and 2.2 retry periods, different for every identity.
    fn jittered(&mut self) -> Duration {
        self.jitter = self.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let fraction = (self.jitter >> 40) as f64 / f64::from(1 << 24);
        self.options.retry_period.mul_f64(1.0 + 1.2 * fraction)
    }
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("lease", &self.label())
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}
