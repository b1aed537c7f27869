//! Why a key is reconciled, as contexts, the diagnostics page and the log show it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::client::Patch;
use windlass::controller::{Cause, Context, Controller, Next};
use windlass::{Error, Key, Result, Watch};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, eventually, key, manager, secret};

/// A controller that sends its causes, and does what `data.do` of its object says.
fn controller(sender: mpsc::Sender<Vec<String>>) -> Controller<ConfigMap> {
    Controller::<ConfigMap>::builder("maps")
        .watch(Watch::map(|secret: &Secret| vec![key(&format!("of-{}", name(secret)))]))
        .resync(Duration::from_secs(3600))
        .build(move |cx: Context<ConfigMap>| {
            let sender = sender.clone();
            async move {
                let texts = cx.causes().iter().map(ToString::to_string).collect();
                sender.send(texts).await.expect("the test listens");
                act(&cx).await
            }
        })
}

async fn act(cx: &Context<ConfigMap>) -> Result<Next> {
    let Some(map) = cx.object() else { return Ok(Next::Done) };
    let wish = map.data.as_ref().and_then(|data| data.get("do")).map(String::as_str);
    match wish {
        Some("wait") if cx.causes() != [Cause::Due] => Ok(Next::After(Duration::from_secs(60))),
        Some("fail") if cx.failures() == 0 => Err(Error::from("the till is stuck")),
        Some("write") if cx.get::<ConfigMap>("made")?.is_none() => {
            cx.client().api().create(&config_map("made", &[])).await?;
            Ok(Next::Done)
        }
        _ => Ok(Next::Done),
    }
}

fn name(secret: &Secret) -> &str {
    secret.metadata.name.as_deref().unwrap_or_default()
}

fn wish(what: &str) -> Patch {
    Patch::Merge(json!({"data": {"do": what}, "metadata": {"labels": {"a": "b"}}}))
}

#[tokio::test(start_paused = true)]
async fn every_reconcile_knows_what_led_to_it() {
    let server = ApiServer::start();
    let client = windlass::Client::new(server.client());
    client.api().create(&config_map("of-s", &[("do", "nothing")])).await.expect("created");
    let (sender, mut seen) = mpsc::channel(64);
    let running = manager(&server).add(controller(sender)).spawn().expect("starts");
    let mut next = async || seen.recv().await.expect("a reconcile");
    assert_eq!(next().await, ["the controller started"]);

    client.api().create(&secret("s")).await.expect("created");
    assert_eq!(next().await, ["Secret default/s created"]);
    let paint = Patch::Merge(json!({"stringData": {"color": "blue"}}));
    client.api::<Secret>().patch(&key("s"), &paint).await.expect("patched");
    assert_eq!(
        next().await,
        ["Secret default/s changed by windlass: data.color"],
        "no value is shown"
    );
    client.api::<Secret>().delete(&key("s")).await.expect("deleted");
    assert_eq!(next().await, ["Secret default/s deleted"]);

    let maps = client.api::<ConfigMap>();
    maps.patch(&key("of-s"), &wish("wait")).await.expect("patched");
    assert_eq!(
        next().await,
        ["ConfigMap default/of-s changed by windlass: data.do, metadata.labels.a"]
    );
    assert_eq!(next().await, ["due"]);
    maps.patch(&key("of-s"), &wish("fail")).await.expect("patched");
    assert_eq!(next().await, ["ConfigMap default/of-s changed by windlass: data.do"]);
    assert_eq!(next().await, ["retry after: the till is stuck"]);
    running.controller("maps").expect("runs").enqueue(key("of-s"));
    assert_eq!(next().await, ["requested"]);
    assert_eq!(next().await, ["retry after: the till is stuck"], "it fails once more");
    assert_eq!(next().await, ["resync"]);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn causes_that_meet_in_the_queue_are_merged() {
    let server = ApiServer::start();
    let client = windlass::Client::new(server.client());
    let (sender, mut seen) = mpsc::channel(1);
    let running = manager(&server).add(controller(sender)).spawn().expect("starts");
    running.ready().await;
    // The channel has room for one, so the third reconcile does not end before it is read.
    for blocker in ["b1", "b2", "b3"] {
        client.api().create(&config_map(blocker, &[])).await.expect("created");
    }
    eventually("the only worker is busy", || {
        running.diagnostics()["controllers"][0]["queue"]["processing"] == 1
    })
    .await;
    client.api().create(&config_map("of-s", &[])).await.expect("created");
    client.api().create(&secret("s")).await.expect("created");
    running.controller("maps").expect("runs").enqueue(key("of-s"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(seen.recv().await.expect("a reconcile"));
    }
    let merged = ["ConfigMap default/of-s created", "Secret default/s created", "requested"];
    assert_eq!(all[3], merged, "{all:?}");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn the_diagnostics_page_shows_the_last_runs_of_a_key() {
    let server = ApiServer::start();
    let client = windlass::Client::new(server.client());
    let (sender, mut seen) = mpsc::channel(64);
    let running = manager(&server).add(controller(sender)).spawn().expect("starts");
    for (name, wish) in [("w", "write"), ("f", "fail"), ("l", "wait")] {
        client.api().create(&config_map(name, &[("do", wish)])).await.expect("created");
    }
    for _ in 0..5 {
        seen.recv().await.expect("a reconcile");
    }
    let runs =
        || running.diagnostics()["controllers"][0]["runs"].as_array().cloned().unwrap_or_default();
    eventually("all runs ended", || runs().len() == 5).await;
    let of = |name: &str| -> Vec<Value> {
        runs().into_iter().filter(|run| run["object"] == format!("default/{name}")).collect()
    };
    let write = &of("w")[0];
    assert_eq!(write["causes"], json!(["ConfigMap default/w created"]));
    assert_eq!((&write["reads"], &write["outcome"]), (&json!(1), &json!("done")));
    assert_eq!(write["requests"], json!(["create ConfigMap default/made"]));
    assert_eq!(write["againInSeconds"], Value::Null);
    let failed = of("f");
    assert_eq!(failed[1]["error"], "the till is stuck");
    assert_eq!(
        (&failed[1]["outcome"], &failed[1]["againInSeconds"]),
        (&json!("error"), &json!(0.005))
    );
    assert_eq!(
        failed[0]["causes"],
        json!(["retry after: the till is stuck"]),
        "the newest is first"
    );
    assert_eq!(of("l")[0]["againInSeconds"], json!(60.0));
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_of_a_cluster_scoped_object_knows_its_causes() {
    use k8s_openapi::api::core::v1::Namespace;
    let server = ApiServer::start();
    let client = windlass::Client::new(server.client());
    let (sender, mut seen) = mpsc::channel(64);
    // The map function does not know that namespaces have no namespace.
    let controller = Controller::<Namespace>::builder("namespaces")
        .watch(Watch::map(|_: &Secret| vec![key("default")]))
        .build(move |cx: Context<Namespace>| {
            let sender = sender.clone();
            async move {
                if cx.key() == &Key::cluster("default") {
                    sender.send(cx.causes()).await.expect("the test listens");
                }
                Ok(Next::Done)
            }
        });
    let running = manager(&server).add(controller).spawn().expect("starts");
    assert_eq!(seen.recv().await, Some(vec![Cause::Started]));
    client.api().create(&secret("s")).await.expect("created");
    let causes = seen.recv().await.expect("a reconcile");
    assert_eq!(causes[0].to_string(), "Secret default/s created");
    running.stop().await.expect("stops");
}
