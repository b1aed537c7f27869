//! The Kubernetes operator toolkit for Rust: caches, queues, controllers, manager.
//!
//! The author writes the types and one function from the state of an object to what comes next;
//! everything else is here. An operator that gives every config map a secret of the same name:
//!
//! ```
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use windlass::{Context, Controller, Manager, Next, Result};
//!
//! async fn mirror(cx: Context<ConfigMap>) -> Result<Next> {
//!     let Some(map) = cx.object() else { return Ok(Next::Done) }; // gone is not an error
//!     let mut secret = Secret::default();
//!     secret.metadata.name = map.metadata.name.clone();
//!     secret.string_data = map.data.clone();
//!     cx.apply(&secret).await?; // server-side apply, owner reference set, only if it differs
//!     Ok(Next::Done) // or Next::After(duration); an error comes back with growing delay
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! # let server = windlass_apiserver::ApiServer::start();
//! # let (client, shutdown) = (server.client(), async {});
//! let controller = Controller::<ConfigMap>::builder("mirror").owns::<Secret>().build(mirror);
//! Manager::new(client).add(controller).run(shutdown).await
//! # }
//! ```
//!
//! # The path of a change
//!
//! 1. The API server sends a change to the reflector of its kind ([`cache`]), which
//! 2. puts it into the store, where readers and indexes see it, together with the writes of this
//!    process that the server has not sent back yet, and
//! 3. into the mailbox of each watch, which keeps one pending change per object.
//! 4. The event handler of the watch takes it from there, asks the [`Predicate`]s whether it
//!    matters, and the [`Watch`] which keys it concerns.
//! 5. The [`queue`] keeps each key once, delays it and orders it by priority.
//! 6. A worker of the controller's pool takes the key, decodes the object and calls the
//! 7. [`Reconciler`] with a [`Context`], which reads from the cache, and
//! 8. the [`client`] writes to the API server and shows each write to the store at once.
//!
//! A [`Manager`] starts and stops all of it, with probes, metrics and a diagnostics page
//! ([`serve`]), [`events`], and a [`lease`] if only one replica may work.
//!
//! # Coming from controller-runtime
//!
//! | controller-runtime | windlass |
//! |---|---|
//! | `ctrl.NewManager`, `manager.Options` | [`Manager`] |
//! | `mgr.Start(ctrl.SetupSignalHandler())` | [`run_until_signal`](Manager::run_until_signal) |
//! | `ctrl.NewControllerManagedBy(mgr).For(&T{})` | [`Controller::<T>::builder`](Controller::builder) |
//! | `Owns`, `Watches`, `WithEventFilter` | [`owns`](controller::Builder::owns), [`watch`](controller::Builder::watch), [`Watch::when`] |
//! | `reconcile.Request`, `reconcile.Result` | [`Context::key`], [`Next`] |
//! | `reconcile.TerminalError` | [`Error::terminal`] |
//! | `client.Get`, `client.List`, which read the cache | [`Context::get`], [`Context::list`] |
//! | `mgr.GetAPIReader()` | [`Client::api`], and its `get` and `list` |
//! | `client.Create`, `Update`, `Patch`, `Delete` | [`client::Api`] |
//! | `client.Status()`, `client.SubResource(name)` | [`Api::subresource`](client::Api::subresource) |
//! | `client.Patch(.., client.Apply)` | [`Context::apply`], [`Api::apply`](client::Api::apply) |
//! | `controllerutil.SetControllerReference` | set by [`Context::apply`] and [`Context::create`]; [`owner::set_controller`] |
//! | `controllerutil.AddFinalizer` | [`Context::finalize`] |
//! | `meta.SetStatusCondition` | [`Context::condition`] |
//! | `client.IgnoreNotFound`, `apierrors.IsConflict` | [`ResultExt`], [`Error::is_conflict`] |
//! | `mgr.GetFieldIndexer()` | [`Index`], [`List::by`] |
//! | `predicate.GenerationChangedPredicate` | [`Predicate::generation_changed`] |
//! | `EventRecorder` | [`Context::event`], [`events::Recorder`] |
//! | `webhook.Defaulter`, `Validator`, `admission.Handler` | [`webhook::Webhook`] |
//! | `mgr.AddHealthzCheck`, `AddReadyzCheck` | [`health_check`](Manager::health_check), [`ready_check`](Manager::ready_check) |
//!
//! The table for client-go is in [`cache`].
//!
//! # Coming from kube-rs
//!
//! Types of `#[derive(CustomResource)]`, `kube::Api` and `kube::Client` are used as they are; only
//! `kube::runtime` is replaced.
//!
//! | kube-rs | windlass |
//! |---|---|
//! | `Controller::new(api, watcher::Config)` | [`Controller::<T>::builder`](Controller::builder) |
//! | `.owns(api, config)`, `.watches(api, config, mapper)` | [`owns`](controller::Builder::owns), [`watch`](controller::Builder::watch): one cache per kind for all controllers |
//! | `.run(reconcile, error_policy, Arc<Context>)` | [`build`](controller::Builder::build); what the author's context held is captured by the closure |
//! | the error policy | an error comes back with a growing delay; [`Error::terminal`] does not |
//! | `Action::await_change()`, `Action::requeue(..)` | [`Next::Done`], [`Next::After`] |
//! | `reflector::Store` | [`Context::get`], [`Context::list`]; own writes are visible at once |
//! | `finalizer(..)` with `Event::Apply` and `Event::Cleanup` | [`Context::finalize`] |
//! | `predicates::generation` | [`Predicate::generation_changed`] |
//! | `Api::patch` with `Patch::Apply` | [`Context::apply`], which sends nothing if nothing differs |
//! | `Api::patch_status` | [`Context::status`] |
//! | `events::Recorder` | [`Context::event`], [`Context::warn`] |
//! | `wait::await_condition` | [`wait::until`], [`Readiness::of`] |
//! | `watcher`, `reflector` | [`cache::Informer`] |
//! | leader election by another crate | [`Manager::lease`] |
//! | `#[derive(CustomResource)]` | the same, or [`macro@api`] |
//!
//! # Promises
//!
//! The tests behind each promise are listed in `docs/promises.md` of the repository.
//!
//! - **P1** A key is never reconciled twice at once.
//! - **P2** Every change and deletion of a watched object leads to a reconcile, also one that
//!   happened while no watch was open.
//! - **P3** No reader of the cache ever sees an older state after a newer one.
//! - **P4** A reconcile sees the writes of its predecessor, and a read with a [`Client`]
//!   sees what was written with it before.
//! - **P5** Once the renew deadline of a lost lease has passed, no new mutating request of what the
//!   lease guards is sent, also if the machine was suspended and only the wall clock went on.
//! - **P6** Shutdown begins nothing new, loses no acknowledged work within the grace period, and
//!   releases the lease last.
//! - **P7** Every queue, retry, buffer and request has a limit and a deadline.
//! - **P8** A panic in the author's code is contained, counted and retried with a growing delay.
//! - **P9** Equal seeds give equal traces.
//!
//! # Features
//!
//! All but `aws-lc-rs` are enabled by default.
//!
//! | feature | adds |
//! |---|---|
//! | `serve` | the HTTP servers for probes and metrics ([`serve`]) |
//! | `tls` | TLS for these servers; includes `serve` |
//! | `metrics` | Prometheus metrics ([`metrics`]); without it, nothing is counted |
//! | `log` | a subscriber for structured logs ([`log`]) |
//! | `api` | [`macro@api`] and [`macro@k8s`]: kinds from Rust types, and [`manifests`] |
//! | `webhook` | [`webhook`]: admission webhooks, their server and their certificates; needs `ring` or `aws-lc-rs` |
//! | `operator` | [`Operator`]: the program of an operator, with its command line, manifests and policies; includes `webhook` |
//! | `plan` | virtual time for `windlass plan`; includes `operator` and tokio's `test-util` |
//! | `ring` | `ring` as the crypto provider of TLS connections and certificates |
//! | `aws-lc-rs` | `aws-lc-rs` in its place; not enabled by default |
//!
//! # What is not promised
//!
//! - That a reconcile runs exactly once per change: changes are merged, and a key may be
//!   reconciled although nothing changed.
//! - That every state of an object is mapped to keys: if an object changes again while the handler
//!   of its watch is busy, owners and map functions see the last handled state and the newest one.
//!   An owner that was concerned only by a state in between is not notified.
//! - Any order between kinds, or between keys of the same priority that several workers take.
//! - Fencing: a request that was already sent when the lease expired is not called back, and two
//!   machines whose clocks run at very different rates can both be leader. So can a machine that was
//!   paused together with its wall clock, such as a virtual machine, until its wall clock is
//!   corrected or it tries to renew the lease.
//! - That a jump of the wall clock has no effect: requeues, backoffs and the lease are not moved, but
//!   a jump ahead by more than the renew deadline stops writes until the next renewal.
//! - That panics are contained where they end the process (`panic = "abort"`).
//! - That an effect outside the cluster and one inside happen together.
//! - That code which blocks its thread without an `.await` can be stopped; it is logged.
//! - That writes which did not pass a [`Client`], such as those of a plain `kube::Api`, can be read
//!   before the watch delivers them. The same holds for writes whose response was lost, and for
//!   writes to a subresource, a collection or another version if reading the result fails; both are
//!   logged.
//! - That the cache keeps what the server itself has lost: after a backup was restored it shows what
//!   the server shows.
//! - Equal traces on a runtime with several threads, or with real time.

