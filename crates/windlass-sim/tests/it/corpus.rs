//! Operators with known bugs beside their fixed twins, and correct ones that are hard for an oracle.
//!
//! Every bug was found in a well-known operator or is a small version of one. The test of a row
//! asserts that the named oracle finds the bug with a single fault, and that the fixed twin survives
//! every single fault.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::{Context, Controller, Manager, Next, Result, controller};
use windlass_sim::{Explore, Oracle, Report, Sim, named};

mod c01_config_then_flag;
mod c02_create_then_mark;
mod c03_mark_then_do;
pub mod c04_password_then_secret;
mod c05_external_id_in_status;
mod c06_forgets_the_old_one;
mod c07_finalizer_late;
mod c08_cleanup_errors_ignored;
mod c09_finalizer_off_first;
pub mod c10_generate_name;
pub mod c11_conflict_is_done;
mod c12_put_without_version;
mod c13_delete_by_name;
mod c14_takes_by_name;
mod c15_stale_pod_pvc;
mod c16_replaces_on_an_old_view;
mod c17_count_from_cache;
mod c18_name_from_the_clock;
mod c19_generation_only;
mod c20_not_under_the_lease;
mod c22_now_in_status;
mod c23_grows_with_each_poll;
pub mod c24_replicas_fight;
mod c25_only_adds;
mod c26_leaves_the_old_name;
mod c27_ready_too_early;
mod c28_ready_when_made;
mod c29_index_zero;
mod c30_stuck_after_bad_spec;
mod c31_error_is_not_found;
mod c33_lock_left_behind;
mod c34_remembers_in_memory;
mod c35_reset_is_done;
mod green;

/// The custom resource of all operators of the corpus.
#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "corpus.example.com",
    version = "v1",
    kind = "App",
    namespaced,
    status = "AppStatus",
    derive = "Default"
)]
pub struct AppSpec {
    /// How many there are.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3))]
    pub size: i32,
    /// A setting.
    #[serde(default)]
    pub config: String,
    /// Labels of the children.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// What the operators report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppStatus {
    pub out_of_sync: bool,
    pub marks: Vec<String>,
    pub id: String,
    pub time: String,
    pub conditions: Vec<Condition>,
}

/// An App.
pub fn app(size: i32, config: &str) -> App {
    let config = config.to_owned();
    App {
        metadata: named("web"),
        spec: AppSpec { size, config, ..AppSpec::default() },
        status: None,
    }
}

/// A ConfigMap with one entry.
pub fn config_map(name: &str, value: &str) -> ConfigMap {
    let data = Some(BTreeMap::from([("config".to_owned(), value.to_owned())]));
    ConfigMap { metadata: named(name), data, ..ConfigMap::default() }
}

/// The operator that reconciles Apps with a function and owns ConfigMaps.
pub fn operator<F, Fut>(reconcile: F) -> impl Fn(kube::Client) -> Manager + Send + Sync + 'static
where
    F: Fn(Context<App>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Next>> + Send + 'static,
{
    watching(|builder| builder.owns::<ConfigMap>(), reconcile)
}

/// The operator that reconciles Apps with a function and watches what `watch` adds.
pub fn watching<W, F, Fut>(
    watch: W,
    reconcile: F,
) -> impl Fn(kube::Client) -> Manager + Send + Sync + 'static
where
    W: Fn(controller::Builder<App>) -> controller::Builder<App> + Send + Sync + 'static,
    F: Fn(Context<App>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Next>> + Send + 'static,
{
    move |client| {
        let builder = watch(Controller::<App>::builder("app"));
        Manager::new(client).name("app").add(builder.build(reconcile.clone()))
    }
}

/// Asserts that an oracle finds the bug with at most one fault.
pub fn flagged<F>(name: &str, oracle: Oracle, scenario: F) -> Report
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    let report = Explore::of(name, scenario).all_singles().until(oracle).run();
    assert!(report.violates(oracle), "{oracle} does not find the bug\n{report}");
    report
}

/// Asserts that no single fault does any harm.
pub fn green<F>(name: &str, scenario: F) -> Report
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    let report = Explore::of(name, scenario).all_singles().run();
    assert!(report.is_ok(), "\n{report}");
    assert!(report.ran > 10, "too few plans\n{report}");
    report
}
