//! A write: the one way into the store.
//!
//! Create, update, patch, apply, delete and the subresources only construct a [`Write`];
//! [`Write::attempt`] lists the steps that every one of them takes, one below the other. Decoding
//! happens where a write is made, or in its step [`Write::make`]; encoding is the answer's.
//!
//! **Invariant:** nothing that a request changes reaches the store, and no allocation is kept, by
//! another way.
//! **Invariant:** a write that has passed admission is completed even if its client disconnects.

use std::sync::Arc;

use serde_json::Value;

use super::delete::DeleteOptions;
use super::stored::Written;
use super::{Call, DryRun, WriteOptions};
use crate::admission::{Operation, Review};
use crate::alloc::Allocation;
use crate::builtin::deletion;
use crate::object;
use crate::status::{Result, Status};
use crate::store::{Entry, Key};
use crate::work;

mod commit;
mod deleting;
mod precondition;
mod prepare;
mod validate;

pub(super) use crate::builtin::Part;
use commit::{Commit, complete};

/// Tries of a write when others write in between.
const TRIES: usize = 32;

/// Makes the new object of the stored one: from a body, or by a patch.
pub(crate) type Make<'a> = dyn Fn(&Value) -> Result<Value> + Send + Sync + 'a;

/// What a write does.
pub(crate) enum Intent<'a> {
    /// Stores a new object.
    Create(NewObject),
    /// Replaces the stored object by what `make` makes of it.
    Change {
        make: &'a Make<'a>,
        /// Whether the new object's resourceVersion was the client's choice.
        versioned: bool,
        /// Whether `make` has maintained `managedFields` itself (apply).
        tracked: bool,
    },
    /// Deletes the stored object, or marks it as being deleted.
    Delete(&'a DeleteOptions),
}

/// An object that is to be created.
#[derive(Default)]
pub(crate) struct NewObject {
    pub object: Value,
    /// Whether its `managedFields` are correct already (apply).
    pub tracked: bool,
    /// The resourceVersion that its client chose; empty if it chose none.
    given_version: String,
    /// Whether its name was generated.
    name_generated: bool,
}

/// One write of one object.
pub(crate) struct Write<'a> {
    call: &'a Arc<Call>,
    /// The place of the object, except for one whose name is to be generated.
    key: Key,
    part: Part,
    intent: Intent<'a>,
    manager: &'a str,
    dry_run: bool,
    /// The options of the request, as admission sees them.
    options: Value,
    /// The stored object; `None` until it is read, and for a new object.
    old: Option<Stored>,
    /// The object as it is to be stored; for a deletion, marked as deleted.
    new: Value,
    /// How a deletion continues.
    deletion: Option<deletion::Plan>,
}

/// A stored object.
struct Stored {
    entry: Arc<Entry>,
    /// In the version of the request, with apiVersion and kind.
    object: Value,
}

/// Why one try of a write did not succeed.
pub(super) enum Outcome {
    /// Somebody else wrote in between.
    Raced,
    /// It is refused.
    Failed(Box<Status>),
}

impl From<Status> for Outcome {
    fn from(status: Status) -> Self {
        Self::Failed(Box::new(status))
    }
}

// === impl NewObject ===

impl NewObject {
    pub fn new(object: Value) -> Self {
        Self { object, ..Self::default() }
    }

    /// Creates an object whose `managedFields` an apply has made.
    pub fn tracked(object: Value) -> Self {
        Self { object, tracked: true, ..Self::default() }
    }
}

// === impl Write ===

impl<'a> Write<'a> {
    /// Creates a new object.
    pub fn create(call: &'a Arc<Call>, new: NewObject, options: &'a WriteOptions) -> Self {
        let key = Key::new(call.namespace(), object::name(&new.object));
        let intent = Intent::Create(new);
        Self::new(call, key, Part::Main, intent, "CreateOptions", options)
    }

    /// Creates a change of the object that the path names.
    pub fn change(
        call: &'a Arc<Call>,
        part: Part,
        intent: Intent<'a>,
        options_kind: &str,
        options: &'a WriteOptions,
    ) -> Self {
        Self::new(call, call.key(), part, intent, options_kind, options)
    }

