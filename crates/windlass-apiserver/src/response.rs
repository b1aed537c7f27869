//! Answers: negotiation of the form, and bodies that stream.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde::Serialize;
use serde_json::Value;

use crate::object::TypeFirst;
use crate::status::Status;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The media types objects are served in, as error texts list them.
pub const MEDIA: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The media types lists and watches are served in, as error texts list them.
pub const LIST_MEDIA: &str = "application/json, application/yaml, \
                              application/vnd.kubernetes.protobuf, application/json;stream=watch, \
                              application/vnd.kubernetes.protobuf;stream=watch";

/// How the client wants the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Object, table or metadata.
    pub shape: AnswerShape,
    /// JSON, YAML or protobuf.
    pub encoding: Encoding,
    /// `v1` or `v1beta1` of meta.k8s.io, for tables and metadata.
    pub beta: bool,
    /// Indented JSON.
    pub pretty: bool,
    /// Whether metadata was asked for as that of a list; `None` if it was not asked for.
    pub metadata_list: Option<bool>,
}

/// What the answer shows of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerShape {
    /// All of it.
    #[default]
    Object,
    /// Its metadata (`PartialObjectMetadata`).
    Metadata,
    /// Rows for people (`Table`).
    Table,
}

/// The encoding of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// JSON.
    #[default]
    Json,
    /// YAML.
    Yaml,
    /// Protobuf, for built-in kinds and metadata.
    Protobuf,
}

/// What kind of object is served, which decides about its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// A built-in kind.
    BuiltIn,
    /// A custom resource.
    Custom,
    /// A built-in kind that is answered but not stored, such as an access review; it has no table.
    Review,
}

// === impl Form ===

impl Form {
    /// Chooses by the `Accept` header, in the order of preference.
    ///
    /// Custom objects have no protobuf form, but their metadata has.
    ///
    /// # Errors
    /// 406 if nothing acceptable can be made.
    pub fn negotiate(accept: Option<&str>, media: &str, served: Served) -> Result<Self, Status> {
        let Some(accept) = accept.filter(|a| !a.trim().is_empty()) else {
            return Ok(Self::default());
        };
        let mut clauses: Vec<(f32, &str)> = accept.split(',').map(|c| (quality(c), c)).collect();
        clauses.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut known = false;
        for (_, clause) in clauses {
            match Self::clause(clause) {
                Some(Ok(form)) if form.is_possible(served) => return Ok(form),
                Some(_) => known = true,
                None => {}
            }
        }
        Err(if known || served == Served::Custom {
            Status::new(
                406,
                "NotAcceptable",
                format!("only the following media types are accepted: {MEDIA}"),
            )
        } else {
            Status::new(
                406,
                "NotAcceptable",
                format!("406: Not Acceptable\n\nAvailable representations: {media}"),
            )
            .with_details(Default::default())
        })
    }

    /// Returns the form of a failure: what was asked for, unless that is a change of the object.
    pub fn of_failure(accept: Option<&str>) -> Self {
        let Some(accept) = accept else { return Self::default() };
        let mut clauses: Vec<(f32, &str)> = accept.split(',').map(|c| (quality(c), c)).collect();
        clauses.sort_by(|a, b| b.0.total_cmp(&a.0));
        let forms = clauses.into_iter().filter_map(|(_, clause)| Self::clause(clause)?.ok());
        let mut plain = forms.filter(|form| form.shape == AnswerShape::Object);
        plain.next().unwrap_or_default()
    }

    /// `None`: a media type we do not make. `Err`: ours, but in no shape we know.
    fn clause(clause: &str) -> Option<Result<Self, ()>> {
        let mut parts = clause.split(';').map(str::trim);
        let encoding = match parts.next()?.to_ascii_lowercase().as_str() {
            "application/json" | "*/*" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            windlass_protobuf::MEDIA_TYPE => Encoding::Protobuf,
            _ => return None,
        };
        let (mut kind, mut group, mut version) = ("", "", "");
        for part in parts {
            match part.split_once('=') {
                Some(("as", value)) => kind = value,
                Some(("g", value)) => group = value,
                Some(("v", value)) => version = value,
                _ => {}
            }
        }
        let mut form = Self { encoding, ..Self::default() };
        if kind.is_empty() {
            return Some(Ok(form));
        }
        form.beta = version == "v1beta1";
        if group != "meta.k8s.io" || !(form.beta || version == "v1") {
            return Some(Err(()));
        }
        form.shape = match kind {
            "Table" => AnswerShape::Table,
            "PartialObjectMetadata" | "PartialObjectMetadataList" => {
                form.metadata_list = Some(kind == "PartialObjectMetadataList");
                AnswerShape::Metadata
            }
            _ => return Some(Err(())),
        };
        Some(Ok(form))
    }

    /// Protobuf has no form for tables, nor for custom objects.
    fn is_possible(&self, served: Served) -> bool {
        let protobuf = self.encoding == Encoding::Protobuf;
        match self.shape {
            AnswerShape::Object => !protobuf || served != Served::Custom,
            AnswerShape::Metadata => true,
            AnswerShape::Table => !protobuf && served != Served::Review,
        }
    }

    /// Returns the version of meta.k8s.io asked for.
    pub fn meta_version(&self) -> &'static str {
        if self.beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" }
    }
}

fn quality(clause: &str) -> f32 {
    let value = clause.split(';').find_map(|p| p.trim().strip_prefix("q="));
    value.and_then(|q| q.parse().ok()).unwrap_or(1.0)
}

