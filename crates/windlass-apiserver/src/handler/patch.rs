//! PATCH: JSON, merge, strategic and apply.

use std::sync::Arc;

use serde_json::Value;

use super::write::{Intent, NewObject, Part, Write};
use super::{Answer, Call, FieldValidation, WriteOptions};
use crate::decode::Media;
use crate::merge::{
    ApplyRequest, apply, check_apply_body, json_patch, merge_patch, strategic_patch,
};
use crate::object;
use crate::resource::Gvk;
use crate::shape::ShapeRef;
use crate::status::{Result, Status};

const CUSTOM_PATCHES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Apply,
    Json,
    Merge,
    Strategic,
}

/// A patch that is not applied.
pub(super) struct Patch {
    kind: PatchKind,
    document: Value,
    /// The strict decoding errors of the document itself.
    strict: Vec<String>,
}

// === impl Patch ===

impl Patch {
    /// A value after the patch.
    pub(super) fn patched(&self, old: &Value, shape: &ShapeRef) -> Result<Value> {
        Ok(match self.kind {
            PatchKind::Json => json_patch(old.clone(), &self.document)?,
            PatchKind::Merge => {
                let mut document = old.clone();
                merge_patch(&mut document, &self.document)?;
                document
            }
            PatchKind::Strategic => strategic_patch(old.clone(), self.document.clone(), shape)?,
            PatchKind::Apply => return Err(Status::internal("apply has a way of its own")),
        })
    }
}

impl Call {
    pub(super) async fn patch(self: &Arc<Self>) -> Result<Answer> {
        self.patch_part(Part::Main).await
    }

    /// PATCH of an object or one of its parts.
    pub(super) async fn patch_part(self: &Arc<Self>, part: Part) -> Result<Answer> {
        let kind = self.patch_kind()?;
        let options = self.write_options("PatchOptions", kind == PatchKind::Apply)?;
        if kind == PatchKind::Apply {
            return self.apply_part(part, &options).await;
        }
        // A missing object is reported before a wrong patch.
        self.entry()?;
        let patch = self.patch_body(kind)?;
        let make = |old: &Value| self.patched(&patch, old, &options);
        let intent = Intent::Change { make: &make, versioned: false, tracked: false };
        let written = Write::change(self, part, intent, "PatchOptions", &options).run().await?;
        self.answer_written(200, written).await
    }

    pub(super) fn patch_kind(&self) -> Result<PatchKind> {
        let custom = self.resource.is_custom();
        let given = self.headers.get(http::header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        // Unlike the types of other bodies, those of patches are written in small letters.
        match given.unwrap_or_default().split(';').next().unwrap_or_default() {
            "application/json-patch+json" => Ok(PatchKind::Json),
            "application/merge-patch+json" => Ok(PatchKind::Merge),
            "application/apply-patch+yaml" => Ok(PatchKind::Apply),
            "application/strategic-merge-patch+json" if !custom => Ok(PatchKind::Strategic),
            _ if custom => Err(Status::unsupported_media_type(CUSTOM_PATCHES)),
            _ => Err(Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                .with_details(Default::default())),
        }
    }

    /// The patch in the body.
    pub(super) fn patch_body(&self, kind: PatchKind) -> Result<Patch> {
        let wrong = |error: String| {
            let prefix = "couldn't get version/kind; json parse error: ";
            let why = error.strip_prefix(prefix).unwrap_or(&error);
            Status::bad_request(match kind {
                PatchKind::Strategic => why.to_owned(),
                _ => format!("error decoding patch: {why}"),
            })
        };
        let parsed = crate::decode::parse(&self.body, Media::Json).map_err(wrong)?;
        let document = parsed.to_value().map_err(wrong)?;
        if kind != PatchKind::Json {
            return Ok(Patch { kind, document, strict: parsed.duplicates() });
        }
        // Tests compare numbers as they are written: 1.0 is not 1.
        let document = serde_json::from_slice(&self.body).unwrap_or(document);
        let strict = unknown_keys(&document);
        Ok(Patch { kind, document, strict })
    }

    /// The object after the patch, decoded as a body would be.
    fn patched(&self, patch: &Patch, old: &Value, options: &WriteOptions) -> Result<Value> {
        let patched = patch.patched(old, &self.resource.shape)?;
        let map = (patch.kind == PatchKind::Strategic).then_some(&patch.document);
        let mut object = self.decode_patched(patched, map, patch.strict.clone(), options)?;
        self.check_identity(&mut object)?;
        Ok(object)
    }

    /// A patch may not rename or move the object.
    fn check_identity(&self, object: &mut Value) -> Result<()> {
        let name = object::name(object);
        if name != self.info.name {
            return Err(Status::bad_request(match name {
                "" => format!(
                    "the name of the object ({} based on URL) was undeterminable: name must be provided",
                    self.info.name
                ),
                name => format!(
                    "the name of the object ({name}) does not match the name on the URL ({})",
                    self.info.name
                ),
            }));
        }
        self.place(object)
    }

    async fn apply_part(self: &Arc<Self>, part: Part, options: &WriteOptions) -> Result<Answer> {
        let patch = self.apply_body(&self.resource.gvk)?;
        let live = self.server.store.world().get(&self.storage, &self.key());
        if live.is_none() {
            let creates = part == Part::Main
                || (part == Part::Status && self.rules().allows_create_on_update());
            if !creates {
                return Err(Status::not_found(&self.resource.gr(), &self.info.name));
            }
            return self.apply_new(&patch, options).await;
        }
        let make = |old: &Value| self.applied(&patch, Some(old), options);
        let intent = Intent::Change { make: &make, versioned: false, tracked: true };
        let written = Write::change(self, part, intent, "PatchOptions", options).run().await?;
        self.answer_written(200, written).await
    }

    async fn apply_new(self: &Arc<Self>, patch: &Value, options: &WriteOptions) -> Result<Answer> {
        let uid = object::uid(patch);
        if !uid.is_empty() {
            return Err(Status::conflict(
                &self.resource.gr(),
                &self.info.name,
                format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                ),
            ));
        }
        self.server.check_create_allowed(self, &self.info.name)?;
        let mut object = self.applied(patch, None, options)?;
        object::meta_mut(&mut object).remove("resourceVersion");
        let created = Write::create(self, NewObject::tracked(object), options).run().await?;
        self.answer_written(201, created).await
    }

