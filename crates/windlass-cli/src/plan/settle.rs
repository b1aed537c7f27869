//! Rest: nothing of the copy changes any more.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use windlass_apiserver::ApiServer;

use crate::failure::Failure;
use crate::process::Process;

/// How long nothing may change.
const QUIET: Duration = Duration::from_millis(1_500);
/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// Waits for a server to come to rest.
pub struct Settle<'a> {
    server: &'a ApiServer,
    timeout: Duration,
}

// === impl Settle ===

impl<'a> Settle<'a> {
    pub fn new(server: &'a ApiServer, timeout: Duration) -> Self {
        Self { server, timeout }
    }

    /// Waits until nothing has changed for a while, leases and events left out.
    ///
    /// # Errors
    ///
    /// If something changes until the time is over, or if the operator ends by itself.
    pub async fn rest(
        &self,
        mut operator: Option<&mut Process>,
        what: &str,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + self.timeout;
        let mut seen = self.server.revision();
        let mut moved = Instant::now();
        let mut last = String::new();
        loop {
            match &mut operator {
                None => sleep(INTERVAL).await,
                Some(operator) => {
                    tokio::select! {
                        biased;
                        ended = operator.wait() => {
                            let how = ended.map_or_else(|e| e.to_string(), |s| s.to_string());
                            return Err(Failure::other(format!("{what} ended by itself: {how}")));
                        }
                        () = sleep(INTERVAL) => {}
                    }
                }
            }
            let changes = self.server.changes_since(seen).unwrap_or_default();
            let mut matters = changes.iter().filter(|(resource, _)| {
                !matches!(&*resource.plural, "events" | "leases" | "endpointslices")
            });
            if let Some((resource, event)) = matters.next_back() {
                last = format!("{} {}", resource.plural, event.entry.key.name);
                moved = Instant::now();
            }
            seen = changes.last().map_or(seen, |(_, event)| event.revision);
            if moved.elapsed() >= QUIET {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let time = self.timeout.as_secs();
                return Err(Failure::other(format!(
                    "{what} did not come to rest within {time} s; the last change was to {last}"
                )));
            }
        }
    }
}