/// Returns an answer with one value that the real server has a struct for: its type comes first.
pub fn value(code: u16, form: Form, value: &Value) -> Response<Body> {
    encoded(code, form, value, &TypeFirst(value))
}

/// Returns an answer with one value whose fields are sorted, as those of custom objects are.
pub fn sorted(code: u16, form: Form, value: &Value) -> Response<Body> {
    encoded(code, form, value, value)
}

fn encoded(code: u16, form: Form, value: &Value, json: &impl Serialize) -> Response<Body> {
    let (bytes, content_type) = match form.encoding {
        Encoding::Json if form.pretty => {
            (serde_json::to_vec_pretty(json).unwrap_or_default(), "application/json")
        }
        Encoding::Json => (crate::object::encode(json), "application/json"),
        Encoding::Protobuf => match windlass_protobuf::from_value(value) {
            Ok(bytes) => (bytes, windlass_protobuf::MEDIA_TYPE),
            // Every client reads JSON, and the answer says what it is.
            Err(_) => (crate::object::encode(json), "application/json"),
        },
        Encoding::Yaml => {
            (serde_saphyr::to_string(value).unwrap_or_default().into_bytes(), "application/yaml")
        }
    };
    bytes_of(code, content_type, bytes.into())
}

/// Returns an answer with bytes that are there already.
pub fn bytes_of(code: u16, content_type: &'static str, bytes: Bytes) -> Response<Body> {
    let length = bytes.len();
    let mut response = Response::new(Full::new(bytes).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_LENGTH, length.into());
    response
}

/// Returns an answer that streams chunks.
pub fn stream<S>(content_type: &'static str, chunks: S) -> Response<Body>
where
    S: futures::Stream<Item = Bytes> + Send + 'static,
{
    use futures::StreamExt;
    let frames = chunks.map(|chunk| Ok::<_, Infallible>(http_body::Frame::data(chunk)));
    let mut response = Response::new(BodyExt::boxed_unsync(StreamBody::new(frames)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns an answer with a failure.
pub fn failure(status: &Status, form: Form) -> Response<Body> {
    let mut response = if status.plain {
        let text = Bytes::from(status.message.clone());
        bytes_of(status.code, "text/plain; charset=utf-8", text)
    } else {
        value(status.code, form, &status.to_json())
    };
    if let Some(details) = &status.details
        && details.retry_after > 0
    {
        response.headers_mut().insert(header::RETRY_AFTER, details.retry_after.into());
    }
    response
}

/// Joins many small pieces into chunks of a size worth sending.
pub struct Chunks<I> {
    pieces: I,
}

const CHUNK_BYTES: usize = 128 << 10;

impl<I: Iterator<Item = Bytes>> Chunks<I> {
    /// Creates a body from an iterator of pieces.
    pub fn new(pieces: I) -> Self {
        Self { pieces }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for Chunks<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        for piece in self.pieces.by_ref() {
            chunk.extend_from_slice(&piece);
            if chunk.len() >= CHUNK_BYTES {
                break;
            }
        }
        (!chunk.is_empty()).then(|| chunk.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_form_wins() {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let form = Form::negotiate(Some(accept), MEDIA, Served::BuiltIn).unwrap();
        assert_eq!(form.shape, AnswerShape::Table);
        let form =
            Form::negotiate(Some("text/html, application/json;q=0.5"), MEDIA, Served::BuiltIn);
        assert_eq!(form.unwrap(), Form::default());
    }

    #[test]
    fn protobuf_is_for_built_in_kinds_and_metadata_and_else_falls_back() {
        let encoding = |accept: &str, custom| {
            let served = if custom { Served::Custom } else { Served::BuiltIn };
            Form::negotiate(Some(accept), MEDIA, served).map(|form| form.encoding)
        };
        let accept = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(encoding(accept, false).unwrap(), Encoding::Protobuf);
        assert_eq!(encoding(accept, true).unwrap(), Encoding::Json);
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;\
                        g=meta.k8s.io;v=v1,application/json";
        assert_eq!(encoding(metadata, true).unwrap(), Encoding::Protobuf);
        let table = metadata.replace("PartialObjectMetadata", "Table");
        assert_eq!(encoding(&table, false).unwrap(), Encoding::Json);
        let only = encoding("application/vnd.kubernetes.protobuf", true).unwrap_err();
        assert!(only.message.starts_with("only the following"), "{}", only.message);
    }

    #[test]
    fn a_failure_is_no_table_but_comes_in_the_encoding_that_was_asked_for() {
        let encoding = |accept: &str| Form::of_failure(Some(accept)).encoding;
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(encoding(table), Encoding::Json);
        assert_eq!(encoding(&format!("{table},application/yaml")), Encoding::Yaml);
        assert_eq!(encoding("application/vnd.kubernetes.protobuf"), Encoding::Protobuf);
        assert_eq!(encoding("text/html"), Encoding::Json);
    }

    #[test]
    fn nothing_acceptable_is_406_in_two_texts() {
        let none = Form::negotiate(Some("text/html"), MEDIA, Served::BuiltIn).unwrap_err();
        assert!(none.message.starts_with("406: Not Acceptable"));
        let odd = "application/json;as=X;v=v1;g=meta.k8s.io";
        let odd = Form::negotiate(Some(odd), MEDIA, Served::BuiltIn);
        assert!(odd.unwrap_err().message.starts_with("only the following"));
    }
}
