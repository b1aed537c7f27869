//! Connections of clients that have not authenticated: there may be few of them, and each may be idle for a
//! short time only.
//!
//! A connection belongs to a stranger until its peer has shown a certificate, or has sent a request
//! whose answer is [`Recognized`].
//!
//! **Invariant:** what strangers keep open is bounded. When there are too many, the one that has
//! been idle for longest makes room, so that no stranger can keep others out.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The mark of an answer to a client that has authenticated, or may do more than everybody.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recognized;

/// The idle connections of strangers.
pub(super) struct Strangers {
    most: usize,
    timeout: Duration,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    next: u64,
    /// By number: the oldest connection is the first.
    connections: BTreeMap<u64, (Instant, CancellationToken)>,
}

/// The peer of one connection, and whether it has authenticated.
pub(super) struct Peer {
    strangers: Arc<Strangers>,
    state: Mutex<State>,
    close: CancellationToken,
}

#[derive(Default)]
struct State {
    recognized: bool,
    /// How many requests wait for the beginning of their answer.
    asking: usize,
    /// The number among the idle connections of strangers.
    idle: Option<u64>,
}

/// A request of a peer that waits for the beginning of its answer.
pub(super) struct Asking {
    peer: Arc<Peer>,
}

// === impl Strangers ===

impl Strangers {
    pub(super) fn new(most: usize, timeout: Duration) -> Arc<Self> {
        Arc::new(Self { most, timeout, idle: Mutex::default() })
    }

    /// Adds a new connection; the one that has been idle for longest is closed if there are too
    /// many.
    pub(super) fn enter(self: &Arc<Self>) -> Arc<Peer> {
        let close = CancellationToken::new();
        let state = State { idle: Some(self.add(close.clone())), ..State::default() };
        Arc::new(Peer { strangers: self.clone(), state: Mutex::new(state), close })
    }

    /// Closes connections that have been idle for too long.
    pub(super) async fn close_idle(&self) -> Infallible {
        loop {
            let now = Instant::now();
            let wake = loop {
                let mut idle = self.idle.lock();
                match idle.connections.first_entry() {
                    None => break now + self.timeout,
                    Some(oldest) if oldest.get().0 + self.timeout > now => {
                        break oldest.get().0 + self.timeout;
                    }
                    Some(oldest) => oldest.remove().1.cancel(),
                }
            };
            sleep_until(wake).await;
        }
    }

    fn add(&self, close: CancellationToken) -> u64 {
        let mut idle = self.idle.lock();
        idle.next += 1;
        let number = idle.next;
        idle.connections.insert(number, (Instant::now(), close));
        while idle.connections.len() > self.most {
            let Some((_, (_, oldest))) = idle.connections.pop_first() else { break };
            oldest.cancel();
        }
        number
    }

    fn remove(&self, number: u64) {
        self.idle.lock().connections.remove(&number);
    }
}

// === impl Peer ===

impl Peer {
    /// Completes when the connection of a stranger has to be closed.
    pub(super) fn closed(&self) -> WaitForCancellationFutureOwned {
        self.close.clone().cancelled_owned()
    }

    /// Records that the peer has authenticated.
    pub(super) fn recognize(&self) {
        let mut state = self.state.lock();
        state.recognized = true;
        if let Some(number) = state.idle.take() {
            self.strangers.remove(number);
        }
    }

    /// Records that a request has begun. The connection is not idle until its answer begins.
    pub(super) fn ask(self: &Arc<Self>) -> Asking {
        let mut state = self.state.lock();
        state.asking += 1;
        if let Some(number) = state.idle.take() {
            self.strangers.remove(number);
        }
        Asking { peer: self.clone() }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(number) = self.state.get_mut().idle.take() {
            self.strangers.remove(number);
        }
    }
}

// === impl Asking ===

impl Asking {
    /// Records that the peer has authenticated.
    pub(super) fn recognize(&self) {
        self.peer.recognize();
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.peer.state.lock();
        state.asking -= 1;
        if state.asking == 0 && !state.recognized {
            state.idle = Some(self.peer.strangers.add(self.peer.close.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn open(peers: &[&Arc<Peer>]) -> Vec<bool> {
        peers.iter().map(|peer| !peer.close.is_cancelled()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_stranger_too_many_closes_the_one_that_was_idle_for_longest() {
        let strangers = Strangers::new(2, TIMEOUT);
        let (first, second) = (strangers.enter(), strangers.enter());
        drop(first.ask());
        let third = strangers.enter();
        assert_eq!(open(&[&first, &second, &third]), [true, false, true]);
        drop(third);
        let fourth = strangers.enter();
        assert_eq!(open(&[&first, &fourth]), [true, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_are_recognized_or_being_answered_are_not_closed() {
        let strangers = Strangers::new(1, TIMEOUT);
        let (known, busy) = (strangers.enter(), strangers.enter());
        // The first one has made room for the second one already.
        assert_eq!(open(&[&known, &busy]), [false, true]);
        let known = strangers.enter();
        known.ask().recognize();
        let busy = strangers.enter();
        let asking = busy.ask();
        let others: Vec<_> = (0..5).map(|_| strangers.enter()).collect();
        let closing = strangers.close_idle();
        assert!(tokio::time::timeout(TIMEOUT * 2, closing).await.is_err());
        assert_eq!(open(&[&known, &busy]), [true, true]);
        assert!(others.iter().all(|peer| peer.close.is_cancelled()));
        drop(asking);
        assert!(tokio::time::timeout(TIMEOUT * 2, strangers.close_idle()).await.is_err());
        assert_eq!(open(&[&known, &busy]), [true, false]);
        assert!(strangers.idle.lock().connections.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_is_closed_when_its_time_is_over() {
        let strangers = Strangers::new(10, TIMEOUT);
        let closing = tokio::spawn({
            let strangers = strangers.clone();
            async move { strangers.close_idle().await }
        });
        let begin = Instant::now();
        let first = strangers.enter();
        tokio::time::sleep(Duration::from_secs(4)).await;
        let second = strangers.enter();
        first.closed().await;
        assert_eq!(begin.elapsed(), TIMEOUT);
        second.closed().await;
        assert_eq!(begin.elapsed(), TIMEOUT + Duration::from_secs(4));
        closing.abort();
    }
}
