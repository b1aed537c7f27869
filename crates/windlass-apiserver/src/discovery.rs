//! Discovery: which groups, versions and resources are served, in both formats.
//!
//! Pure functions over the resources of a server: the legacy documents (one per group version)
//! and the aggregated ones (`apidiscovery.k8s.io/v2`).
//!
//! **Invariant:** built-in groups come first in the order of their table, custom groups follow by
//! name; versions of a custom group are ordered by maturity.

use std::cmp::Reverse;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::resource::{Gvk, Resource, Subresource};

/// A finished document and its `ETag`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The body.
    pub body: Bytes,
    /// The quoted `ETag`, a hash of the body.
    pub etag: String,
}

/// What the `Accept` header of a discovery request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The aggregated document.
    Aggregated,
    /// The legacy document.
    Legacy,
    /// Nothing that there is: 406.
    Nothing,
}

/// Returns what an `Accept` header asks for; of equally good types the more precise one wins.
pub fn wanted(accept: &str) -> Wanted {
    if accept.trim().is_empty() {
        return Wanted::Legacy;
    }
    let mut clauses: Vec<_> = accept.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by_key(|clause| (Reverse(clause.quality), Reverse(clause.params)));
    clauses.into_iter().find_map(|clause| clause.wanted).unwrap_or(Wanted::Nothing)
}

struct Clause {
    quality: u32,
    params: usize,
    wanted: Option<Wanted>,
}

// === impl Clause ===

impl Clause {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next()?;
        let (mut quality, mut params) = (1000, 0);
        let (mut group, mut version, mut convert) = ("", "", "");
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            params += 1;
            match key.trim() {
                "q" => {
                    let q: f32 = value.trim().parse().unwrap_or(1.0);
                    quality = (q.clamp(0.0, 1.0) * 1000.0) as u32;
                    params -= 1;
                }
                "g" => group = value,
                "v" => version = value,
                "as" => convert = value,
                _ => {}
            }
        }
        let json = matches!(media, "application/json" | "*/*");
        let other = matches!(
            media,
            "application/yaml" | "application/vnd.kubernetes.protobuf" | "application/cbor"
        );
        let wanted = match (json || other, convert) {
            (false, _) => None,
            (true, "") => Some(Wanted::Legacy),
            (true, "APIGroupDiscoveryList")
                if json && group == "apidiscovery.k8s.io" && version == "v2" =>
            {
                Some(Wanted::Aggregated)
            }
            _ => None,
        };
        Some(Self { quality, params, wanted })
    }
}

// === impl Document ===

impl Document {
    /// Creates a document of a value.
    pub fn new(value: &Value) -> Self {
        let body = Bytes::from(value.to_string());
        let etag = format!("\"{}\"", hash(&body));
        Self { body, etag }
    }
}

/// Returns the upper-case SHA-512 of a body, as the real server tags its documents.
pub fn hash(body: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA512, body);
    digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Answers `GET /api`.
pub fn core_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address},
        ],
    })
}

/// Answers `GET /apis`.
pub fn group_list(resources: &[Arc<Resource>]) -> Value {
    let groups: Vec<_> =
        groups(resources).iter().filter(|g| !g.name.is_empty()).map(Group::legacy).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Answers `GET /apis/{group}`; `None` if there is no such group.
pub fn group(resources: &[Arc<Resource>], name: &str) -> Option<Value> {
    let groups = groups(resources);
    let group = groups.iter().find(|g| g.name == name && !name.is_empty())?;
    let mut value = group.legacy();
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    Some(value)
}

/// Answers `GET /api/v1` and `GET /apis/{group}/{version}`; `None` if it is not served.
pub fn resource_list(resources: &[Arc<Resource>], group: &str, version: &str) -> Option<Value> {
    let mut rows = Vec::new();
    for resource in resources {
        if &*resource.gvk.group == group && &*resource.gvk.version == version {
            rows.push(legacy_row(resource));
            rows.extend(subresources(resource).map(|(name, sub)| legacy_sub(resource, name, sub)));
        }
    }
    if rows.is_empty() {
        return None;
    }
    let gv = Gvk::new(group, version, "").api_version();
    let mut list = json!({"kind": "APIResourceList", "groupVersion": gv, "resources": rows});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

/// Returns the aggregated `GET /api`.
pub fn aggregated_core(resources: &[Arc<Resource>]) -> Document {
    aggregated(resources, true)
}

/// Returns the aggregated `GET /apis`.
pub fn aggregated_groups(resources: &[Arc<Resource>]) -> Document {
    aggregated(resources, false)
}

fn aggregated(resources: &[Arc<Resource>], core: bool) -> Document {
    let items: Vec<_> = groups(resources)
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| group.aggregated())
        .collect();
    Document::new(&json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    }))
}

