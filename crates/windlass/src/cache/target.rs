//! What a reflector asks the server for.

use http::Method;
use kube::core::{ApiResource, Selector};

use super::failure::Failure;
use crate::client::{ApiRequest, Url};
use crate::selector;

/// A kind and the part of it that is watched.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) kind: ApiResource,
    pub(super) namespace: Option<String>,
    pub(super) labels: Option<Selector>,
    pub(super) fields: Option<Selector>,
    pub(super) metadata_only: bool,
}

/// The parameters of a list or a watch.
#[derive(Clone, Debug, Default)]
pub(super) struct Query<'a> {
    /// Empty means the most recent state.
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
    /// Fails if there is no such URL, or a selector is not valid.
    pub(super) fn request(&self, query: &Query<'_>, protobuf: bool) -> Result<ApiRequest, Failure> {
        let form = match (self.metadata_only, query.watch.is_some()) {
            (false, _) => "",
            (true, true) => ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            (true, false) => ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        };
        let accept = match protobuf {
            true => format!("{}{form},application/json{form}", windlass_protobuf::MEDIA_TYPE),
            false => format!("application/json{form}"),
        };
        let verb = if query.watch.is_some() { "watch" } else { "list" };
        let action = format!("{verb} {}", self.kind.plural);
        let mut request = ApiRequest::new(Method::GET, self.url(query)?, action);
        request.accept = accept.into();
        Ok(request)
    }

    /// Returns `true` if an object says that it is of another kind.
    pub(super) fn is_other(&self, api_version: &str, kind: &str) -> bool {
        let metadata = self.metadata_only && kind == "PartialObjectMetadata";
        let kind_differs = !kind.is_empty() && kind != self.kind.kind;
        let version_differs = !api_version.is_empty() && api_version != self.kind.api_version;
        !metadata && (kind_differs || version_differs)
    }

    fn url(&self, query: &Query<'_>) -> Result<Url, Failure> {
        let (kind, namespace) = (&self.kind, self.namespace.as_deref());
        let mut url = Url::collection(&kind.group, &kind.version, &kind.plural, namespace)?;
        if let Some(seconds) = query.watch {
            url = url.query("watch", "true").query("allowWatchBookmarks", "true");
            url = url.query("timeoutSeconds", &seconds.to_string());
        }
        if query.initial_events {
            url = url.query("sendInitialEvents", "true");
            url = url.query("resourceVersionMatch", "NotOlderThan");
        }
        if let Some(labels) = &self.labels {
            url = url.query("labelSelector", &selector::label_text(labels)?);
        }
        if let Some(fields) = &self.fields {
            url = url.query("fieldSelector", &selector::field_text(fields)?);
        }
        if query.limit > 0 {
            url = url.query("limit", &query.limit.to_string());
        }
        Ok(match (query.next, query.version) {
            ("", "") => url,
            ("", version) => url.query("resourceVersion", version),
            (next, _) => url.query("continue", next),
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use kube::core::Expression;

    use super::*;

    fn target() -> Target {
        Target {
            kind: ApiResource::erase::<Deployment>(&()),
            namespace: Some("n".to_owned()),
            labels: Some(
                [
                    Expression::Equal("app".into(), "x".into()),
                    Expression::In("tier".into(), ["a".into(), "b".into()].into()),
                ]
                .into_iter()
                .collect(),
            ),
            fields: None,
            metadata_only: false,
        }
    }

    #[test]
    fn a_watch_and_a_list_ask_with_their_parameters() {
        let watch =
            Query { version: "7", watch: Some(300), initial_events: true, ..Query::default() };
        assert_eq!(
            target().url(&watch).unwrap().as_str(),
            "/apis/apps/v1/namespaces/n/deployments?watch=true&allowWatchBookmarks=true\
             &timeoutSeconds=300&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
             &labelSelector=app%3Dx%2Ctier%20in%20%28a%2Cb%29&resourceVersion=7"
        );
        let page = Query { version: "7", limit: 500, next: "t/+", ..Query::default() };
        let url = Target { labels: None, namespace: None, ..target() }.url(&page).unwrap();
        assert_eq!(url.as_str(), "/apis/apps/v1/deployments?limit=500&continue=t%2F%2B");
    }

    #[test]
    fn objects_of_another_kind_are_recognized() {
        assert!(!target().is_other("apps/v1", "Deployment"));
        assert!(!target().is_other("", ""));
        assert!(target().is_other("meta.k8s.io/v1", "Table"));
        assert!(target().is_other("apps/v1beta1", "Deployment"));
    }
}
