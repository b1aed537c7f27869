//! UPDATE: an object in the place of the stored one.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::write::{Intent, NewObject, Part, Write};
use super::{Answer, Call, DryRun, WriteOptions};
use crate::merge::{PathSet, UpdateRequest};
use crate::object;
use crate::status::{Result, Status};

impl Call {
    pub(super) async fn update(self: &Arc<Self>) -> Result<Answer> {
        self.update_part(Part::Main).await
    }

    /// PUT of an object or one of its parts.
    pub(super) async fn update_part(self: &Arc<Self>, part: Part) -> Result<Answer> {
        let options = self.write_options("UpdateOptions", false)?;
        let mut object = self.decode_body(&options)?;
        self.check_name(&object)?;
        self.place(&mut object)?;
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
        let intent = Intent::Change { make: &make, versioned: true, tracked: false };
        let written = Write::change(self, part, intent, "UpdateOptions", &options).run().await?;
        self.answer_written(200, written).await
    }

    async fn create_by_update(
        self: &Arc<Self>,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Answer> {
        let uid = object::uid(&object).to_owned();
        if !uid.is_empty() {
            return Err(self.uid_conflict(&uid, "", options.dry_run == DryRun::All));
        }
        self.server.check_create_allowed(self, &self.info.name)?;
        object::meta_mut(&mut object).remove("resourceVersion");
        let created = Write::create(self, NewObject::new(object), options).run().await?;
        self.answer_written(201, created).await
    }

    /// Records the write in `managedFields`.
    pub(super) fn track(
        &self,
        live: Option<&Value>,
        new: &mut Value,
        manager: &str,
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
            manager,
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
    pub(crate) fn check_name(&self, object: &Value) -> Result<()> {
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
