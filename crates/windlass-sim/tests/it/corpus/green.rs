//! Correct operators that are hard for an oracle.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;
use windlass::finalizer::Finalizing;
use windlass::{Context, Error, Next, Result};
use windlass_sim::{Sim, external, named};

use super::c05_external_id_in_status::Cloud;
use super::{App, app, config_map, green, operator, watching};

/// Creates outside twice if it has to, with one idempotency key; the finalizer comes first.
async fn idempotent(cx: Context<App>, cloud: Cloud) -> Result<Next> {
    const FINALIZER: &str = "corpus.example.com/lb";
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    if let Finalizing::Active = cx.finalize(FINALIZER, || cloud.delete(cx.name())).await? {
        let id = cloud.create(cx.name(), app.metadata.uid.as_deref()).await?;
        cx.status(|status| status.id.clone_from(&id)).await?;
    }
    Ok(Next::Done)
}

#[test]
fn an_external_thing_with_an_idempotency_key_is_no_leak() {
    green("external-idempotent", async |sim: &mut Sim| {
        let cloud = Cloud::default();
        sim.install::<App>().operator(operator(move |cx| idempotent(cx, cloud.clone())));
        sim.apply(&app(1, "")).await?;
        sim.settle("the load balancer exists").await?;
        sim.delete::<App>("web").await?;
        sim.settle("nothing is left").await
    });
}

/// Asks an external system for ever, and writes only what changed.
async fn poll(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let found = external("registry.get", cx.name(), async { Ok(app.spec.config.clone()) }).await?;
    cx.apply(&config_map("web", &found)).await?;
    Ok(Next::After(Duration::from_secs(30)))
}

#[test]
fn a_poll_is_no_loop() {
    green("poller", async |sim: &mut Sim| {
        sim.install::<App>().operator(operator(poll));
        sim.apply(&app(1, "a")).await?;
        sim.settle("copied").await?;
        sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
        sim.settle("copied again").await
    });
}

/// Renews a Lease every ten seconds.
async fn beat(cx: Context<App>) -> Result<Next> {
    if cx.object().is_none() {
        return Ok(Next::Done);
    }
    let mut lease = Lease { metadata: named("beat"), ..Lease::default() };
    let spec =
        json!({"renewTime": cx.clock().now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()});
    lease.spec = serde_json::from_value(spec)?;
    cx.apply(&lease).await?;
    Ok(Next::After(Duration::from_secs(10)))
}

#[test]
fn a_declared_heartbeat_is_quiet() {
    green("heartbeat", async |sim: &mut Sim| {
        sim.install::<App>().expects_writes::<Lease>();
        sim.operator(watching(|b| b, beat));
        sim.apply(&app(1, "")).await?;
        sim.settle("it beats").await
    });
}

/// Reports a spec that cannot be fulfilled, and does not retry it.
async fn degrade(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let valid = app.spec.config != "nonsense";
    let reason = if valid { "Valid" } else { "Invalid" };
    cx.status(|status| {
        cx.condition("Ready", valid).reason(reason).set(&mut status.conditions);
    })
    .await?;
    if !valid {
        return Err(Error::terminal("the config is nonsense"));
    }
    cx.apply(&config_map("web", &app.spec.config)).await?;
    Ok(Next::Done)
}

#[test]
fn a_spec_that_is_refused_and_corrected_is_fine() {
    green("degrades", async |sim: &mut Sim| {
        sim.install::<App>().expects_terminal_errors().operator(operator(degrade));
        sim.apply(&app(1, "a")).await?;
        sim.settle("ready").await?;
        sim.merge::<App>("web", json!({"spec": {"config": "nonsense"}})).await?;
        sim.settle("degraded").await?;
        sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
        sim.settle("ready again").await
    });
}
