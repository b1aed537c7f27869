//! What led to the next reconcile of each key, beyond what the queue merges.
//!
//! **Invariant:** the table is bounded in keys and in the bytes it keeps alive. Beyond that, causes
//! are less exact; no reconcile depends on them.

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::cause::{Causes, Named, flag};
use crate::cache::{Change, Key};
use crate::kind::Kind;

/// Most keys whose causes are named.
const KEYS_MAX: usize = 4096;
/// Most bytes of former states of objects that are kept for their changed fields.
const BYTES_MAX: usize = 8 << 20;

/// The causes of keys that wait for a worker.
#[derive(Debug, Default)]
pub(super) struct CauseTable(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    keys: HashMap<Key, Named>,
    bytes: usize,
}

// === impl CauseTable ===

impl CauseTable {
    /// Notes that a change concerns a key.
    pub(super) fn changed(&self, key: &Key, kind: &Kind, change: &Change) {
        self.0.lock().edit(key, |named| named.add(kind, change));
    }

    /// Notes that the reconcile of a key failed.
    pub(super) fn failed(&self, key: &Key, error: &str) {
        self.0.lock().edit(key, |named| named.retry(error));
    }

    /// Takes the causes of a key that a worker has taken from the queue with these flags.
    pub(super) fn take(&self, key: &Key, flags: u8) -> Causes {
        let mut causes = Causes { flags, named: Named::default() };
        if flags & (flag::OBJECTS | flag::RETRY) != 0 {
            let mut waiting = self.0.lock();
            if let Some(named) = waiting.keys.remove(key) {
                waiting.bytes -= named.bytes();
                causes.named = named;
            }
        }
        causes
    }
}

// === impl Waiting ===

impl Waiting {
    fn edit(&mut self, key: &Key, edit: impl FnOnce(&mut Named)) {
        let room = self.keys.len() < KEYS_MAX;
        let named = match self.keys.get_mut(key) {
            Some(named) => named,
            None if room => self.keys.entry(key.clone()).or_default(),
            None => return,
        };
        self.bytes -= named.bytes();
        edit(named);
        if self.bytes + named.bytes() > BYTES_MAX {
            named.drop_states();
        }
        self.bytes += named.bytes();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn the_table_is_bounded_in_keys_and_bytes() {
        let table = CauseTable::default();
        let kind = Kind::of::<ConfigMap>();
        let large = |at: usize, fill: &str| {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(format!("m{at}"));
            map.data = Some([("k".into(), fill.repeat(10_000))].into());
            map
        };
        for at in 0..KEYS_MAX + 10 {
            let change = Change::between(Some(&large(at, "a")), Some(&large(at, "b")));
            table.changed(&Key::cluster(&format!("m{at}")), &kind, &change.expect("a change"));
        }
        let waiting = table.0.lock();
        assert_eq!(waiting.keys.len(), KEYS_MAX);
        assert!(waiting.bytes > BYTES_MAX / 2 && waiting.bytes <= BYTES_MAX, "{}", waiting.bytes);
        drop(waiting);
        for at in 0..KEYS_MAX {
            table.take(&Key::cluster(&format!("m{at}")), flag::OBJECTS);
        }
        let waiting = table.0.lock();
        assert_eq!((waiting.keys.len(), waiting.bytes), (0, 0));
    }
}
