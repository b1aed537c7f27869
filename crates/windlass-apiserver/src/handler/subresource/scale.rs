//! The scale subresource: how many, of whatever the kind counts.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::builtin::workload;
use crate::handler::patch::PatchKind;
use crate::handler::write::{Intent, Make, Part, Write};
use crate::handler::{Answer, Call, WriteOptions};
use crate::merge::{
    ApplyRequest, PathSet, ScalePaths, UpdateRequest, apply, scale_to_parent, scale_to_subresource,
    track_update,
};
use crate::object;
use crate::resource::Gvk;
use crate::status::{FieldError, GroupResource, Result, Status};

impl Call {
    pub(super) async fn scale(self: &Arc<Self>) -> Result<Answer> {
        match self.info.verb.as_str() {
            "get" => {
                let entry = self.entry()?;
                let object = self.object_of(&entry).await?;
                Ok(Answer::Object(200, self.scale_of(&object)?))
            }
            "update" => {
                let options = self.write_options("UpdateOptions", false)?;
                let mut scale = self.decode_as(&scale_gvk(), &options)?;
                self.check_name(&scale)?;
                self.place(&mut scale)?;
                self.set_scale(&options, "UpdateOptions", &|_| Ok(scale.clone())).await
            }
            _ => self.patch_scale().await,
        }
    }

    async fn patch_scale(self: &Arc<Self>) -> Result<Answer> {
        let kind = self.patch_kind()?;
        let options = self.write_options("PatchOptions", kind == PatchKind::Apply)?;
        if kind == PatchKind::Apply {
            return self.apply_scale(&options).await;
        }
        // A missing object is reported before a wrong patch.
        self.entry()?;
        let shape = crate::schema::shape_of(&scale_gvk());
        let patch = self.patch_body(kind)?;
        let make = |current: &Value| {
            let patched = patch.patched(current, &shape)?;
            let checked = crate::decode::check_value(&patched, &scale_gvk());
            let mut scale = checked
                .map_err(|error| {
                    let error = FieldError::invalid_str("patch", patched.to_string(), error);
                    Status::invalid("", "", "", &[error])
                })?
                .value;
            object::set_type(&mut scale, "autoscaling/v1", "Scale");
            self.check_name(&scale)?;
            self.place(&mut scale)?;
            Ok(scale)
        };
        self.set_scale(&options, "PatchOptions", &make).await
    }

    async fn apply_scale(self: &Arc<Self>, options: &WriteOptions) -> Result<Answer> {
        let patch = self.apply_body(&scale_gvk())?;
        let shape = crate::schema::shape_of(&scale_gvk());
        let reset = PathSet::default();
        let change = |old: &Value| {
            let current = self.tracked_scale(old)?;
            let wanted = apply(&ApplyRequest {
                live: Some(&current),
                patch: &patch,
                shape: &shape,
                gvk: &scale_gvk(),
                subresource: "scale",
                manager: &options.manager,
                force: options.force,
                now: &self.server.clock.stamp(),
                reset: &reset,
                convert: &|_, _| None,
            })?;
            self.report_yaml(options)?;
            if self.resource.is_custom() && wanted["spec"] != current["spec"] {
                return Err(unconvertible(&patch));
            }
            self.rescaled(old, &wanted)
        };
        self.change_scale(options, "PatchOptions", &change).await
    }

    /// Writes what `make` wants of the current scale into the object.
    async fn set_scale(
        self: &Arc<Self>,
        options: &WriteOptions,
        options_kind: &'static str,
        make: &Make<'_>,
    ) -> Result<Answer> {
        let shape = crate::schema::shape_of(&scale_gvk());
        let reset = PathSet::default();
        let change = |old: &Value| {
            let current = self.tracked_scale(old)?;
            let mut wanted = make(&current)?;
            let request = UpdateRequest {
                live: Some(&current),
                shape: &shape,
                gvk: &scale_gvk(),
                subresource: "scale",
                manager: &options.manager,
                now: &self.server.clock.stamp(),
                reset: &reset,
                convert: &|_, _| None,
            };
            track_update(&request, &mut wanted);
            self.rescaled(old, &wanted)
        };
        self.change_scale(options, options_kind, &change).await
    }

    async fn change_scale(
        self: &Arc<Self>,
        options: &WriteOptions,
        options_kind: &'static str,
        change: &Make<'_>,
    ) -> Result<Answer> {
        let intent = Intent::Change { make: change, versioned: false, tracked: true };
        let written = Write::change(self, Part::Main, intent, options_kind, options).run().await?;
        let object = self.object_written(written).await?;
        let scale = match self.custom_paths()? {
            Some(paths) => paths.answer(&object)?,
            None => self.scale_of(&object)?,
        };
        Ok(Answer::Object(200, scale))
    }