    fn applied(
        &self,
        patch: &Value,
        live: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<Value> {
        let reset = self.reset_fields(&self.info.subresource);
        let convert = |object: &Value, api_version: &str| {
            self.server.convert_for_fields(&self.resource, object, api_version)
        };
        let request = ApplyRequest {
            live,
            patch,
            shape: &self.resource.shape,
            gvk: &self.resource.gvk,
            subresource: &self.info.subresource,
            manager: &options.manager,
            force: options.force,
            now: &self.server.clock.stamp(),
            reset: &reset,
            convert: &convert,
        };
        let merged = apply(&request)?;
        self.report_yaml(options)?;
        let mut object = self.decode_merged(merged, patch)?;
        self.check_identity(&mut object)?;
        Ok(object)
    }

    /// The configuration in the body of an apply.
    pub(super) fn apply_body(&self, gvk: &Gvk) -> Result<Value> {
        let patch = crate::decode::parse(&self.body, Media::Yaml)
            .and_then(|document| document.to_value())
            .map_err(|error| {
                let inside = "error converting YAML to JSON: ";
                Status::bad_request(format!("error decoding YAML: {inside}{error}"))
            })?;
        check_apply_body(&patch, gvk)?;
        if !object::meta(&patch).get("managedFields").unwrap_or(&Value::Null).is_null() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        Ok(patch)
    }

    /// Duplicate keys of an applied configuration.
    pub(super) fn report_yaml(&self, options: &WriteOptions) -> Result<()> {
        if options.validation == FieldValidation::Ignore {
            return Ok(());
        }
        let Some(error) = crate::decode::yaml_duplicate(&self.body) else { return Ok(()) };
        if options.validation == FieldValidation::Strict {
            let prefix = "error strict decoding YAML: error converting YAML to JSON: ";
            return Err(Status::bad_request(format!("{prefix}{error}")));
        }
        for line in error.lines().skip(1) {
            self.warn(line.trim());
        }
        Ok(())
    }
}

/// Keys of JSON patch operations that mean nothing, each operation's in their order.
fn unknown_keys(patch: &Value) -> Vec<String> {
    let known = ["op", "path", "from", "value"];
    let ops = patch.as_array().into_iter().flatten().enumerate();
    let keys = ops.flat_map(|(index, op)| {
        op.as_object().into_iter().flatten().map(move |(key, _)| (index, key))
    });
    keys.filter(|(_, key)| !known.contains(&key.as_str()))
        .map(|(index, key)| format!("json patch unknown field \"[{index}].{key}\""))
        .collect()
}