    /// Returns the deletion of an object.
    pub fn delete(call: &'a Arc<Call>, key: Key, options: &'a DeleteOptions) -> Self {
        Self {
            call,
            key,
            part: Part::Main,
            intent: Intent::Delete(options),
            manager: "",
            dry_run: options.dry_run == DryRun::All,
            options: options.object.clone(),
            old: None,
            new: Value::Null,
            deletion: None,
        }
    }

    fn new(
        call: &'a Arc<Call>,
        key: Key,
        part: Part,
        intent: Intent<'a>,
        options_kind: &str,
        options: &'a WriteOptions,
    ) -> Self {
        Self {
            call,
            key,
            part,
            intent,
            manager: &options.manager,
            dry_run: options.dry_run == DryRun::All,
            options: call.options_object(options_kind, options),
            old: None,
            new: Value::Null,
            deletion: None,
        }
    }

    /// Writes, as often as others write in between.
    ///
    /// An object that is gone by this write is shown as it was last.
    pub async fn run(mut self) -> Result<Written> {
        for _ in 0..TRIES {
            match self.attempt().await {
                Ok(written) => return Ok(written),
                Err(Outcome::Raced) => {}
                Err(Outcome::Failed(status)) => return Err(*status),
            }
        }
        Err(Status::modified(&self.call.resource.gr(), &self.key.name))
    }

    /// The steps of a write. Steps that a deletion or a new object has no use for do nothing.
    async fn attempt(&mut self) -> std::result::Result<Written, Outcome> {
        self.read().await?;
        self.make()?;
        self.check_preconditions()?;
        self.track();
        self.mutate().await?;
        self.prepare()?;
        let allocation = self.allocate()?;
        self.validate()?;
        self.warn();
        self.check_escalation()?;
        self.admit().await?;
        self.store(allocation).await
    }

    /// Reads the stored object, in the version of the request.
    async fn read(&mut self) -> Result<()> {
        let call = self.call;
        if self.is_create() {
            return Ok(());
        }
        let entry = call.server.store.world().get(&call.storage, &self.key);
        let entry = entry.ok_or_else(|| Status::not_found(&call.resource.gr(), &self.key.name))?;
        let object = call.object_of(&entry).await?;
        self.old = Some(Stored { entry, object });
        Ok(())
    }

    /// Makes the new object: decodes and defaults a body, or patches the stored object.
    fn make(&mut self) -> Result<()> {
        match (&mut self.intent, &self.old) {
            (Intent::Create(new), _) => self.new = std::mem::take(&mut new.object),
            (Intent::Change { make, .. }, Some(old)) => self.new = make(&old.object)?,
            _ => {}
        }
        Ok(())
    }

    /// Records in `managedFields` who writes which fields.
    fn track(&mut self) {
        let old = self.old.as_ref().map(|old| &old.object);
        let subresource = match &self.intent {
            Intent::Create(new) if !new.tracked => "",
            Intent::Change { tracked: false, .. } => &self.call.info.subresource,
            _ => return,
        };
        self.call.track(old, &mut self.new, self.manager, subresource);
    }

    /// Lets mutating admission change the object: plugins, policies and webhooks.
    async fn mutate(&mut self) -> Result<()> {
        let object = std::mem::take(&mut self.new);
        let mut review = self.review(object);
        self.call.server.mutate(&mut review, self.call).await?;
        self.new = review.object.take().unwrap_or_default();
        Ok(())
    }

    /// Allocates what the object needs; it is given back if the write fails.
    fn allocate(&mut self) -> Result<Allocation> {
        let old = self.old.as_ref().map(|old| &old.object);
        match self.intent {
            Intent::Delete(_) => Ok(self.call.server.no_allocation()),
            _ => self.call.server.allocate(self.call, &mut self.new, old),
        }
    }

    /// Sends the kind's warnings about the object.
    fn warn(&self) {
        if self.is_delete() {
            return;
        }
        for warning in self.call.rules().warnings(&self.new, self.old_object()) {
            self.call.warn(warning);
        }
    }

    /// Refuses roles and bindings that grant more than the user has.
    fn check_escalation(&self) -> Result<()> {
        match self.intent {
            Intent::Delete(_) => Ok(()),
            _ => self.call.server.check_escalation(self.call, &self.new, self.old_object()),
        }
    }

