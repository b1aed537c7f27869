//! CREATE: a new object through defaults, admission and validation into the store.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::commit::write_failure;
use super::stored::Written;
use super::{Answer, Call, DryRun, WriteOptions};
use crate::admission::{Operation, Review};
use crate::builtin::general::certificate;
use crate::builtin::rules::meta::{validate_meta, validate_meta_common};
use crate::custom::names;
use crate::object;
use crate::status::{FieldError, FieldErrors, Result, Status};
use crate::store::{Change, Entry, Key, WriteError};

/// Tries for a free name when one is generated.
const NAME_TRIES: usize = 8;
/// The longest part of a generated name that the client chooses.
const GENERATE_BYTES_MAX: usize = 58;

impl Call {
    pub(super) async fn create(&self) -> Result<Answer> {
        if let Some(answer) = self.create_virtual().await {
            return answer;
        }
        let options = self.write_options("CreateOptions", false)?;
        let object = self.decode_body(&options)?;
        let created = self.create_object(object, &options).await?;
        self.answer_written(201, created).await
    }

    /// Creates an object and gives it as stored.
    pub(super) async fn create_object(
        &self,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.create_object_with(object, options, None).await
    }

    /// Creates an object whose `managedFields` are already known (apply).
    pub(super) async fn create_object_with(
        &self,
        mut object: Value,
        options: &WriteOptions,
        managed: Option<Value>,
    ) -> Result<Written> {
        self.place(&mut object)?;
        self.check_not_terminating(&object)?;
        let given_version = object::meta_str(&object, "resourceVersion");
        let given_version = if given_version == "0" { "" } else { given_version }.to_owned();
        match managed {
            None => self.track(None, &mut object, options, ""),
            Some(managed) if !managed.is_null() => {
                object::meta_mut(&mut object).insert("managedFields".into(), managed);
            }
            Some(_) => {}
        }
        let mut review = Review {
            operation: Operation::Create,
            resource: &self.resource,
            subresource: "",
            name: object::name(&object).to_owned(),
            namespace: self.namespace().to_owned(),
            object: Some(object),
            old: None,
            user: &self.user,
            dry_run: options.dry_run == DryRun::All,
            options: self.options_object("CreateOptions", options),
        };
        self.server.mutate(&mut review, self).await?;
        let mut object = review.object.take().unwrap_or_default();
        self.dedup_owners(&mut object);
        self.fill_system_fields(&mut object);
        if self.is_signing_request() {
            certificate::name_requester(&mut object, &self.user.to_json());
        }
        let generated = object::name(&object).is_empty();
        if generated {
            self.generate_free_name(&mut object);
        }
        let named = !object::name(&object).is_empty();
        let (prepared, status) = match self.try_create(object, &given_version, options).await {
            Ok(created) => return Ok(created),
            Err((prepared, status)) => (prepared, status),
        };
        let taken = status.code == 409 && status.reason == "AlreadyExists";
        if !(generated && taken && prepared && named) {
            return Err(status);
        }
        Err(Status {
            message: format!(
                "{}, the server was not able to generate a unique name for the object",
                status.message
            ),
            ..status
        })
    }

    /// Creates under the object's name; the flag is `true` if the object itself was valid.
    async fn try_create(
        &self,
        mut object: Value,
        given_version: &str,
        options: &WriteOptions,
    ) -> std::result::Result<Written, (bool, Status)> {
        let fail = |status| (false, status);
        self.rules().prepare_create(&mut object);
        let errors = self.validate_new(&object);
        if !errors.is_empty() {
            return Err(fail(self.invalid_object(&object, &errors)));
        }
        let allocation = self.server.allocate(self, &mut object, None).map_err(fail)?;
        let outcome = self.finish_create(object, given_version, options).await;
        if matches!(outcome, Ok(Written::Stored(_))) {
            allocation.commit();
        }
        outcome
    }