    /// The scale a write starts from, with the owners of its replicas.
    fn tracked_scale(&self, object: &Value) -> Result<Value> {
        let mut scale = match self.custom_paths()? {
            Some(paths) => paths.read_for_update(object)?,
            None => self.scale_of(object)?,
        };
        let managed = object::meta(object).get("managedFields");
        let managed = self.with_replicas_paths(|paths| scale_to_subresource(managed, paths));
        if let Some(managed) = managed {
            object::meta_mut(&mut scale).insert("managedFields".into(), managed);
        }
        Ok(scale)
    }

    /// The object with the replicas of a scale, and with their owners.
    fn rescaled(&self, old: &Value, wanted: &Value) -> Result<Value> {
        let mut new = old.clone();
        let uid = object::uid(wanted);
        if !uid.is_empty() && uid != object::uid(old) {
            return Err(self.scale_uid_conflict(uid, object::uid(old)));
        }
        if !self.resource.is_custom() {
            self.check_scale(wanted)?;
        }
        self.put_replicas(&mut new, wanted)?;
        let (stored, written) =
            (object::meta(old).get("managedFields"), object::meta(wanted).get("managedFields"));
        let managed = self.with_replicas_paths(|paths| scale_to_parent(stored, written, paths));
        let metadata = object::meta_mut(&mut new);
        match managed {
            Some(managed) => metadata.insert("managedFields".into(), managed),
            None => metadata.remove("managedFields"),
        };
        let version = object::meta_str(wanted, "resourceVersion");
        metadata.insert("resourceVersion".into(), version.into());
        Ok(new)
    }

    fn scale_uid_conflict(&self, wanted: &str, found: &str) -> Status {
        let why = format!(
            "Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        );
        let resource = match self.resource.is_custom() {
            true => self.resource.gvk.kind.to_string(),
            false => format!("{}/scale", self.resource.plural),
        };
        let gr = GroupResource { group: &self.resource.gvk.group, resource: &resource };
        Status::conflict(&gr, &self.info.name, why)
    }

    /// Maps each version of the parent to the path of its replicas.
    fn with_replicas_paths<T>(&self, f: impl FnOnce(&ScalePaths<'_>) -> T) -> T {
        let own = self.resource.gvk.api_version();
        let family = self.server.registry.family(&self.storage);
        let custom: Vec<(String, String)> = family
            .iter()
            .flat_map(|f| &f.versions)
            .filter_map(|v| Some((v.gvk.api_version(), v.scale.as_ref()?.spec.clone())))
            .collect();
        let builtin = [(own.as_str(), "spec.replicas")];
        let custom: Vec<(&str, &str)> =
            custom.iter().map(|(version, path)| (version.as_str(), path.as_str())).collect();
        let paths = if self.resource.is_custom() { custom.as_slice() } else { &builtin };
        f(&ScalePaths { api_version: &own, paths })
    }

    fn custom_paths(&self) -> Result<Option<&crate::custom::ScalePaths>> {
        match &self.resource.custom {
            None => Ok(None),
            Some(version) => version.scale.as_ref().map(Some).ok_or_else(Status::no_such_resource),
        }
    }

    fn check_scale(&self, scale: &Value) -> Result<()> {
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas < 0 {
            let why = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", &json!(replicas), why);
            return Err(Status::invalid("autoscaling", "Scale", &self.info.name, &[error]));
        }
        Ok(())
    }

    pub(crate) fn scale_of(&self, object: &Value) -> Result<Value> {
        if let Some(paths) = self.custom_paths()? {
            return paths.read(object);
        }
        workload::scale::scale_of(&self.resource.gvk, object).ok_or_else(Status::no_such_resource)
    }

    pub(crate) fn put_replicas(&self, object: &mut Value, scale: &Value) -> Result<()> {
        if let Some(paths) = self.custom_paths()? {
            return paths.write(object, scale);
        }
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        workload::scale::set_scale(&self.resource.gvk, object, replicas);
        Ok(())
    }
}

/// 500 for a scale applied to a custom object: the real server takes only one that changes nothing.
fn unconvertible(patch: &Value) -> Status {
    Status::untyped(format!(
        "failed to convert new object ({}/{}; autoscaling/v1, Kind=Scale) to proper version: \
         request to convert CR to an invalid group/version: autoscaling/v1",
        object::meta_str(patch, "namespace"),
        object::meta_str(patch, "name"),
    ))
}

fn scale_gvk() -> Gvk {
    Gvk::new("autoscaling", "v1", "Scale")
}