    /// Lets validating admission refuse the write: plugins, policies, webhooks and quotas.
    async fn admit(&mut self) -> Result<()> {
        let object = std::mem::take(&mut self.new);
        let (review, kept) = match self.is_delete() {
            true => (self.review(Value::Null), object),
            false => (self.review(object), Value::Null),
        };
        self.call.server.validate(&review, self.call).await?;
        self.new = review.object.unwrap_or(kept);
        Ok(())
    }

    /// Stores the object, keeps what was allocated, and does what follows from the write.
    async fn store(&mut self, allocation: Allocation) -> std::result::Result<Written, Outcome> {
        if work::is_stopped() {
            // Checks that were stopped have found nothing, but the object may be wrong.
            return Err(Status::internal("the request was abandoned").into());
        }
        let plan = self.plan()?;
        let object = std::mem::take(&mut self.new);
        if self.dry_run {
            return Ok(self.shown(plan, object)?);
        }
        let commit = Commit {
            call: self.call.clone(),
            key: self.target(&object),
            old: self.old.take().map(|old| (old.entry, old.object)),
            object,
            plan,
            allocation,
        };
        complete(commit.run()).await
    }

    /// The write as admission sees it.
    fn review(&self, object: Value) -> Review<'_> {
        let call = self.call;
        let (operation, subresource) = match self.intent {
            Intent::Create(_) => (Operation::Create, ""),
            Intent::Change { .. } => (Operation::Update, call.info.subresource.as_str()),
            Intent::Delete(_) => (Operation::Delete, ""),
        };
        let name = match self.intent {
            Intent::Create(_) => object::name(&object).to_owned(),
            _ => self.key.name.to_string(),
        };
        Review {
            subresource,
            name,
            namespace: match self.intent {
                Intent::Delete(_) => call.namespace_of(&self.key),
                _ => call.namespace().to_owned(),
            },
            old: self.old_object(),
            dry_run: self.dry_run,
            ..call.review(
                operation,
                Some(object).filter(|_| !self.is_delete()),
                self.options.clone(),
            )
        }
    }

    /// The place at which an object is stored, which may have got its name on the way.
    fn target(&self, object: &Value) -> Key {
        match self.intent {
            Intent::Create(_) => Key::new(self.call.namespace(), object::name(object)),
            _ => self.key.clone(),
        }
    }

    fn old_object(&self) -> Option<&Value> {
        self.old.as_ref().map(|old| &old.object)
    }

    fn is_create(&self) -> bool {
        matches!(self.intent, Intent::Create(_))
    }

    fn is_delete(&self) -> bool {
        matches!(self.intent, Intent::Delete(_))
    }
}

impl Call {
    /// The request as admission sees it, with the object that its path names.
    pub(super) fn review(
        &self,
        operation: Operation,
        object: Option<Value>,
        options: Value,
    ) -> Review<'_> {
        Review {
            operation,
            resource: &self.resource,
            subresource: &self.info.subresource,
            name: self.info.name.clone(),
            namespace: self.namespace().to_owned(),
            object,
            old: None,
            user: &self.user,
            dry_run: false,
            options,
        }
    }

    /// The namespace of an object as admission sees it; a namespace is in itself.
    fn namespace_of(&self, key: &Key) -> String {
        match self.resource.namespaced {
            true => key.namespace.to_string(),
            false => self.info.namespace.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
        let (_, rest) = text.split_once(start).unwrap();
        rest.split_once(end).unwrap().0
    }

    #[test]
    fn the_documented_steps_are_those_of_the_code() {
        let code = between(include_str!("write.rs"), "async fn attempt(", "\n    }\n");
        let steps: Vec<&str> =
            code.split("self.").skip(1).map(|call| call.split('(').next().unwrap()).collect();
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
        let page = std::fs::read_to_string(page).unwrap();
        let table = between(&page, "| step of `Write` |", "\n\n");
        let rows = table.lines().skip(2).filter_map(|row| row.split('|').nth(1));
        let documented: Vec<&str> =
            rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        assert!(steps.len() > 10, "{steps:?}");
        assert_eq!(documented, steps);
    }
}