    async fn finish_create(
        &self,
        mut object: Value,
        given_version: &str,
        options: &WriteOptions,
    ) -> std::result::Result<Written, (bool, Status)> {
        let fail = |status| (false, status);
        for warning in self.rules().warnings(&object, None) {
            self.warn(warning);
        }
        self.server.check_escalation(self, &object, None).map_err(fail)?;
        let review = Review {
            operation: Operation::Create,
            resource: &self.resource,
            subresource: "",
            name: object::name(&object).to_owned(),
            namespace: self.namespace().to_owned(),
            object: Some(object),
            old: None,
            user: &self.user,
            dry_run: options.dry_run == DryRun::All,
            options: self.options_object("CreateOptions", options),
        };
        self.server.validate(&review, self).await.map_err(fail)?;
        object = review.object.unwrap_or_default();
        // Nothing is stored in a dry run, so it does not matter there.
        if !given_version.is_empty() && options.dry_run != DryRun::All {
            let text = "resourceVersion should not be set on objects to be created";
            return Err(fail(Status::untyped(text)));
        }
        let key = Key::new(self.namespace(), object::name(&object));
        if options.dry_run == DryRun::All {
            if let Some(entry) = self.server.store.world().get(&self.storage, &key) {
                return Err((true, self.exists(&entry)));
            }
            let metadata = object::meta_mut(&mut object);
            match given_version {
                "" => metadata.remove("resourceVersion"),
                given => metadata.insert("resourceVersion".into(), given.into()),
            };
            return Ok(Written::Shown(object));
        }
        let entry = self.insert(&key, object).await.map_err(|status| (true, status))?;
        Ok(Written::Stored(entry))
    }

    async fn insert(&self, key: &Key, object: Value) -> Result<Arc<Entry>> {
        let change = self.put(object).await?;
        match self.write(key, None, change) {
            Ok(entry) => {
                self.server.after_write(&self.resource, Some(&entry), None).await;
                Ok(entry)
            }
            Err(WriteError::Conflict) => {
                let there = self.server.store.world().get(&self.storage, key);
                Err(there.map_or_else(
                    || Status::already_exists(&self.resource.gr(), &key.name),
                    |entry| self.exists(&entry),
                ))
            }
            Err(error) => Err(write_failure(&error)),
        }
    }

    /// 409 for a name that is taken.
    pub(super) fn exists(&self, entry: &Entry) -> Status {
        let mut status = Status::already_exists(&self.resource.gr(), &entry.key.name);
        if object::is_deleting(&entry.object()) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }

    /// The change that stores an object, in the storage's form.
    pub(super) async fn put(&self, object: Value) -> Result<Change> {
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
        let values: BTreeMap<String, String> = values.collect();
        values.into_iter().map(|(name, value)| (name.into(), value)).collect()
    }

    /// Puts the object into the request's namespace, or refuses it.
    pub(super) fn place(&self, object: &mut Value) -> Result<()> {
        let wanted = self.namespace();
        let given = object::namespace(object);
        if !self.resource.namespaced {
            if !given.is_empty() {
                object::meta_mut(object).remove("namespace");
            }
            return Ok(());
        }
        if given.is_empty() {
            object::meta_mut(object).insert("namespace".into(), wanted.into());
        } else if given != wanted {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    fn fill_system_fields(&self, object: &mut Value) {
        let generation = self.rules().has_generation();
        let uid = self.server.random.uuid(&[
            "uid",
            &self.storage.group,
            &self.storage.plural,
            self.namespace(),
            object::name(object),
        ]);
        let metadata = object::meta_mut(object);
        for field in
            ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"]
        {
            metadata.remove(field);
        }
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), self.server.clock.stamp().into());
        if generation {
            metadata.insert("generation".into(), json!(1));
        }
    }