/// A group with its versions, best first, and their resources.
struct Group<'a> {
    name: &'a str,
    custom: bool,
    versions: Vec<(&'a str, Vec<&'a Resource>)>,
}

fn groups(resources: &[Arc<Resource>]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for resource in resources {
        let (name, version) = (&*resource.gvk.group, &*resource.gvk.version);
        let at = groups.iter().position(|g| g.name == name).unwrap_or_else(|| {
            groups.push(Group { name, custom: true, versions: Vec::new() });
            groups.len() - 1
        });
        let group = &mut groups[at];
        group.custom &= resource.is_custom();
        match group.versions.iter_mut().find(|(v, _)| *v == version) {
            Some((_, list)) => list.push(resource),
            None => group.versions.push((version, vec![resource])),
        }
    }
    for group in groups.iter_mut().filter(|g| g.custom) {
        group.versions.sort_by_key(|(version, _)| version_order(version));
    }
    // A stable sort: built-in groups keep the order of their table.
    groups.sort_by_key(|g| (g.custom, if g.custom { g.name } else { "" }));
    groups
}

// === impl Group ===

impl Group<'_> {
    fn legacy(&self) -> Value {
        let versions: Vec<_> = self
            .versions
            .iter()
            .map(|(v, _)| json!({"groupVersion": format!("{}/{v}", self.name), "version": v}))
            .collect();
        let preferred = versions.first().cloned().unwrap_or_default();
        json!({"name": self.name, "versions": versions, "preferredVersion": preferred})
    }

    fn aggregated(&self) -> Value {
        let versions: Vec<_> = self
            .versions
            .iter()
            .map(|(version, resources)| {
                let rows: Vec<_> = resources.iter().map(|r| aggregated_row(r)).collect();
                json!({"version": version, "resources": rows, "freshness": "Current"})
            })
            .collect();
        let metadata = match self.name {
            "" => json!({}),
            name => json!({"name": name}),
        };
        json!({"metadata": metadata, "versions": versions})
    }
}

/// Sorts versions by priority: stable ones first, then the newer ones.
pub type VersionOrder = (u8, Reverse<u32>, Reverse<u32>, String);

/// Orders versions as clients should: releases before betas before alphas, newer first.
pub fn version_order(version: &str) -> VersionOrder {
    let unknown = || (3, Reverse(0), Reverse(0), version.to_owned());
    let Some(rest) = version.strip_prefix('v') else { return unknown() };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, tail) = rest.split_at(end);
    let Ok(major) = major.parse::<u32>() else { return unknown() };
    if tail.is_empty() {
        return (0, Reverse(major), Reverse(0), String::new());
    }
    let (stage, minor) = match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (2, minor),
        _ => return unknown(),
    };
    match minor.parse::<u32>() {
        Ok(minor) => (stage, Reverse(major), Reverse(minor), String::new()),
        Err(_) => unknown(),
    }
}

/// Custom resources list their verbs and subresources in an order of their own.
fn verbs(resource: &Resource) -> Vec<&str> {
    const CUSTOM: [&str; 8] =
        ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    match resource.is_custom() {
        true => CUSTOM.into_iter().filter(|verb| resource.has_verb(verb)).collect(),
        false => resource.verbs.iter().map(String::as_str).collect(),
    }
}

fn subresources(resource: &Resource) -> impl Iterator<Item = (&str, &Subresource)> {
    let mut all: Vec<_> =
        resource.subresources.iter().map(|(name, sub)| (name.as_str(), sub)).collect();
    if resource.is_custom() {
        all.sort_by_key(|(name, _)| *name != "status");
    }
    all.into_iter()
}

