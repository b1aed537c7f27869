//! Kinds that a controller can do without.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use tokio::sync::mpsc;
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Key, Kind, Watch};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, manager};

fn monitors() -> Kind {
    Kind::new("example.com", "v1", "Monitor", "monitors")
}

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "monitors.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Monitor", "plural": "monitors", "singular": "monitor", "listKind": "MonitorList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    }))
    .expect("a definition")
}

#[tokio::test(start_paused = true)]
async fn an_optional_kind_is_not_waited_for_and_all_keys_run_when_it_appears() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    for name in ["a", "b"] {
        client.api().create(&config_map(name, &[])).await.expect("created");
    }
    let (sender, mut seen) = mpsc::channel(64);
    let controller = Controller::<ConfigMap>::builder("maps")
        .watch(Watch::owned(monitors()).optional())
        .build(move |cx: Context<ConfigMap>| {
            let sender = sender.clone();
            async move {
                let causes: Vec<String> = cx.causes().iter().map(ToString::to_string).collect();
                let served = cx.serves(&monitors());
                let _ = sender.send(format!("{} {served} {}", cx.name(), causes.join(", "))).await;
                Ok(Next::Done)
            }
        });
    let running = manager(&server).add(controller).spawn().expect("starts");
    let ready = tokio::time::timeout(Duration::from_secs(60), running.ready()).await;
    assert_eq!(ready, Ok(true), "although nobody serves that kind");
    let mut two = async || {
        let mut two = [seen.recv().await.expect("a run"), seen.recv().await.expect("a run")];
        two.sort();
        two
    };
    let started = "the controller started";
    assert_eq!(two().await, [format!("a false {started}"), format!("b false {started}")]);
    client.api().create(&definition()).await.expect("created");
    assert_eq!(two().await, [format!("a true {started}"), format!("b true {started}")]);

    let definitions = client.api::<CustomResourceDefinition>();
    definitions.delete(&Key::cluster("monitors.example.com")).await.expect("deleted");
    tokio::time::sleep(Duration::from_secs(120)).await;
    client.api().create(&definition()).await.expect("created");
    assert_eq!(two().await, [format!("a true {started}"), format!("b true {started}")], "again");
    running.stop().await.expect("stops");
}
