//! Bodies of requests: from bytes to the value the real server would hold after decoding.
//!
//! [`parse`] reads JSON or YAML into a [`Document`] that still knows order and duplicates.
//! [`check`] then decodes it into a built-in kind (see [`typed`](self)): unknown fields go, wrong
//! types fail in Go's words, values are normalised and empty ones left out. For custom kinds
//! [`Document::to_value`] is enough; pruning is the definition's business.
//!
//! **Invariant:** error texts are those of the real server, letter by letter.

use serde_json::Value;

use crate::resource::Gvk;
use crate::schema;
use crate::status::Status;

mod json;
mod node;
pub mod scalar;
mod typed;
mod unstructured;
mod yaml;

#[cfg(test)]
mod tests;

pub use node::Node;

/// The deepest nesting of a body: the store and most clients read no more than 127 levels, of
/// which lists, events and owners of fields take some.
pub const DEPTH_MAX: usize = 110;
/// How many unknown and duplicate fields are reported at most.
pub const STRICT_MAX: usize = 100;

/// The beginning of the error of a body without version and kind.
const NO_IDENTITY: &str = "couldn't get version/kind; json parse error: json: cannot unmarshal";

/// The Go type that version and kind are read into, which an error text spells out.
const IDENTITY: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
                        Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`, which is made JSON before it is read.
    Protobuf,
}

/// A body that is read but not understood yet.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    root: Node<'a>,
    body: &'a [u8],
    media: Media,
}

/// A decoded object.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The object as the server holds it.
    pub value: Value,
    /// `unknown field "spec.foo"` and `duplicate field "spec.bar"`, in the order of the body.
    pub strict: Vec<String>,
}

/// Reads a body.
///
/// # Errors
/// The decoder's text; [`unrecognized`] makes it the answer.
pub fn parse(body: &[u8], media: Media) -> Result<Document<'_>, String> {
    let root = match media {
        Media::Json | Media::Protobuf => json::read(body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?,
        Media::Yaml => yaml::read(body)?,
    };
    Ok(Document { root, body, media })
}

/// Decodes a document into a built-in kind.
///
/// A kind that is not built in is taken as it is; then only duplicates are reported.
///
/// # Errors
/// The decoder's text; [`cannot_handle`] makes it the answer.
pub fn check(document: &Document<'_>, gvk: &Gvk) -> Result<Checked, String> {
    let Some(id) = schema::type_of(gvk) else {
        return Ok(Checked { value: document.to_value()?, strict: document.duplicates() });
    };
    let outcome = typed::decode(&document.root, id)?;
    let mut strict = outcome.strict;
    if let Some(text) = document.yaml_duplicate() {
        strict.insert(0, text);
    }
    Ok(Checked { value: outcome.value, strict })
}

/// Decodes a value, such as a patched object, into a built-in kind.
///
/// # Errors
/// The decoder's text.
pub fn check_value(value: &Value, gvk: &Gvk) -> Result<Checked, String> {
    let Some(id) = schema::type_of(gvk) else {
        return Ok(Checked { value: value.clone(), strict: Vec::new() });
    };
    let outcome = typed::decode(&Node::of(value), id)?;
    Ok(Checked { value: outcome.value, strict: outcome.strict })
}

/// Does the same as [`check_value`], in the way of Go's converter of maps: numbers that are too
/// large for their field are cut.
///
/// # Errors
/// The decoder's text.
pub fn check_map(value: &Value, gvk: &Gvk) -> Result<Checked, String> {
    let Some(id) = schema::type_of(gvk) else { return check_value(value, gvk) };
    let outcome = typed::convert(&Node::of(value), id)?;
    Ok(Checked { value: outcome.value, strict: outcome.strict })
}

/// Returns what keeps a map from becoming an object of a built-in kind, in the words of Go's
/// converter.
pub fn misfit(value: &Value, gvk: &Gvk) -> Option<String> {
    unstructured::misfit(value, schema::type_of(gvk)?)
}

/// Decodes a value into a type of the tables, `apimachinery.pkg.apis.meta.v1.ObjectMeta`.
///
/// # Errors
/// The decoder's text, or that there is no such type.
pub fn check_type(value: &Value, type_name: &str) -> Result<Checked, String> {
    let id = schema::go::lookup(type_name)
        .ok_or_else(|| format!("no built-in type is called {type_name}"))?;
    let outcome = typed::decode(&Node::of(value), id)?;
    Ok(Checked { value: outcome.value, strict: outcome.strict })
}

/// Returns the error of a document that is not an object, and so has no version and kind.
pub fn no_identity(what: &str) -> String {
    format!("{NO_IDENTITY} {what} into Go value of type {IDENTITY}")
}

// === impl Document ===

impl<'a> Document<'a> {
    /// Returns the `apiVersion` and `kind` that are written; empty if they are not.
    ///
    /// # Errors
    /// The decoder's text, if the body is not an object or they are not strings; [`unrecognized`]
    /// makes it the answer.
    pub fn identity(&self) -> Result<(&str, &str), String> {
        match &self.root {
            Node::Object(_) => {}
            Node::Null => return Ok(("", "")),
            other => {
                return Err(no_identity(other.what()));
            }
        }
        let text = |key: &str| match self.root.get(key) {
            None | Some(Node::Null) => Ok(""),
            Some(Node::String(text)) => Ok(&**text),
            Some(other) => {
                let what = other.what();
                Err(format!("{NO_IDENTITY} {what} into Go struct field .{key} of type string"))
            }
        };
        Ok((text("apiVersion")?, text("kind")?))
    }

    /// Returns what was written.
    pub fn root(&self) -> &Node<'a> {
        &self.root
    }

    /// Returns the untyped value: of equal keys the last one counts.
    ///
    /// # Errors
    /// The decoder's text for a number that is too large.
    pub fn to_value(&self) -> Result<Value, String> {
        self.root.to_value()
    }

    /// Returns the duplicate keys, as strict decoding reports them.
    pub fn duplicates(&self) -> Vec<String> {
        match self.media {
            Media::Json | Media::Protobuf => self.root.duplicates(),
            Media::Yaml => self.yaml_duplicate().into_iter().collect(),
        }
    }

    fn yaml_duplicate(&self) -> Option<String> {
        match self.media {
            Media::Json | Media::Protobuf => None,
            Media::Yaml => yaml::duplicate(self.body),
        }
    }
}

/// Returns the strict decoding error for duplicate keys of a YAML body, if there are any.
pub fn yaml_duplicate(body: &[u8]) -> Option<String> {
    yaml::duplicate(body)
}

/// Returns 400 for a body that is of no kind: `the object provided is unrecognized ...`.
pub fn unrecognized(kind: &str, error: &str, body: &[u8]) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {error} ({})",
        summarize(body)
    ))
}

/// Returns 400 for a body of the kind `got` where a `want` belongs: `<Kind> in version "v1" cannot
/// be handled as a <Kind>: <error>`.
pub fn cannot_handle(got_kind: &str, got_version: &str, want_kind: &str, error: &str) -> Status {
    Status::bad_request(format!(
        "{got_kind} in version \"{got_version}\" cannot be handled as a {want_kind}: {error}"
    ))
}

/// Returns the text for unknown and duplicate fields under `fieldValidation=Strict`.
pub fn strict_error(strict: &[String]) -> String {
    format!("strict decoding error: {}", strict.join(", "))
}

/// The start of a body, as text if it looks like JSON.
fn summarize(body: &[u8]) -> String {
    const LEN_MAX: usize = 30;
    if body.is_empty() {
        return "<empty>".into();
    }
    let (head, dots) = match body.len() > LEN_MAX {
        true => (&body[..LEN_MAX], " ..."),
        false => (body, ""),
    };
    let text = match body[0] {
        b'{' => String::from_utf8_lossy(head).into_owned(),
        _ => head.iter().map(|b| format!("{b:02x}")).collect(),
    };
    text + dots
}
