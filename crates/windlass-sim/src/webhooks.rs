//! The webhooks of the operator: the API server calls them as functions, and each call is a site.
//!
//! A call reaches the first replica that lives, as through a service in front of the pods. While none
//! lives, connections are refused.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::sleep;
use windlass::webhook::Webhooks;
use windlass_apiserver::ApiServer;

use crate::kernel::{Actor, HeadMeta, Kernel};
use crate::plan::Fault;
use crate::role::Role;
use crate::site::Site;
use crate::trace::What;

/// Lets the API server call the webhooks of the replicas of a run.
pub(crate) fn serve(kernel: &Arc<Kernel>, server: &ApiServer, role: &Role) {
    let role = Arc::new(role.clone());
    for path in &role.webhooks {
        let (weak, path) = (Arc::downgrade(kernel), path.clone());
        let (role, url) = (role.clone(), format!("https://{}{path}", role.host));
        server.register_unreliable_webhook(&url, move |review| {
            // The server belongs to the kernel.
            let (kernel, path, role) = (weak.upgrade(), path.clone(), role.clone());
            async move {
                let kernel = kernel.ok_or("the run has ended")?;
                let site = site(&kernel, &role, &path, &review);
                call(kernel, site, &role.host, &path, review).await
            }
        });
    }
}

/// Calls a webhook of the first replica that lives.
async fn call(
    kernel: Arc<Kernel>,
    mut site: Site,
    host: &str,
    path: &str,
    review: Value,
) -> Result<Value, String> {
    let (actor, webhooks) = kernel.webhooks();
    let fault = kernel.arrive(&mut site);
    let _in_flight = kernel.begin();
    if let Some(fault) = fault {
        kernel.record(&actor, What::Fault(fault, site.clone()));
    }
    sleep(kernel.latency(&site)).await;
    let refused = || Err(format!("dial tcp {host}:443: connect: connection refused"));
    let answer = match (fault, webhooks) {
        (Some(Fault::Hang), _) => {
            let result = "→ no answer".to_owned();
            kernel.record(&actor, What::Webhook { site, result });
            return std::future::pending().await;
        }
        (Some(Fault::Refuse), _) | (_, None) => refused(),
        (Some(Fault::StaleCertificate), _) => Err(
            "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"
                .to_owned(),
        ),
        (Some(Fault::Error), _) => Err("EOF".to_owned()),
        (_, Some(webhooks)) => Ok(webhooks.call(path, review).await),
    };
    let result = match &answer {
        Err(error) => format!("→ {error}"),
        Ok(answer) if answer["response"]["allowed"] == false => "→ denied".to_owned(),
        Ok(_) => "→ done".to_owned(),
    };
    kernel.record(&actor, What::Webhook { site, result });
    answer
}

/// Names a call: what is done to which object, or which kind is converted.
fn site(kernel: &Kernel, role: &Role, path: &str, review: &Value) -> Site {
    let request = &review["request"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (resource, object) = match request["objects"].as_array() {
        Some(objects) => {
            let converted = objects.first().unwrap_or(&Value::Null);
            (role.resource_of(converted), String::new())
        }
        None => {
            let resource = &request["resource"];
            let resource =
                crate::site::resource(&text(&resource["group"]), &text(&resource["resource"]));
            let named = [&request["object"], &request["oldObject"]];
            let named = named.into_iter().find(|object| object.is_object());
            let meta = named.map(|object| object["metadata"].clone()).unwrap_or_default();
            let mut meta: HeadMeta = serde_json::from_value(meta).unwrap_or_default();
            meta.namespace = text(&request["namespace"]);
            let name = match meta.name.is_empty() {
                true => format!("~{}", meta.generate_name),
                false => kernel.canonical(&resource, &meta),
            };
            let object = crate::site::object(&meta.namespace, &name);
            (resource, object)
        }
    };
    let first = path.trim_matches('/').split(['-', '/']).next().unwrap_or_default();
    Site {
        replica: "operator".into(),
        verb: "webhook".into(),
        resource,
        subresource: first.to_owned(),
        object,
        occurrence: 0,
    }
}

// === impl Kernel ===

impl Kernel {
    /// The first replica that lives and can be reached, with its webhooks.
    fn webhooks(&self) -> (Actor, Option<Webhooks>) {
        let state = self.state.lock();
        let now = tokio::time::Instant::now();
        let reached = state.replicas.iter().enumerate().find_map(|(replica, life)| {
            let reachable = life.alive && life.paused_until.is_none_or(|until| until <= now);
            let webhooks = life.webhooks.clone().filter(|_| reachable)?;
            Some((replica, life.number, webhooks))
        });
        drop(state);
        match reached {
            Some((replica, life, webhooks)) => {
                let name = self.replica_name(replica).into();
                (Actor { name, replica: Some(replica), life }, Some(webhooks))
            }
            None => (Actor { name: "operator".into(), replica: None, life: 0 }, None),
        }
    }
}
