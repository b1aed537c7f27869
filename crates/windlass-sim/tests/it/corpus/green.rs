//! Correct operators that are hard for an oracle.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::client::Deletion;
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

/// Creates a child with a generated name, and finds it again by its label, past the cache. Of two children,
/// because of a response that was late, the newer one goes.
async fn labelled(cx: Context<App>) -> Result<Next> {
    if cx.object().is_none() {
        return Ok(Next::Done);
    }
    let api = cx.client().api::<ConfigMap>();
    let mut found = api.list().namespace("default").labels([("app", "web")]).items().await?;
    found.sort_by_key(|map| (map.metadata.creation_timestamp.clone(), map.metadata.name.clone()));
    if found.is_empty() {
        let mut map = config_map("", "");
        (map.metadata.name, map.metadata.generate_name) = (None, Some("web-".into()));
        map.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        cx.create(&map).await?;
    }
    for surplus in found.iter().skip(1) {
        api.delete(Deletion::only(&**surplus)).await?;
    }
    Ok(Next::Done)
}

#[test]
fn a_generated_name_that_is_found_again_is_no_leak() {
    green("labelled", async |sim: &mut Sim| {
        sim.install::<App>().operator(operator(labelled));
        sim.apply(&app(1, "")).await?;
        sim.settle("one child").await?;
        sim.delete_any::<ConfigMap>().await?;
        sim.settle("one child again").await
    });
}

/// Makes the new child beside the old one, switches to it, and deletes the old one.
async fn switch(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let name = format!("web-{}", app.spec.config.len());
    cx.apply(&config_map(&name, &app.spec.config)).await?;
    cx.status(|status| status.id.clone_from(&name)).await?;
    for map in cx.list::<ConfigMap>().owned().items()? {
        if map.metadata.name.as_ref() != Some(&name) {
            cx.client().api::<ConfigMap>().delete(Deletion::only(&*map)).await?;
        }
    }
    Ok(Next::Done)
}

#[test]
fn two_children_during_a_switch_are_fine() {
    green("switch", async |sim: &mut Sim| {
        sim.install::<App>().operator(operator(switch));
        sim.apply(&app(1, "a")).await?;
        sim.settle("the first").await?;
        sim.merge::<App>("web", json!({"spec": {"config": "bb"}})).await?;
        sim.settle("the second").await?;
        sim.sometimes("both exist", |world| {
            let both = ["web-1", "web-2"].map(|name| world.get::<ConfigMap>(name).is_some());
            both == [true, true]
        });
        Ok(())
    });
}

/// Deletes a child that cannot be changed, and makes it again when it is gone.
async fn replace(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let mut wanted = config_map("web", &app.spec.config);
    wanted.immutable = Some(true);
    match cx.get::<ConfigMap>("web")? {
        None => drop(cx.apply(&wanted).await?),
        Some(map) if map.data == wanted.data => {}
        Some(map) => {
            cx.client().api::<ConfigMap>().delete(Deletion::only(&*map)).await?;
        }
    }
    Ok(Next::Done)
}

#[test]
fn a_child_that_is_replaced_is_not_deleted_wrongly() {
    green("replace", async |sim: &mut Sim| {
        sim.install::<App>().operator(operator(replace));
        sim.apply(&app(1, "a")).await?;
        sim.settle("made").await?;
        sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
        sim.settle("replaced").await
    });
}
