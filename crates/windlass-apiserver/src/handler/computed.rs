//! Kinds whose objects are computed when they are read, and never stored.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value};

use super::{Answer, Call};
use crate::object;
use crate::status::{GroupResource, Result, Status};

impl Call {
    pub(super) fn is_computed(&self) -> bool {
        self.rules().hooks().computed(false).is_some()
    }

    /// GET of one.
    pub(super) fn get_computed(&self) -> Result<Answer> {
        let all = self.computed();
        let found = all.into_iter().find(|object| object::name(object) == self.info.name);
        // The message names the singular, where others name the plural.
        let gr =
            GroupResource { group: &self.resource.gvk.group, resource: &self.resource.singular };
        let found = found.ok_or_else(|| Status::not_found(&gr, &self.info.name))?;
        Ok(Answer::Object(200, found))
    }

    /// LIST; a selector finds none of them, they have neither labels nor fields.
    pub(super) fn list_computed(&self) -> Result<Answer> {
        let all = match self.list_options()?.filter.is_plain() {
            true => self.computed(),
            false => Vec::new(),
        };
        self.encode_list(Map::new(), all)
    }

    fn computed(&self) -> Vec<Value> {
        let controllers_run = self.server.controllers_run.load(Ordering::Relaxed);
        self.rules().hooks().computed(controllers_run).unwrap_or_default()
    }
}
