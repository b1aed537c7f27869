//! A valid object of each kind, from which requests are generated.

use serde::Deserialize;
use serde_json::{Value, json};

/// A kind and an object of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Seed {
    /// The path of the API, such as `/apis/apps/v1`.
    pub api: String,
    /// The plural name.
    pub resource: String,
    /// The kind.
    pub kind: String,
    /// Set for cluster-scoped kinds.
    #[serde(default)]
    pub cluster: bool,
    /// Set for kinds with a status subresource.
    #[serde(default)]
    pub status: bool,
    /// Set for kinds with a scale subresource.
    #[serde(default)]
    pub scale: bool,
    /// The subresources besides status and scale.
    #[serde(default)]
    pub parts: Vec<String>,
    /// Set for kinds that are only created, such as reviews.
    #[serde(default)]
    pub posted: bool,
    /// Set for kinds that a controller inside the server writes to, or that change how the server
    /// answers other requests: all writes are dry runs.
    #[serde(default)]
    pub dry: bool,
    /// The path of the API in another version that serves the kind, too.
    #[serde(default)]
    pub other: Option<String>,
    /// The object without its kind and metadata.
    pub body: Value,
}

/// Returns the seeds of the built-in kinds.
///
/// # Panics
/// Never: the seeds are part of the program.
pub fn builtin() -> Vec<Seed> {
    serde_json::from_str(include_str!("seeds.json")).expect("seeds.json is a list of seeds")
}

// === impl Seed ===

impl Seed {
    /// Returns the group and version as objects name them.
    pub fn api_version(&self) -> &str {
        self.api.trim_start_matches("/apis/").trim_start_matches("/api/")
    }

    /// Returns the path of the collection.
    pub fn collection(&self) -> String {
        if self.cluster {
            format!("{}/{}", self.api, self.resource)
        } else {
            format!("{}/namespaces/{{ns}}/{}", self.api, self.resource)
        }
    }

    /// Returns the path of an object.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{}", self.collection(), self.name(name))
    }

    /// Returns the name of an object; those of cluster-scoped kinds are unique to the run.
    pub fn name(&self, name: &str) -> String {
        if self.cluster { format!("{name}-{{id}}.example.com") } else { name.to_owned() }
    }

    /// Returns a whole object.
    pub fn object(&self, name: &str) -> Value {
        let mut object = self.body.clone();
        object["apiVersion"] = json!(self.api_version());
        object["kind"] = json!(self.kind);
        object["metadata"] = json!({"name": self.name(name), "labels": {"app": name}});
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_have_paths_and_names() {
        let seeds = builtin();
        assert!(seeds.len() > 60);
        let node = seeds.iter().find(|seed| seed.kind == "Node").expect("there is one");
        assert_eq!(node.path("a"), "/api/v1/nodes/a-{id}.example.com");
        let set = seeds.iter().find(|seed| seed.kind == "ReplicaSet").expect("there is one");
        assert_eq!(set.path("a"), "/apis/apps/v1/namespaces/{ns}/replicasets/a");
        assert_eq!(set.object("a")["apiVersion"], "apps/v1");
    }
}