// The code that the macros generate names the crate.
#[cfg(test)]
extern crate self as windlass;

#[cfg(all(feature = "webhook", not(any(feature = "ring", feature = "aws-lc-rs"))))]
compile_error!(
    "feature `webhook` makes certificates: enable feature `ring` or `aws-lc-rs` as well"
);

pub mod clock;
#[cfg(feature = "api")]
pub mod conversion;
pub mod error;
pub mod kind;
mod ordered_watch;
pub mod scheme;

pub mod cache;
pub mod queue;

pub mod client;
mod fence;
mod list;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "no_metrics.rs"]
pub mod metrics;

mod apply;
pub mod condition;
pub mod finalizer;
pub mod owner;
mod panic;
mod readiness;
pub mod schedule;
mod selector;
pub mod wait;

pub mod controller;
pub mod events;
pub mod lease;
#[cfg(feature = "log")]
pub mod log;
pub mod manager;
#[cfg(feature = "operator")]
mod migration;
#[cfg(feature = "operator")]
pub mod operator;
#[cfg(feature = "serve")]
pub mod serve;
mod signal;
mod splitmix;
#[cfg(feature = "webhook")]
pub mod webhook;

pub use k8s_openapi;
pub use kube;
/// The crate of the metric types that [`Manager::register_metrics`](Manager::register_metrics)
/// accepts.
#[cfg(feature = "metrics")]
pub use prometheus_client;

pub use cache::{Index, Key};
pub use client::Client;
pub use controller::{Context, Controller, Next, Predicate, Reconciler, Watch};
pub use error::{Error, Result, ResultExt};
pub use kind::{Kind, Object};
pub use list::List;
pub use manager::Manager;
#[cfg(feature = "operator")]
pub use operator::Operator;
pub use readiness::Readiness;
/// Manifests: definitions, roles, and everything else that installs an operator.
#[cfg(feature = "api")]
pub use windlass_manifests as manifests;
#[cfg(feature = "api")]
#[doc(hidden)]
pub use windlass_manifests::__private;
#[cfg(feature = "api")]
pub use windlass_manifests::{api, k8s};
