//! The certificates of webhooks of windlass itself: two replicas replace a CA under every single fault.
//!
//! Keys are random, so what depends on them is masked.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use windlass::lease::LeaseOptions;
use windlass::webhook::{Certificates, Findings, Webhook};
use windlass::{Manager, Operator};
use windlass_sim::{Explore, Fault, Report, Sim, World};
use x509_parser::pem::Pem;

const SECRET: &str = "map-operator-webhook-server-cert";
/// Until the leaf is signed by the new CA, and the old CA is removed.
const ROTATION: Duration = Duration::from_secs(900);

fn operator() -> Operator {
    let checks = Webhook::<ConfigMap>::new().validate(|_| async { Ok(Findings::new()) });
    Operator::new("map-operator")
        .installation(|model| model.namespace = "default".into())
        .webhook(checks)
}

fn manager(client: kube::Client) -> Manager {
    let model = operator().model().expect("the operator is described");
    operator()
        .manager(client)
        .webhook_server("127.0.0.1:0", Certificates::managed(&model))
        .lease(LeaseOptions::new("map-operator").namespace("default"))
}

/// The names of the certificates in a PEM text: of whom, and by whom.
fn names(pem: &[u8]) -> Vec<(String, String)> {
    let certificates = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    let names = certificates.filter_map(|pem| {
        let certificate = pem.parse_x509().ok()?;
        Some((certificate.subject().to_string(), certificate.issuer().to_string()))
    });
    names.collect()
}

/// The entry of the Secret.
fn entry(world: &World, name: &str) -> Option<ByteString> {
    world.get::<Secret>(SECRET)?.data?.get(name).cloned()
}

/// The bundle of the configuration, if there is one.
fn bundle(world: &World) -> Option<ByteString> {
    let configuration = world.list::<ValidatingWebhookConfiguration>().pop()?;
    configuration.webhooks?.pop()?.client_config.ca_bundle
}

/// What is served is signed by a CA that API servers trust, once they trust any.
fn trusted(world: &World) -> bool {
    let (Some(leaf), Some(bundle)) = (entry(world, "tls.crt"), bundle(world)) else { return true };
    let bundle = names(&bundle.0);
    names(&leaf.0).iter().all(|(_, by)| bundle.iter().any(|(ca, _)| ca == by))
}

/// There is one CA, and it has signed what is served.
fn rotated(world: &World) -> bool {
    let (Some(leaf), Some(bundle)) = (entry(world, "tls.crt"), bundle(world)) else { return false };
    let (leaf, bundle) = (names(&leaf.0), names(&bundle.0));
    bundle.len() == 1 && leaf.iter().all(|(_, by)| *by == bundle[0].0)
}

fn explored(budget: Duration) -> Report {
    let scenario = async |sim: &mut Sim| {
        sim.replicas(2).runs(operator).operator(manager);
        for name in ["ca.crt", "ca.key", "tls.crt", "tls.key"] {
            sim.mask::<Secret>(&format!("/data/{name}"));
        }
        sim.mask::<ValidatingWebhookConfiguration>("/webhooks/0/clientConfig/caBundle");
        sim.settle("published").await?;
        // A CA without its key signs nothing any more.
        let lost = json!({"data": {"ca.key": ByteString(b"lost".to_vec())}});
        sim.merge::<Secret>(SECRET, lost).await?;
        sim.settle("a second CA").await?;
        tokio::time::sleep(ROTATION).await;
        sim.settle("rotated").await?;
        sim.always("the CA of what is served is trusted", trusted);
        sim.sometimes("two CAs are trusted", |world| {
            bundle(world).is_some_and(|bundle| names(&bundle.0).len() == 2)
        });
        sim.eventually("one CA is left", rotated);
        Ok(())
    };
    let faults = [
        Fault::Lost,
        Fault::CrashAfter,
        Fault::CrashBefore,
        Fault::Pause,
        Fault::Conflict,
        Fault::Late,
    ];
    Explore::of("certificates", scenario).faults(&faults).budget(budget).run()
}

#[test]
fn a_rotation_with_two_replicas_survives() {
    let report = explored(Duration::from_secs(5));
    println!("{report}");
    assert!(report.is_ok(), "\n{report}");
}
