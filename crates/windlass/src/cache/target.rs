//! What a reflector asks the server for.

use std::fmt::Write;

use http::{Request, header};
use kube::client::Body;
use kube::core::ApiResource;

/// A kind and the part of it that is wanted.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) kind: ApiResource,
    pub(super) namespace: Option<String>,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) metadata_only: bool,
}

/// The parameters of a list or a watch.
#[derive(Clone, Debug, Default)]
pub(super) struct Query<'a> {
    /// Empty means the newest.
    pub(super) version: &'a str,
    pub(super) limit: usize,
    pub(super) next: &'a str,
    /// A watch with this timeout in seconds; `None` is a list.
    pub(super) watch: Option<u64>,
    /// Asks for the present objects as events first.
    pub(super) initial_events: bool,
}

// === impl Target ===

impl Target {
    pub(super) fn request(&self, query: &Query<'_>, protobuf: bool) -> Request<Body> {
        let form = match (self.metadata_only, query.watch.is_some()) {
            (false, _) => "",
            (true, true) => ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            (true, false) => ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        };
        let accept = match protobuf {
            true => format!("{}{form},application/json{form}", windlass_protobuf::MEDIA_TYPE),
            false => format!("application/json{form}"),
        };
        Request::get(self.uri(query))
            .header(header::ACCEPT, accept)
            .body(Body::empty())
            .expect("every part of the address is encoded")
    }

    /// Tells whether an object says that it is of another kind.
    pub(super) fn is_other(&self, api_version: &str, kind: &str) -> bool {
        let metadata = self.metadata_only && kind == "PartialObjectMetadata";
        let kind_differs = !kind.is_empty() && kind != self.kind.kind;
        let version_differs = !api_version.is_empty() && api_version != self.kind.api_version;
        !metadata && (kind_differs || version_differs)
    }

    fn uri(&self, query: &Query<'_>) -> String {
        let kind = &self.kind;
        let mut uri = match kind.group.is_empty() {
            true => format!("/api/{}", encode(&kind.version)),
            false => format!("/apis/{}/{}", encode(&kind.group), encode(&kind.version)),
        };
        if let Some(namespace) = &self.namespace {
            let _ = write!(uri, "/namespaces/{}", encode(namespace));
        }
        let _ = write!(uri, "/{}?", encode(&kind.plural));
        let mut add = |name: &str, value: &str| {
            if !uri.ends_with('?') {
                uri.push('&');
            }
            let _ = write!(uri, "{name}={}", encode(value));
        };
        if let Some(seconds) = query.watch {
            add("watch", "true");
            add("allowWatchBookmarks", "true");
            add("timeoutSeconds", &seconds.to_string());
        }
        if query.initial_events {
            add("sendInitialEvents", "true");
            add("resourceVersionMatch", "NotOlderThan");
        }
        if let Some(labels) = &self.labels {
            add("labelSelector", labels);
        }
        if let Some(fields) = &self.fields {
            add("fieldSelector", fields);
        }
        if query.limit > 0 {
            add("limit", &query.limit.to_string());
        }
        if !query.next.is_empty() {
            add("continue", query.next);
        } else if !query.version.is_empty() {
            add("resourceVersion", query.version);
        }
        uri.trim_end_matches('?').to_owned()
    }
}

/// Encodes all bytes that are not plain in a path or a query.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;

    use super::*;

    fn target() -> Target {
        Target {
            kind: ApiResource::erase::<Deployment>(&()),
            namespace: Some("n".to_owned()),
            labels: Some("app=x,tier in (a,b)".to_owned()),
            fields: None,
            metadata_only: false,
        }
    }

    #[test]
    fn a_watch_and_a_list_ask_with_their_parameters() {
        let watch =
            Query { version: "7", watch: Some(300), initial_events: true, ..Query::default() };
        assert_eq!(
            target().uri(&watch),
            "/apis/apps/v1/namespaces/n/deployments?watch=true&allowWatchBookmarks=true\
             &timeoutSeconds=300&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
             &labelSelector=app%3Dx%2Ctier%20in%20%28a%2Cb%29&resourceVersion=7"
        );
        let page = Query { version: "0", limit: 500, next: "t/+", ..Query::default() };
        let uri = Target { labels: None, namespace: None, ..target() }.uri(&page);
        assert_eq!(uri, "/apis/apps/v1/deployments?limit=500&continue=t%2F%2B");
    }

    #[test]
    fn objects_of_another_kind_are_told_apart() {
        assert!(!target().is_other("apps/v1", "Deployment"));
        assert!(!target().is_other("", ""));
        assert!(target().is_other("meta.k8s.io/v1", "Table"));
        assert!(target().is_other("apps/v1beta1", "Deployment"));
    }
}
