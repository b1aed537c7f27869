//! The answers that the page of policies shows.

use std::error::Error;

use windlass::webhook::Policy;
use windlass::{Key, Operator, Result};
use windlass_cluster::OperatorTest;

const PAGE: &str = include_str!("../../policies.md");

/// What is wanted.
#[windlass::api(group = "cache.example.com", version = "v1", kind = "Memcached")]
pub struct MemcachedSpec {
    /// How many.
    pub size: Option<i32>,
}

/// What a namespace may use.
#[windlass::api(group = "cache.example.com", version = "v1", kind = "Quota")]
pub struct QuotaSpec {
    /// How many.
    pub size: i32,
}

fn operator(rule: &str) -> Operator {
    let size = Policy::<Memcached>::new("size")
        .params::<Quota>("memcached")
        .merge("Object{spec: Object.spec{size: object.spec.?size.orValue(3)}}")
        .validate(rule, "the cluster is larger than the quota");
    Operator::new("memcached-operator").api::<Memcached>().api::<Quota>().policy(size)
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

#[track_caller]
fn assert_shown(said: &str) {
    assert!(PAGE.contains(&format!("```text\n{said}\n```")), "the page does not show\n{said}");
}

#[tokio::test(start_paused = true)]
async fn the_page_shows_how_a_request_is_denied() -> Result<()> {
    let rule = "object.spec.size <= params.spec.size";
    assert!(PAGE.contains(rule));
    let test = OperatorTest::start(|| operator(rule)).await?;
    let mut quota = Quota::new("memcached", QuotaSpec { size: 5 });
    quota.metadata.namespace = Some("default".into());
    test.client().api().create(&quota).await?;
    let mut memcached = Memcached::new("large", MemcachedSpec { size: Some(6) });
    memcached.metadata.namespace = Some("default".into());
    // The server takes a policy into account a moment after it is created.
    let denied = loop {
        match test.client().api().create(&memcached).await {
            Err(error) => break error,
            Ok(created) => drop(test.client().api::<Memcached>().delete(&Key::of(&created)).await?),
        }
    };
    let said = chain(&denied);
    let start = said.find("memcacheds.cache").expect("the sentence of the server");
    assert_shown(said[start..].trim_end_matches(" (422 Invalid)"));
    test.stop().await
}

#[test]
fn the_page_shows_how_a_misspelled_field_is_found() {
    let wrong = operator("object.spec.sice <= 3").model().expect_err("is wrong");
    assert_shown(&format!("memcached-operator: {}", chain(&wrong)));
}
