//! The delta queue between the reflectors and the store.
//!
//! Deltas keep the order of the wire, across keys and kinds of delta: a bookmark or the end of
//! a relist is applied after everything that came before it. The queue is bounded; a reflector
//! that is faster than the store waits, and with it the server.
//!
//! **Invariant:** what one reflector puts in comes out in the same order.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Entry, Key, SyncState};

/// Deltas taken at once, so that the store is published once for all of them.
const BATCH_MAX: usize = 1000;

/// One step of a reflector.
#[derive(Clone, Debug)]
pub enum Delta {
    /// A list of the whole scope begins; what an earlier one left unfinished is void.
    Begin,
    /// An object of that list.
    Listed(Arc<Entry>),
    /// An object that was deleted while that list was streamed.
    Unlisted(Key),
    /// The list is complete: what it did not name is gone.
    Replace {
        /// The version the list stands for.
        version: u64,
    },
    /// An object was created or changed.
    Upsert(Arc<Entry>),
    /// An object was deleted; the entry is its last state.
    Delete(Arc<Entry>),
    /// Everything up to this version was sent.
    Bookmark {
        /// That version.
        version: u64,
    },
    /// The watch is at fault; the state says how.
    Broken(SyncState),
    /// The watch works again after a fault.
    Resumed,
}

/// The end a reflector writes to.
#[derive(Clone)]
pub(super) struct FifoSender {
    source: usize,
    /// Only metadata are asked for.
    pub(super) narrow: bool,
    sender: mpsc::Sender<Sent>,
}

/// A delta and where it comes from.
pub(super) struct Sent {
    pub(super) source: usize,
    pub(super) narrow: bool,
    pub(super) delta: Delta,
}

/// The end the store is fed from.
pub(super) struct FifoReceiver {
    receiver: mpsc::Receiver<Sent>,
}

/// Makes a queue that holds so many deltas, with one writing end per source.
pub(super) fn fifo(capacity: usize, sources: usize) -> (Vec<FifoSender>, FifoReceiver) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    let one = |source| FifoSender { source, narrow: false, sender: sender.clone() };
    let senders = (0..sources).map(one);
    (senders.collect(), FifoReceiver { receiver })
}

// === impl FifoSender ===

impl FifoSender {
    /// Puts a delta in, waiting for room; `false` once nobody reads any more.
    pub(super) async fn push(&self, delta: Delta) -> bool {
        let sent = Sent { source: self.source, narrow: self.narrow, delta };
        self.sender.send(sent).await.is_ok()
    }
}

// === impl FifoReceiver ===

impl FifoReceiver {
    /// Waits for deltas and takes what is there, up to a batch; empty once all writers are gone.
    pub(super) async fn pop(&mut self) -> Vec<Sent> {
        let mut batch = Vec::new();
        self.receiver.recv_many(&mut batch, BATCH_MAX).await;
        batch
    }
}
