//! Whatever text ends up in a selector, the request selects what was asked for or is not sent.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Expression, Selector};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::cache::{Cache, Scope, SyncState};
use windlass::{Client, Context, Controller, Error, Manager, Next};
use windlass_apiserver::ApiServer;
use windlass_text::select;

use crate::common::{config_map, manager};
use crate::request_paths::{Recorder, decoded};

/// A label selector as a custom resource may contain it.
fn selector(object: Value) -> LabelSelector {
    serde_json::from_value(object).expect("a selector")
}

fn hostile() -> Vec<LabelSelector> {
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
    let objects = [
        json!({"matchLabels": {"app!": "x"}}),
        json!({"matchLabels": {"!app": ""}}),
        json!({"matchLabels": {"": "x"}}),
        json!({"matchLabels": {"app notin (a),x": "y"}}),
        json!({"matchLabels": {"app": "a,!b"}}),
        json!({"matchLabels": {"app": "a b"}}),
        json!({"matchLabels": {"app": "=a"}}),
        json!({"matchExpressions": [{"key": "app!=a,b", "operator": "Exists"}]}),
        expression("In", json!([") , c"])),
        expression("In", json!([])),
        expression("NotIn", json!([])),
        expression("Exists", json!(["a"])),
        expression("DoesNotExist", json!(["a"])),
    ];
    objects.into_iter().map(selector).collect()
}

