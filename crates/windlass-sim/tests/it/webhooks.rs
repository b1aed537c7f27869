//! Webhooks that are away: the API server refuses what they have to check, and the operator continues.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::webhook::{Findings, Webhook};
use windlass::{Context, Controller, Next, Operator, Predicate, Result};
use windlass_sim::{Explore, Fault, Oracle, Report, Sim};

use crate::corpus::{App, app, config_map};

/// What a webhook suffers.
const AWAY: [Fault; 4] = [Fault::Hang, Fault::Refuse, Fault::StaleCertificate, Fault::Error];

/// Writes a ConfigMap, which a webhook with `failurePolicy: Fail` checks.
async fn reconcile(cx: Context<App>, gives_up: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let id = match cx.apply(&config_map("web", &app.spec.config)).await {
        // Taken for the answer of the webhook.
        Err(error) if gives_up && format!("{error:?}").contains("webhook") => "refused",
        applied => applied.map(|_| "accepted")?,
    };
    cx.status(|status| status.id = id.into()).await?;
    Ok(Next::Done)
}

fn operator(gives_up: bool) -> Operator {
    let controller = Controller::<App>::builder("app")
        .when(Predicate::generation_changed())
        .owns::<ConfigMap>()
        .applies::<ConfigMap>()
        .writes_status()
        .build(move |cx| reconcile(cx, gives_up));
    let checks = Webhook::<ConfigMap>::new()
        .validate(|_| async { Ok(Findings::new()) })
        .settings(|entry| entry.failure_policy = Some("Fail".into()));
    Operator::new("app-operator").api::<App>().controller(controller).webhook(checks)
}

fn explored(name: &str, gives_up: bool) -> Report {
    let scenario = async |sim: &mut Sim| {
        sim.runs(move || operator(gives_up));
        sim.apply(&app(1, "a")).await?;
        sim.settle("applied").await?;
        sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
        sim.settle("applied again").await
    };
    Explore::of(name, scenario).all_singles().run()
}

#[test]
fn an_operator_survives_that_its_webhook_is_away() {
    let report = explored("webhook-away", false);
    assert!(report.is_ok(), "\n{report}");
    assert!(report.looked[&Oracle::Rbac] > 0, "\n{report}");
}

#[test]
fn an_operator_that_takes_an_absent_webhook_for_a_refusal_is_found() {
    let report = explored("webhook-refusal", true);
    assert!(report.violates(Oracle::Converges), "\n{report}");
    for failure in &report.failures {
        for (fault, site) in &failure.plan.faults {
            assert!(AWAY.contains(fault) && site.verb == "webhook", "{}", failure.plan);
        }
    }
    let found: Vec<Fault> =
        report.failures.iter().map(|failure| failure.plan.faults[0].0).collect();
    assert!(AWAY.iter().all(|fault| found.contains(fault)), "{found:?}");
}

#[test]
fn a_call_of_a_webhook_is_a_site_with_a_name() {
    let scenario = async |sim: &mut Sim| {
        sim.runs(|| operator(false));
        sim.apply(&app(1, "a")).await?;
        sim.settle("applied").await
    };
    let plan = "webhook-named@7: hang operator webhook configmaps/validate default/web #1";
    let report = Explore::of("webhook-named", scenario).replay(plan).run();
    assert!(report.is_ok(), "\n{report}");
}
