//! What the API server and a Rust type think of the same object.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PostParams};
use kube::{CustomResourceExt, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_apiserver::server::ApiServer;

/// A server with the definition of a kind.
pub struct Judge {
    server: ApiServer,
    resource: kube::core::ApiResource,
}

impl Judge {
    /// Starts a server, after the check accepted the definition.
    pub async fn of<K: CustomResourceExt + Resource<DynamicType = ()>>() -> Self {
        let server = ApiServer::start();
        windlass::crd::check::<K>().unwrap_or_else(|problems| panic!("{problems}"));
        let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
        definitions.create(&PostParams::default(), &K::crd()).await.unwrap();
        crate::accepted::keep(&K::crd());
        Self { server, resource: K::api_resource() }
    }

    /// Returns the spec as it is stored, or why it is refused.
    pub async fn store(&self, spec: &Value) -> Result<Value, String> {
        let objects =
            Api::<DynamicObject>::namespaced_with(self.server.client(), "default", &self.resource);
        let object = json!({
            "apiVersion": self.resource.api_version, "kind": self.resource.kind,
            "metadata": { "generateName": "x-" }, "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        let stored = objects.create(&PostParams::default(), &object).await;
        stored.map(|object| object.data["spec"].clone()).map_err(|error| error.to_string())
    }

    /// Fails unless the server and the type both accept a spec, and the type writes what it reads.
    pub async fn accepts<T: DeserializeOwned + Serialize>(&self, spec: Value) {
        let stored = self.store(&spec).await.unwrap_or_else(|why| panic!("{spec}: {why}"));
        let read: T = serde_json::from_value(stored.clone())
            .unwrap_or_else(|why| panic!("{stored} cannot be read: {why}"));
        assert_eq!(serde_json::to_value(&read).unwrap(), stored);
    }

    /// Fails unless the server refuses a spec for a reason that contains a text.
    pub async fn refuses(&self, spec: Value, why: &str) {
        let refused = self.store(&spec).await.err();
        assert!(refused.as_ref().is_some_and(|text| text.contains(why)), "{spec}: {refused:?}");
    }
}
