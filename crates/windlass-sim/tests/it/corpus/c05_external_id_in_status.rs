//! Creates a load balancer, then notes its id in the status. A crash in between creates another one.
//! (kubernetes#7852, cluster-api-provider-openstack#1114)

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim, external};

use super::{App, app, flagged, green, operator};

/// A cloud: with an idempotency key, an equal request gets the equal answer.
#[derive(Clone, Default)]
pub struct Cloud(Arc<Mutex<(u32, BTreeMap<String, String>)>>);

impl Cloud {
    pub async fn create(&self, name: &str, idempotency_key: Option<&str>) -> Result<String> {
        external("lb.create", name, async {
            let mut inner = self.0.lock().expect("nobody panics with it");
            if let Some(known) = idempotency_key.and_then(|key| inner.1.get(key)) {
                return Ok(known.clone());
            }
            inner.0 += 1;
            let id = format!("lb-{}", inner.0);
            inner.1.insert(idempotency_key.unwrap_or(&id).to_owned(), id.clone());
            Ok(id)
        })
        .await
    }

    pub async fn delete(&self, name: &str) -> Result<()> {
        external("lb.delete", name, async { Ok(()) }).await
    }
}

async fn bad(cx: Context<App>, cloud: Cloud) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    if app.status.clone().unwrap_or_default().id.is_empty() {
        let id = cloud.create(cx.name(), None).await?;
        cx.status(|status| status.id.clone_from(&id)).await?;
    }
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>, cloud: Cloud) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    if app.status.clone().unwrap_or_default().id.is_empty() {
        let id = cloud.create(cx.name(), app.metadata.uid.as_deref()).await?;
        cx.status(|status| status.id.clone_from(&id)).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            let cloud = Cloud::default();
            sim.install::<App>().operator(operator(move |cx| $reconcile(cx, cloud.clone())));
            sim.apply(&app(1, "")).await?;
            sim.settle("the load balancer exists").await
        }
    };
}

#[test]
fn a_second_load_balancer_is_found() {
    flagged("external-id-in-status", Oracle::NoLeak, scenario!(bad));
}

#[test]
fn an_idempotency_key_survives() {
    green("external-id-in-status-fixed", scenario!(fixed));
}