    /// Generates a name that is free at this moment; the last try stays if none is.
    fn generate_free_name(&self, object: &mut Value) {
        let world = self.server.store.world();
        for _ in 0..NAME_TRIES {
            self.generate_name(object);
            let key = Key::new(self.namespace(), object::name(object));
            if world.get(&self.storage, &key).is_none() {
                return;
            }
        }
    }

    fn generate_name(&self, object: &mut Value) {
        let base = object::meta_str(object, "generateName");
        if base.is_empty() {
            return;
        }
        let mut end = base.len().min(GENERATE_BYTES_MAX);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        let purpose = ["name", &self.storage.group, &self.storage.plural, self.namespace(), base];
        let name = format!("{}{}", &base[..end], self.server.random.suffix(&purpose));
        object::meta_mut(object).insert("name".into(), name.into());
    }

    fn validate_new(&self, object: &Value) -> FieldErrors {
        let rules = self.rules();
        let (meta, namespaced) = (object::meta(object), self.resource.namespaced);
        if !rules.checks_meta() {
            let errors = self.errors_of(rules.validate(object));
            let path_segment = crate::builtin::NameRule::PathSegment;
            return match errors.is_empty() {
                true => validate_meta_common(meta, path_segment, namespaced),
                false => errors,
            };
        }
        let mut errors = match () {
            () if rules.is_other_kind(object) => FieldErrors::default(),
            () if self.has_core_meta() => validate_meta(meta, rules.name_rule(), namespaced),
            () => validate_meta_common(meta, rules.name_rule(), namespaced),
        };
        errors.extend(self.errors_of(rules.validate(object)));
        errors
    }

    /// Returns the errors of a verdict, and sends its warnings to the client.
    pub(super) fn errors_of(&self, verdict: crate::custom::Verdict) -> FieldErrors {
        for warning in verdict.warnings {
            self.warn(warning);
        }
        verdict.errors
    }

    /// Whether finalizers have to be qualified: custom resources and what serves them are laxer.
    pub(super) fn has_core_meta(&self) -> bool {
        !self.resource.is_custom()
            && !matches!(
                &*self.resource.gvk.group,
                "apiextensions.k8s.io" | "apiregistration.k8s.io"
            )
    }

    /// Keeps only the first of several equal owner references, with a warning.
    pub(super) fn dedup_owners(&self, object: &mut Value) {
        let Some(owners) = object::meta_mut(object).get_mut("ownerReferences") else { return };
        let Some(list) = owners.as_array_mut() else { return };
        let mut known: HashSet<Value> = HashSet::with_capacity(list.len());
        let mut named: HashSet<String> = HashSet::new();
        let mut duplicates: Vec<String> = Vec::new();
        list.retain(|owner| {
            let first = known.insert(owner.clone());
            let uid = owner["uid"].as_str().unwrap_or_default();
            if !first && named.insert(uid.to_owned()) {
                duplicates.push(uid.to_owned());
            }
            first
        });
        if !duplicates.is_empty() {
            self.warn(format!(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
                duplicates.join(", ")
            ));
        }
    }

    /// A resource whose definition is being deleted takes no new objects.
    fn check_not_terminating(&self, object: &Value) -> Result<()> {
        let family = self.server.registry.family(&self.storage);
        let terminating = self.resource.is_custom()
            && family.is_some_and(|f| names::is_true(&f.definition, "Terminating"));
        match terminating {
            false => Ok(()),
            true => Err(Status::forbidden(
                &self.resource.gr(),
                object::name(object),
                "create not allowed while custom resource definition is terminating",
            )),
        }
    }

    /// 422 of this kind.
    pub(super) fn invalid(&self, name: &str, errors: &[FieldError]) -> Status {
        let gvk = &self.resource.gvk;
        // Both kinds of events are one kind inside the server, of the core group.
        let group = if &*gvk.group == "events.k8s.io" { "" } else { &*gvk.group };
        Status::invalid(group, &gvk.kind, name, errors)
    }
}
