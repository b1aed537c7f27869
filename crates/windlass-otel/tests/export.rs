//! What an exporter gets to see of an operator.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use opentelemetry::Value;
use opentelemetry::trace::{Status, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing_subscriber::layer::SubscriberExt;
use windlass::{Client, Context, Controller, Key, Manager, Next, Result};
use windlass_apiserver::ApiServer;

/// Copies a config map, and fails for one that says so.
async fn copy(cx: Context<ConfigMap>) -> Result<Next> {
    let Some(map) = cx.object().filter(|_| cx.name() != "copy") else { return Ok(Next::Done) };
    let text = map.data.as_ref().and_then(|data| data.get("text").cloned()).unwrap_or_default();
    if text == "broken" {
        return Err("the text is broken".into());
    }
    tracing::info_span!("translate", words = 3).in_scope(|| tracing::trace!("too much detail"));
    let mut copy = ConfigMap::default();
    copy.metadata.name = Some("copy".into());
    copy.metadata.namespace = Some("default".into());
    copy.data = Some([("text".into(), text)].into());
    cx.apply(&copy).await?;
    Ok(Next::Done)
}

fn map(name: &str, text: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.into());
    map.metadata.namespace = Some("default".into());
    map.data = Some([("text".into(), text.into())].into());
    map
}

fn attribute<'a>(span: &'a SpanData, name: &str) -> Option<&'a Value> {
    span.attributes.iter().find(|pair| pair.key.as_str() == name).map(|pair| &pair.value)
}

fn text(span: &SpanData, name: &str) -> String {
    attribute(span, name).map(|value| value.as_str().into_owned()).unwrap_or_default()
}

/// The events of a span, as their names and their attribute `request`.
fn events(span: &SpanData) -> Vec<(String, String)> {
    let request = |event: &opentelemetry::trace::Event| {
        let found = event.attributes.iter().find(|pair| pair.key.as_str() == "request");
        found.map(|pair| pair.value.as_str().into_owned()).unwrap_or_default()
    };
    span.events.iter().map(|event| (event.name.to_string(), request(event))).collect()
}

#[tokio::test(start_paused = true)]
async fn reconciles_are_exported_with_their_causes_requests_and_errors() -> Result<()> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = windlass_otel::layer(provider.tracer("test"));
    let _guard =
        tracing::subscriber::set_default(tracing_subscriber::Registry::default().with(layer));

    let server = ApiServer::start();
    let client = Client::new(server.client());
    let controller = Controller::<ConfigMap>::builder("copies").owns::<ConfigMap>().build(copy);
    let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
    let running = manager.spawn()?;
    running.ready().await;
    client.api().create(&map("a", "hello")).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.api::<ConfigMap>().delete(&Key::namespaced("default", "a")).await?;
    client.api().create(&map("b", "broken")).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.stop().await?;

    let spans = exporter.get_finished_spans().expect("the exporter works");
    let of = |name: &str| -> Vec<&SpanData> {
        let named = |span: &&SpanData| span.name == "reconcile" && text(span, "name") == name;
        spans.iter().filter(named).collect()
    };
    let first = of("a")[0];
    assert_eq!(text(first, "controller"), "copies");
    assert_eq!(
        (&*text(first, "controllerKind"), &*text(first, "namespace")),
        ("ConfigMap", "default")
    );
    assert!(!text(first, "reconcileID").is_empty());
    assert!(text(first, "causes").contains("ConfigMap default/a"), "{}", text(first, "causes"));
    let sent = ("Sending request".to_string(), "apply ConfigMap default/copy".to_string());
    assert!(events(first).contains(&sent), "{:?}", events(first));
    assert_eq!(first.status, Status::Unset);
    let inner = spans.iter().find(|span| span.name == "translate").expect("the author's span");
    assert_eq!(inner.parent_span_id, first.span_context.span_id());
    assert!(inner.events.is_empty(), "{:?}", events(inner));
    assert_eq!(attribute(inner, "words"), Some(&Value::I64(3)));
    let traces: BTreeSet<String> =
        of("a").iter().map(|span| span.span_context.trace_id().to_string()).collect();
    assert!(traces.len() > 1 && traces.len() == of("a").len(), "each reconcile is a trace");
    let last = text(of("a").last().expect("some"), "causes");
    assert!(last.contains("ConfigMap default/a deleted"), "{last}");
    let failed = of("b");
    assert!(failed.len() > 1, "it is retried");
    for span in &failed {
        assert!(matches!(span.status, Status::Error { .. }), "{:?}", span.status);
        let values = span.events.iter().flat_map(|event| &event.attributes);
        let mut said = values.map(|pair| pair.value.as_str().into_owned());
        assert!(said.any(|text| text.contains("the text is broken")), "{:?}", span.events);
    }
    let retry = text(failed[1], "causes");
    assert!(retry.contains("the text is broken"), "the cause of the retry: {retry}");
    Ok(())
}
