//! ResourceQuota: what a namespace may use, charged with the write that uses it.
//!
//! The quota's status decides: until a controller has counted, nothing is enforced, as with the
//! real server.
//!
//! **Invariant:** two writes never pass on the same free amount: checking and charging happen under
//! one lock.

use std::sync::Arc;

use serde_json::Value;

use super::Review;
use super::resources::{List, add, list};
use crate::object;
use crate::server::Inner;
use crate::status::{Result, Status};
use crate::store::{Change, Entry, Key, ResourceKey};

mod scope;
mod usage;

use usage::Evaluator;

/// How often charging a quota is tried when others write its status in between.
const TRIES: usize = 64;

/// A quota that applies to a write.
struct Charge {
    /// What the write uses in addition to what was used before.
    delta: List,
    entry: Arc<Entry>,
    object: Value,
    hard: List,
    used: List,
}

impl Inner {
    /// Refuses a write that would use more than is left, or charges what it uses.
    pub(super) fn charge_quota(&self, review: &Review<'_>) -> Result<()> {
        let Some(evaluator) = Evaluator::of(review) else { return Ok(()) };
        let Some(object) = &review.object else { return Ok(()) };
        if self.exists(review) {
            // The write is refused later on: nothing may be charged for it.
            return Ok(());
        }
        for _ in 0..TRIES {
            let _one_at_a_time = self.admission.quota.lock();
            let mut charges = self.charges(review, evaluator, object)?;
            charges.retain(|charge| !charge.delta.is_empty());
            if charges.is_empty() {
                return Ok(());
            }
            for charge in &mut charges {
                add_charge(review, charge)?;
            }
            if review.dry_run || self.write_charges(&charges) {
                return Ok(());
            }
        }
        Err(Status::internal(format!(
            "the quotas of namespace {} change too often to be charged",
            review.namespace
        )))
    }

    fn exists(&self, review: &Review<'_>) -> bool {
        let resource = crate::registry::storage_of(review.resource);
        let key = Key::new(&review.namespace, &review.name);
        review.is_create() && self.store.world().get(&resource, &key).is_some()
    }

    /// The quotas that count this object.
    fn charges(
        &self,
        review: &Review<'_>,
        evaluator: Evaluator,
        object: &Value,
    ) -> Result<Vec<Charge>> {
        let table = self.store.world().table(&quotas());
        let mut found = Vec::new();
        for entry in table.range(Some(&review.namespace), None) {
            let quota = entry.object();
            let (hard, used) = (list(&quota["status"]["hard"]), list(&quota["status"]["used"]));
            let counted: Vec<&str> =
                hard.keys().map(String::as_str).filter(|name| evaluator.counts(name)).collect();
            if counted.is_empty() || !scope::all_match(&quota["spec"], evaluator, object) {
                continue;
            }
            let name = &entry.key.name;
            if let Err(why) = evaluator.constraints(&counted, object) {
                return Err(review.forbidden(format!("failed quota: {name}: {why}")));
            }
            if counted.iter().any(|resource| !used.contains_key(*resource)) {
                return Err(review.forbidden(format!(
                    "status unknown for quota: {name}, resources: {}",
                    counted.join(",")
                )));
            }
            // An object that came into the scopes of the quota by this write is all new to it.
            let known = review.old.filter(|old| scope::all_match(&quota["spec"], evaluator, old));
            let delta = delta(review, evaluator, object, known)?;
            found.push(Charge { delta, entry: entry.clone(), object: quota, hard, used });
        }
        Ok(found)
    }

    /// Writes the new usage; `false` if the quota was written in between.
    fn write_charges(&self, charges: &[Charge]) -> bool {
        let mut done: Vec<(&Charge, Arc<Entry>)> = Vec::new();
        for charge in charges {
            let fields = charge.entry.fields.clone();
            let change = Change::Put { object: charge.object.clone(), fields };
            let over = Some(charge.entry.revision);
            match self.store.write(&quotas(), &charge.entry.key, over, change) {
                Ok(entry) => done.push((charge, entry)),
                Err(_) => {
                    self.undo(&done);
                    return false;
                }
            }
        }
        true
    }

    fn undo(&self, done: &[(&Charge, Arc<Entry>)]) {
        for (charge, entry) in done {
            let object = charge.entry.object();
            let change = Change::Put { object, fields: entry.fields.clone() };
            // If it changed again, the other writer has counted again.
            let _ = self.store.write(&quotas(), &entry.key, Some(entry.revision), change);
        }
    }
}

fn quotas() -> ResourceKey {
    ResourceKey::new("", "resourcequotas")
}

/// What the write uses in addition to what the old object used.
fn delta(
    review: &Review<'_>,
    evaluator: Evaluator,
    object: &Value,
    old: Option<&Value>,
) -> Result<List> {
    let mut usage = evaluator.usage(object);
    let negative: Vec<String> =
        usage.iter().filter(|(_, v)| v.sign() < 0).map(|(name, _)| name.clone()).collect();
    if !negative.is_empty() {
        return Err(review.forbidden(format!(
            "quota usage is negative for resource(s): {}",
            negative.join(",")
        )));
    }
    if review.is_update()
        && let Some(old) = old
        && !object::meta_str(old, "resourceVersion").is_empty()
    {
        for (name, before) in evaluator.usage(old) {
            let now = usage.remove(&name).unwrap_or_else(windlass_text::quantity::Quantity::zero);
            usage.insert(name, now.sub(&before));
        }
    }
    usage.retain(|_, amount| !amount.is_zero());
    Ok(usage)
}

/// Adds the usage to a quota's object, or refuses the write.
fn add_charge(review: &Review<'_>, charge: &mut Charge) -> Result<()> {
    let requested: List = charge
        .delta
        .iter()
        .filter(|(name, _)| charge.hard.contains_key(*name))
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect();
    let mut used = charge.used.clone();
    add(&mut used, &requested);
    let exceeded: Vec<&String> =
        requested.keys().filter(|name| used[*name] > charge.hard[*name]).collect();
    if !exceeded.is_empty() {
        let show = |amounts: &List| {
            let shown = exceeded
                .iter()
                .filter_map(|name| amounts.get(*name).map(|amount| format!("{name}={amount}")));
            shown.collect::<Vec<_>>().join(",")
        };
        return Err(review.forbidden(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            charge.entry.key.name,
            show(&requested),
            show(&charge.used),
            show(&charge.hard)
        )));
    }
    let shown = used.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
    charge.object["status"]["used"] = Value::Object(shown.collect());
    Ok(())
}
