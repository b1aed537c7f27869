//! The last step of a write: into the store, and the failures that shows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Call;
use crate::object;
use crate::status::Status;
use crate::store::{Change, Entry, Key, WriteError};

/// The most bytes a client of etcd sends at once.
const MESSAGE_BYTES_MAX: usize = 2 << 20;

impl Call {
    /// Writes to the store if the object's last write is still `expected`.
    ///
    /// An object that is too large is stored without its managed fields, as the real server does.
    pub(super) fn write(
        &self,
        key: &Key,
        expected: Option<u64>,
        change: Change,
    ) -> Result<Arc<Entry>, WriteError> {
        let written = self.write_whole(key, expected, change);
        if let Ok(entry) = &written {
            self.written.store(entry.revision, Ordering::Relaxed);
        }
        written
    }

    fn write_whole(
        &self,
        key: &Key,
        expected: Option<u64>,
        change: Change,
    ) -> Result<Arc<Entry>, WriteError> {
        let store = &self.server.store;
        let written = store.write(&self.storage, key, expected, change);
        let Err(WriteError::TooLarge(entry)) = &written else { return written };
        let mut object = entry.object();
        if object::meta_mut(&mut object).remove("managedFields").is_none() {
            return written;
        }
        let change = Change::Put { object, fields: entry.fields.clone() };
        store.write(&self.storage, key, expected, change)
    }
}

/// The answer to a write that the store refused, with the texts of etcd and its client.
pub(super) fn write_failure(error: &WriteError) -> Status {
    match error {
        WriteError::TooLarge(entry) if entry.body.len() > MESSAGE_BYTES_MAX => {
            let bytes = entry.body.len();
            Status::untyped(format!(
                "rpc error: code = ResourceExhausted desc = trying to send message larger than \
                 max ({bytes} vs. {MESSAGE_BYTES_MAX})"
            ))
        }
        WriteError::TooLarge(_) => Status::untyped("etcdserver: request is too large"),
        WriteError::Conflict | WriteError::Journal(_) => Status::internal(error),
    }
}
