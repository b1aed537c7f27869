//! ComponentStatus: made when it is asked for, never stored.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::{Answer, Call};
use crate::status::{GroupResource, Result, Status};

const NAMES: [&str; 3] = ["controller-manager", "etcd-0", "scheduler"];

impl Call {
    pub(super) fn is_component(&self) -> bool {
        self.resource.gvk.group.is_empty() && &*self.resource.plural == "componentstatuses"
    }

    /// GET of one.
    pub(super) fn component(&self) -> Result<Answer> {
        let name = NAMES.iter().find(|name| **name == self.info.name);
        let gr = GroupResource { group: "", resource: "componentstatus" };
        let not_found = || Status::not_found(&gr, &self.info.name);
        let name = name.ok_or_else(not_found)?;
        Ok(Answer::Object(200, self.status_of(name)))
    }

    /// LIST; a selector finds none of them, they have neither labels nor fields.
    pub(super) fn components(&self) -> Result<Answer> {
        let plain = self.list_options()?.filter.is_plain();
        let all = NAMES.iter().filter(|_| plain).map(|name| self.status_of(name)).collect();
        self.encode_list(Map::new(), all)
    }

    fn status_of(&self, name: &str) -> Value {
        let runs = name == "etcd-0" || self.server.controllers_run.load(Ordering::Relaxed);
        let (status, message) = match runs {
            true => ("True", "ok"),
            false => ("False", "not started: the API server runs alone"),
        };
        json!({
            "apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name},
            "conditions": [{"type": "Healthy", "status": status, "message": message}],
        })
    }
}
