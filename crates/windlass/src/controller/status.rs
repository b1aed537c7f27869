//! Writing the status of the reconciled object.
//!
//! The author changes a Rust value, and what is sent is the difference between before and after.
//! Fields that the Rust type does not know are never part of it, not even inside the items of a
//! list. Since a merge patch replaces whole lists, the patch names the version it was computed from:
//! if another writer was faster, the server answers with a conflict, and the change is made once
//! more on the newest state.
//!
//! **Invariant:** a write changes only what the author's function changed, on every kind.

mod items;

use kube::core::object::HasStatus;
use kube::core::{DynamicObject, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Context;
use crate::apply::merge_diff;
use crate::client::{Client, Patch};
use crate::error::{Error, Result};
use crate::kind::Object;

/// Attempts before a conflict is returned to the author.
const ATTEMPTS_MAX: usize = 5;

impl<K> Context<K>
where
    K: Object + HasStatus<Status: Serialize + DeserializeOwned + Default>,
{
    /// Changes the status; sends a patch only if the function changed something.
    ///
    /// The function starts from the newest status this process knows, its own writes included, and
    /// may run more than once: if another writer was faster, it runs again on the newest status of
    /// the server. So several writers can share a status, and even a list in it, and fields that
    /// the type does not know are left alone. An object that was deleted and created again never
    /// gets the status of its predecessor.
    ///
    /// An item of a list keeps fields that the type does not know if it was in the list before: an
    /// equal one, one with the same `type`, `name`, `uid`, `key`, `id` or `ip`, or, in a list that
    /// has as many items as before, one at the same place of which a member distinguishes it from
    /// the others before and after.
    ///
    /// Returns `true` if the status was changed, `false` if there was nothing to change or the
    /// object does not exist.
    ///
    /// This method is for kinds whose status type is known, such as those of
    /// `#[derive(CustomResource)]`; [`status_as`](Self::status_as) is for all others.
    ///
    /// ```
    /// use kube::CustomResource;
    /// use schemars::JsonSchema;
    /// use serde::{Deserialize, Serialize};
    /// use windlass::{Context, Controller, Next, Result};
    ///
    /// #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    /// #[kube(group = "example.com", version = "v1", kind = "Shop", status = "ShopStatus")]
    /// pub struct ShopSpec {}
    ///
    /// #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    /// pub struct ShopStatus {
    ///     #[serde(default)]
    ///     open: bool,
    /// }
    ///
    /// async fn reconcile(cx: Context<Shop>) -> Result<Next> {
    ///     cx.status(|status| status.open = true).await?;
    ///     Ok(Next::Done)
    /// }
    ///
    /// fn controller() -> Controller<Shop> {
    ///     Controller::builder("shops").build(reconcile)
    /// }
    /// # fn main() { let _ = controller(); }
    /// ```
    ///
    /// Any other status type does not compile:
    ///
    /// ```compile_fail,E0631
    /// # use k8s_openapi::api::core::v1::ServiceStatus;
    /// # use kube::CustomResource;
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass::{Context, Controller, Next, Result};
    /// # #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    /// # #[kube(group = "example.com", version = "v1", kind = "Shop", status = "ShopStatus")]
    /// # pub struct ShopSpec {}
    /// # #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    /// # pub struct ShopStatus {
    /// #     #[serde(default)]
    /// #     open: bool,
    /// # }
    /// async fn reconcile(cx: Context<Shop>) -> Result<Next> {
    ///     cx.status(|status: &mut ServiceStatus| status.conditions = None).await?;
    ///     Ok(Next::Done)
    /// }
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the status does not decode, if the server refuses, or with a conflict if other
    /// writers were faster five times in a row.
    pub async fn status(&self, change: impl FnMut(&mut K::Status)) -> Result<bool> {
        self.status_as::<K::Status>(change).await
    }
}

impl<K: Object> Context<K> {
    /// Changes the status through a type of the author's choice, as `status` does.
    ///
    /// For kinds whose Rust type does not name its status type, such as those of `k8s-openapi`, and
    /// for kinds known at run time. Nothing checks that the type fits the kind; fields it does not
    /// have are left alone.
    ///
    /// # Errors
    ///
    /// Fails if the status does not decode into `S`, if the server refuses, or with a conflict if
    /// other writers were faster five times in a row.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{Service, ServiceStatus};
    /// use windlass::{Client, Context, Controller, Key, Manager, Next, Result, condition};
    ///
    /// async fn reconcile(cx: Context<Service>) -> Result<Next> {
    ///     cx.status_as(|status: &mut ServiceStatus| {
    ///         let ready = cx.condition("Ready", true).reason("Checked").message("all is well");
    ///         ready.set(status.conditions.get_or_insert_default());
    ///     })
    ///     .await?;
    ///     Ok(Next::Done)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let controller = Controller::<Service>::builder("ready").build(reconcile);
    /// let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// let client = handle.client();
    /// # let service: Service = serde_json::from_value(serde_json::json!({
    /// #     "metadata": {"name": "web", "namespace": "default"},
    /// #     "spec": {"ports": [{"port": 80}]},
    /// # }))?;
    /// let services = client.api::<Service>();
    /// services.create(&service).await?;
    /// let (key, second) = (Key::of(&service), std::time::Duration::from_secs(1));
    /// windlass::wait::until("the condition", second / 10, 10 * second, || async {
    ///     let service = services.get(&key).await?.expect("is there");
    ///     let conditions = service.status.as_ref().and_then(|status| status.conditions.as_ref());
    ///     Ok(conditions.is_some_and(|conditions| condition::is_true(conditions, "Ready")))
    /// })
    /// .await?;
    /// # handle.stop().await
    /// # }
    /// ```
    pub async fn status_as<S>(&self, change: impl FnMut(&mut S)) -> Result<bool>
    where
        S: Serialize + DeserializeOwned + Default,
    {
        self.status_by(self.client(), change).await
    }

    /// Changes the status with a client of the caller's choice.
    pub(super) async fn status_by<S>(
        &self,
        client: &Client,
        mut change: impl FnMut(&mut S),
    ) -> Result<bool>
    where
        S: Serialize + DeserializeOwned + Default,
    {
        let Some(object) = self.found() else { return Ok(false) };
        let uid = object.uid().to_string();
        let api = client.api_of::<DynamicObject>(self.kind());
        let status_api = api.subresource("status");
        let mut newest = self.client().cached().json(self.kind(), self.key())?;
        let mut attempts = 0;
        loop {
            let Some(current) = newest else { return Ok(false) };
            let metadata = &current["metadata"];
            if metadata["uid"].as_str() != Some(&uid) {
                return Err(self.recreated("update the status of"));
            }
            let status = current.get("status").unwrap_or(&Value::Null);
            let changed = changed(status, &mut change).map_err(|source| Error::Decode {
                what: format!("status of {} {}", self.kind(), self.key()),
                source,
            })?;
            let Some(patch) = changed.and_then(|after| merge_diff(status, &after)) else {
                return Ok(false);
            };
            let metadata = json!({"uid": uid, "resourceVersion": metadata["resourceVersion"]});
            let patch = Patch::Merge(json!({"metadata": metadata, "status": patch}));
            attempts += 1;
            let failed = match status_api.patch(self.key(), &patch).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_conflict() && attempts < ATTEMPTS_MAX => error,
                Err(error) if error.is_not_found() => error,
                Err(error) => return Err(error),
            };
            let live = api.get(self.key()).await?;
            let there = live.as_ref().is_some_and(|live| live.metadata.uid.as_ref() == Some(&uid));
            if failed.is_not_found() && there {
                // It is the status that does not exist: the kind has none.
                return Err(failed);
            }
            newest = live.map(|live| serde_json::to_value(&*live)).transpose()?;
        }
    }

    /// The error of a write to an object that is not the one this reconcile began with.
    pub(super) fn recreated(&self, verb: &str) -> Error {
        let status =
            Status::failure("deleted and created again since the reconcile began", "Conflict");
        let action = format!("{verb} {} {}", self.kind().kind(), self.key());
        Error::Api { action, status: Box::new(status.with_code(409)) }
    }
}

