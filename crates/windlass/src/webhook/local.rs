//! Webhooks and policies of an operator on this machine, for a cluster that can reach it.
//!
//! The certificate exists in memory only. The configurations and policies have names of their own,
//! next to those of an installed operator, and are deleted when the manager stops, so that nothing is
//! left that calls a server which is gone. A definition has one conversion webhook, which is changed and
//! then set back to what it was: an installed operator converts again. Conversion is not turned off,
//! because objects of other versions would lose fields.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kube::core::DynamicObject;
use parking_lot::RwLock;
use serde_json::{Value, json};
use windlass_manifests::Model;

use super::certificates::{Published, Serving, Target, Task, Times, authority, leaf};
use crate::cache::Key;
use crate::client::{Client, Patch};
use crate::clock::Clock;
use crate::error::{Error, Result, ResultExt};
use crate::manager::RunContext;
use crate::serve::Tls;

/// Where the address of a conversion webhook is in a definition.
const CONFIG: &str = "/spec/conversion/webhook/clientConfig";
/// The end of the names of what is installed for a process on this machine.
const SUFFIX: &str = "-local";
/// The pause after the configurations could not be written.
const RETRY: Duration = Duration::from_secs(2);
/// How long deleting them may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Makes a certificate for the host of the URL, and the task that installs the configurations.
pub(super) fn serving(
    model: Model,
    url: Option<String>,
    bound: Arc<RwLock<Option<SocketAddr>>>,
) -> Result<Serving> {
    let mut hosts = vec!["127.0.0.1".to_owned(), "localhost".into(), "::1".into()];
    if let Some(url) = &url {
        hosts.insert(0, host(url)?);
    }
    let (now, times) = (Clock::default().now(), Times::default());
    let ca = authority("windlass local", now, times.authority)?;
    let pair = leaf(&ca, &hosts, now, times.leaf)?;
    let tls = Tls::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes())?;
    let bundle = STANDARD.encode(&ca.certificate);
    let install = Task {
        leader: true,
        name: "local webhooks",
        run: Box::new(move |cx| {
            Box::pin(async move {
                let base = url.or_else(|| {
                    bound.read().map(|address| format!("https://127.0.0.1:{}", address.port()))
                });
                let base = base.ok_or_else(|| Error::from("the webhook server does not listen"))?;
                run(cx, Installation::new(model, Some(Server { base, bundle }))).await
            })
        }),
    };
    Ok(Serving { tls, published: Published::default(), tasks: vec![install] })
}

/// The host of a URL that the API server accepts for webhooks.
fn host(url: &str) -> Result<String> {
    let wrong = |why: &str| Error::Invalid(format!("the URL {url:?} of the webhooks {why}"));
    let uri: Uri = url.parse().map_err(|_| wrong("is not a URL such as https://10.0.0.2:9443"))?;
    if uri.scheme_str() != Some("https") || uri.query().is_some() || url.contains('@') {
        return Err(wrong("needs the scheme https, and neither user nor query"));
    }
    let host = uri.host().ok_or_else(|| wrong("has no host"))?;
    Ok(host.trim_matches(['[', ']']).to_owned())
}

/// Installs the policies of an operator that serves no webhooks until the manager stops.
#[cfg(feature = "operator")]
pub(crate) async fn policies(cx: RunContext, model: Model) -> Result<()> {
    run(cx, Installation::new(model, None)).await
}

/// What is installed.
struct Installation {
    model: Model,
    server: Option<Server>,
    /// The client configurations of conversion webhooks before this process, by definition.
    replaced: BTreeMap<String, Value>,
}

/// Where the cluster reaches the webhooks, and by which CA it knows them.
struct Server {
    base: String,
    bundle: String,
}

async fn run(cx: RunContext, mut installation: Installation) -> Result<()> {
    loop {
        match installation.install(&cx.client).await {
            Ok(()) => break,
            Err(error) => {
                let error = error.chain();
                tracing::warn!(error, "the local webhooks and policies could not be installed");
            }
        }
        tokio::select! {
            biased;
            () = cx.stopping() => return Ok(()),
            () = tokio::time::sleep(RETRY) => {}
        }
    }
    match &installation.server {
        Some(Server { base: url, .. }) => {
            tracing::info!(url, "the cluster calls the webhooks of this process");
        }
        None => tracing::info!("the cluster has the policies of this process"),
    }
    cx.stopping().await;
    let removed = tokio::time::timeout(LAST_WORDS, installation.remove(&cx.client)).await;
    if !matches!(removed, Ok(Ok(()))) {
        tracing::warn!("the local webhooks and policies could not be deleted");
    }
    Ok(())
}

