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
//! Manager::builder(client).add(controller).run(shutdown).await
//! # }
//! ```
//!
//! # The way of a change
//!
//! API server → [`cache`] (reflector, store, informer) → [`controller::Watch`] →
//! [`controller::Predicate`] → [`queue`] → the worker pool → [`Reconciler`] with its
//! [`Context`] → [`client`] → API server. A [`Manager`] starts and stops all of it, with probes, metrics and a
//! diagnostics page ([`serve`]), [`events`], and a [`lease`] if only one replica may work.
//!
//! # Promises
//!
//! Each with the tests that hold it:
//!
//! - **P1** A key is never reconciled twice at once: `a_key_is_never_reconciled_twice_at_once`,
//!   `many_workers_never_share_a_key_and_lose_none`,
//!   `the_queue_in_several_hands_does_what_plain_lists_do`.
//! - **P2** A change or deletion of a watched object, also one in a watch gap, leads to a
//!   reconcile: `a_change_is_followed_and_an_owned_object_is_restored`,
//!   `a_deletion_in_a_watch_gap_leads_to_a_reconcile`,
//!   `child_deleted_in_a_watch_gap_that_ends_in_410_reaches_the_handler`,
//!   `an_object_replaced_in_a_watch_gap_passes_every_comparing_predicate`,
//!   `an_owner_that_was_let_go_of_hears_of_it_also_if_the_object_is_deleted_at_once`,
//!   `a_deleted_object_goes_also_if_its_last_state_cannot_be_read`.
//! - **P3** The cache never goes back, for no reader:
//!   `the_cache_never_goes_back_for_any_reader_while_watch_and_own_writes_race`,
//!   `the_store_in_several_hands_shows_what_the_server_holds_and_never_goes_back`,
//!   `readers_see_the_newest_and_handlers_end_at_the_watched_state`.
//! - **P4** A reconcile sees the writes its predecessor made, and everybody who reads with a
//!   [`Client`] sees what was written with it before: `a_reconcile_sees_the_writes_before_it`,
//!   `a_deleted_object_created_again_is_read_as_the_new_one`,
//!   `a_deleted_collection_is_gone_at_once_and_what_is_finalized_first_is_not`,
//!   `a_write_through_a_subresource_is_read_at_once`,
//!   `every_verb_is_read_at_once_through_every_type`, `every_write_of_a_status_is_read_at_once`.
//! - **P5** No new mutating request of what the lease guards leaves after the renew deadline of a
//!   lost lease: `no_write_leaves_after_the_renew_deadline`,
//!   `a_process_that_slept_finds_the_fence_closed`,
//!   `a_request_still_waiting_when_the_lease_runs_out_is_given_up`,
//!   `a_reconcile_that_blocks_its_thread_stops_neither_renewals_nor_other_keys`. A machine that was
//!   suspended, where only the wall clock went on, is no exception:
//!   `after_a_jump_ahead_no_write_leaves_until_the_lease_is_renewed`,
//!   `a_machine_that_slept_while_another_took_the_lease_writes_nothing_and_stops`,
//!   `a_renewal_that_was_under_way_when_the_machine_slept_opens_nothing`. What runs on every
//!   replica is not guarded: `what_runs_on_every_replica_writes_without_the_lease`.
//! - **P6** Shutdown begins nothing new, loses no acknowledged work within the grace period, and
//!   releases the lease last: `shutdown_waits_for_the_reconcile_under_way`,
//!   `no_reconcile_begins_while_a_runnable_of_every_replica_is_still_draining`,
//!   `the_first_signal_lets_work_end_and_the_process_ends_well`,
//!   `shutdown_ends_with_the_grace_period`, `a_shutdown_has_half_a_minute_unless_told_otherwise`,
//!   `the_lease_is_renewed_until_the_work_has_drained_and_released_then`,
//!   `only_the_leader_works_and_a_release_hands_over_at_once`.
//! - **P7** Every queue, retry, buffer and request has a bound and a deadline:
//!   `a_server_that_hangs_is_given_up_after_the_deadline`,
//!   `an_answer_without_end_is_given_up_at_its_limit`,
//!   `a_watch_that_hangs_without_end_is_renewed_after_its_timeout`,
//!   `a_streaming_list_whose_end_never_comes_is_replaced_by_lists_from_then_on`,
//!   `what_happens_while_a_handler_is_busy_is_told_as_one_event_with_the_last_state`.
//! - **P8** A panic of the author's code is contained, counted and retried with growing delay:
//!   `a_panic_is_contained_counted_and_retried`, `a_limiter_that_panics_loses_no_key`,
//!   `a_map_function_that_panics_loses_only_its_own_change`.
//! - **P9** Equal seed, equal trace: `equal_seeds_give_equal_traces`.
//!
//! # Features
//!
//! All are enabled by default.
//!
//! | feature | adds |
//! |---|---|
//! | `serve` | the HTTP servers for probes and metrics ([`serve`]) |
//! | `tls` | TLS for these servers; includes `serve` |
//! | `metrics` | Prometheus metrics ([`metrics`]); without it, nothing is counted |
//! | `log` | a subscriber for structured logs ([`log`]) |
//! | `ring` | `ring` as the crypto provider of TLS connections and certificates |
//!
//! # What is not promised
//!
//! - That a reconcile runs exactly once per change: changes are merged, and a key may be
//!   reconciled although nothing changed.
//! - That a state between two that are told is told as well: changes of an object that come while
//!   its handler is busy concern the owners, and whom map functions name, of the state told last
//!   and of the newest. One who was concerned by a state in between only, and saw it in the cache,
//!   does not hear that it has passed.
//! - Any order between kinds, or between keys of one priority that several workers take.
//! - Fencing: a request that was on its way when the lease ran out is not called back, and two
//!   machines whose clocks run at very different rates can make two leaders. So can one that stood
//!   still together with its wall clock, as a virtual machine that was paused, until its wall clock
//!   is set right or its next renewal, whichever comes first.
//! - That a jump of the wall clock goes unnoticed: requeues, backoffs and the lease are not moved
//!   (`a_clock_that_jumps_moves_no_requeue_and_no_backoff`), but a jump ahead by more than the
//!   renew deadline stops writes until the next renewal.
//! - The fence against panics where they end the process (`panic = "abort"`); an object that does
//!   not decode ends nothing there either.
//! - That an effect outside the cluster and one inside happen together.
//! - That code which blocks its thread without an `.await` can be stopped; it is named in the log.
//! - That own writes which did not pass a [`Client`], such as those of a plain `kube::Api`, are read
//!   before the watch brings them; nor those whose answer was lost, or to a subresource, a collection
//!   or another version, if the look at what became of them fails: the log says so.
//! - That the cache keeps what the server itself has lost: after a restored backup it shows what
//!   the server shows.
//! - Equal traces on a runtime with several threads, or with real time.

pub mod clock;
pub mod error;
pub mod kind;
pub mod scheme;

pub mod cache;
pub mod queue;

pub mod client;
pub mod cluster;
mod fence;
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
pub mod wait;

pub mod controller;
pub mod events;
pub mod lease;
#[cfg(feature = "log")]
pub mod log;
pub mod manager;
#[cfg(feature = "serve")]
pub mod serve;
pub mod signal;

pub use k8s_openapi;
pub use kube;
/// The crate of the metric types that [`Builder::register_metrics`](manager::Builder::register_metrics)
/// accepts.
#[cfg(feature = "metrics")]
pub use prometheus_client;

pub use cache::Key;
pub use client::{Client, List};
pub use cluster::IndexBy;
pub use controller::{Context, Controller, Next, Predicate, Reconciler, Watch};
pub use error::{Error, Result, ResultExt};
pub use kind::{Kind, Object};
pub use manager::Manager;
