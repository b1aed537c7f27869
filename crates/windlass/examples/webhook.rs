//! Defaulting and validation of a kind, called by the embedded API server as functions.

use serde_json::json;
use windlass::webhook::{Findings, Operation, Request, Webhook};
use windlass::{Client, Kind, Operator, Result, api};
use windlass_apiserver::ApiServer;

/// A memcached cluster.
#[api(group = "cache.example.com", version = "v1alpha1", kind = "Memcached")]
pub struct MemcachedSpec {
    /// How many pods to run; 3 by default.
    pub size: Option<i32>,
}

async fn complete(request: Request<Memcached>) -> Result<Memcached> {
    let mut memcached = request.object;
    memcached.spec.size.get_or_insert(3);
    Ok(memcached)
}

async fn check(request: Request<Memcached>) -> Result<Findings> {
    let mut found = Findings::new();
    let size = request.object.spec.size.unwrap_or_default();
    if request.operation == Operation::Delete {
        if size > 3 {
            found.forbidden("spec.size", "scale down before the cluster is deleted");
        }
        return Ok(found);
    }
    if !(1..=5).contains(&size) {
        found.invalid("spec.size", size, "must be between 1 and 5");
    }
    if request.old.is_some_and(|old| old.spec.size > Some(size)) {
        found.warn("a smaller cluster loses cached data");
    }
    Ok(found)
}

fn operator() -> Operator {
    let webhook = Webhook::new()
        .default(complete)
        .validate(check)
        .on_delete()
        .settings(|entry| entry.timeout_seconds = Some(5));
    Operator::new("memcached-operator").api::<Memcached>().webhook(webhook)
}

/// An embedded server that calls the webhooks of the operator as functions.
async fn cluster(operator: &Operator) -> Result<(ApiServer, Client)> {
    let (server, model) = (ApiServer::start(), operator.model()?);
    let webhooks = operator.webhooks();
    for path in webhooks.paths() {
        let (webhooks, path) = (webhooks.clone(), path.to_owned());
        let url = format!("https://{}.{}.svc{path}", model.webhook_service(), model.namespace);
        server.register_webhook(&url, move |review| {
            let (webhooks, path) = (webhooks.clone(), path.clone());
            async move { webhooks.call(&path, review).await }
        });
    }
    let client = Client::new(server.client());
    for object in model.definitions() {
        let definitions = ("apiextensions.k8s.io", "CustomResourceDefinition");
        create(&client, definitions, object).await?;
    }
    for object in model.webhook_configurations() {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        create(&client, ("admissionregistration.k8s.io", &kind), object).await?;
    }
    Ok((server, client))
}

async fn create(client: &Client, kind: (&str, &str), object: serde_json::Value) -> Result<()> {
    let plural = format!("{}s", kind.1.to_lowercase());
    let kind = Kind::new(kind.0, "v1", kind.1, &plural).cluster_scoped();
    let object: kube::core::DynamicObject = serde_json::from_value(object)?;
    client.api_of(&kind).create(&object).await?;
    Ok(())
}

/// Creates two objects and returns what became of them.
pub async fn run() -> Result<Vec<String>> {
    let (_server, client) = cluster(&operator()).await?;
    let mut seen = Vec::new();
    for (name, spec) in [("small", json!({})), ("large", json!({"size": 6}))] {
        let mut memcached = Memcached::new(name, serde_json::from_value(spec)?);
        memcached.metadata.namespace = Some("default".into());
        seen.push(match client.api().create(&memcached).await {
            Ok(created) => format!("{name}: {:?}", created.spec.size),
            Err(error) => error.status().map(|status| status.message.clone()).unwrap_or_default(),
        });
    }
    Ok(seen)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}
