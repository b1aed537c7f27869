//! Types that `windlass generate types` made of CustomResourceDefinitions.

#![allow(missing_docs, rustdoc::all, clippy::all)]

pub mod v1 {
    use windlass::{api, k8s};

    /// Where requests go.
    #[api(
        group = "net.example.com",
        version = "v1",
        kind = "Route",
        plural = "routes",
        categories = "net",
        doc = "Route sends requests to backends.",
        status = RouteStatus,
        column("Hostnames", ".spec.hostnames", type = "string"),
    )]
    #[derive(Default)]
    pub struct RouteSpec {
        #[k8s(
            max_items = 16,
            list = atomic,
            items(min_length = 1, max_length = 253, pattern = "^(\\*\\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", doc = "A name of a host, perhaps with a wildcard."),
        )]
        pub hostnames: Option<Vec<String>>,
        #[k8s(
            max_items = 32,
            list = atomic,
            cel("self.all(l, self.exists_one(r, l.name == r.name))", message = "a parent is named once"),
        )]
        pub parent_refs: Option<Vec<RouteParentRefs>>,
        #[k8s(
            default = [{ "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }] }],
            min_items = 1,
            max_items = 16,
            list = atomic,
        )]
        pub rules: Option<Vec<RouteRules>>,
    }

    #[k8s]
    pub struct RouteParentRefs {
        #[k8s(default = "net.example.com", max_length = 253)]
        pub group: String,
        #[k8s(default = "Gateway", min_length = 1, max_length = 63)]
        pub kind: String,
        #[k8s(min_length = 1, max_length = 253)]
        pub name: String,
        #[k8s(min = 1, max = 65535)]
        pub port: Option<i32>,
    }

    /// A rule.
    #[k8s]
    #[derive(Default)]
    pub struct RouteRules {
        #[k8s(
            max_items = 16,
            list = atomic,
            items(cel("size(self.kind) == 0 || self.kind != 'Service' || has(self.port)", message = "a Service needs a port")),
        )]
        pub backend_refs: Option<Vec<RouteRulesBackendRefs>>,
        #[k8s(
            max_items = 16,
            list = atomic,
            items(cel("!(has(self.requestRedirect) && self.type != 'RequestRedirect')", message = "requestRedirect belongs to RequestRedirect"), cel("!(!has(self.requestRedirect) && self.type == 'RequestRedirect')", message = "RequestRedirect needs requestRedirect")),
        )]
        pub filters: Option<Vec<RouteRulesFilters>>,
        #[k8s(
            default = [{ "path": { "type": "PathPrefix", "value": "/" } }],
            max_items = 64,
            list = atomic,
        )]
        pub matches: Option<Vec<RouteRulesMatches>>,
        pub timeouts: Option<RouteRulesTimeouts>,
    }

    #[k8s]
    pub struct RouteRulesBackendRefs {
        #[k8s(default = "Service", max_length = 63)]
        pub kind: String,
        #[k8s(min_length = 1, max_length = 253)]
        pub name: String,
        #[k8s(min = 1, max = 65535)]
        pub port: Option<i32>,
        #[k8s(default = 1, min = 0, max = 1000000)]
        pub weight: i32,
    }

    #[k8s]
    pub struct RouteRulesFilters {
        pub request_header_modifier: Option<RouteRulesFiltersRequestHeaderModifier>,
        pub request_redirect: Option<RouteRulesFiltersRequestRedirect>,
        pub r#type: RouteRulesFiltersType,
    }

    #[k8s]
    #[derive(Default)]
    pub struct RouteRulesFiltersRequestHeaderModifier {
        #[k8s(max_items = 16, list = map("name"))]
        pub add: Option<Vec<RouteRulesFiltersRequestHeaderModifierAdd>>,
        #[k8s(max_items = 16, list = set, items(max_length = 64))]
        pub remove: Option<Vec<String>>,
        #[k8s(max_items = 16, list = map("name"))]
        pub set: Option<Vec<RouteRulesFiltersRequestHeaderModifierAdd>>,
    }

    #[k8s]
    pub struct RouteRulesFiltersRequestHeaderModifierAdd {
        #[k8s(min_length = 1, max_length = 256, pattern = "^[A-Za-z0-9!#$%&'*+\\-.^_\\x60|~]+$")]
        pub name: String,
        #[k8s(min_length = 1, max_length = 4096)]
        pub value: String,
    }

    #[k8s]
    pub struct RouteRulesFiltersRequestRedirect {
        pub scheme: Option<RouteRulesFiltersRequestRedirectScheme>,
        #[k8s(default = 302, format = none, enum = [301, 302])]
        pub status_code: i64,
    }

    #[k8s]
    #[derive(Copy, PartialEq, Eq)]
    pub enum RouteRulesFiltersRequestRedirectScheme {
        #[serde(rename = "http")]
        Http,
        #[serde(rename = "https")]
        Https,
    }

    #[k8s]
    #[derive(Copy, PartialEq, Eq)]
    pub enum RouteRulesFiltersType {
        RequestHeaderModifier,
        RequestRedirect,
    }

    #[k8s]
    #[derive(Default)]
    pub struct RouteRulesMatches {
        pub method: Option<RouteRulesMatchesMethod>,
        #[k8s(
            default = { "type": "PathPrefix", "value": "/" },
            cel("(self.type in ['Exact','PathPrefix']) ? self.value.startsWith('/') : true", message = "a path begins with a slash"),
        )]
        pub path: Option<RouteRulesMatchesPath>,
    }

    #[k8s]
    #[derive(Copy, PartialEq, Eq)]
    pub enum RouteRulesMatchesMethod {
        GET,
        HEAD,
        POST,
    }

    #[k8s]
    pub struct RouteRulesMatchesPath {
        #[k8s(default = RouteRulesMatchesPathType::PathPrefix)]
        pub r#type: RouteRulesMatchesPathType,
        #[k8s(default = "/", max_length = 1024)]
        pub value: String,
    }

    #[k8s]
    #[derive(Copy, PartialEq, Eq)]
    pub enum RouteRulesMatchesPathType {
        Exact,
        PathPrefix,
        RegularExpression,
    }

    #[k8s]
    #[derive(Default)]
    pub struct RouteRulesTimeouts {
        #[k8s(pattern = "^([0-9]{1,5}(h|m|s|ms)){1,4}$")]
        pub request: Option<String>,
    }

    #[k8s]
    pub struct RouteStatus {
        #[k8s(max_items = 32, list = atomic)]
        pub parents: Vec<RouteStatusParents>,
    }

    #[k8s]
    pub struct RouteStatusParents {
        #[k8s(nullable)]
        pub accepted: Option<bool>,
        #[k8s(min_length = 1, max_length = 253)]
        pub controller_name: String,
    }
}

