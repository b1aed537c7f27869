//! Partial structs of kinds, applied by a controller.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use windlass::{Client, Context, Controller, Next, Result, api};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, eventually, key, manager};

/// A lamp.
#[api(group = "example.com", version = "v1", kind = "Lamp", partial)]
pub struct LampSpec {
    pub watts: i32,
    pub color: String,
}

async fn dim(cx: Context<ConfigMap>) -> Result<Next> {
    if cx.object().is_some() {
        let spec = LampSpecPartial { watts: Some(7), ..Default::default() };
        let stored = cx.apply(&LampPartial::new("desk", spec)).await?;
        let spec = stored.spec.as_ref().expect("the server has a spec");
        assert_eq!(spec.color.as_deref(), Some("red"));
    }
    Ok(Next::Done)
}

#[tokio::test(start_paused = true)]
async fn a_controller_applies_the_fields_that_it_owns_and_no_others() {
    let server = ApiServer::start();
    let author = Client::new(server.client());
    author.api::<CustomResourceDefinition>().create(&Lamp::crd()).await.expect("defined");
    let mut lamp = Lamp::new("desk", LampSpec { watts: 60, color: "red".into() });
    lamp.metadata.namespace = Some("default".into());
    author.api().create(&lamp).await.expect("created");

    let controller = Controller::<ConfigMap>::builder("dim").owns::<Lamp>().build(dim);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client().clone();
    client.api().create(&config_map("a", &[])).await.expect("created");
    let watts = || {
        let lamp = client.cached().get::<Lamp>(&key("desk")).ok().flatten();
        lamp.map(|lamp| (lamp.spec.watts, lamp.spec.color.clone()))
    };
    eventually("the lamp is dimmed", || watts() == Some((7, "red".into()))).await;
    handle.stop().await.expect("stops");
}