/// Runs `change` on a status and returns the status after it; `None` if nothing changed.
fn changed<S>(
    status: &Value,
    change: impl FnOnce(&mut S),
) -> Result<Option<Value>, serde_json::Error>
where
    S: Serialize + DeserializeOwned + Default,
{
    let mut typed = match status {
        Value::Null => S::default(),
        status => S::deserialize(status)?,
    };
    let before = serde_json::to_value(&typed)?;
    change(&mut typed);
    let after = serde_json::to_value(&typed)?;
    if before == after {
        return Ok(None);
    }
    // The first status is written whole: the type may need fields that are still at their default.
    Ok(Some(if status.is_null() { after } else { carry_over(status, &before, after) }))
}

/// Makes the change from `before` to `after` on `current`, of which `before` may show only a part.
fn carry_over(current: &Value, before: &Value, after: Value) -> Value {
    if *before == after {
        return current.clone();
    }
    match (current, before, after) {
        (Value::Object(current), Value::Object(before), Value::Object(after)) => {
            let mut result: Map<String, Value> = current.clone();
            result.retain(|name, _| !before.contains_key(name) || after.contains_key(name));
            for (name, value) in after {
                let value = match (current.get(&name), before.get(&name)) {
                    (Some(current), Some(before)) => carry_over(current, before, value),
                    // Not there, and at its default before and after.
                    (None, Some(before)) if *before == value => continue,
                    _ => value,
                };
                result.insert(name, value);
            }
            Value::Object(result)
        }
        (Value::Array(current), Value::Array(before), Value::Array(after))
            if current.len() == before.len() =>
        {
            carry_over_items(current, before, after)
        }
        (_, _, after) => after,
    }
}

