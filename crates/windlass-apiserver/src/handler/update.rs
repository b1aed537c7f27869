//! UPDATE, and the one way every change of a stored object takes.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::commit::write_failure;
use super::stored::Written;
use super::{Answer, Call, DryRun, WriteOptions};
use crate::admission::{Operation, Review};
use crate::builtin::general::certificate;
use crate::builtin::rules::rounds::Rounds;
use crate::builtin::workload::pod_parts;
use crate::merge::{PathSet, UpdateRequest};
use crate::object;
use crate::status::{Details, FieldError, FieldErrors, Result, Status};
use crate::store::{Change, Entry, Key, WriteError};

/// Tries of a change that names no version, when others write in between.
const TRIES: usize = 32;

/// Which part of the object a request changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything but the status.
    Main,
    /// The status.
    Status,
    /// The finalizers of a namespace's spec.
    Finalize,
    /// One aspect of a pod's spec: ephemeral containers, or sizes.
    Pod,
    /// The node of a pod, set by a binding. It is not a change that a node could have missed, so
    /// the generation stays.
    Binding,
}

/// A change: what to make of the stored object, and how.
pub(super) struct Update<'a> {
    pub part: Part,
    pub options: &'a WriteOptions,
    pub options_kind: &'static str,
    /// Whether the new object's resourceVersion was the client's choice.
    pub versioned: bool,
    /// Whether `make` has maintained `managedFields` itself (apply).
    pub tracked: bool,
}

impl Call {
    pub(super) async fn update(&self) -> Result<Answer> {
        self.update_part(Part::Main).await
    }

    /// PUT of an object or one of its parts.
    pub(super) async fn update_part(&self, part: Part) -> Result<Answer> {
        let options = self.write_options("UpdateOptions", false)?;
        let mut object = self.decode_body(&options)?;
        self.check_name(&object)?;
        self.place(&mut object)?;
        let update = Update {
            part,
            options: &options,
            options_kind: "UpdateOptions",
            versioned: true,
            tracked: false,
        };
        let exists = self.server.store.world().get(&self.storage, &self.key()).is_some();
        if !exists
            && matches!(part, Part::Main | Part::Status)
            && self.rules().allows_create_on_update()
        {
            return self.create_by_update(object, &options).await;
        }
        let body = Mutex::new(Some(object));
        let make = |_: &Value| match body.lock().take() {
            Some(object) => Ok(object),
            // Somebody wrote in between: reading the body again is rarer than a copy of it.
            None => {
                let mut object = self.decode_body(&options)?;
                self.place(&mut object)?;
                Ok(object)
            }
        };
        let written = self.change(&update, &make).await?;
        self.answer_written(200, written).await
    }

    async fn create_by_update(&self, mut object: Value, options: &WriteOptions) -> Result<Answer> {
        let uid = object::uid(&object).to_owned();
        if !uid.is_empty() {
            return Err(self.uid_conflict(&uid, ""));
        }
        self.server.check_create_allowed(self, &self.info.name)?;
        object::meta_mut(&mut object).remove("resourceVersion");
        let created = self.create_object(object, options).await?;
        self.answer_written(201, created).await
    }

    /// Changes the stored object by `make`, as often as others write in between.
    ///
    /// An object that is gone by this change is shown as it was last.
    pub(super) async fn change(
        &self,
        update: &Update<'_>,
        make: &(dyn Fn(&Value) -> Result<Value> + Send + Sync),
    ) -> Result<Written> {
        for _ in 0..TRIES {
            let entry = self.entry()?;
            let old = self.object_of(&entry).await?;
            let new = make(&old)?;
            match self.try_change(update, &entry, &old, new).await {
                Err(Outcome::Raced) => {}
                Err(Outcome::Failed(status)) => return Err(*status),
                Ok(done) => return Ok(done),
            }
        }
        Err(Status::modified(&self.resource.gr(), &self.info.name))
    }

