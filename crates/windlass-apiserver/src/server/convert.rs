//! Between the stored form of an object and the version it is served in.

use bytes::Bytes;
use serde_json::Value;

use self::webhook::{has_webhook, storage_version};
use super::Inner;
use crate::builtin::strategy_of;
use crate::custom::{self, Version};
use crate::merge::PathSet;
use crate::object;
use crate::registry::{Family, storage_of};
use crate::resource::{Gvk, Resource, split_api_version};
use crate::shape::ShapeRef;
use crate::status::{Result, Status};
use crate::store::Entry;
use crate::work;

mod webhook;

impl Inner {
    /// Returns `{"kind":"Pod","apiVersion":"v1",`, which precedes a stored body without its brace.
    ///
    /// Bodies of custom resources have their apiVersion themselves.
    pub fn type_prefix(&self, resource: &Resource) -> Bytes {
        let (kind, api_version) = (&resource.gvk.kind, resource.gvk.api_version());
        match resource.is_custom() {
            true => format!("{{\"kind\":\"{kind}\",").into(),
            false => format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",").into(),
        }
    }

    /// Returns `true` if the stored bytes are what this resource serves.
    pub fn is_raw(&self, resource: &Resource, entry: &Entry) -> bool {
        match &resource.custom {
            Some(version) => {
                let defined = object::meta_str(&version.definition, "resourceVersion");
                version.served_as_stored
                    && !has_webhook(&version.definition)
                    && defined.parse().is_ok_and(|at: u64| entry.revision > at)
                    && starts_with_version(&entry.body, resource)
            }
            None => !strategy_of(&resource.gvk).is_converted(),
        }
    }

    /// Returns `true` if this is the version that most watchers of the resource see.
    pub fn is_main_version(&self, resource: &Resource) -> bool {
        match &resource.custom {
            Some(version) => version.storage,
            None => !strategy_of(&resource.gvk).is_converted(),
        }
    }

    /// Returns a stored entry in the version of a resource, with apiVersion and kind.
    pub async fn object_of(&self, resource: &Resource, entry: &Entry) -> Result<Value> {
        let mut objects = self.objects_of(resource, std::slice::from_ref(&entry)).await?;
        objects.pop().ok_or_else(|| Status::internal("a conversion lost its object"))
    }

    /// Stored entries in the version of a resource, converted together.
    pub async fn objects_of(&self, resource: &Resource, entries: &[&Entry]) -> Result<Vec<Value>> {
        entries.iter().for_each(|entry| work::scanned(entry.body.len()));
        let mut objects: Vec<Value> = entries.iter().map(|entry| entry.object()).collect();
        match &resource.custom {
            Some(version) if has_webhook(&version.definition) => {
                objects = self.read_converted(resource, version, objects).await?;
            }
            Some(version) => {
                objects.iter_mut().for_each(|object| self.read_custom(resource, version, object));
            }
            None => {}
        }
        for object in &mut objects {
            if !resource.is_custom() {
                *object = strategy_of(&resource.gvk).read_stored(std::mem::take(object));
            }
            object::set_type(object, &resource.gvk.api_version(), &resource.gvk.kind);
        }
        Ok(objects)
    }

    async fn read_converted(
        &self,
        resource: &Resource,
        version: &Version,
        mut objects: Vec<Value>,
    ) -> Result<Vec<Value>> {
        let family = self.registry.family(&storage_of(resource));
        for object in &mut objects {
            self.read_stored(resource, version, family.as_deref(), object);
        }
        let wanted = resource.gvk.api_version();
        let mut objects = self.convert_all(&version.definition, objects, &wanted).await?;
        objects.iter_mut().for_each(|object| version.read(object));
        Ok(objects)
    }

    /// Returns an object as it is stored: in the storage's version, without apiVersion and kind.
    pub async fn to_storage(&self, resource: &Resource, mut object: Value) -> Result<Value> {
        match &resource.custom {
            Some(version) if has_webhook(&version.definition) => {
                return self.to_versioned_storage(resource, version, object).await;
            }
            Some(version) => return Ok(self.store_custom(resource, version, object)),
            None => object = strategy_of(&resource.gvk).stored_form(object),
        }
        object::strip_type(&mut object);
        Ok(object)
    }

    /// Brings a stored custom object into the version of a resource: it is read in the version it
    /// was stored in and defaulted there, then converted.
    fn read_custom(&self, resource: &Resource, version: &Version, object: &mut Value) {
        let family = self.registry.family(&storage_of(resource));
        let from = self.read_stored(resource, version, family.as_deref(), object);
        if from.name != version.name {
            custom::convert::rename(object, &resource.gvk.api_version());
            // What was readable in one version stays so: only unknown fields go.
            let _ = version.decode(object);
        }
    }

    /// Reads a stored object in the version it was stored in, defaults it there, and returns
    /// that version as well.
    fn read_stored<'a>(
        &self,
        resource: &Resource,
        version: &'a Version,
        family: Option<&'a Family>,
        object: &mut Value,
    ) -> &'a Version {
        let stored = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        let from = family.and_then(|f| f.version(&stored).or_else(|| f.storage()));
        let from = from.map_or(version, |from| from);
        object::set_type(object, &from.gvk.api_version(), &resource.gvk.kind);
        from.read(object);
        from.default(object);
        from
    }

    /// A custom object in the storage version, with its apiVersion.
    fn store_custom(&self, resource: &Resource, version: &Version, mut object: Value) -> Value {
        let family = self.registry.family(&storage_of(resource));
        let storage = family.as_ref().and_then(|f| f.storage());
        let storage = storage.map_or(version, |storage| storage);
        custom::convert::rename(&mut object, &storage.gvk.api_version());
        // The object is valid in its own version: here only unknown fields go.
        let _ = storage.decode(&mut object);
        if let Value::Object(map) = &mut object {
            map.remove("kind");
        }
        object
    }

    /// An object as it is stored when a webhook converts it: with the version it is stored in.
    async fn to_versioned_storage(
        &self,
        resource: &Resource,
        version: &Version,
        object: Value,
    ) -> Result<Value> {
        let stored = storage_version(&version.definition);
        let mut converted = self.convert_all(&version.definition, vec![object], &stored).await?;
        let mut object = converted.pop().unwrap_or_default();
        let (group, name) = split_api_version(&stored);
        let served = self.registry.find(group, name, &resource.plural);
        if let Some(target) =
            served.and_then(|r| r.custom.clone()).filter(|v| v.name != version.name)
        {
            target.decode(&mut object).map_err(Status::untyped)?;
        }
        object::strip_type(&mut object);
        object["apiVersion"] = stored.into();
        Ok(object)
    }

    /// Returns an object in another version of its resource, with apiVersion and kind.
    pub async fn convert_between(
        &self,
        from: &Resource,
        to: &Resource,
        object: Value,
    ) -> Result<Value> {
        if let (Some(_), Some(version)) = (&from.custom, &to.custom) {
            let wanted = to.gvk.api_version();
            let mut objects = self.convert_all(&version.definition, vec![object], &wanted).await?;
            let mut object = objects.pop().unwrap_or_default();
            version.read(&mut object);
            return Ok(object);
        }
        let mut object = match from.gvk == to.gvk {
            true => object,
            false => between(&from.gvk, &to.gvk, object),
        };
        object::set_type(&mut object, &to.gvk.api_version(), &to.gvk.kind);
        Ok(object)
    }

    /// Returns an object in the version an entry of `managedFields` is in, with its shape there.
    pub fn convert_for_fields(
        &self,
        resource: &Resource,
        object: &Value,
        api_version: &str,
    ) -> Option<(Value, ShapeRef)> {
        let (group, version) = split_api_version(api_version);
        if resource.is_custom() {
            let family = self.registry.family(&storage_of(resource))?;
            let other = family.version(api_version)?;
            let mut object = copy_of(object);
            object::set_type(&mut object, api_version, &resource.gvk.kind);
            return Some((object, other.shape()));
        }
        let other = self.registry.find(group, version, &resource.plural)?;
        let mut object = copy_of(object);
        // A value may come back from another version: its own one counts, not the resource's.
        let own = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        let own = Gvk { version: split_api_version(&own).1.into(), ..resource.gvk.clone() };
        if own.version != other.gvk.version {
            object = between(&own, &other.gvk, object);
        }
        object::set_type(&mut object, api_version, &other.gvk.kind);
        Some((object, other.shape.clone()))
    }

    /// Returns the fields a write to a part of the resource does not own.
    pub fn reset_fields(&self, resource: &Resource, subresource: &str) -> PathSet {
        let paths: Vec<&str> = match (&resource.custom, subresource) {
            (Some(version), "") if version.status => vec!["status"],
            (Some(version), "status") if version.status => vec!["spec", "metadata"],
            (Some(_), _) => Vec::new(),
            (None, "") => strategy_of(&resource.gvk).reset_fields().to_vec(),
            (None, part) => strategy_of(&resource.gvk).reset_part_fields(part).to_vec(),
        };
        PathSet::of(&paths)
    }
}

fn copy_of(object: &Value) -> Value {
    work::walked(object);
    object.clone()
}

/// An object of a built-in kind in another version, by way of the form in which both are stored.
fn between(from: &Gvk, to: &Gvk, object: Value) -> Value {
    strategy_of(to).read_stored(strategy_of(from).stored_form(object))
}

/// Returns `true` if a stored body begins with the apiVersion a resource is served in.
fn starts_with_version(body: &[u8], resource: &Resource) -> bool {
    let gvk = &resource.gvk;
    let rest = body.strip_prefix(b"{\"apiVersion\":\"");
    let rest = rest.and_then(|rest| rest.strip_prefix(gvk.group.as_bytes()));
    let rest = rest.and_then(|rest| rest.strip_prefix(b"/"));
    let rest = rest.and_then(|rest| rest.strip_prefix(gvk.version.as_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b"\""))
}
