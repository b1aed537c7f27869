//! The embedded API server accepts what is generated.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use windlass_apiserver::server::ApiServer;

/// Fails unless a server accepts a definition and serves it.
pub fn accepts(crd: &CustomResourceDefinition) {
    if let Err(error) = create(crd) {
        panic!("the API server refuses the definition: {error}");
    }
}

/// Creates a definition on a new server.
pub fn create(crd: &CustomResourceDefinition) -> kube::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = ApiServer::start();
        let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
        definitions.create(&PostParams::default(), crd).await?;
        let stored = definitions.get(&crd.name_any()).await?;
        let conditions = stored.status.and_then(|status| status.conditions).unwrap_or_default();
        let established =
            conditions.iter().any(|one| one.type_ == "Established" && one.status == "True");
        assert!(established, "{conditions:?}");
        Ok(())
    })
}