    async fn try_change(
        &self,
        update: &Update<'_>,
        entry: &Arc<Entry>,
        old: &Value,
        mut new: Value,
    ) -> std::result::Result<Written, Outcome> {
        self.check_preconditions(update, entry, old, &mut new)?;
        let sub = self.info.subresource.as_str();
        if !update.tracked {
            self.track(Some(old), &mut new, update.options, sub);
        }
        let mut review = self.review(update, new, old);
        self.server.mutate(&mut review, self).await?;
        let mut new = review.object.take().unwrap_or_default();
        self.dedup_owners(&mut new);
        self.prepare(update.part, &mut new, old);
        let errors = self.validate_change(update.part, &new, old);
        if !errors.is_empty() {
            return Err(self.invalid_object(&new, &errors).into());
        }
        let allocation = self.server.allocate(self, &mut new, Some(old))?;
        let outcome = self.finish_change(update, entry, old, new).await;
        if matches!(outcome, Ok(Written::Stored(_))) {
            allocation.commit();
        }
        outcome
    }

    async fn finish_change(
        &self,
        update: &Update<'_>,
        entry: &Arc<Entry>,
        old: &Value,
        new: Value,
    ) -> std::result::Result<Written, Outcome> {
        for warning in self.rules().warnings(&new, Some(old)) {
            self.warn(warning);
        }
        self.server.check_escalation(self, &new, Some(old))?;
        let review = self.review(update, new, old);
        self.server.validate(&review, self).await?;
        let mut new = review.object.unwrap_or_default();
        let unchanged = crate::merge::keep_times(old, &mut new);
        if update.options.dry_run == DryRun::All {
            return Ok(Written::Shown(if unchanged { old.clone() } else { new }));
        }
        if self.ends(old, &new) {
            return self.end(entry, new).await;
        }
        let change = self.put(new).await?;
        // A custom object that is stored in another form than today's is written again.
        if unchanged && (!self.resource.is_custom() || is_stored(&change, entry)) {
            return Ok(Written::Stored(entry.clone()));
        }
        Ok(Written::Stored(self.commit(&entry.key, entry, change).await?))
    }

    /// Overwrites an entry; a lost race is distinguished from failures.
    pub(super) async fn commit(
        &self,
        key: &Key,
        over: &Arc<Entry>,
        change: Change,
    ) -> std::result::Result<Arc<Entry>, Outcome> {
        let deletes = matches!(change, Change::Delete);
        match self.write(key, Some(over.revision), change) {
            Ok(entry) => {
                let new = (!deletes).then_some(&entry);
                self.server.after_write(&self.resource, new, Some(over)).await;
                Ok(entry)
            }
            Err(WriteError::Conflict) => Err(Outcome::Raced),
            Err(error) => Err(write_failure(&error).into()),
        }
    }

    /// Whether a change takes the last thing that held a deleted object.
    fn ends(&self, old: &Value, new: &Value) -> bool {
        let grace = object::meta(old).get("deletionGracePeriodSeconds").and_then(Value::as_i64);
        object::is_deleting(old)
            && object::finalizers(new).is_empty()
            && grace.unwrap_or(0) == 0
            && (&*self.resource.plural != "namespaces"
                || !self.resource.gvk.group.is_empty()
                || new["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty))
    }

    async fn end(
        &self,
        entry: &Arc<Entry>,
        mut new: Value,
    ) -> std::result::Result<Written, Outcome> {
        let gone = self.commit(&entry.key, entry, Change::Delete).await?;
        object::meta_mut(&mut new)
            .insert("resourceVersion".into(), gone.revision.to_string().into());
        Ok(Written::Shown(new))
    }

    fn review<'a>(&'a self, update: &Update<'_>, object: Value, old: &'a Value) -> Review<'a> {
        Review {
            operation: Operation::Update,
            resource: &self.resource,
            subresource: &self.info.subresource,
            name: self.info.name.clone(),
            namespace: self.namespace().to_owned(),
            object: Some(object),
            old: Some(old),
            user: &self.user,
            dry_run: update.options.dry_run == DryRun::All,
            options: self.options_object(update.options_kind, update.options),
        }
    }