fn legacy_row(resource: &Resource) -> Value {
    let mut row = json!({
        "name": &*resource.plural, "singularName": &*resource.singular,
        "namespaced": resource.namespaced, "kind": &*resource.gvk.kind,
        "verbs": verbs(resource),
    });
    names(resource, &mut row);
    if let Some(hash) = storage_version_hash(resource) {
        row["storageVersionHash"] = hash.into();
    }
    row
}

fn legacy_sub(resource: &Resource, name: &str, sub: &Subresource) -> Value {
    let mut row = json!({
        "name": format!("{}/{name}", resource.plural), "singularName": "",
        "namespaced": resource.namespaced, "kind": &*sub.gvk.kind, "verbs": sub.verbs,
    });
    // The parent's group version is not repeated.
    let foreign = sub.gvk.group != resource.gvk.group || sub.gvk.version != resource.gvk.version;
    if !sub.gvk.version.is_empty() && foreign {
        if !sub.gvk.group.is_empty() {
            row["group"] = (&*sub.gvk.group).into();
        }
        row["version"] = (&*sub.gvk.version).into();
    }
    row
}

fn names(resource: &Resource, row: &mut Value) {
    for (key, list) in [("shortNames", &resource.short_names), ("categories", &resource.categories)]
    {
        if !list.is_empty() {
            row[key] = list.clone().into();
        }
    }
}

fn aggregated_row(resource: &Resource) -> Value {
    let own = match resource.is_custom() {
        true => (&*resource.gvk.group, &*resource.gvk.version),
        false => ("", ""),
    };
    let kind = |gv: (&str, &str), kind: &str| json!({"group": gv.0, "version": gv.1, "kind": kind});
    let mut row = json!({
        "resource": &*resource.plural,
        "responseKind": kind(own, &resource.gvk.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*resource.singular,
        "verbs": verbs(resource),
    });
    names(resource, &mut row);
    let subs: Vec<_> = subresources(resource)
        .map(|(name, sub)| {
            let inherited = sub.gvk.version.is_empty()
                || sub.gvk.group == resource.gvk.group && sub.gvk.version == resource.gvk.version;
            let gv = if inherited { own } else { (&*sub.gvk.group, &*sub.gvk.version) };
            json!({"subresource": name, "responseKind": kind(gv, &sub.gvk.kind),
                "verbs": sub.verbs})
        })
        .collect();
    if !subs.is_empty() {
        row["subresources"] = subs.into();
    }
    row
}

/// The hash of the version that objects are stored in; `None` for what is not stored.
fn storage_version_hash(resource: &Resource) -> Option<String> {
    if !resource.has_verb("create") || !resource.has_verb("get") {
        return None;
    }
    let (group, version) = match (&*resource.gvk.group, &*resource.gvk.version, &resource.custom) {
        (group, version, Some(custom)) => {
            let versions = custom.definition.pointer("/spec/versions").and_then(Value::as_array);
            let stored = versions.into_iter().flatten().find(|v| v["storage"] == true);
            (group, stored.and_then(|v| v["name"].as_str()).unwrap_or(version))
        }
        // Both of these are one storage with the group they came from.
        ("events.k8s.io", _, None) => ("", "v1"),
        ("autoscaling", _, None) => ("autoscaling", "v2"),
        (group, version, None) => (group, version),
    };
    let text = format!("{group}/{version}/{}", resource.gvk.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    Some(base64::engine::general_purpose::STANDARD.encode(&digest.as_ref()[..8]))
}

/// Answers `GET /`: the paths there are.
pub fn root_paths(resources: &[Arc<Resource>]) -> Value {
    let mut paths: Vec<String> =
        ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/"]
            .map(str::to_owned)
            .into();
    for group in groups(resources).iter().filter(|g| !g.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|(v, _)| format!("/apis/{}/{v}", group.name)));
    }
    let rest = [
        "/healthz",
        "/healthz/ping",
        "/livez",
        "/livez/ping",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/readyz",
        "/readyz/ping",
        "/version",
    ];
    paths.extend(rest.map(str::to_owned));
    paths.sort();
    let mut out = Map::new();
    out.insert("paths".into(), paths.into());
    Value::Object(out)
}

#[cfg(test)]
mod tests;
