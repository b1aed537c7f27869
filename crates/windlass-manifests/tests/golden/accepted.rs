//! The embedded API server accepts what is generated.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use windlass_apiserver::server::ApiServer;

/// Names the folder for the definitions that these tests make, if they are wanted.
const FOLDER: &str = "WINDLASS_DEFINITIONS";

/// Fails unless a server accepts a definition and serves it.
pub fn accepts(crd: &CustomResourceDefinition) {
    if let Err(error) = create(crd) {
        panic!("the API server refuses the definition: {error}");
    }
    keep(crd);
}

/// Writes a definition into the folder that the environment names, for a real API server to judge.
pub fn keep(crd: &CustomResourceDefinition) {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let test = std::thread::current().name().unwrap_or_default().replace("::", "-");
    let file = format!("{}.{test}.yaml", crd.name_any());
    let text = windlass::yaml::document(&windlass::crd::to_value(crd));
    std::fs::write(std::path::Path::new(&folder).join(file), text).unwrap();
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
