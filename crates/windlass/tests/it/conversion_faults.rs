//! Conversion webhooks that hang, refuse, panic, lie or answer without bounds.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass::conversion::{Conversion, Fields};
use windlass::{Client, Operator};
use windlass_apiserver::ApiServer;

use crate::common::key;

mod v1 {
    #[windlass::api(group = "example.com", version = "v1", kind = "Lamp", storage = false)]
    pub struct LampSpec {
        pub watts: i32,
    }
}

mod v2 {
    #[windlass::api(group = "example.com", version = "v2", kind = "Lamp")]
    pub struct LampSpec {
        pub power: i32,
    }
}

const WEBHOOK: &str = "https://lamp-operator-webhook-service.lamp-operator-system.svc/convert";

/// What the webhook does.
#[derive(Clone, Copy, Debug)]
enum Mood {
    Works,
    Hangs,
    Panics,
    Floods,
    Lies,
}

fn conversion() -> Conversion<v2::Lamp> {
    Conversion::new().version::<v1::Lamp>(Fields::new().moved(".spec.watts", ".spec.power"))
}

/// A server with a lamp that is stored as v2, and a webhook that has moods.
async fn world() -> (ApiServer, Client, Arc<Mutex<Mood>>) {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let operator =
        Operator::new("lamp-operator").api::<v2::Lamp>().api::<v1::Lamp>().conversion(conversion());
    let definition = operator.model().expect("valid").definitions().remove(0);
    let definition: CustomResourceDefinition =
        serde_json::from_value(definition).expect("a definition");
    client.api().create(&definition).await.expect("created");
    let mood = Arc::new(Mutex::new(Mood::Works));
    (server, client, mood)
}

fn register(server: &ApiServer, mood: &Arc<Mutex<Mood>>) {
    let (mood, conversion) = (mood.clone(), Arc::new(conversion()));
    server.register_webhook(WEBHOOK, move |review| {
        let (mood, conversion) = (*mood.lock(), conversion.clone());
        async move {
            let mut answer = conversion.review(review);
            match mood {
                Mood::Works => {}
                Mood::Hangs => std::future::pending::<()>().await,
                Mood::Panics => panic!("on purpose"),
                Mood::Floods => {
                    let text = "x".repeat(64 << 20);
                    answer["response"]["convertedObjects"][0]["spec"]["note"] = text.into();
                }
                Mood::Lies => {
                    let name = &mut answer["response"]["convertedObjects"][0]["metadata"]["name"];
                    *name = Value::from("other");
                }
            }
            answer
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_conversion_webhook_that_fails_harms_reads_of_other_versions_only() {
    let (server, client, mood) = world().await;
    let mut lamp = v2::Lamp::new("a", v2::LampSpec { power: 60 });
    lamp.metadata.namespace = Some("default".into());
    client.api().create(&lamp).await.expect("nothing is converted");
    let refused = client.api::<v1::Lamp>().get(&key("a")).await.expect_err("nobody answers");
    assert!(
        refused.to_string().contains("conversion webhook for example.com/v2, Kind=Lamp failed")
    );
    register(&server, &mood);
    for (now, wanted, seconds) in [
        (Mood::Hangs, "context deadline exceeded", 30),
        (Mood::Panics, "EOF", 0),
        (Mood::Floods, "", 0),
        (Mood::Lies, "returned invalid", 0),
    ] {
        *mood.lock() = now;
        let start = Instant::now();
        let listed = client.api::<v1::Lamp>().list().namespace("default").items().await;
        let error = listed.expect_err("not converted").to_string();
        assert!(
            error.contains("conversion webhook for example.com/v2, Kind=Lamp"),
            "{now:?}: {error}"
        );
        assert!(error.contains(wanted), "{now:?}: {error}");
        assert_eq!(start.elapsed(), Duration::from_secs(seconds), "{now:?}");
        let patch = windlass::client::Patch::Merge(json!({"spec": {"watts": 1}}));
        client.api::<v1::Lamp>().patch(&key("a"), &patch).await.expect_err("not converted");
        let stored = client.api::<v2::Lamp>().list().namespace("default").items().await;
        let stored = stored.expect("the stored version needs no webhook");
        assert_eq!((stored.len(), stored[0].spec.power), (1, 60), "{now:?}");
    }
    *mood.lock() = Mood::Works;
    let lamp = client.api::<v1::Lamp>().get(&key("a")).await.expect("converted").expect("exists");
    assert_eq!(lamp.spec.watts, 60);
}
