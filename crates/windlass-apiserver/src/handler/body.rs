//! Request bodies: media types, decoding, strictness.

use std::borrow::Cow;

use serde_json::Value;
use windlass_protobuf::{Envelope, JsonOptions, message_of};

use super::{Call, FieldValidation, WriteOptions};
use crate::decode::{self, Document, Media};
use crate::object;
use crate::resource::{Gvk, split_api_version};
use crate::response::MEDIA;
use crate::status::{FieldError, Result, Status};

/// How the real server calls the table of kinds in its texts.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";
/// The same where a body is protobuf, or no object at all.
const OTHER_SCHEME: &str = "pkg/runtime/scheme.go:111";

/// What is wrong with a custom object in protobuf.
const NO_PROTOBUF: &str = "object *unstructured.Unstructured does not implement the protobuf \
                           marshalling interface and cannot be encoded to a protobuf message";

impl Call {
    /// The media type of the body, without parameters.
    pub(super) fn content_type(&self) -> String {
        let value = self.headers.get(http::header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let value = value.unwrap_or_default().split(';').next().unwrap_or_default();
        value.trim().to_ascii_lowercase()
    }

    fn media(&self) -> Result<Media> {
        match self.content_type().as_str() {
            "" | "application/json" => Ok(Media::Json),
            "application/yaml" => Ok(Media::Yaml),
            windlass_protobuf::MEDIA_TYPE => Ok(Media::Protobuf),
            _ => Err(Status::unsupported_media_type(MEDIA)),
        }
    }

    /// The body as text: protobuf of the kind that is wanted becomes JSON.
    fn text_body(&self, media: Media, gvk: &Gvk) -> Result<Cow<'_, [u8]>> {
        if media != Media::Protobuf {
            return Ok(Cow::Borrowed(&self.body));
        }
        let envelope = Envelope::read(&self.body).map_err(|error| {
            decode::unrecognized(&gvk.kind, &error.reason().to_string(), &self.body)
        })?;
        let Some(message) = message_of(&gvk.api_version(), &gvk.kind) else {
            let kind = if envelope.kind.is_empty() { &gvk.kind } else { envelope.kind };
            let version = match split_api_version(envelope.api_version) {
                (_, "") => &gvk.version,
                (_, version) => version,
            };
            return Err(decode::cannot_handle(kind, version, &gvk.kind, NO_PROTOBUF));
        };
        self.check_kind(envelope.api_version, envelope.kind, gvk)?;
        let quote = |text: &str| Value::from(text).to_string();
        let head = format!(
            "\"kind\":{},\"apiVersion\":{}",
            quote(envelope.kind),
            quote(envelope.api_version)
        );
        let mut json = Vec::with_capacity(self.body.len() * 3 / 2);
        message.write_json(envelope.raw, &head, JsonOptions::default(), &mut json).map_err(
            |error| {
                let error = error.reason().to_string();
                decode::cannot_handle(&gvk.kind, &gvk.version, &gvk.kind, &error)
            },
        )?;
        Ok(Cow::Owned(json))
    }

    /// The object in the body of a create or update, defaulted.
    pub(crate) fn decode_body(&self, options: &WriteOptions) -> Result<Value> {
        self.decode_as(&self.resource.gvk, options)
    }

    /// The object in the body as another kind, for subresources that have one of their own.
    pub(crate) fn decode_as(&self, gvk: &Gvk, options: &WriteOptions) -> Result<Value> {
        let media = self.media()?;
        let body = self.text_body(media, gvk)?;
        let document = decode::parse(&body, media)
            .map_err(|error| decode::unrecognized(&gvk.kind, &error, &self.body))?;
        let (api_version, kind) = document
            .identity()
            .map_err(|error| decode::unrecognized(&gvk.kind, &error, &self.body))?;
        if self.resource.is_custom() && *gvk == self.resource.gvk {
            return self.decode_custom(&document, api_version, kind, options);
        }
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        self.check_kind(&api_version, &kind, gvk)?;
        let checked = decode::check(&document, gvk)
            .map_err(|error| decode::cannot_handle(&gvk.kind, &gvk.version, &gvk.kind, &error))?;
        self.report_strict(&checked.strict, options, |strict| {
            let error = decode::strict_error(strict);
            decode::cannot_handle(&gvk.kind, &gvk.version, &gvk.kind, &error)
        })?;
        let mut value = checked.value;
        object::set_type(&mut value, &gvk.api_version(), &gvk.kind);
        if *gvk == self.resource.gvk {
            self.rules().defaults(&mut value);
        }
        if resets(&document) {
            put_reset(&mut value);
        }
        Ok(value)
    }

