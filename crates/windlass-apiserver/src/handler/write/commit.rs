//! The last step of a write: into the store, and what follows from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use serde_json::Value;

use super::super::Call;
use super::super::stored::Written;
use super::{Intent, Outcome, Write};
use crate::alloc::Allocation;
use crate::builtin::deletion;
use crate::object;
use crate::status::{Result, Status};
use crate::store::{Change, Entry, Key, WriteError};

/// The most bytes a client of etcd sends at once.
const MESSAGE_BYTES_MAX: usize = 2 << 20;

/// What is to be done in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// A new object is stored.
    Insert {
        /// Whether its name was generated.
        name_generated: bool,
    },
    /// The object replaces the stored one.
    Replace {
        /// Whether it is equal to the stored one.
        unchanged: bool,
    },
    /// The last thing that held a deleted object is gone, and the object with it.
    End,
    /// A deletion continues.
    Delete(deletion::Plan),
}

/// A write that has passed admission. It owns what it needs, so that it can outlive the request.
pub(super) struct Commit {
    pub call: Arc<Call>,
    pub key: Key,
    /// What is stored, and the same in the version of the request.
    pub old: Option<(Arc<Entry>, Value)>,
    pub object: Value,
    pub plan: Plan,
    pub allocation: Allocation,
}

/// Completes a future even if the caller is dropped.
///
/// Most writes do not wait for anything. One that does, for a conversion webhook, continues in a task
/// of its own.
pub(super) async fn complete<T: Send + 'static>(
    work: impl Future<Output = std::result::Result<T, Outcome>> + Send + 'static,
) -> std::result::Result<T, Outcome> {
    let mut work = Box::pin(work);
    match futures::poll!(work.as_mut()) {
        Poll::Ready(done) => done,
        Poll::Pending => {
            let done = tokio::spawn(work).await;
            done.unwrap_or_else(|error| Err(Status::internal(error).into()))
        }
    }
}

impl Write<'_> {
    /// Decides what is to be done in the store.
    pub(super) fn plan(&mut self) -> Result<Plan> {
        match (&self.intent, &self.old) {
            (Intent::Create(new), _) => {
                // Nothing is stored in a dry run, so it does not matter there.
                if !new.given_version.is_empty() && !self.dry_run {
                    let text = "resourceVersion should not be set on objects to be created";
                    return Err(Status::untyped(text));
                }
                Ok(Plan::Insert { name_generated: new.name_generated })
            }
            (Intent::Change { .. }, Some(old)) => {
                let unchanged = crate::merge::keep_times(&old.object, &mut self.new);
                let ends = self.call.ends(&old.object, &self.new);
                Ok(if ends { Plan::End } else { Plan::Replace { unchanged } })
            }
            _ => Ok(Plan::Delete(self.deletion.take().unwrap_or(deletion::Plan::Pending))),
        }
    }

    /// What a dry run answers with.
    pub(super) fn shown(&mut self, plan: Plan, mut object: Value) -> Result<Written> {
        let old = self.old.take().map(|old| old.object);
        Ok(match (plan, &self.intent) {
            (Plan::Insert { name_generated }, Intent::Create(new)) => {
                let key = self.target(&object);
                let call = self.call;
                if let Some(entry) = call.server.store.world().get(&call.storage, &key) {
                    return Err(call.exists(&entry, name_generated));
                }
                let metadata = object::meta_mut(&mut object);
                match new.given_version.as_str() {
                    "" => metadata.remove("resourceVersion"),
                    given => metadata.insert("resourceVersion".into(), given.into()),
                };
                Written::Shown(object)
            }
            (Plan::Replace { unchanged: true }, _) => Written::Shown(old.unwrap_or(object)),
            (Plan::Delete(deletion::Plan::Remove), _) => Written::Gone(object),
            _ => Written::Shown(object),
        })
    }
}

// === impl Commit ===

impl Commit {
    /// Stores the object in the storage's version, and keeps what was allocated for it.
    pub async fn run(self) -> std::result::Result<Written, Outcome> {
        let Self { call, key, old, object, plan, allocation } = self;
        let written = match old {
            None => call.insert(&key, object, plan).await.map(Written::Stored)?,
            Some((entry, old)) => call.overwrite(&entry, old, object, plan).await?,
        };
        if matches!(written, Written::Stored(_)) {
            allocation.commit();
        }
        Ok(written)
    }
}

impl Call {
    async fn insert(
        &self,
        key: &Key,
        object: Value,
        plan: Plan,
    ) -> std::result::Result<Arc<Entry>, Outcome> {
        let change = self.put(object).await?;
        match self.write(key, None, change) {
            Ok(entry) => {
                self.server.after_write(&self.resource, Some(&entry), None);
                Ok(entry)
            }
            Err(WriteError::Conflict) => {
                let name_generated = matches!(plan, Plan::Insert { name_generated: true });
                let there = self.server.store.world().get(&self.storage, key);
                Err(match there {
                    Some(entry) => self.exists(&entry, name_generated),
                    None => Status::already_exists(&self.resource.gr(), &key.name),
                }
                .into())
            }
            Err(error) => Err(write_failure(&error).into()),
        }
    }

