//! Leader election with a Lease object.
//!
//! Whether another holder is gone is decided by how long *this* process has seen no change of the
//! Lease, never by comparing clocks: machines may disagree about the time by any amount, as long as
//! their clocks run at about the same rate. The margin between the renew deadline and the duration
//! is what slow clocks and slow requests may use up.
//!
//! A jump of the wall clock neither wins nor loses a lease, because both are decided by tokio's
//! time. But a jump may be the only trace of a suspension of the machine, so writes are also fenced
//! by wall time: a holder that wakes up writes nothing until it has renewed the lease. If another
//! process leads by then, the holder notices and stops.
//!
//! **Invariant:** writes of the leader are allowed only until the renew deadline after the moment
//! the last successful renewal *began*, by tokio's time and by wall time.
//! **Invariant:** the lease is released only when nothing that it guards is running.

mod elector;

use std::time::Duration;

use crate::error::{Error, Result};

pub(crate) use elector::Elector;

/// Which lease a manager asks for, and how long it waits.
///
/// The defaults are those of Kubernetes components: a duration of 15 s, a renew deadline of 10 s, a
/// retry period of 2 s.
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
/// let lease = LeaseOptions::new("my-operator").namespace("default");
/// let one = Manager::new(server.client()).replica("one").lease(lease.clone()).spawn()?;
/// tokio::time::sleep(Duration::from_secs(1)).await;
/// let two = Manager::new(server.client()).replica("two").lease(lease.clone()).spawn()?;
/// tokio::time::sleep(Duration::from_secs(60)).await;
/// assert!(two.lease().expect("configured").holder.starts_with("one_"));
///
/// one.stop().await?; // releases the lease, so that nobody has to wait until it expires
/// tokio::time::sleep(Duration::from_secs(5)).await;
/// assert!(two.lease().expect("configured").held);
/// two.stop().await?;
///
/// let seconds = Duration::from_secs;
/// let hasty = lease.timing(seconds(5), seconds(10), seconds(2));
/// let refused = Manager::new(server.client()).lease(hasty).spawn().unwrap_err();
/// let text = "lease my-operator: duration must be longer than renew_deadline";
/// assert_eq!(refused.to_string(), text);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LeaseOptions {
    namespace: Option<String>,
    name: String,
    duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// The state of a lease.
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
/// let handle = Manager::new(client).spawn()?;
/// let lease: Option<LeaseStatus> = handle.lease();
/// assert!(lease.is_none(), "this manager works without a lease");
/// handle.stop().await
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LeaseStatus {
    /// `true` if this process holds the lease and may write.
    pub held: bool,
    /// The identity of the holder, or an empty string.
    pub holder: String,
    /// How often the lease changed its holder.
    pub transitions: i32,
}

// === impl LeaseOptions ===

impl LeaseOptions {
    /// Asks for the lease `name`.
    pub fn new(name: &str) -> Self {
        Self {
            namespace: None,
            name: name.into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Sets the namespace of the lease; by default that of the client.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets how long other processes wait after the last renewal before they take the lease
    /// (`duration`), how long the holder tries to renew it before it stops (`renew_deadline`), and
    /// the pause between two attempts (`retry_period`).
    pub fn timing(
        mut self,
        duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Self {
        (self.duration, self.renew_deadline) = (duration, renew_deadline);
        self.retry_period = retry_period;
        self
    }

    fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(Error::Invalid(format!("lease {}: {text}", self.name)));
        if self.name.is_empty() {
            return Err(Error::Invalid("the name of a lease must not be empty".into()));
        }
        if self.duration < Duration::from_secs(1) || self.retry_period.is_zero() {
            return wrong("duration must be at least a second and retry_period more than zero");
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