    fn decode_custom(
        &self,
        document: &Document<'_>,
        api_version: &str,
        kind: &str,
        options: &WriteOptions,
    ) -> Result<Value> {
        let gvk = &self.resource.gvk;
        let (group, version) = split_api_version(api_version);
        if kind.is_empty() {
            let body = String::from_utf8_lossy(&self.body);
            let why = format!("Object 'Kind' is missing in '{body}'");
            if options.validation == FieldValidation::Ignore {
                // The decoder that is not strict takes the kind of the path.
                let version = if version.is_empty() { &gvk.version } else { version };
                return Err(decode::cannot_handle(&gvk.kind, version, &gvk.kind, &why));
            }
            return Err(decode::unrecognized(&gvk.kind, &why, &self.body));
        }
        let value = document
            .to_value()
            .map_err(|error| decode::cannot_handle(kind, version, &gvk.kind, &error))?;
        let mut strict = document.duplicates();
        let family = self.server.registry.family(&self.storage);
        let declared = family.is_some_and(|f| f.versions.iter().any(|v| &*v.name == version));
        if group == &*gvk.group && !declared {
            // There is no schema for the version, so nothing is known.
            let known = ["apiVersion", "kind", "metadata"];
            let keys = value.as_object().into_iter().flatten().map(|(key, _)| key);
            let unknown = keys.filter(|key| !known.contains(&key.as_str()));
            strict.extend(unknown.map(|key| format!("unknown field \"{key}\"")));
            self.report_strict(&strict, options, |strict| {
                let error = decode::strict_error(strict);
                decode::cannot_handle(kind, version, &gvk.kind, &error)
            })?;
            strict.clear();
        }
        let (value, unknown) = self
            .prune(value)
            .map_err(|error| decode::cannot_handle(&gvk.kind, &gvk.version, &gvk.kind, &error))?;
        strict.extend(unknown);
        self.report_strict(&strict, options, |strict| {
            let error = decode::strict_error(strict);
            decode::cannot_handle(&gvk.kind, &gvk.version, &gvk.kind, &error)
        })?;
        // Another kind is left to validation, which names it.
        if api_version != gvk.api_version() {
            return Err(Status::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({})",
                gvk.api_version()
            )));
        }
        Ok(value)
    }

    /// A custom object without what its definition does not know, defaulted.
    fn prune(&self, value: Value) -> std::result::Result<(Value, Vec<String>), String> {
        match &self.resource.custom {
            None => Ok((value, Vec::new())),
            Some(version) => {
                let mut value = value;
                let unknown = version.decode(&mut value)?;
                let unknown = unknown.iter().map(|f| format!("unknown field \"{f}\"")).collect();
                version.default(&mut value);
                Ok((value, unknown))
            }
        }
    }

    /// The error for a patched document of an unknown kind.
    fn unknown_kind(&self, document: &Value) -> Option<String> {
        if document.is_array() {
            return Some(decode::no_identity("array"));
        }
        let version = document["apiVersion"].as_str()?;
        let kind = document["kind"].as_str()?;
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        let known = self.server.registry.find_kind(group, short, kind).is_some();
        let own = version == self.resource.gvk.api_version() && kind == &*self.resource.gvk.kind;
        (!known && !own).then(|| {
            format!(
                "no kind \"{kind}\" is registered for version \"{version}\" in scheme \
                 \"pkg/runtime/scheme.go:111\""
            )
        })
    }

    /// The result of a patch as an object of the kind.
    ///
    /// `map` is the patch, if it was a strategic one: its result is never text, and errors in
    /// it are reported with the patch. `strict` has the strict decoding errors of the patch itself.
    pub(super) fn decode_patched(
        &self,
        document: Value,
        map: Option<&Value>,
        mut strict: Vec<String>,
        options: &WriteOptions,
    ) -> Result<Value> {
        let refuse = |shown: String, why: &str| {
            let error = FieldError::invalid_str("patch", shown, why);
            Status::invalid("", "", "", &[error])
        };
        let gvk = &self.resource.gvk;
        // The decoder of custom objects leaves out empty lists before anybody sees them.
        let reset = !self.resource.is_custom() && is_reset(&document);
        let mut value = if self.resource.is_custom() {
            let shown = document.to_string();
            let (value, unknown) =
                self.prune(document).map_err(|error| refuse(shown.clone(), &error))?;
            strict.extend(unknown);
            self.report_strict(&strict, options, |strict| {
                refuse(shown, &decode::strict_error(strict))
            })?;
            value
        } else {
            let shown = || map.map_or_else(|| document.to_string(), crate::merge::go_text);
            let wrong = match map {
                Some(_) => decode::misfit(&document, gvk),
                None => self.unknown_kind(&document),
            };
            if let Some(error) = wrong {
                return Err(refuse(shown(), &error));
            }
            let check = if map.is_some() { decode::check_map } else { decode::check_value };
            let mut checked = check(&document, gvk).map_err(|error| refuse(shown(), &error))?;
            if map.is_none() && document["apiVersion"].as_str().is_none_or(str::is_empty) {
                checked = unversioned(&document);
            }
            strict.extend(checked.strict);
            self.report_strict(&strict, options, |strict| {
                refuse(shown(), &decode::strict_error(strict))
            })?;
            let mut value = checked.value;
            object::set_type(&mut value, &gvk.api_version(), &gvk.kind);
            self.rules().defaults(&mut value);
            value
        };
        if reset {
            put_reset(&mut value);
        }
        Ok(value)
    }

    /// The result of an apply as an object of the kind; a custom one is only defaulted.
    pub(super) fn decode_merged(&self, mut document: Value, patch: &Value) -> Result<Value> {
        if let Some(version) = &self.resource.custom {
            crate::custom::defaulting::apply(&version.schema, &mut document);
            return Ok(document);
        }
        let gvk = &self.resource.gvk;
        let checked = decode::check_map(&document, gvk).map_err(|error| {
            let text = |key: &str| object::meta_str(patch, key);
            let kind = format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind);
            let error = decode::misfit(&document, gvk)
                .unwrap_or_else(|| format!("error decoding from json: {error}"));
            Status::untyped(format!(
                "failed to convert new object ({}/{}; {kind}) to proper version: unable to convert unstructured object to {kind}: {error}",
                text("namespace"),
                text("name"),
            ))
        })?;
        let mut value = checked.value;
        object::set_type(&mut value, &gvk.api_version(), &gvk.kind);
        self.rules().defaults(&mut value);
        Ok(value)
    }

    /// Unknown and duplicate fields: warned about, refused or passed over.
    fn report_strict(
        &self,
        strict: &[String],
        options: &WriteOptions,
        refuse: impl FnOnce(&[String]) -> Status,
    ) -> Result<()> {
        if strict.is_empty() {
            return Ok(());
        }
        match options.validation {
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Warn => {
                for text in strict {
                    // Duplicate keys in YAML are one text with a line for each.
                    match text.split_once('\n') {
                        Some((_, lines)) => lines.lines().for_each(|line| self.warn(line.trim())),
                        None => self.warn(text.clone()),
                    }
                }
                Ok(())
            }
            FieldValidation::Strict => Err(refuse(strict)),
        }
    }

    /// Returns `true` if a body of this kind is acceptable where `gvk` is wanted.
    fn check_kind(&self, api_version: &str, kind: &str, gvk: &Gvk) -> Result<()> {
        let (group, version) = split_api_version(api_version);
        if (kind.is_empty() || kind == &*gvk.kind)
            && (api_version.is_empty() || api_version == gvk.api_version())
        {
            return Ok(());
        }
        if kind.is_empty() || api_version.is_empty() {
            let kind = if kind.is_empty() { &*gvk.kind } else { kind };
            if kind == &*gvk.kind {
                return Ok(());
            }
        }
        let version = if api_version.is_empty() { &*gvk.version } else { version };
        let group = if api_version.is_empty() { &*gvk.group } else { group };
        let kind = if kind.is_empty() { &*gvk.kind } else { kind };
        let shown = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let known = self.server.registry.find_kind(group, version, kind).is_some()
            || (group == &*gvk.group && kind == &*gvk.kind && is_former(group, version));
        if !known {
            let protobuf = matches!(self.media(), Ok(Media::Protobuf));
            let scheme = if protobuf { OTHER_SCHEME } else { SCHEME };
            return Err(decode::cannot_handle(
                kind,
                version,
                &gvk.kind,
                &format!(
                    "no kind \"{kind}\" is registered for version \"{shown}\" in scheme \"{scheme}\""
                ),
            ));
        }
        if shown == gvk.api_version() {
            let package = package_of(&gvk.group);
            let error = format!(
                "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
                gvk.kind
            );
            return Err(decode::cannot_handle(kind, version, &gvk.kind, &error));
        }
        if kind == &*gvk.kind && group == &*gvk.group {
            return Err(Status::bad_request(format!(
                "the API version in the data ({shown}) does not match the expected API version ({})",
                gvk.api_version()
            )));
        }
        let package = package_of(&gvk.group);
        let error = format!(
            "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
            gvk.kind
        );
        Err(decode::cannot_handle(kind, version, &gvk.kind, &error))
    }

    /// The body of a DELETE.
    pub(super) fn delete_options_body(&self) -> Result<Value> {
        let media = self.media()?;
        let body = match media {
            Media::Protobuf => Cow::Owned(delete_options_json(&self.body)?),
            _ => Cow::Borrowed(&*self.body),
        };
        let document = decode::parse(&body, media).map_err(Status::bad_request)?;
        let (version, kind) = document.identity().map_err(Status::bad_request)?;
        if !matches!(kind, "" | "DeleteOptions") {
            let version = if version.is_empty() { "meta.k8s.io/v1" } else { version };
            return Err(Status::bad_request(match (version, kind) {
                ("v1", "Status") => {
                    "converting (v1.Status) to (v1.DeleteOptions): unknown conversion".to_owned()
                }
                _ => format!(
                    "no kind \"{kind}\" is registered for version \"{version}\" in scheme \
                     \"{OTHER_SCHEME}\""
                ),
            }));
        }
        let value = document.to_value().map_err(Status::bad_request)?;
        let checked = decode::check_type(&value, "apimachinery.pkg.apis.meta.v1.DeleteOptions")
            .map_err(Status::bad_request)?;
        Ok(checked.value)
    }

    /// 422 of this kind, named after the object itself.
    pub(crate) fn invalid_object(&self, object: &Value, errors: &[FieldError]) -> Status {
        if !self.resource.is_custom() {
            return self.invalid(object::name(object), errors);
        }
        // A custom object is called what it says it is.
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let (group, _) = split_api_version(text("apiVersion"));
        Status::invalid(group, text("kind"), object::name(object), errors)
    }
}

