//! CREATE: a new object.

use std::sync::Arc;

use serde_json::Value;

use super::write::{NewObject, Write};
use super::{Answer, Call, WriteOptions};
use crate::object;
use crate::status::{Result, Status};

impl Call {
    pub(super) async fn create(self: &Arc<Self>) -> Result<Answer> {
        if self.resource.is_only_created() {
            return self.answer_posted().await;
        }
        let options = self.write_options("CreateOptions", false)?;
        let object = self.decode_new(&options)?;
        let created = Write::create(self, NewObject::new(object), &options).run().await?;
        self.answer_written(201, created).await
    }

    /// The object in the body of a POST. Only a POST drops the marks of a deletion and of an object
    /// that exists: an update or an apply that creates keeps them.
    pub(super) fn decode_new(&self, options: &WriteOptions) -> Result<Value> {
        let mut object = self.decode_body(options)?;
        for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            object::meta_mut(&mut object).remove(field);
        }
        Ok(object)
    }

    /// Puts the object into the request's namespace, or refuses it.
    pub(crate) fn place(&self, object: &mut Value) -> Result<()> {
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
}
