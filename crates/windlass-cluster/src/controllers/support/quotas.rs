//! ResourceQuotas: what a namespace uses of what it may.
//!
//! Admission adds to `used` before it lets an object in; this controller counts again, so that what
//! is deleted or finished is given back.
//!
//! **Invariant:** `used` falls only when something was given back. What admission has booked may
//! not be in the caches yet, and a count without it would let too many in.

mod claim;
mod pod;
mod usage;

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota, ResourceQuotaStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass::cache::{Cache, Change, Scope};
use windlass::controller::{Context, Watch};
use windlass::{Controller, Error, Key, Kind, Manager, Next, Reconciler, Result, ResultExt};
use windlass_text::quantity::Quantity;

use crate::controllers::Shared;
use crate::controllers::pod::is_finished;

/// Keys waiting because of objects of other kinds.
const KEYS_MAX: usize = 1024;
/// How often kinds beyond the usual ones are counted.
const RECOUNT_EVERY: Duration = Duration::from_secs(60);

/// Adds the controller.
pub fn add(builder: Manager, shared: &Shared) -> Manager {
    let mut controller =
        Controller::<ResourceQuota>::builder("resourcequota-controller").workers(2);
    let given = Arc::new(Mutex::new(BTreeSet::new()));
    for (name, kind) in usage::counted() {
        let given = given.clone();
        controller = controller.watch(Watch::changes(kind, move |change, cache| {
            let keys = quotas(change, cache)?;
            if !keys.is_empty() && gives_back(name, change) {
                given.lock().extend(keys.iter().cloned());
            }
            Ok::<_, Error>(keys)
        }));
    }
    let (sender, mut keys) = mpsc::channel(KEYS_MAX);
    let others = Arc::new(Others { sender, given: given.clone() });
    let watches = Mutex::default();
    let quotas = Quotas { shared: shared.clone(), given, others, watches };
    builder.add(
        controller
            .source(futures::stream::poll_fn(move |cx| keys.poll_recv(cx)))
            .build_with(quotas),
    )
}

/// The quotas of the namespace of a changed object.
fn quotas(change: &Change, cache: &Cache) -> Result<Vec<Key>> {
    let namespace = change.key().namespace();
    let all = cache.list::<ResourceQuota>().namespace(namespace.unwrap_or_default());
    namespace.map_or_else(|| Ok(Vec::new()), |_| all.keys())
}

struct Quotas {
    shared: Shared,
    /// The quotas something was given back to since they were last counted.
    given: Arc<Mutex<BTreeSet<Key>>>,
    others: Arc<Others>,
    /// Kinds beyond the usual ones that some quota counts.
    watches: Mutex<BTreeMap<Kind, DropGuard>>,
}

/// Queues quotas when objects of other kinds are deleted.
struct Others {
    sender: mpsc::Sender<Key>,
    given: Arc<Mutex<BTreeSet<Key>>>,
}

// === impl Others ===

impl Others {
    fn see(&self, change: &Change, cache: &Cache) {
        if change.new.is_some() {
            return;
        }
        for key in quotas(change, cache).unwrap_or_default() {
            self.given.lock().insert(key.clone());
            // If the channel is full, the next full count includes the change.
            let _ = self.sender.try_send(key);
        }
    }
}

// === impl Quotas ===

impl Quotas {
    /// Hears of objects of these kinds from now on.
    fn follow(&self, cx: &Context<ResourceQuota>, kinds: Vec<Kind>) -> Result<()> {
        let mut watches = self.watches.lock();
        for kind in kinds {
            if let Slot::Vacant(slot) = watches.entry(kind) {
                let scope = Scope::default().metadata_only();
                let cache = cx.client().cached().clone();
                let informer = cache.informer_of::<DynamicObject>(slot.key(), &scope);
                let (others, mut changes) = (self.others.clone(), informer.subscribe());
                let token = CancellationToken::new();
                tokio::spawn(token.clone().run_until_cancelled_owned(async move {
                    while let Some(change) = changes.recv().await {
                        others.see(&change, &cache);
                        tokio::task::consume_budget().await;
                    }
                }));
                slot.insert(token.drop_guard());
            }
        }
        Ok(())
    }
}

/// Returns `true` if a change may leave less in use.
fn gives_back(name: &str, change: &Change) -> bool {
    match name {
        _ if change.new.is_none() || change.is_replacement() => true,
        "pods" => change.object::<Pod>().is_some_and(|pod| is_finished(&pod)),
        "services" | "persistentvolumeclaims" => change.old.is_some(),
        _ => false,
    }
}

impl Reconciler<ResourceQuota> for Quotas {
    type Error = Error;

    async fn reconcile(&self, cx: Context<ResourceQuota>) -> Result<Next, Error> {
        let cx = &cx;
        let Some(quota) = cx.object() else {
            self.given.lock().remove(cx.key());
            return Ok(Next::Done);
        };
        let spec = quota.spec.clone().unwrap_or_default();
        let hard = spec.hard.clone().unwrap_or_default();
        let now = self.shared.server.clock().now();
        let given = self.given.lock().remove(cx.key());
        let (counted, unwatched) = usage::of(cx, &spec, now).await?;
        let old = quota.status.clone().unwrap_or_default();
        let mut used: BTreeMap<String, Text> = old.used.clone().unwrap_or_default();
        let free = given || !same(old.hard.as_ref(), &hard);
        for (name, amount) in counted {
            let booked = used.get(&name).and_then(|text| text.0.parse::<Quantity>().ok());
            if free || booked.is_none_or(|booked| amount > booked) {
                used.insert(name, Text(amount.to_string()));
            }
        }
        used.retain(|name, _| hard.contains_key(name));
        if !same(old.hard.as_ref(), &hard) || !same(old.used.as_ref(), &used) {
            let status = ResourceQuotaStatus { hard: Some(hard), used: Some(used) };
            let changed = ResourceQuota { status: Some(status), ..(*quota).clone() };
            let written =
                cx.client().api().subresource("status").update(&changed).await.ignore_not_found();
            if written.is_err() && given {
                self.given.lock().insert(cx.key().clone());
            }
            written?;
        }
        if unwatched.is_empty() {
            return Ok(Next::Done);
        }
        self.follow(cx, unwatched)?;
        Ok(Next::After(RECOUNT_EVERY))
    }
}

/// Returns `true` if two lists hold equal amounts, however they are written.
fn same(old: Option<&BTreeMap<String, Text>>, new: &BTreeMap<String, Text>) -> bool {
    let Some(old) = old else { return false };
    let amount = |text: &Text| text.0.parse::<Quantity>().ok();
    old.len() == new.len()
        && old
            .iter()
            .all(|(name, value)| new.get(name).is_some_and(|other| amount(value) == amount(other)))
}

/// A kind that is counted under a name.
type Counted = (&'static str, Kind);
