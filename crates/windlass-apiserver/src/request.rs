//! What a request asks for: path and method, read into verb, resource, name and options.

use std::collections::BTreeMap;

use http::Method;
use percent_encoding::percent_decode_str;

/// A request as authorization and dispatch see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// The decoded path.
    pub path: String,
    /// The API verb (`get`, `list`, `watch`, ...), or the lower-case method for other paths.
    pub verb: String,
    /// Whether it names a resource of an API group.
    pub is_resource: bool,
    /// `api` or `apis`, if below one of them.
    pub prefix: String,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty for cluster scope.
    pub namespace: String,
    /// Plural resource.
    pub resource: String,
    /// Object name.
    pub name: String,
    /// Subresource.
    pub subresource: String,
    /// Whatever follows the subresource.
    pub rest: Vec<String>,
    /// The deprecated `/watch/` form of a path.
    pub watch_path: bool,
    /// The name of the user who sends the request; empty until the user is authenticated.
    pub user: String,
    /// The `User-Agent` header; empty if it is missing.
    pub user_agent: String,
}

/// The query of a request: every parameter with its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(BTreeMap<String, Vec<String>>);

// === impl RequestInfo ===

impl RequestInfo {
    /// Returns `true` if the path names a namespace itself, which is the namespace of the request.
    pub fn names_namespace(&self) -> bool {
        self.resource == "namespaces"
    }

    /// Reads method, path and query. Never fails: anything but an API path is a non-resource
    /// request.
    pub fn read(method: &Method, path: &str, query: &Query) -> Self {
        let decoded = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let mut info =
            Self { path: decoded, verb: method.as_str().to_ascii_lowercase(), ..Self::default() };
        let parts: Vec<String> = path
            .trim_matches('/')
            .split('/')
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let mut parts = parts.into_iter();
        info.prefix = parts.next().unwrap_or_default();
        match info.prefix.as_str() {
            "api" => {}
            "apis" => info.group = parts.next().unwrap_or_default(),
            _ => {
                info.prefix.clear();
                return info;
            }
        }
        info.version = parts.next().unwrap_or_default();
        let mut parts: Vec<String> = parts.collect();
        if parts.is_empty() {
            return info;
        }
        info.is_resource = true;
        if parts[0] == "watch" && parts.len() > 1 {
            info.watch_path = true;
            parts.remove(0);
        }
        info.read_resource(parts);
        info.verb = info.verb_of(method, query);
        if matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") {
            info.name_from_field_selector(query);
        }
        info
    }

    fn read_resource(&mut self, mut parts: Vec<String>) {
        if parts[0] == "namespaces" && parts.len() > 1 {
            self.namespace = parts[1].clone();
            let own = parts.len() == 2
                || (parts.len() == 3 && matches!(parts[2].as_str(), "status" | "finalize"));
            if !own {
                parts.drain(..2);
            }
        }
        let mut parts = parts.into_iter();
        self.resource = parts.next().unwrap_or_default();
        self.name = parts.next().unwrap_or_default();
        self.subresource = parts.next().unwrap_or_default();
        self.rest = parts.collect();
    }

    fn verb_of(&self, method: &Method, query: &Query) -> String {
        let watches = || query.get("watch").is_some_and(is_true);
        let verb = match *method {
            Method::GET | Method::HEAD if self.watch_path => "watch",
            Method::GET | Method::HEAD if self.name.is_empty() && watches() => "watch",
            Method::GET | Method::HEAD if self.name.is_empty() => "list",
            Method::GET | Method::HEAD => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if self.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ => return method.as_str().to_ascii_lowercase(),
        };
        verb.to_owned()
    }

    /// `fieldSelector=metadata.name=x` names an object, which resourceNames of a role may grant.
    fn name_from_field_selector(&mut self, query: &Query) {
        if !self.name.is_empty() {
            return;
        }
        let Some(selector) = query.get("fieldSelector") else { return };
        for part in selector.split(',') {
            if let Some((field, value)) = part.split_once('=')
                && field == "metadata.name"
            {
                self.name = value.trim_start_matches('=').to_owned();
            }
        }
    }

    /// Returns the path as error texts and reviews show it.
    pub fn display_path(&self) -> &str {
        &self.path
    }
}

/// Go's `strconv.ParseBool` on query values, where an invalid value counts as true only if
/// it is present and not "0"/"false".
fn is_true(value: &str) -> bool {
    !matches!(value, "" | "0" | "false" | "False" | "FALSE" | "f" | "F")
}

// === impl Query ===

impl Query {
    /// Reads a query string; pieces that do not decode are left out.
    pub fn parse(text: &str) -> Self {
        let mut map: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in text.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode =
                |s: &str| percent_decode_str(&s.replace('+', " ")).decode_utf8_lossy().into_owned();
            map.entry(decode(key)).or_default().push(decode(value));
        }
        Self(map)
    }

    /// Returns the first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.first().map(String::as_str)
    }

    /// Returns all values of a parameter.
    pub fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns a boolean parameter.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(is_true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, uri: &str) -> RequestInfo {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        RequestInfo::read(&method, path, &Query::parse(query))
    }

    #[test]
    fn a_namespace_is_an_object_and_a_scope() {
        let own = read("GET", "/api/v1/namespaces/x");
        assert_eq!((&*own.resource, &*own.name, &*own.verb), ("namespaces", "x", "get"));
        let finalize = read("PUT", "/api/v1/namespaces/x/finalize");
        assert_eq!((&*finalize.resource, &*finalize.subresource), ("namespaces", "finalize"));
        let pods = read("GET", "/api/v1/namespaces/x/pods");
        assert_eq!((&*pods.namespace, &*pods.resource, &*pods.verb), ("x", "pods", "list"));
    }

    #[test]
    fn verbs_follow_method_and_query() {
        assert_eq!(read("GET", "/apis/apps/v1/deployments?watch=1").verb, "watch");
        assert_eq!(read("GET", "/apis/apps/v1/deployments?watch=0").verb, "list");
        assert_eq!(read("DELETE", "/api/v1/namespaces/x/pods").verb, "deletecollection");
        assert_eq!(read("GET", "/api/v1/watch/namespaces/x/pods/p").verb, "watch");
        assert_eq!(read("POST", "/api/v1/namespaces/x/pods/p/eviction").subresource, "eviction");
    }

    #[test]
    fn a_field_selector_on_the_name_names_the_object() {
        let info = read("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da");
        assert_eq!((&*info.verb, &*info.name), ("list", "a"));
    }

    #[test]
    fn other_paths_are_no_resources() {
        let info = read("GET", "/healthz");
        assert!(!info.is_resource);
        assert_eq!(info.verb, "get");
    }

    proptest::proptest! {
        #[test]
        fn no_path_and_query_can_break_it(path in "/[ -~]{0,60}", query in "[ -~]{0,60}") {
            let query = Query::parse(&query);
            RequestInfo::read(&Method::GET, &path, &query);
        }
    }
}