#[tokio::test(start_paused = true)]
async fn a_label_of_a_selector_cannot_widen_the_deletion_of_a_collection() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    for name in ["a", "b"] {
        client.api().create(&config_map(name, &[])).await.expect("created");
    }
    let maps = client.api::<ConfigMap>().list().namespace("default");
    let before = maps.items().await.expect("listed").len();
    for selector in hostile() {
        let error = maps.clone().matching(selector).delete(None).await.expect_err("refused");
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert!(
            error.to_string().starts_with("delete all configmaps: label selector: "),
            "{error}"
        );
    }
    let labels = maps.clone().labels([("app!", "x")]).delete(None).await.expect_err("refused");
    assert!(labels.to_string().contains("invalid label \"app!\": name part must"), "{labels}");
    assert_eq!(maps.items().await.expect("listed").len(), before);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_selector_is_not_sent_and_matches_nothing_in_the_cache() {
    let recorder = Recorder::default();
    let all = recorder.client().api::<ConfigMap>().list();
    for selector in hostile() {
        let error = all.clone().matching(selector).items().await.expect_err("refused");
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    let field = all.fields(Expression::Equal("metadata.name!".into(), "a".into()));
    let error = field.items().await.expect_err("refused");
    assert!(error.to_string().contains("is not the name of a field"), "{error}");
    assert_eq!(recorder.take(), [""; 0], "nothing was sent");

    let server = ApiServer::start();
    let cache = Cache::new(server.client());
    let maps = cache.informer::<ConfigMap>(&Scope::default());
    maps.synced(Duration::from_secs(30)).await.expect("synced");
    assert!(!cache.list::<ConfigMap>().items().expect("read").is_empty());
    for selector in hostile() {
        let error = cache.list::<ConfigMap>().matching(selector).items().expect_err("refused");
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_an_invalid_selector_sends_nothing_and_says_so() {
    let recorder = Recorder::default();
    let cache = Cache::new(recorder.kube());
    let labels = Selector::from(Expression::Equal("app!".into(), "x".into()));
    let fields = Expression::Equal("a,b".into(), "x".into());
    for part in [Scope::default().labels(labels.clone()), Scope::default().fields(fields)] {
        let informer = cache.informer::<ConfigMap>(&part);
        let state = informer.synced(Duration::from_secs(3600)).await.expect_err("invalid");
        assert!(matches!(state, SyncState::Invalid(_)), "{state}");
        assert!(state.to_string().contains(" selector: "), "{state}");
        // Also after many retries.
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(matches!(informer.state(), SyncState::Invalid(_)), "{}", informer.state());
    }
    let scoped =
        Manager::new(recorder.kube()).scope::<Secret>(Scope::default().labels(labels.clone()));
    let error = scoped.spawn().expect_err("refused").to_string();
    assert!(error.starts_with("the scope of Secret.v1: label selector: "), "{error}");
    let chosen = Manager::new(recorder.kube()).namespace_selector(labels);
    let error = chosen.spawn().expect_err("refused").to_string();
    assert!(error.starts_with("namespace_selector: label selector: "), "{error}");
    assert_eq!(recorder.take(), [""; 0], "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_an_invalid_selector_is_a_terminal_error() {
    let server = ApiServer::start();
    let (sender, mut errors) = mpsc::unbounded_channel();
    let reconcile = move |cx: Context<ConfigMap>| {
        let sender = sender.clone();
        async move {
            let wrong = selector(json!({"matchLabels": {"app!": "x"}}));
            let claimed = cx.claim(wrong, None, |_: &Secret| true).await;
            let error = claimed.expect_err("refused");
            let _ = sender.send((error.is_terminal(), format!("{error:?}")));
            Err::<Next, _>(error)
        }
    };
    let controller = Controller::<ConfigMap>::builder("claims").owns::<Secret>().build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    let (terminal, text) = errors.recv().await.expect("reconciled");
    assert!(terminal && text.contains("label selector: invalid label \"app!\""), "{text}");
    handle.stop().await.expect("stops");
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{1,3}",
        1 => "[a-z!=,()\\\\<> ./-]{0,6}",
        1 => any::<String>(),
        1 => prop::sample::select(vec!["in", "notin", "a in (b)", "a,b", "a=b", "\\", "a\\,b"])
            .prop_map(str::to_owned),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    let values = || prop::collection::btree_set(text(), 0..3);
    prop_oneof![
        (text(), text()).prop_map(|(name, value)| Expression::Equal(name, value)),
        (text(), text()).prop_map(|(name, value)| Expression::NotEqual(name, value)),
        (text(), values()).prop_map(|(name, values)| Expression::In(name, values)),
        (text(), values()).prop_map(|(name, values)| Expression::NotIn(name, values)),
        text().prop_map(Expression::Exists),
        text().prop_map(Expression::DoesNotExist),
    ]
}

/// Returns an expression as the server should read it.
fn requirement(expression: &Expression) -> (String, select::Operator, BTreeSet<String>) {
    use select::Operator;
    let one = |value: &String| BTreeSet::from([value.clone()]);
    let (name, operator, values) = match expression {
        Expression::Equal(name, value) => (name, Operator::Equals, one(value)),
        Expression::NotEqual(name, value) => (name, Operator::NotEquals, one(value)),
        Expression::In(name, values) => (name, Operator::In, values.clone()),
        Expression::NotIn(name, values) => (name, Operator::NotIn, values.clone()),
        Expression::Exists(name) => (name, Operator::Exists, BTreeSet::new()),
        Expression::DoesNotExist(name) => (name, Operator::DoesNotExist, BTreeSet::new()),
    };
    (name.clone(), operator, values)
}

/// Returns a parameter of the only URL, or `None` if nothing was sent.
fn parameter(recorder: &Recorder, name: &str) -> Option<String> {
    let urls = recorder.take();
    let [url] = urls.as_slice() else {
        assert!(urls.is_empty(), "{urls:?}");
        return None;
    };
    let (_, query) = url.split_once('?').expect("has a query");
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    Some(decoded(value.unwrap_or_default()))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #[test]
    fn the_server_reads_the_label_selector_that_was_asked_for_or_none_is_sent(
        expressions in prop::collection::vec(expression(), 1..4),
    ) {
        let (runtime, recorder) = (runtime(), Recorder::default());
        let _guard = runtime.enter();
        let list = recorder.client().api::<ConfigMap>().list();
        let wanted: Selector = expressions.iter().cloned().collect();
        let result = runtime.block_on(list.matching(wanted).items());
        let Some(text) = parameter(&recorder, "labelSelector") else {
            prop_assert!(matches!(result, Err(Error::Invalid(_))), "{:?}", result);
            return Ok(());
        };
        let read = select::LabelSelector::parse(&text).expect(&text);
        let read: Vec<_> = read
            .requirements()
            .map(|found| (found.key.clone(), found.operator, found.values.clone()))
            .collect();
        prop_assert_eq!(read, expressions.iter().map(requirement).collect::<Vec<_>>(), "{}", text);
    }

    #[test]
    fn the_server_reads_the_field_selector_that_was_asked_for_or_none_is_sent(
        terms in prop::collection::vec((text(), any::<bool>(), text()), 1..4),
    ) {
        let (runtime, recorder) = (runtime(), Recorder::default());
        let _guard = runtime.enter();
        let mut list = recorder.client().api::<ConfigMap>().list();
        for (name, negated, value) in terms.clone() {
            list = list.fields(match negated {
                true => Expression::NotEqual(name, value),
                false => Expression::Equal(name, value),
            });
        }
        let result = runtime.block_on(list.items());
        let Some(text) = parameter(&recorder, "fieldSelector") else {
            prop_assert!(matches!(result, Err(Error::Invalid(_))), "{:?}", result);
            return Ok(());
        };
        let read = select::FieldSelector::parse(&text).expect(&text);
        let read: BTreeSet<_> = read
            .requirements()
            .map(|found| (found.field.clone(), found.negated, found.value.clone()))
            .collect();
        prop_assert_eq!(read, terms.into_iter().collect::<BTreeSet<_>>(), "{}", text);
    }
}
