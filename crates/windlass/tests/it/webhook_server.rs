//! Webhooks over HTTPS: real connections, real certificates.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use windlass::client::Patch;
use windlass::conversion::{Conversion, Fields};
use windlass::manager::Running;
use windlass::webhook::{Certificates, Findings, Request, Webhook};
use windlass::{Client, Key, Operator, Result};
use windlass_apiserver::{ApiServer, User, pki};

use crate::webhooks::create;

fn operator() -> Operator {
    let webhook = Webhook::new().validate(|request: Request<ConfigMap>| async move {
        let mut found = Findings::new();
        if request.object.data.is_none() {
            found.required("data", "");
        }
        Ok(found)
    });
    Operator::new("map-operator").webhook(webhook)
}

async fn write(client: &Client) -> Result<ConfigMap> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".into());
    map.metadata.namespace = Some("default".into());
    client.dry_run().api().create(&map).await
}

/// Waits until a condition holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

async fn configurations(client: &Client) -> usize {
    client.api::<ValidatingWebhookConfiguration>().list().items().await.expect("listed").len()
}

async fn is_denied(client: &Client) -> bool {
    match write(client).await {
        Ok(_) => false,
        Err(error) => {
            let text = error.to_string();
            let wanted = "denied the request: ConfigMap \"a\" is invalid: data: Required value";
            assert!(text.contains(wanted), "{text}");
            true
        }
    }
}

#[tokio::test]
async fn a_local_operator_is_called_by_its_url_while_it_runs() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let operator = operator();
    let certificates = Certificates::local(&operator.model().expect("valid"));
    let manager = operator.manager(server.client()).webhook_server("127.0.0.1:0", certificates);
    let handle = manager.spawn().expect("starts");
    until("the webhook denies", async || is_denied(&client).await).await;
    let key = Key::cluster("map-operator-validating-webhook-configuration-local");
    let found = client.api::<ValidatingWebhookConfiguration>().get(&key).await.expect("answered");
    let found = found.expect("installed");
    let config = &found.webhooks.as_ref().expect("has webhooks")[0].client_config;
    let port = handle.webhook_address().expect("listens").port();
    let url = format!("https://127.0.0.1:{port}/validate--v1-configmap");
    assert_eq!(config.url.as_deref(), Some(url.as_str()));
    handle.shutdown();
    until("nothing is left", async || configurations(&client).await == 0).await;
    write(&client).await.expect("nobody is asked");
    // Nothing calls the server any more, so it ends with the manager.
    handle.wait().await.expect("stops");
    tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect_err("listens no longer");
}

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

#[tokio::test]
async fn a_local_operator_gives_the_conversion_back() {
    const CONFIG: &str = "/spec/conversion/webhook/clientConfig";
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let fields = Fields::new().moved(".spec.watts", ".spec.power");
    let conversion = || Conversion::<v2::Lamp>::new().version::<v1::Lamp>(fields.clone());
    let operator =
        || Operator::new("lamps").api::<v2::Lamp>().api::<v1::Lamp>().conversion(conversion());
    let model = operator().model().expect("valid");
    let key = Key::cluster("lamps.example.com");
    let installed = async |bundle: Option<&str>| {
        let definitions = client.api::<CustomResourceDefinition>();
        definitions.delete(&key).await.ok();
        let mut definition = model.definitions().remove(0);
        if let Some(bundle) = bundle {
            definition.pointer_mut(CONFIG).expect("has a webhook")["caBundle"] = json!(bundle);
        }
        let definition = serde_json::from_value(definition).expect("a definition");
        client.api::<CustomResourceDefinition>().create(&definition).await.expect("created");
    };
    let config = async || {
        let found = client.api::<CustomResourceDefinition>().get(&key).await.expect("answered");
        let found = serde_json::to_value(&*found.expect("exists")).expect("a value");
        found.pointer(CONFIG).expect("has a webhook").clone()
    };
    let run = || {
        let certificates = Certificates::local(&model);
        let manager = operator().manager(server.client());
        manager.webhook_server("127.0.0.1:0", certificates).spawn().expect("starts")
    };
    let ca = pki::Ca::generate("ca", jiff::Timestamp::now()).expect("made");
    let bundle =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, ca.certificate());
    for bundle in [None, Some(bundle.as_str())] {
        installed(bundle).await;
        let before = config().await;
        let handle = run();
        until("this process converts", async || config().await["url"].is_string()).await;
        assert!(config().await["service"].is_null());
        handle.stop().await.expect("stops");
        assert_eq!(config().await, before);
    }
    // A process that was killed leaves its URL, which is not what comes back.
    installed(None).await;
    let before = config().await;
    let handle = run();
    until("this process converts", async || config().await["url"].is_string()).await;
    let first = config().await;
    handle.abort();
    let handle = run();
    until("the next one converts", async || config().await != first).await;
    handle.stop().await.expect("stops");
    assert_eq!(config().await, before);
}

