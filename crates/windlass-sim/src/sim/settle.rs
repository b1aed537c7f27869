//! Rest: nothing moves any more.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use windlass::Result;

use super::{Mode, Sim};
use crate::kernel::{Actor, Life};
use crate::trace::What;

/// How long nothing may happen before the cluster is at rest between two steps.
pub(super) const QUIET: Duration = Duration::from_secs(20);
/// How long a rest is waited for.
pub(super) const LIMIT: Duration = Duration::from_secs(600);

/// How a wait for rest ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Settled,
    /// A fault lets the user act now.
    Interrupted,
    /// What still moves.
    Restless(String),
}

impl Sim {
    /// Waits until nothing moves any more.
    ///
    /// The cluster is at rest if for twenty seconds of virtual time no object has changed, no
    /// request is under way, no event was delivered and no reconcile has failed. After ten minutes
    /// the scenario continues, and the oracle `Quiet` reports what still moves.
    ///
    /// # Errors
    ///
    /// Fails if the cluster cannot be started.
    pub async fn settle(&mut self, label: &str) -> Result<()> {
        self.settles += 1;
        if self.rejoined.is_some() || self.started().is_some_and(|m| self.settles <= m.settles) {
            return Ok(()); // as in the reference
        }
        self.begin().await?;
        if matches!(self.mode, Mode::FromZero(_)) {
            return Ok(());
        }
        let rest = self.rest(QUIET, LIMIT).await?;
        let what = match rest {
            Rest::Settled => What::Settled(label.to_owned()),
            Rest::Interrupted => return Ok(()),
            Rest::Restless(why) => What::Restless(format!("{label}: {why}")),
        };
        let settled = matches!(what, What::Settled(_));
        self.kernel()?.record(&Actor::user(), what);
        if settled { self.at_rest() } else { Ok(()) }
    }

    pub(super) async fn rest(&mut self, quiet: Duration, limit: Duration) -> Result<Rest> {
        let deadline = Instant::now() + limit;
        let mut mark = self.mark()?;
        loop {
            let kernel = self.kernel()?.clone();
            let interrupted = async {
                loop {
                    let changed = kernel.changed.notified();
                    if kernel.state.lock().interrupted {
                        return;
                    }
                    changed.await;
                }
            };
            tokio::select! {
                biased;
                () = interrupted => {
                    kernel.state.lock().interrupted = false;
                    return Ok(Rest::Interrupted);
                }
                () = sleep(quiet) => {}
            }
            let (busy, starting) = {
                let state = kernel.state.lock();
                let cut_off = |life: &Life| life.paused_until.is_some_and(|t| t > Instant::now());
                let busy = state.in_flight > 0 || state.replicas.iter().any(cut_off);
                (busy, state.starting)
            };
            let now = self.mark()?;
            if now == mark && !busy && starting == 0 {
                return Ok(Rest::Settled);
            }
            if Instant::now() >= deadline {
                return Ok(Rest::Restless(self.movement(quiet)));
            }
            mark = now;
        }
    }

    /// A number that changes if something moves.
    fn mark(&mut self) -> Result<(u64, u64)> {
        let activity = self.kernel()?.state.lock().activity;
        let live = self.live.as_mut().expect("the kernel is alive");
        let (revision, count) = live.looked;
        let changes = live.kernel.server.changes_since(revision).unwrap_or_default();
        let state = live.kernel.state.lock();
        let matters = changes.iter().filter(|(resource, _)| {
            let resource = crate::site::resource(&resource.group, &resource.plural);
            !crate::site::is_background(&resource) && !state.expected.contains(&resource)
        });
        let count = count + matters.count() as u64;
        drop(state);
        let newest = changes.last().map_or(revision, |(_, event)| event.revision);
        live.looked = (newest, count);
        Ok((activity, count))
    }

    /// What moved within the last time, in words.
    fn movement(&self, within: Duration) -> String {
        let Ok(kernel) = self.kernel() else { return String::new() };
        let since = kernel.now().saturating_sub(within);
        let state = kernel.state.lock();
        let recent = state.trace.iter().filter(|record| record.at >= since);
        let mut counts = std::collections::BTreeMap::<String, u32>::new();
        for record in recent {
            let words = match &record.what {
                What::Request { site, .. } if site.writes() && !site.is_background() => {
                    site.words()
                }
                What::Reconciled { error: Some(error), .. } => error.clone(),
                What::Ended(why) => why.clone(),
                _ => continue,
            };
            *counts.entry(words).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().map(|(words, n)| (n, words)).collect();
        counts.sort_by(|a, b| b.cmp(a));
        let shown = counts.iter().take(3).map(|(n, words)| format!("{n} × {words}"));
        let shown: Vec<_> = shown.collect();
        match shown.is_empty() {
            true => format!("{} requests are under way", state.in_flight),
            false => shown.join(", "),
        }
    }
}
