//! The Memcached operator as a program, for the tests of `windlass run` and `windlass dev`, with a
//! webhook that refuses some config maps.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use windlass::Result;
use windlass::webhook::{Findings, Request, Webhook};

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
    memcached_operator::operator().webhook(webhook).main()
}
