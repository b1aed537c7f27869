//! Preconditions of a write: the version and the UID that its client has seen.

use serde_json::{Value, json};

use super::super::Call;
use super::super::delete::DeleteOptions;
use super::{Intent, Part, Write};
use crate::custom::names;
use crate::object;
use crate::status::{FieldError, GroupResource, Result, Status};

impl Write<'_> {
    /// Refuses a write of another object than its client has seen. A deletion is only checked
    /// after mutating admission.
    pub(super) fn check_preconditions(&mut self) -> Result<()> {
        let call = self.call;
        if let Intent::Create(new) = &mut self.intent {
            call.place(&mut self.new)?;
            call.check_not_terminating(&self.new)?;
            let given = object::meta_str(&self.new, "resourceVersion");
            new.given_version = if given == "0" { "" } else { given }.to_owned();
            return Ok(());
        }
        let (Intent::Change { versioned, .. }, Some(old)) = (&self.intent, &self.old) else {
            return Ok(());
        };
        let (uid, old_uid) = (object::uid(&self.new), object::uid(&old.object));
        if *versioned && !uid.is_empty() && uid != old_uid {
            return Err(call.uid_conflict(uid, old_uid, self.dry_run));
        }
        let current = old.entry.revision.to_string();
        let version = object::meta_str(&self.new, "resourceVersion");
        if version.is_empty() || version == "0" {
            if *versioned
                && self.part != Part::Binding
                && !call.rules().allows_unconditional_update()
            {
                return Err(call.version_required());
            }
            object::meta_mut(&mut self.new).insert("resourceVersion".into(), current.into());
        } else if version != current {
            if let Err(error) = super::super::list_options::parse_uint(version) {
                return Err(Status::untyped(error));
            }
            return Err(Status::modified(&call.resource.gr(), &call.info.name));
        }
        Ok(())
    }

    pub(super) fn check_delete_preconditions(
        &self,
        old: &Value,
        options: &DeleteOptions,
    ) -> Result<()> {
        let gvk = &self.call.resource.gvk;
        // The message names the kind, where other conflicts name the resource.
        let gr = GroupResource { group: &gvk.group, resource: &gvk.kind };
        let name = object::name(old);
        if let Some(uid) = &options.uid
            && uid != object::uid(old)
        {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                object::uid(old)
            );
            return Err(Status::conflict(&gr, name, why));
        }
        let version = object::meta_str(old, "resourceVersion");
        if let Some(wanted) = &options.version
            && wanted != version
        {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
            );
            return Err(Status::conflict(&gr, name, why));
        }
        Ok(())
    }
}

impl Call {
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

    pub(in crate::handler) fn uid_conflict(
        &self,
        wanted: &str,
        found: &str,
        dry_run: bool,
    ) -> Status {
        // A dry run of the real server does not reach its storage, which adds a prefix.
        let root = if dry_run { "" } else { "/registry" };
        let key = format!("{root}{}", self.storage_path());
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        );
        Status::conflict(&self.resource.gr(), &self.info.name, why)
    }

    /// The object's place in the real server's storage, as its texts show it.
    fn storage_path(&self) -> String {
        let (group, plural) = (&self.resource.gvk.group, &self.resource.plural);
        let prefix = match self.rules().hooks().storage_prefix() {
            Some(prefix) => prefix.to_owned(),
            None if self.resource.is_custom() => format!("{group}/{plural}"),
            None => plural.to_string(),
        };
        match self.namespace() {
            "" => format!("/{prefix}/{}", self.info.name),
            namespace => format!("/{prefix}/{namespace}/{}", self.info.name),
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
}