/// Makes the change from `before` to `after` on the items of a list.
fn carry_over_items(current: &[Value], before: &[Value], after: Vec<Value>) -> Value {
    let places = items::places_before(before, &after);
    let items = after.into_iter().zip(places).map(|(item, place)| match place {
        Some(place) => carry_over(&current[place], &before[place], item),
        None => item,
    });
    Value::Array(items.collect())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Serialize, Deserialize)]
    struct Known {
        #[serde(default)]
        nodes: Vec<String>,
        #[serde(default)]
        conditions: Vec<Condition>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    }

    #[derive(Debug, Default, Serialize, Deserialize)]
    struct Condition {
        #[serde(rename = "type")]
        type_: String,
        status: String,
    }

    fn patch(status: &Value, change: impl FnOnce(&mut Known)) -> Option<Value> {
        let after = changed(status, change).expect("decodes")?;
        merge_diff(status, &after)
    }

    #[test]
    fn fields_that_the_type_does_not_know_are_not_touched() {
        let status = json!({"nodes": ["a"], "theirs": {"x": 1}, "phase": "Old"});
        assert_eq!(patch(&status, |_| {}), None);
        let after = patch(&status, |known| known.nodes.push("b".into()));
        assert_eq!(after, Some(json!({"nodes": ["a", "b"]})));
        assert_eq!(patch(&status, |known| known.phase = None), Some(json!({"phase": null})));
    }

    #[test]
    fn items_of_a_list_keep_fields_that_the_type_does_not_know() {
        let status = json!({"conditions": [
            {"type": "Ready", "status": "False", "since": 1},
            {"type": "Other", "status": "True", "since": 2},
        ]});
        let after = patch(&status, |known| {
            known.conditions[0].status = "True".into();
            known.conditions.swap(0, 1);
            known.conditions.push(Condition { type_: "New".into(), status: "True".into() });
        });
        let wanted = json!({"conditions": [
            {"type": "Other", "status": "True", "since": 2},
            {"type": "Ready", "status": "True", "since": 1},
            {"type": "New", "status": "True"},
        ]});
        assert_eq!(after, Some(wanted));
        let after = patch(&status, |known| drop(known.conditions.remove(0)));
        let wanted = json!({"conditions": [{"type": "Other", "status": "True", "since": 2}]});
        assert_eq!(after, Some(wanted));
    }

    #[test]
    fn items_without_a_name_keep_fields_that_the_type_does_not_know() {
        #[derive(Default, Serialize, Deserialize)]
        struct Members {
            members: Vec<Member>,
        }
        #[derive(Serialize, Deserialize)]
        struct Member {
            id: u32,
            state: String,
        }
        let status = json!({"members": [{"id": 1, "state": "a", "extra": 1}]});
        let patch = |change: fn(&mut Vec<Member>)| {
            let change = |known: &mut Members| change(&mut known.members);
            merge_diff(&status, &changed(&status, change).expect("decodes").expect("changed"))
        };
        let after = patch(|members| members[0].state = "b".into());
        let wanted = json!({"members": [{"id": 1, "state": "b", "extra": 1}]});
        assert_eq!(after, Some(wanted));
        let after = patch(|members| members[0].id = 2);
        assert_eq!(after, Some(json!({"members": [{"id": 2, "state": "a"}]})), "another member");
    }

    #[test]
    fn the_first_status_is_written_whole_and_only_if_something_is_set() {
        assert_eq!(patch(&Value::Null, |_| {}), None);
        let first = patch(&Value::Null, |known| known.phase = Some("New".into()));
        assert_eq!(first, Some(json!({"nodes": [], "conditions": [], "phase": "New"})));
    }

    #[test]
    fn items_of_one_name_are_not_taken_for_each_other() {
        let status = json!({"conditions": [
            {"type": "Ready", "status": "A", "since": 1},
            {"type": "Ready", "status": "B", "since": 2},
        ]});
        let after = patch(&status, |known| drop(known.conditions.remove(0)));
        let wanted = json!({"conditions": [{"type": "Ready", "status": "B", "since": 2}]});
        assert_eq!(after, Some(wanted));
    }

    #[test]
    fn lists_of_equal_items_are_replaced_as_the_author_wrote_them() {
        let status = json!({"nodes": ["a", "a", "b"]});
        let after = patch(&status, |known| known.nodes = vec!["b".into(), "a".into(), "a".into()]);
        assert_eq!(after, Some(json!({"nodes": ["b", "a", "a"]})));
    }
}
