//! OpenAPI documents: the index and the group versions of v3, and the one document of v2.
//!
//! Schemas come from the tables of [`crate::schema`], descriptions from `k8s-openapi`, custom
//! kinds from their definitions. Documents are made when they are asked for and kept by the hash
//! of what they are made from; the index needs the hashes alone.
//!
//! **Invariant:** the hash of a document in the index is the one it is served with.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::discovery;
pub use crate::discovery::Document;
use crate::resource::{Gvk, Resource};

pub mod custom;
mod definition;
mod describe;
mod path;
mod protobuf;

#[cfg(test)]
mod tests;

/// The version of Kubernetes whose API this is.
pub const VERSION: &str = "v1.36.4";

/// The two dialects of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

// === impl Dialect ===

impl Dialect {
    /// Returns a reference to a definition, with what else is said about the place.
    pub fn reference(self, name: &str, mut extra: Map<String, Value>) -> Value {
        match self {
            Self::V2 => {
                extra.insert("$ref".into(), format!("#/definitions/{name}").into());
                extra.into()
            }
            Self::V3 => {
                let target = json!({"$ref": format!("#/components/schemas/{name}")});
                if extra.is_empty() {
                    return target;
                }
                extra.insert("allOf".into(), json!([target]));
                extra.into()
            }
        }
    }
}

/// Answers `GET /version`.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": "36",
        "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": VERSION,
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, arch()),
    })
}

