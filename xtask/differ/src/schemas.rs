//! The OpenAPI schemas of kinds, as a server publishes them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::seeds::Seed;
use crate::server::Server;

/// The schemas of some APIs.
#[derive(Default)]
pub struct Schemas {
    components: BTreeMap<String, Value>,
    /// The names of the components of kinds, by API version and kind.
    kinds: BTreeMap<(String, String), String>,
}

// === impl Schemas ===

impl Schemas {
    /// Reads the schemas of the seeds' APIs.
    ///
    /// # Errors
    /// If the server does not publish them.
    pub async fn read(server: &Server, seeds: &[Seed]) -> Result<Self, String> {
        let mut schemas = Self::default();
        let mut apis: Vec<&str> = seeds.iter().map(|seed| seed.api.as_str()).collect();
        apis.sort_unstable();
        apis.dedup();
        for api in apis {
            let path = format!("/openapi/v3{api}");
            let answer = server.get(&path).await?;
            let Some(components) = answer.body["components"]["schemas"].as_object() else {
                return Err(format!("{path}: answered {} without schemas", answer.status));
            };
            for (name, schema) in components {
                schemas.add(name, schema);
            }
        }
        Ok(schemas)
    }

    fn add(&mut self, name: &str, schema: &Value) {
        for kind in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let text = |field: &str| kind[field].as_str().unwrap_or_default().to_owned();
            let api_version = match text("group").as_str() {
                "" => text("version"),
                group => format!("{group}/{}", text("version")),
            };
            self.kinds.insert((api_version, text("kind")), name.to_owned());
        }
        self.components.insert(name.to_owned(), schema.clone());
    }

    /// Returns the schema of a seed's kind.
    pub fn of(&self, seed: &Seed) -> Option<&Value> {
        let name = self.kinds.get(&(seed.api_version().to_owned(), seed.kind.clone()))?;
        self.components.get(name)
    }

    /// Follows a reference to a component.
    pub fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
        reference.and_then(|path| self.components.get(path.rsplit('/').next()?)).unwrap_or(schema)
    }

    /// Returns the name of the component that a schema refers to.
    pub fn name(schema: &Value) -> &str {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
        reference.and_then(|path| path.rsplit('/').next()).unwrap_or_default()
    }
}