    async fn overwrite(
        &self,
        entry: &Arc<Entry>,
        old: Value,
        mut object: Value,
        plan: Plan,
    ) -> std::result::Result<Written, Outcome> {
        Ok(match plan {
            Plan::Delete(deletion::Plan::Pending) => Written::Shown(old),
            Plan::Delete(deletion::Plan::Mark) if object == old => Written::Stored(entry.clone()),
            Plan::Delete(deletion::Plan::Remove) => {
                self.commit(entry, Change::Delete)?;
                Written::Gone(old)
            }
            Plan::End => {
                let gone = self.commit(entry, Change::Delete)?;
                let version = gone.revision.to_string();
                object::meta_mut(&mut object).insert("resourceVersion".into(), version.into());
                Written::Gone(object)
            }
            Plan::Delete(deletion::Plan::MarkAndRemove) => {
                let marked = match object == old {
                    true => entry.clone(),
                    false => self.commit(entry, self.put(object).await?)?,
                };
                let object = self.object_of(&marked).await?;
                self.commit(&marked, Change::Delete)?;
                Written::Gone(object)
            }
            Plan::Replace { unchanged } => {
                let change = self.put(object).await?;
                // A custom object that is stored in another form than today's is written again.
                match unchanged && (!self.resource.is_custom() || is_stored(&change, entry)) {
                    true => Written::Stored(entry.clone()),
                    false => Written::Stored(self.commit(entry, change)?),
                }
            }
            Plan::Insert { .. } | Plan::Delete(deletion::Plan::Mark) => {
                Written::Stored(self.commit(entry, self.put(object).await?)?)
            }
        })
    }

    /// Overwrites an entry; a lost race is distinguished from failures.
    fn commit(
        &self,
        over: &Arc<Entry>,
        change: Change,
    ) -> std::result::Result<Arc<Entry>, Outcome> {
        let deletes = matches!(change, Change::Delete);
        match self.write(&over.key, Some(over.revision), change) {
            Ok(entry) => {
                let new = (!deletes).then_some(&entry);
                self.server.after_write(&self.resource, new, Some(over));
                Ok(entry)
            }
            Err(WriteError::Conflict) => Err(Outcome::Raced),
            Err(error) => Err(write_failure(&error).into()),
        }
    }

    /// Writes to the store if the object's last write is still `expected`.
    ///
    /// An object that is too large is stored without its managed fields, as the real server does.
    fn write(
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

    /// 409 for a name that is taken.
    fn exists(&self, entry: &Entry, name_generated: bool) -> Status {
        let mut status = Status::already_exists(&self.resource.gr(), &entry.key.name);
        if object::is_deleting(&entry.object()) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        if name_generated {
            status.message += ", the server was not able to generate a unique name for the object";
        }
        status
    }

    /// Returns `true` if a change takes the last thing that held a deleted object.
    fn ends(&self, old: &Value, new: &Value) -> bool {
        let grace = object::meta(old).get("deletionGracePeriodSeconds").and_then(Value::as_i64);
        object::is_deleting(old)
            && object::finalizers(new).is_empty()
            && grace.unwrap_or(0) == 0
            && !self.rules().hooks().is_held(new)
    }

    /// The change that stores an object, in the storage's form.
    async fn put(&self, object: Value) -> Result<Change> {
        let fields = self.selectable(&object);
        let object = self.server.to_storage(&self.resource, object).await?;
        Ok(Change::Put { object, fields })
    }

    /// The values of field selectors, in whatever version of a custom kind they are asked for.
    fn selectable(&self, object: &Value) -> Vec<(Arc<str>, String)> {
        let Some(own) = &self.resource.custom else {
            return self.rules().fields(object).unwrap_or_default();
        };
        let family = self.server.registry.family(&self.storage);
        let versions = family.as_ref().map_or(std::slice::from_ref(own), |f| &f.versions);
        let values = versions.iter().flat_map(|version| version.selectable_values(object));
        let values: std::collections::BTreeMap<String, String> = values.collect();
        values.into_iter().map(|(name, value)| (name.into(), value)).collect()
    }
}

/// Returns `true` if a change would store what is stored already.
fn is_stored(change: &Change, entry: &Entry) -> bool {
    matches!(change, Change::Put { object, .. } if *object == entry.object())
}

/// The answer to a write that the store refused, with the texts of etcd and its client.
fn write_failure(error: &WriteError) -> Status {
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