/// The machine as Go calls it.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Answers `GET /openapi/v3`: where the documents are, with their hashes.
pub fn v3_index(resources: &[Arc<Resource>]) -> Document {
    let mut paths = Map::new();
    for path in v3_paths(resources) {
        if let Some(hash) = v3_hash(&path, resources) {
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    Document::new(&json!({"paths": paths}))
}

/// Returns the hash of a document, as the index has it; `None` if there is no such document.
///
/// A request with another `hash` is to be sent on to the one with this.
pub fn v3_hash(path: &str, resources: &[Arc<Resource>]) -> Option<String> {
    let part = Part::find(path, resources)?;
    Some(part.hash("v3"))
}

/// Answers `GET /openapi/v3/{path}`, where the path is `apis/apps/v1` or the like.
pub fn v3_document(path: &str, resources: &[Arc<Resource>]) -> Option<Document> {
    let part = Part::find(path, resources)?;
    let hash = part.hash("v3");
    let body = cached(&hash, || part.v3().to_string().into_bytes());
    Some(Document { body, etag: format!("\"{hash}\"") })
}

/// Answers `GET /openapi/v2`, as JSON.
pub fn v2_document(resources: &[Arc<Resource>]) -> Document {
    let hash = Part::Group { path: String::new(), members: resources.to_vec() }.hash("v2");
    let body = cached(&hash, || v2(resources).to_string().into_bytes());
    Document { body, etag: format!("\"{hash}\"") }
}

/// Answers `GET /openapi/v2` in protobuf, which clients in Go ask for.
pub fn v2_protobuf(resources: &[Arc<Resource>]) -> Document {
    let hash = Part::Group { path: String::new(), members: resources.to_vec() }.hash("v2 protobuf");
    let body = cached(&hash, || protobuf::document(&v2(resources)));
    Document { body, etag: format!("\"{hash}\"") }
}

/// What one document of v3 is about.
enum Part {
    /// A group version.
    Group { path: String, members: Vec<Arc<Resource>> },
    /// A path that is not a group version: `version`, `apis/apps`.
    Plain(String),
}

const PLAIN: [&str; 6] =
    [".well-known/openid-configuration", "api", "apis", "logs", "openid/v1/jwks", "version"];

fn v3_paths(resources: &[Arc<Resource>]) -> BTreeSet<String> {
    let mut paths: BTreeSet<_> = PLAIN.map(str::to_owned).into();
    for resource in resources {
        paths.insert(gv_path(&resource.gvk));
        // Groups of definitions have no document of their own, only their versions do.
        if !resource.gvk.group.is_empty() && !resource.is_custom() {
            paths.insert(format!("apis/{}", resource.gvk.group));
        }
    }
    paths
}

fn gv_path(gvk: &Gvk) -> String {
    path::base_of(gvk)[1..].to_owned()
}

// === impl Part ===

impl Part {
    fn find(path: &str, resources: &[Arc<Resource>]) -> Option<Self> {
        let members: Vec<_> =
            resources.iter().filter(|r| gv_path(&r.gvk) == path).cloned().collect();
        if !members.is_empty() {
            return Some(Self::Group { path: path.to_owned(), members });
        }
        let group = path.strip_prefix("apis/");
        let known = PLAIN.contains(&path)
            || resources
                .iter()
                .any(|r| !r.gvk.group.is_empty() && !r.is_custom() && Some(&*r.gvk.group) == group);
        known.then(|| Self::Plain(path.to_owned()))
    }

    /// The hash of what the document is made from: this crate, and the definitions.
    fn hash(&self, dialect: &str) -> String {
        let mut text = format!("{} {VERSION} {dialect} ", env!("CARGO_PKG_VERSION"));
        match self {
            Self::Plain(path) => text.push_str(path),
            Self::Group { path, members } => {
                text.push_str(path);
                for resource in members.iter().filter(|r| r.is_custom()) {
                    text.push_str(&resource.gvk.to_string());
                    let spec = resource.custom.as_ref().map(|c| c.definition["spec"].to_string());
                    text.push_str(&spec.unwrap_or_default());
                }
            }
        }
        discovery::hash(text.as_bytes())
    }

    fn v3(&self) -> Value {
        let mut doc = json!({
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": VERSION},
        });
        match self {
            Self::Plain(path) => {
                let id = format!("get_{}", path.replace(['/', '.', '-'], "_"));
                let operation = json!({
                    "operationId": id,
                    "responses": {"200": {"description": "OK"},
                        "401": {"description": "Unauthorized"}},
                });
                let slash = if matches!(path.as_str(), "api" | "apis") || path.starts_with("apis/")
                {
                    "/"
                } else {
                    ""
                };
                doc["paths"] = json!({format!("/{path}{slash}"): {"get": operation}});
                doc["components"] = json!({});
            }
            Self::Group { members, .. } => {
                let (paths, schemas) = contents(members, Dialect::V3);
                doc["paths"] = paths.into();
                doc["components"] = json!({"schemas": schemas});
            }
        }
        doc
    }
}

fn v2(resources: &[Arc<Resource>]) -> Value {
    let mut paths = Map::new();
    let mut definitions = BTreeMap::new();
    let gvs: BTreeSet<_> = resources.iter().map(|r| gv_path(&r.gvk)).collect();
    for gv in gvs {
        let members: Vec<_> = resources.iter().filter(|r| gv_path(&r.gvk) == gv).cloned().collect();
        let (more_paths, more_definitions) = contents(&members, Dialect::V2);
        paths.extend(more_paths);
        definitions.extend(more_definitions);
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "definitions": definitions,
    })
}

/// Paths and definitions of the resources of one group version.
fn contents(
    members: &[Arc<Resource>],
    dialect: Dialect,
) -> (Map<String, Value>, BTreeMap<String, Value>) {
    let mut paths = Map::new();
    let Some(first) = members.first() else { return (paths, BTreeMap::new()) };
    let texts = describe::load(&first.gvk.group, &first.gvk.version);
    let mut definitions = definition::Definitions::new(dialect, &texts);
    for kind in ["DeleteOptions", "Status", "APIResourceList", "WatchEvent"] {
        definitions.add_kind(&Gvk::new("meta.k8s.io", "v1", kind));
    }
    let mut customs = Vec::new();
    for resource in members {
        path::add(resource, dialect, &mut paths);
        if resource.is_custom() {
            for kind in ["ObjectMeta", "ListMeta"] {
                definitions.add_kind(&Gvk::new("meta.k8s.io", "v1", kind));
            }
            let schema = custom::schema_of(resource);
            customs.extend(custom::definitions(resource, schema.as_ref(), dialect));
        }
        let own = |kind: &str| Gvk::new(&resource.gvk.group, &resource.gvk.version, kind);
        definitions.add_kind(&resource.gvk);
        definitions.add_kind(&own(&resource.list_kind));
        for sub in resource.subresources.values() {
            match &*sub.gvk.version {
                "" => definitions.add_kind(&own(&sub.gvk.kind)),
                _ => definitions.add_kind(&sub.gvk),
            }
        }
    }
    let mut all = definitions.finish();
    all.extend(customs);
    (paths, all)
}

/// A body by its hash, made once.
fn cached(hash: &str, make: impl FnOnce() -> Vec<u8>) -> Bytes {
    /// Documents of definitions come and go; the built-in ones are fewer than this.
    const KEPT_MAX: usize = 256;
    static KEPT: OnceLock<Mutex<HashMap<String, Bytes>>> = OnceLock::new();
    let kept = KEPT.get_or_init(Mutex::default);
    let lock = || kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(body) = lock().get(hash) {
        return body.clone();
    }
    let body = Bytes::from(make());
    let mut kept = lock();
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
    kept.insert(hash.to_owned(), body.clone());
    body
}
