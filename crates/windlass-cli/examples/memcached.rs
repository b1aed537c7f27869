//! The Memcached operator as a program, for the tests of `windlass run` and `windlass dev`, with a
//! webhook and a policy that each refuse some config maps.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use windlass::Result;
use windlass::webhook::{Findings, Policy, Request, Webhook};

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
    memcached_operator::operator().webhook(webhook).policy(policy).main()
}
