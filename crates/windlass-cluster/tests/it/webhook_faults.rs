//! Webhooks of an operator under test that fail on purpose.

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;
use windlass::Operator;
use windlass::webhook::{Findings, Webhook};
use windlass_cluster::{OperatorTest, WebhookFault};

fn operator(policy: &'static str) -> Operator {
    let webhook = Webhook::<ConfigMap>::new()
        .validate(|_| async { Ok(Findings::new()) })
        .settings(move |entry| entry.failure_policy = Some(policy.into()));
    Operator::new("map-operator").webhook(webhook)
}

#[tokio::test(start_paused = true)]
async fn every_fault_fails_the_call_as_the_failure_policy_says() {
    for (policy, fails) in [("Fail", true), ("Ignore", false)] {
        let test = OperatorTest::start(move || operator(policy)).await.expect("starts");
        for (at, (fault, wanted, seconds)) in [
            (WebhookFault::Hang, "context deadline exceeded", 10),
            (WebhookFault::Refuse, "connect: connection refused", 0),
            (WebhookFault::Stale, "x509: certificate has expired", 0),
            (WebhookFault::Oversized, "", 0),
            (WebhookFault::Panic, "EOF", 0),
        ]
        .into_iter()
        .enumerate()
        {
            let yaml = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{at}}}\n");
            test.webhook_fault(fault);
            let start = Instant::now();
            let made = test.create::<ConfigMap>(&yaml).await;
            assert_eq!(start.elapsed().as_secs(), seconds, "{fault:?} {policy}");
            assert_eq!(made.is_err(), fails, "{fault:?} {policy}");
            if let Err(error) = made {
                let text = error.to_string();
                assert!(text.contains("failed calling webhook"), "{fault:?}: {text}");
                assert!(text.contains(wanted), "{fault:?}: {text}");
                test.webhook_fault(None);
                test.create::<ConfigMap>(&yaml).await.expect("it works again");
            }
        }
        test.stop().await.expect("stops");
    }
}
