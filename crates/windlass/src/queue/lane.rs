//! The ready keys of one priority: first in, first out, or in turns of tenants.

use std::collections::{BTreeMap, VecDeque};

/// The place of a ready key.
pub(super) struct ReadyKey {
    /// The slot of the key in the table of entries.
    pub(super) slot: u32,
    pub(super) seq: u64,
    /// When it was queued, in nanoseconds since the epoch of the queue.
    pub(super) since: u64,
}

/// The ready keys of one priority. Keys that have moved elsewhere are outdated, and stay until they
/// are passed over.
#[derive(Default)]
pub(super) struct Lane {
    /// The keys that belong to no tenant.
    plain: VecDeque<ReadyKey>,
    tenants: BTreeMap<u64, VecDeque<ReadyKey>>,
    /// The tenants that have keys, in the order of their turns.
    turns: VecDeque<u64>,
    len: usize,
}

// === impl Lane ===

impl Lane {
    /// Returns the number of keys, outdated ones included.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, tenant: Option<u64>, key: ReadyKey) {
        self.len += 1;
        let Some(tenant) = tenant else { return self.plain.push_back(key) };
        let keys = self.tenants.entry(tenant).or_default();
        if keys.is_empty() {
            self.turns.push_back(tenant);
        }
        keys.push_back(key);
    }

    /// Returns the key that is next.
    pub(super) fn first(&mut self, live: impl Fn(u32, u64) -> bool) -> Option<&ReadyKey> {
        self.skip_outdated(live);
        match self.turns.front() {
            Some(tenant) => self.tenants.get(tenant)?.front(),
            None => self.plain.front(),
        }
    }

    /// Takes the key that is next; its tenant has to wait until all others had a turn.
    pub(super) fn pop(&mut self, live: impl Fn(u32, u64) -> bool) -> Option<ReadyKey> {
        self.skip_outdated(live);
        let Some(tenant) = self.turns.pop_front() else {
            self.len -= usize::from(!self.plain.is_empty());
            return self.plain.pop_front();
        };
        let keys = self.tenants.get_mut(&tenant)?;
        let first = keys.pop_front();
        self.len -= usize::from(first.is_some());
        match keys.is_empty() {
            true => drop(self.tenants.remove(&tenant)),
            false => self.turns.push_back(tenant),
        }
        first
    }

    /// Removes keys that have moved elsewhere from the front, which costs nobody a turn.
    fn skip_outdated(&mut self, live: impl Fn(u32, u64) -> bool) {
        let outdated =
            |keys: &VecDeque<ReadyKey>| keys.front().is_some_and(|key| !live(key.slot, key.seq));
        while outdated(&self.plain) {
            self.plain.pop_front();
            self.len -= 1;
        }
        while let Some(tenant) = self.turns.front().copied() {
            let Some(keys) = self.tenants.get_mut(&tenant) else { return };
            while outdated(keys) {
                keys.pop_front();
                self.len -= 1;
            }
            if !keys.is_empty() {
                return;
            }
            self.tenants.remove(&tenant);
            self.turns.pop_front();
        }
    }

    /// Removes all outdated keys.
    pub(super) fn retain(&mut self, live: impl Fn(u32, u64) -> bool) {
        self.plain.retain(|key| live(key.slot, key.seq));
        for keys in self.tenants.values_mut() {
            keys.retain(|key| live(key.slot, key.seq));
        }
        self.tenants.retain(|_, keys| !keys.is_empty());
        let tenants = &self.tenants;
        self.turns.retain(|tenant| tenants.contains_key(tenant));
        self.len = self.plain.len() + self.tenants.values().map(VecDeque::len).sum::<usize>();
    }

    pub(super) fn clear(&mut self) {
        self.plain.clear();
        self.tenants.clear();
        self.turns.clear();
        self.len = 0;
    }
}