pub mod v1beta1 {
    use windlass::{api, k8s};

    /// Where requests go.
    #[api(
        group = "net.example.com",
        version = "v1beta1",
        kind = "Route",
        plural = "routes",
        categories = "net",
        doc = "Route sends requests to backends.",
        status = RouteStatus,
        storage = false,
        column("Hostnames", ".spec.hostnames", type = "string"),
    )]
    #[derive(Default)]
    pub struct RouteSpec {
        #[k8s(
            max_items = 16,
            list = atomic,
            items(min_length = 1, max_length = 253, pattern = "^(\\*\\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", doc = "A name of a host, perhaps with a wildcard."),
        )]
        pub hostnames: Option<Vec<String>>,
        #[k8s(
            max_items = 32,
            list = atomic,
            cel("self.all(l, self.exists_one(r, l.name == r.name))", message = "a parent is named once"),
        )]
        pub parent_refs: Option<Vec<RouteParentRefs>>,
        #[k8s(
            default = [{ "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }] }],
            min_items = 1,
            max_items = 16,
            list = atomic,
        )]
        pub rules: Option<Vec<RouteRules>>,
    }

    #[k8s]
    pub struct RouteParentRefs {
        #[k8s(default = "net.example.com", max_length = 253)]
        pub group: String,
        #[k8s(default = "Gateway", min_length = 1, max_length = 63)]
        pub kind: String,
        #[k8s(min_length = 1, max_length = 253)]
        pub name: String,
        #[k8s(min = 1, max = 65535)]
        pub port: Option<i32>,
    }

    /// A rule.
    #[k8s]
    #[derive(Default)]
    pub struct RouteRules {
        #[k8s(
            max_items = 16,
            list = atomic,
            items(cel("size(self.kind) == 0 || self.kind != 'Service' || has(self.port)", message = "a Service needs a port")),
        )]
        pub backend_refs: Option<Vec<RouteRulesBackendRefs>>,
        #[k8s(
            max_items = 16,
            list = atomic,
            items(cel("!(has(self.requestRedirect) && self.type != 'RequestRedirect')", message = "requestRedirect belongs to RequestRedirect"), cel("!(!has(self.requestRedirect) && self.type == 'RequestRedirect')", message = "RequestRedirect needs requestRedirect")),
        )]
        pub filters: Option<Vec<RouteRulesFilters>>,
        #[k8s(
            default = [{ "path": { "type": "PathPrefix", "value": "/" } }],
            max_items = 64,
            list = atomic,
        )]
        pub matches: Option<Vec<RouteRulesMatches>>,
        pub timeouts: Option<RouteRulesTimeouts>,
    }

    #[k8s]
    pub struct RouteRulesBackendRefs {
        #[k8s(default = "Service", max_length = 63)]
        pub kind: String,
        #[k8s(min_length = 1, max_length = 253)]
        pub name: String,
        #[k8s(min = 1, max = 65535)]
        pub port: Option<i32>,
        #[k8s(default = 1, min = 0, max = 1000000)]
        pub weight: i32,
    }

    #[k8s]
    pub struct RouteRulesFilters {
        pub request_header_modifier: Option<RouteRulesFiltersRequestHeaderModifier>,
        pub request_redirect: Option<RouteRulesFiltersRequestRedirect>,
        pub r#type: RouteRulesFiltersType,
    }

    #[k8s]
    #[derive(Default)]
    pub struct RouteRulesFiltersRequestHeaderModifier {
        #[k8s(max_items = 16, list = map("name"))]
        pub add: Option<Vec<RouteRulesFiltersRequestHeaderModifierAdd>>,
        #[k8s(max_items = 16, list = set, items(max_length = 64))]
        pub remove: Option<Vec<String>>,
        #[k8s(max_items = 16, list = map("name"))]
        pub set: Option<Vec<RouteRulesFiltersRequestHeaderModifierAdd>>,
    }

    #[k8s]
    pub struct RouteRulesFiltersRequestHeaderModifierAdd {
        #[k8s(min_length = 1, max_length = 256, pattern = "^[A-Za-z0-9!#$%&'*+\\-.^_\\x60|~]+$")]
        pub name: String,
        #[k8s(min_length = 1, max_length = 4096)]
        pub value: String,
    }

    #[k8s]
    pub struct RouteRulesFiltersRequestRedirect {
        pub scheme: Option<RouteRulesFiltersRequestRedirectScheme>,
        #[k8s(default = 302, format = none, enum = [301, 302])]
        pub status_code: i64,
    }

    #[k8s]
    #[derive(Copy, PartialEq, Eq)]
    pub enum RouteRulesFiltersRequestRedirectScheme {
        #[serde(rename = "http")]
        Http,
        #[serde(rename = "https")]
        Https,
    }

    #[k8s]
    #[derive(Copy, PartialEq, Eq)]
    pub enum RouteRulesFiltersType {
        RequestHeaderModifier,
        RequestRedirect,
    }

    #[k8s]
    #[derive(Default)]
    pub struct RouteRulesMatches {
        pub method: Option<RouteRulesMatchesMethod>,
        #[k8s(
            default = { "type": "PathPrefix", "value": "/" },
            cel("(self.type in ['Exact','PathPrefix']) ? self.value.startsWith('/') : true", message = "a path begins with a slash"),
        )]
        pub path: Option<RouteRulesMatchesPath>,
    }

    #[k8s]
    #[derive(Copy, PartialEq, Eq)]
    pub enum RouteRulesMatchesMethod {
        GET,
        HEAD,
        POST,
    }

    #[k8s]
    pub struct RouteRulesMatchesPath {
        #[k8s(default = RouteRulesMatchesPathType::PathPrefix)]
        pub r#type: RouteRulesMatchesPathType,
        #[k8s(default = "/", max_length = 1024)]
        pub value: String,
    }

    #[k8s]
    #[derive(Copy, PartialEq, Eq)]
    pub enum RouteRulesMatchesPathType {
        Exact,
        PathPrefix,
        RegularExpression,
    }

    #[k8s]
    #[derive(Default)]
    pub struct RouteRulesTimeouts {
        #[k8s(pattern = "^([0-9]{1,5}(h|m|s|ms)){1,4}$")]
        pub request: Option<String>,
    }

    #[k8s]
    pub struct RouteStatus {
        #[k8s(max_items = 32, list = atomic)]
        pub parents: Vec<RouteStatusParents>,
    }

    #[k8s]
    pub struct RouteStatusParents {
        #[k8s(nullable)]
        pub accepted: Option<bool>,
        #[k8s(min_length = 1, max_length = 253)]
        pub controller_name: String,
    }
}