fn readiness(handle: &Running) -> impl Future<Output = std::result::Result<String, String>> + '_ {
    handle.readyz()
}

#[tokio::test]
async fn files_of_a_mounted_secret_are_served() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let operator = operator();
    let model = operator.model().expect("valid");
    let directory = std::env::temp_dir().join(format!("windlass-hook-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("created");
    let missing = Certificates::from_dir(&directory).expect_err("empty").to_string();
    assert!(missing.contains("tls.crt"), "{missing}");
    let ca = pki::Ca::generate("ca", jiff::Timestamp::now()).expect("made");
    let host = format!("{}.{}.svc", model.webhook_service(), model.namespace);
    let pair = ca.serving(&[host]).expect("made");
    std::fs::write(directory.join("tls.crt"), &pair.certificate).expect("written");
    std::fs::write(directory.join("tls.key"), &pair.key).expect("written");
    let certificates = Certificates::from_dir(&directory).expect("usable");
    let manager = operator.manager(server.client()).webhook_server("127.0.0.1:0", certificates);
    let handle = manager.spawn().expect("starts");
    handle.ready().await;
    let page = readiness(&handle).await.expect("ready");
    assert!(page.contains("[+]webhook-certificate ok"), "{page}");
    let address = handle.webhook_address().expect("listens");
    server.route_service(&model.namespace, &model.webhook_service(), address);
    let mut configuration = model.webhook_configurations().remove(0);
    let bundle =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, ca.certificate());
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = bundle.into();
    let configuration: ValidatingWebhookConfiguration =
        serde_json::from_value(configuration).expect("a configuration");
    client.api().create(&configuration).await.expect("created");
    assert!(is_denied(&client).await);
    handle.abort();
    std::fs::remove_dir_all(&directory).expect("removed");
}

#[tokio::test]
async fn an_operator_manages_its_own_certificate() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let operator = operator().installation(|model| model.namespace = "default".into());
    let model = operator.model().expect("valid");
    for configuration in model.webhook_configurations() {
        let configuration: ValidatingWebhookConfiguration =
            serde_json::from_value(configuration).expect("a configuration");
        client.api().create(&configuration).await.expect("created");
    }
    let manager = operator.manager(server.client());
    let manager = manager.webhook_server("127.0.0.1:0", Certificates::managed(&model));
    let handle = manager.spawn().expect("starts");
    until("the certificate is loaded", async || handle.readyz().await.is_ok()).await;
    let address = handle.webhook_address().expect("listens");
    server.route_service(&model.namespace, &model.webhook_service(), address);
    // The webhook leaves out the namespace of the operator, so another one is used.
    let namespace = k8s_openapi::api::core::v1::Namespace {
        metadata: kube::core::ObjectMeta { name: Some("shop".into()), ..Default::default() },
        ..Default::default()
    };
    client.api().create(&namespace).await.expect("created");
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".into());
    map.metadata.namespace = Some("shop".into());
    until("the bundle is published", async || {
        let denied = client.dry_run().api().create(&map).await.expect_err("denied or not reached");
        denied.to_string().contains("data: Required value")
    })
    .await;
    write(&client).await.expect("the namespace of the operator is left out");
    handle.abort();
}

#[tokio::test]
async fn the_generated_role_is_enough_to_publish_a_lost_ca_at_once() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let operator = operator().installation(|model| model.namespace = "default".into());
    let model = operator.model().expect("valid");
    for object in model.access_objects().into_iter().chain(model.webhook_configurations()) {
        create(&client, object).await.expect("created");
    }
    let user = User::service_account(&model.namespace, &model.manager_name());
    let manager = operator.manager(server.client_as(user));
    let manager = manager.webhook_server("127.0.0.1:0", Certificates::managed(&model));
    let handle = manager.spawn().expect("starts");
    let configurations = client.api::<ValidatingWebhookConfiguration>();
    let key = Key::cluster("map-operator-validating-webhook-configuration");
    let published = async || {
        let found = configurations.get(&key).await.expect("read").expect("exists");
        found.webhooks.iter().flatten().all(|webhook| webhook.client_config.ca_bundle.is_some())
    };
    until("the bundle is published", async || published().await).await;
    let remove = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    for _ in 0..2 {
        configurations.patch(&key, &Patch::Json(remove.clone())).await.expect("patched");
        // The leader would look by itself after 30 seconds, for which nobody waits here.
        until("the bundle is published again", async || published().await).await;
    }
    handle.abort();
}
