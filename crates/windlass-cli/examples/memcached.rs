//! The Memcached operator with one version as a program, for the tests of `windlass run`, `windlass
//! dev` and `windlass plan`, with a webhook and a policy that each refuse some config maps, and a
//! controller that copies others half an hour after they were created.

use jiff::ToSpan;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use memcached_operator::Memcached;
use windlass::webhook::{Findings, Policy, Request, Webhook};
use windlass::{Context, Controller, Next, Operator, Predicate, Result};

async fn refuse(_: Request<ConfigMap>) -> Result<Findings> {
    let mut found = Findings::new();
    found.forbidden("data", "it is checked by a webhook");
    Ok(found)
}

/// Only config maps that ask for it are checked.
fn selector() -> LabelSelector {
    let checked = [("checked".to_owned(), "yes".to_owned())];
    LabelSelector { match_labels: Some(checked.into()), ..LabelSelector::default() }
}

/// Only config maps that ask for it are copied.
fn is_copied(map: &ConfigMap) -> bool {
    let label = map.metadata.labels.as_ref().and_then(|labels| labels.get("copied"));
    label.is_some_and(|value| value == "yes")
}

async fn copy(cx: Context<ConfigMap>) -> Result<Next> {
    let Some(map) = cx.object() else { return Ok(Next::Done) };
    let Some(created) = &map.metadata.creation_timestamp else { return Ok(Next::Done) };
    let due = created.0 + 30.minutes();
    if cx.clock().now() < due {
        return Ok(Next::At(due));
    }
    let mut secret = Secret { string_data: map.data.clone(), ..Secret::default() };
    secret.metadata.name = map.metadata.name.clone();
    cx.apply(&secret).await?;
    Ok(Next::Done)
}

fn main() -> std::process::ExitCode {
    let webhook =
        Webhook::new().validate(refuse).settings(|entry| entry.object_selector = Some(selector()));
    let policy = Policy::<ConfigMap>::new("sealed")
        .validate("object.?immutable.orValue(false) == true", "it is checked by a policy")
        .settings(|policy| {
            let constraints = policy.spec.match_constraints.get_or_insert_default();
            let sealed = [("sealed".to_owned(), "yes".to_owned())];
            constraints.object_selector.get_or_insert_default().match_labels = Some(sealed.into());
        });
    let copier = Controller::builder("copier")
        .when(Predicate::object(is_copied))
        .owns::<Secret>()
        .build(copy);
    Operator::new("memcached-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .api::<Memcached>()
        .controller(memcached_operator::controller())
        .webhook(webhook)
        .policy(policy)
        .controller(copier)
        .main()
}