// === impl Installation ===

impl Installation {
    fn new(model: Model, server: Option<Server>) -> Self {
        Self { model, server, replaced: BTreeMap::new() }
    }

    async fn install(&mut self, client: &Client) -> Result<()> {
        for object in self.objects() {
            let (target, key) = target(&object);
            let object: DynamicObject = serde_json::from_value(object)
                .map_err(|source| Error::Decode { what: target.name, source })?;
            let api = client.api_of::<DynamicObject>(&target.kind);
            api.delete(&key).await.ignore_not_found()?;
            api.create(&object).await?;
        }
        let Some(server) = &self.server else { return Ok(()) };
        for api in self.model.apis.iter().filter(|api| api.converts_by_webhook()) {
            let target = Target::definition(&format!("{}.{}", api.plural(), api.group()));
            let definitions = client.api_of::<DynamicObject>(&target.kind);
            let key = Key::cluster(&target.name);
            let before = definitions.get(&key).await?;
            let before = before.as_ref().and_then(|found| found.data.pointer(CONFIG));
            // A URL is that of an earlier process, which did not end in order.
            let before = before.filter(|config| config["url"].is_null());
            let declared = api.definition.pointer(CONFIG);
            if let Some(config) = before.or(declared) {
                self.replaced.entry(target.name).or_insert_with(|| config.clone());
            }
            let config = server.client_config("/convert");
            definitions.patch(&key, &converted_by(config)).await?;
        }
        Ok(())
    }

    async fn remove(&self, client: &Client) -> Result<()> {
        for object in self.objects() {
            let (target, key) = target(&object);
            let api = client.api_of::<DynamicObject>(&target.kind);
            api.delete(&key).await.ignore_not_found()?;
        }
        for (name, config) in &self.replaced {
            let mut config = config.clone();
            // A merge removes what is null: the CA of this process, unless there was one before.
            for field in ["url", "caBundle"] {
                if let Some(fields) = config.as_object_mut() {
                    fields.entry(field).or_insert(Value::Null);
                }
            }
            let definitions = client.api_of::<DynamicObject>(&Target::definition(name).kind);
            let patched = definitions.patch(&Key::cluster(name), &converted_by(config)).await;
            patched.ignore_not_found()?;
        }
        Ok(())
    }

    /// The policies of the operator, and its webhook configurations with the URL of this process.
    fn objects(&self) -> Vec<Value> {
        let mut all = self.model.policy_objects();
        if let Some(server) = &self.server {
            let mut configurations = self.model.webhook_configurations();
            configurations.iter_mut().for_each(|one| server.serve(one));
            all.extend(configurations);
        }
        for object in &mut all {
            for name in ["/metadata/name", "/spec/policyName"] {
                if let Some(Value::String(name)) = object.pointer_mut(name) {
                    name.push_str(SUFFIX);
                }
            }
        }
        all
    }
}

/// The change of a definition whose conversion webhook is somewhere else.
fn converted_by(config: Value) -> Patch {
    Patch::Merge(json!({"spec": {"conversion": {"webhook": {"clientConfig": config}}}}))
}

// === impl Server ===

impl Server {
    /// Lets a configuration call this process.
    fn serve(&self, configuration: &mut Value) {
        for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
            let path = webhook["clientConfig"]["service"]["path"].take();
            let config = self.client_config(path.as_str().unwrap_or_default());
            webhook["clientConfig"] = config;
            if let Some(fields) = webhook["clientConfig"].as_object_mut() {
                fields.retain(|_, value| !value.is_null());
            }
        }
    }

    fn client_config(&self, path: &str) -> Value {
        let url = format!("{}{path}", self.base);
        json!({"url": url, "caBundle": self.bundle, "service": null})
    }
}

fn target(object: &Value) -> (Target, Key) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    let key = Key::cluster(&name);
    (Target::configuration(&kind, &name), key)
}