    fn check_preconditions(
        &self,
        update: &Update<'_>,
        entry: &Entry,
        old: &Value,
        new: &mut Value,
    ) -> Result<()> {
        let uid = object::uid(new);
        if update.versioned && !uid.is_empty() && uid != object::uid(old) {
            return Err(self.uid_conflict(uid, object::uid(old)));
        }
        let version = object::meta_str(new, "resourceVersion");
        if version.is_empty() || version == "0" {
            if update.versioned
                && update.part != Part::Binding
                && !self.rules().allows_unconditional_update()
            {
                return Err(self.version_required());
            }
            let current = entry.revision.to_string();
            object::meta_mut(new).insert("resourceVersion".into(), current.into());
        } else if version != entry.revision.to_string() {
            if let Err(error) = super::list_options::parse_uint(version) {
                return Err(Status::untyped(error));
            }
            return Err(Status::modified(&self.resource.gr(), &self.info.name));
        }
        Ok(())
    }

    fn version_required(&self) -> Status {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            &json!(0),
            "must be specified for an update",
        );
        let gr = self.resource.gr();
        let mut status =
            Status::invalid(gr.group, gr.resource, &self.info.name, std::slice::from_ref(&error));
        // Only here the message names the resource; elsewhere it names the kind.
        if let Some(details) = &mut status.details {
            details.kind = gr.resource.to_owned();
        }
        status
    }

    fn uid_conflict(&self, wanted: &str, found: &str) -> Status {
        let key = self.storage_path();
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        );
        Status::conflict(&self.resource.gr(), &self.info.name, why)
    }

    /// The object's place in the real server's storage, as its texts show it.
    fn storage_path(&self) -> String {
        let (group, plural) = (&self.resource.gvk.group, &self.resource.plural);
        let prefix = match (&**group, self.resource.is_custom()) {
            (group, true) => format!("{group}/{plural}"),
            ("", _) if &**plural == "services" => "services/specs".to_owned(),
            ("", _) if &**plural == "endpoints" => "services/endpoints".to_owned(),
            ("", _) if &**plural == "nodes" => "minions".to_owned(),
            ("", _) if &**plural == "replicationcontrollers" => "controllers".to_owned(),
            ("networking.k8s.io", _) if &**plural == "ingresses" => "ingress".to_owned(),
            ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{group}/{plural}"),
            _ => plural.to_string(),
        };
        match self.namespace() {
            "" => format!("/registry/{prefix}/{}", self.info.name),
            namespace => format!("/registry/{prefix}/{namespace}/{}", self.info.name),
        }
    }

    /// Keeps what an update may not change, and lets the strategy do the rest.
    fn prepare(&self, part: Part, new: &mut Value, old: &Value) {
        let old_meta = object::meta(old);
        let metadata = object::meta_mut(new);
        let keep = |metadata: &mut serde_json::Map<String, Value>, field: &str| {
            match old_meta.get(field) {
                Some(value) => metadata.insert(field.into(), value.clone()),
                None => metadata.remove(field),
            };
        };
        keep(metadata, "creationTimestamp");
        keep(metadata, "generation");
        metadata.remove("selfLink");
        for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            if metadata.get(field).is_none_or(object::is_empty) || object::is_deleting(old) {
                keep(metadata, field);
            }
        }
        let rules = self.rules();
        match part {
            Part::Main => rules.prepare_update(new, old),
            Part::Status if self.is_signing_request() => {
                let now = self.server.clock.stamp();
                certificate::prepare_part(&self.info.subresource, new, old, &now);
            }
            Part::Status => rules.prepare_status(new, old),
            Part::Finalize => new["status"] = old["status"].clone(),
            Part::Pod => pod_parts::keep(&self.info.subresource, new, old),
            Part::Binding => {}
        }
        let counted = !matches!(part, Part::Status | Part::Binding);
        if counted && rules.has_generation() && self.spec_changed(new, old) {
            let generation = old_meta.get("generation").and_then(Value::as_i64).unwrap_or(0) + 1;
            object::meta_mut(new).insert("generation".into(), generation.into());
        }
    }

    pub(super) fn is_signing_request(&self) -> bool {
        let gvk = &self.resource.gvk;
        (&*gvk.group, &*gvk.kind) == ("certificates.k8s.io", "CertificateSigningRequest")
    }

    fn spec_changed(&self, new: &Value, old: &Value) -> bool {
        if let Some(version) = &self.resource.custom {
            return version.generation_changed(new, old);
        }
        !relevant(new).eq(relevant(old))
    }

    fn validate_change(&self, part: Part, new: &Value, old: &Value) -> FieldErrors {
        let rules = self.rules();
        let (meta, old_meta) = (object::meta(new), object::meta(old));
        let (gvk, custom) = (&self.resource.gvk, self.resource.is_custom());
        let rounds = match part {
            // Nothing else is looked at in an object of another kind.
            _ if rules.is_other_kind(new) => Rounds::NONE,
            Part::Main => Rounds::of(gvk, custom),
            _ => Rounds::of_part(gvk, custom),
        };
        let namespaced = self.resource.namespaced;
        let mut errors = rounds.validate(meta, old_meta, rules.name_rule(), namespaced);
        errors.extend(self.errors_of(match part {
            Part::Main => rules.validate_update(new, old),
            Part::Status if self.is_signing_request() => {
                certificate::validate_part(&self.info.subresource, new, old).into()
            }
            Part::Status => rules.validate_status(new, old),
            Part::Pod => pod_parts::validate(&self.info.subresource, new, old).into(),
            Part::Finalize | Part::Binding => Default::default(),
        }));
        errors
    }

    /// Records the write in `managedFields`.
    pub(super) fn track(
        &self,
        live: Option<&Value>,
        new: &mut Value,
        options: &WriteOptions,
        subresource: &str,
    ) {
        let reset = self.reset_fields(subresource);
        let convert = |object: &Value, api_version: &str| {
            self.server.convert_for_fields(&self.resource, object, api_version)
        };
        let request = UpdateRequest {
            live,
            shape: &self.resource.shape,
            gvk: &self.resource.gvk,
            subresource,
            manager: &options.manager,
            now: &self.server.clock.stamp(),
            reset: &reset,
            convert: &convert,
        };
        crate::merge::track_update(&request, new);
    }

    /// The fields that a write to this part does not own.
    pub(super) fn reset_fields(&self, subresource: &str) -> PathSet {
        self.server.reset_fields(&self.resource, subresource)
    }

    /// The name in the body has to be the one in the path.
    pub(super) fn check_name(&self, object: &Value) -> Result<()> {
        let (given, wanted) = (object::name(object), self.info.name.as_str());
        if given.is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
            )));
        }
        if given != wanted {
            return Err(Status::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({wanted})"
            )));
        }
        Ok(())
    }
}

/// What of a built-in object counts for its generation.
fn relevant(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(k, _)| !matches!(k.as_str(), "metadata" | "status" | "apiVersion" | "kind"))
}

/// Whether a change would store what is stored already.
fn is_stored(change: &Change, entry: &Entry) -> bool {
    matches!(change, Change::Put { object, .. } if *object == entry.object())
}

/// Why one try of a change did not succeed.
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

impl From<Outcome> for Status {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Failed(status) => *status,
            Outcome::Raced => Status::new(409, "Conflict", "the object has been modified")
                .with_details(Details::default()),
        }
    }
}