/// Options in protobuf as JSON; decoding errors are returned unchanged.
fn delete_options_json(body: &[u8]) -> Result<Vec<u8>> {
    let wrong = |error: windlass_protobuf::Error| Status::bad_request(error.reason().to_string());
    let envelope = Envelope::read(body).map_err(wrong)?;
    let (kind, version) = (envelope.kind, envelope.api_version);
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(Status::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"{OTHER_SCHEME}\""
        )));
    }
    let message = message_of("v1", "DeleteOptions")
        .ok_or_else(|| Status::internal("options of a deletion have no protobuf form"))?;
    let mut json = Vec::new();
    message.write_json(envelope.raw, "", JsonOptions::default(), &mut json).map_err(wrong)?;
    Ok(json)
}

/// What is read of a patched object that lost its version: nothing.
fn unversioned(document: &Value) -> decode::Checked {
    let keys = document.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let unknown = keys.filter(|key| *key != "kind").map(|key| format!("unknown field \"{key}\""));
    decode::Checked { value: Value::Object(Default::default()), strict: unknown.collect() }
}

/// Returns `true` if a client asks for all owners of fields to be forgotten.
fn is_reset(object: &Value) -> bool {
    object["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty)
}

/// The same, of a body that is not made a value yet.
fn resets(document: &Document<'_>) -> bool {
    let entries = document.root().get("metadata").and_then(|meta| meta.get("managedFields"));
    matches!(entries, Some(decode::Node::Array(entries)) if entries.is_empty())
}

/// Puts the empty list back that decoding leaves out.
fn put_reset(object: &mut Value) {
    object::meta_mut(object).insert("managedFields".into(), Value::Array(Vec::new()));
}

/// Versions that the real server still knows of, though it serves them no more.
fn is_former(group: &str, version: &str) -> bool {
    let versions: &[&str] = match group {
        "apps" => &["v1beta1", "v1beta2"],
        "autoscaling" => &["v2beta1", "v2beta2"],
        "flowcontrol.apiserver.k8s.io" => &["v1beta1", "v1beta2", "v1beta3"],
        "admissionregistration.k8s.io"
        | "node.k8s.io"
        | "rbac.authorization.k8s.io"
        | "scheduling.k8s.io"
        | "storage.k8s.io" => &["v1alpha1", "v1beta1"],
        "apiextensions.k8s.io"
        | "apiregistration.k8s.io"
        | "authentication.k8s.io"
        | "authorization.k8s.io"
        | "batch"
        | "certificates.k8s.io"
        | "coordination.k8s.io"
        | "discovery.k8s.io"
        | "events.k8s.io"
        | "networking.k8s.io"
        | "policy" => &["v1beta1"],
        _ => &[],
    };
    versions.contains(&version)
}

/// The Go package of a group's internal types.
pub(super) fn package_of(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        "rbac.authorization.k8s.io" => "rbac",
        "admissionregistration.k8s.io" => "admissionregistration",
        group => group.split('.').next().unwrap_or(group),
    }
}
