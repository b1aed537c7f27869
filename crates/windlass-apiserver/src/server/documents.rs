//! Discovery and schema documents.

use http::request::Parts;
use http::{HeaderValue, Method, Response, header};

use super::Inner;
use crate::discovery::{self, Document, Wanted};
use crate::openapi;
use crate::request::Query;
use crate::response::{Body, Form, MEDIA, Served, bytes_of, value};
use crate::status::{Result, Status};

const AGGREGATED_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

impl Inner {
    pub(super) fn discover(&self, parts: &Parts, segments: &[&str]) -> Result<Response<Body>> {
        let resources = self.registry.all();
        let accept = parts.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
        let wanted = discovery::wanted(accept.unwrap_or_default());
        let group_document = matches!(segments, ["apis", _]);
        if parts.method != Method::GET && !group_document {
            return Err(Status::method_not_allowed());
        }
        let top = matches!(segments, ["api" | "apis"]);
        if top && wanted == Wanted::Aggregated {
            let document = match segments {
                ["api"] => discovery::aggregated_core(&resources),
                _ => discovery::aggregated_groups(&resources),
            };
            return Ok(tagged(parts, document, AGGREGATED_TYPE));
        }
        let form = match Form::negotiate(accept, MEDIA, Served::BuiltIn) {
            Err(status) if wanted == Wanted::Nothing => return Err(status),
            negotiated => negotiated.unwrap_or_default(),
        };
        let document = match segments {
            ["api"] => Some(discovery::core_versions("127.0.0.1:6443")),
            ["apis"] => Some(discovery::group_list(&resources)),
            ["apis", group] => {
                return discovery::group(&resources, group)
                    .map(|document| value(200, form, &document))
                    .ok_or_else(Status::no_such_path);
            }
            ["api", version] => discovery::resource_list(&resources, "", version),
            ["apis", group, version] => {
                let found = discovery::resource_list(&resources, group, version);
                if found.is_none() && !self.registry.is_builtin_group(group) {
                    return Err(Status::no_such_path());
                }
                found
            }
            _ => None,
        };
        match document {
            Some(document) => Ok(value(200, form, &document)),
            None => Err(Status::no_such_resource()),
        }
    }

    pub(super) fn schemas(
        &self,
        parts: &Parts,
        query: &Query,
        segments: &[&str],
    ) -> Result<Response<Body>> {
        let resources = self.registry.all();
        match segments {
            ["openapi", "v2"] => match wants_protobuf(parts) {
                true => Ok(tagged(parts, openapi::v2_protobuf(&resources), V2_PROTOBUF)),
                false => Ok(tagged(parts, openapi::v2_document(&resources), "application/json")),
            },
            ["openapi", "v3"] => {
                Ok(tagged(parts, openapi::v3_index(&resources), "text/plain; charset=utf-8"))
            }
            ["openapi", "v3", path @ ..] => {
                let path = path.join("/");
                let Some(hash) = openapi::v3_hash(&path, &resources) else {
                    return Ok(bytes_of(404, "text/plain; charset=utf-8", bytes::Bytes::new()));
                };
                let given = query.get("hash").filter(|given| !given.is_empty());
                if given.is_some_and(|given| given != hash) {
                    return Ok(moved(&format!("/openapi/v3/{path}?hash={hash}")));
                }
                let document = openapi::v3_document(&path, &resources);
                let document = document.ok_or_else(Status::no_such_path)?;
                let mut response = tagged(parts, document, "application/json");
                if given.is_some() {
                    let forever = HeaderValue::from_static("public, immutable");
                    response.headers_mut().insert(header::CACHE_CONTROL, forever);
                }
                Ok(response)
            }
            _ => Err(Status::no_such_path()),
        }
    }
}

/// The first media type that is served is protobuf.
fn wants_protobuf(parts: &Parts) -> bool {
    let accept = parts.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let types = accept.unwrap_or_default().split(',');
    let types = types.map(|one| one.split(';').next().unwrap_or_default().trim());
    let mut served = types.filter(|one| {
        matches!(*one, V2_PROTOBUF | V2_PROTOBUF_OLD | "application/json" | "application/*" | "*/*")
    });
    served.next().is_some_and(|first| matches!(first, V2_PROTOBUF | V2_PROTOBUF_OLD))
}

/// A document with its tag; nothing but the tag if the client has it.
fn tagged(parts: &Parts, document: Document, content_type: &'static str) -> Response<Body> {
    let known = parts.headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let mut response = match known == Some(&document.etag) {
        true => bytes_of(304, content_type, bytes::Bytes::new()),
        false => bytes_of(200, content_type, document.body),
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&document.etag) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn moved(location: &str) -> Response<Body> {
    let mut response = bytes_of(301, "text/plain; charset=utf-8", bytes::Bytes::new());
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
