//! What dashboards, alerts and people rely on: names, labels, buckets, the diagnostics page.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use windlass::controller::{Context, Controller, Next};
use windlass::lease::LeaseOptions;
use windlass::{Error, Index, Manager};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, eventually, manager, metric};

async fn nothing(_: Context<ConfigMap>) -> windlass::Result<Next> {
    Ok(Next::Done)
}

fn lease() -> LeaseOptions {
    LeaseOptions::new("my-operator").namespace("default")
}

/// Names of labels by name of series, the upper bounds of buckets, and the types of the families.
#[derive(Default)]
struct Page {
    labels: BTreeMap<String, Vec<String>>,
    bounds: BTreeMap<String, Vec<f64>>,
    types: BTreeMap<String, String>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a type");
                page.types.insert(name.into(), kind.into());
                continue;
            }
            if line.starts_with('#') {
                continue;
            }
            let (series, _) = line.rsplit_once(' ').expect("a series and a value");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.trim_end_matches('}').split("\",").filter(|l| !l.is_empty());
            let labels: Vec<(&str, &str)> = labels
                .map(|label| label.split_once("=\"").expect("a label"))
                .map(|(name, value)| (name, value.trim_end_matches('"')))
                .collect();
            if let Some(family) = name.strip_suffix("_bucket") {
                let le = labels.iter().find(|(name, _)| *name == "le").expect("a bound").1;
                let bounds = page.bounds.entry(family.into()).or_default();
                let bound =
                    if le == "+Inf" { f64::INFINITY } else { le.parse().expect("a number") };
                if !bounds.contains(&bound) {
                    bounds.push(bound);
                }
            }
            let mut names: Vec<String> = labels.iter().map(|(name, _)| name.to_string()).collect();
            names.sort();
            page.labels.insert(name.into(), names);
        }
        page
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_names_labels_types_and_buckets_of_controller_runtime() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("maps").build(nothing);
    let handle = manager(&server).add(controller).lease(lease()).spawn().expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    let done = r#"controller_runtime_reconcile_total{controller="maps",result="success"}"#;
    eventually("a reconcile", || metric(&handle, done) > 0.0).await;
    let page = Page::read(&handle.metrics());
    for (name, kind, labels) in [
        ("controller_runtime_reconcile_total", "counter", &["controller", "result"][..]),
        ("controller_runtime_reconcile_errors_total", "counter", &["controller"]),
        ("controller_runtime_terminal_reconcile_errors_total", "counter", &["controller"]),
        ("controller_runtime_reconcile_panics_total", "counter", &["controller"]),
        ("controller_runtime_reconcile_timeouts_total", "counter", &["controller"]),
        ("controller_runtime_max_concurrent_reconciles", "gauge", &["controller"]),
        ("controller_runtime_active_workers", "gauge", &["controller"]),
        ("workqueue_depth", "gauge", &["controller", "name", "priority"]),
        ("workqueue_adds_total", "counter", &["controller", "name"]),
        ("workqueue_retries_total", "counter", &["controller", "name"]),
        ("workqueue_unfinished_work_seconds", "gauge", &["controller", "name"]),
        ("workqueue_longest_running_processor_seconds", "gauge", &["controller", "name"]),
        ("rest_client_requests_total", "counter", &["code", "host", "method"]),
        ("leader_election_master_status", "gauge", &["name"]),
        ("certwatcher_read_certificate_total", "counter", &[]),
        ("certwatcher_read_certificate_errors_total", "counter", &[]),
    ] {
        assert_eq!(page.types.get(name).map(String::as_str), Some(kind), "{name}");
        let found = page.labels.get(name).unwrap_or_else(|| panic!("no series of {name}"));
        assert_eq!(*found, labels, "{name}");
    }
    let reconcile = [
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
        15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
    ];
    // As Go computes them.
    let (five, four) = (9.999999999999999e-6, 9.999999999999999e-5);
    let queue = [1e-8, 1e-7, 1e-6, five, four, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];
    let rest = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
    for (name, bounds, labels) in [
        ("controller_runtime_reconcile_time_seconds", &reconcile[..], &["controller"][..]),
        ("workqueue_queue_duration_seconds", &queue, &["controller", "name"]),
        ("workqueue_work_duration_seconds", &queue, &["controller", "name"]),
        ("rest_client_request_duration_seconds", &rest, &["host", "verb"]),
    ] {
        assert_eq!(page.types.get(name).map(String::as_str), Some("histogram"), "{name}");
        let mut wanted = bounds.to_vec();
        wanted.push(f64::INFINITY);
        assert_eq!(page.bounds.get(name), Some(&wanted), "{name}");
        assert_eq!(page.labels[&format!("{name}_count")], labels, "{name}");
    }
    assert_eq!(metric(&handle, r#"leader_election_master_status{name="my-operator"}"#), 1.0);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn controllers_of_one_name_in_two_clusters_have_figures_of_their_own() {
    let (home, away) = (ApiServer::start(), ApiServer::start());
    let handle = manager(&home)
        .cluster("away", away.client())
        .add(Controller::<ConfigMap>::builder("maps").workers(2).build(nothing))
        .add_to("away", Controller::<ConfigMap>::builder("maps").workers(3).build(nothing))
        .spawn()
        .expect("starts");
    handle.ready().await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    let done = |name: &str| {
        format!(r#"controller_runtime_reconcile_total{{controller="{name}",result="success"}}"#)
    };
    eventually("a reconcile", || metric(&handle, &done("maps")) == 1.0).await;
    assert_eq!(metric(&handle, &done("away/maps")), 0.0);
    let adds = |name: &str| format!(r#"workqueue_adds_total{{name="{name}",controller="{name}"}}"#);
    assert_eq!(metric(&handle, &adds("maps")), 1.0);
    assert_eq!(metric(&handle, &adds("away/maps")), 0.0);
    let workers = |name: &str| {
        format!(r#"controller_runtime_max_concurrent_reconciles{{controller="{name}"}}"#)
    };
    assert_eq!(metric(&handle, &workers("maps")), 2.0);
    assert_eq!(metric(&handle, &workers("away/maps")), 3.0);
    for name in ["maps", "away/maps"] {
        metric(&handle, &format!(r#"windlass_handler_lag{{controller="{name}"}}"#));
    }
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn two_clusters_of_one_name_are_refused() {
    let server = ApiServer::start();
    let twice = || Manager::new(server.client()).cluster("a", server.client());
    let error = twice().cluster("a", server.client()).spawn().expect_err("refused");
    assert_eq!(error.to_string(), "two clusters are named a");
    let error = twice().cluster("", server.client()).spawn().expect_err("refused");
    assert_eq!(error.to_string(), "a cluster other than the home cluster needs a name");
}

#[tokio::test(start_paused = true)]
async fn the_diagnostics_page_shows_every_watch_index_queue_and_lease() {
    let server = ApiServer::start();
    let by_color = Index::new("color", |map: &ConfigMap| {
        map.data.iter().flat_map(|data| data.get("color").cloned()).collect()
    });
    let declared = by_color.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let by_color = by_color.clone();
        async move {
            cx.list::<ConfigMap>().by(&by_color, "blue").items()?;
            match cx.name() {
                "held" => std::future::pending().await,
                "fails" => Err(Error::from("no")),
                _ => Ok(Next::After(Duration::from_secs(3600))),
            }
        }
    };
    let controller = Controller::<ConfigMap>::builder("maps")
        .workers(4)
        .owns::<Secret>()
        .index(&declared)
        .build(reconcile);
    let handle = manager(&server)
        .add(controller)
        .replica("me")
        .lease(lease())
        .grace(Duration::ZERO)
        .spawn()
        .expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    for name in ["held", "fails", "waits"] {
        handle
            .client()
            .api()
            .create(&config_map(name, &[("color", "blue")]))
            .await
            .expect("created");
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let page = handle.diagnostics();
    assert_eq!((&page["ready"], &page["stopping"]), (&true.into(), &false.into()), "{page:#}");
    let watches = page["clusters"][0]["watches"].as_array().expect("a list");
    assert_eq!(watches.len(), 2, "{page:#}");
    for (watch, kind, objects) in [(&watches[0], "ConfigMap.v1", 3), (&watches[1], "Secret.v1", 0)]
    {
        assert_eq!(watch["kind"], kind, "{watch:#}");
        assert_eq!((&watch["synced"], &watch["objects"]), (&true.into(), &objects.into()));
        assert!(watch["state"].as_str().is_some_and(|s| s.starts_with("synced")), "{watch:#}");
    }
    let indexes = watches[0]["indexes"].as_array().expect("a list");
    let color = indexes.iter().find(|index| index["name"] == "color").expect("is shown");
    assert_eq!(color["filings"], 3);
    let shown = &page["controllers"][0];
    assert_eq!((&shown["name"], &shown["kind"]), (&"maps".into(), &"ConfigMap.v1".into()));
    assert_eq!(shown["watches"].as_array().map(Vec::len), Some(2), "{shown:#}");
    let queue = &shown["queue"];
    assert_eq!((&queue["processing"], &queue["waiting"]), (&1.into(), &2.into()), "{queue:#}");
    assert!(queue["longestSeconds"].as_f64().is_some_and(|s| s > 4.0), "{queue:#}");
    assert!(queue["retries"].as_u64().is_some_and(|n| n > 3), "{queue:#}");
    let ended = &shown["reconciles"];
    assert_eq!((&ended["active"], &ended["requeueAfter"]), (&1.into(), &1.into()), "{ended:#}");
    assert!(ended["errors"].as_u64().is_some_and(|n| n > 3), "{ended:#}");
    let lease = &page["lease"];
    assert_eq!(lease["name"], "default/my-operator", "{lease:#}");
    assert_eq!(lease["held"], true, "{lease:#}");
    assert!(lease["holder"].as_str().is_some_and(|holder| holder.starts_with("me_")), "{lease:#}");
    handle.stop().await.expect("stops");
}
