//! Likely reasons of a failure, by the oracle and the fault.

use crate::oracle::Oracle;
use crate::plan::{Fault, Plan};

/// The likely reason of a failure, with what to do about it.
pub(super) fn reason(plan: &Plan, oracle: Oracle) -> Option<&'static str> {
    let Some((fault, site)) = plan.faults.first() else { return without_fault(oracle) };
    let generated = site.verb == "create" && site.object.ends_with('-');
    let held = matches!(fault, Fault::HoldOnce | Fault::HoldLong | Fault::HoldUntilHealed);
    let outside = site.verb == "external";
    Some(match (oracle, fault) {
        _ if site.verb == "webhook" => {
            "an error of the API server, which could not call a webhook, is taken for an answer. \
             Return it, so that the reconcile is retried (docs/sim.md#webhooks)."
        }
        (Oracle::NoLeak, _) if generated => {
            "a create with generateName is not safe to repeat. Give the child a name of its own, or \
             look it up by label first (docs/sim.md#lost-responses)."
        }
        (Oracle::NoLeak, Fault::Interrupt) => {
            "the finalizer is added after what it has to clean up. Add it first \
             (docs/sim.md#finalizers)."
        }
        (Oracle::NoLeak, Fault::Error) if outside => {
            "the error of a cleanup is ignored. Return it, so that the finalizer stays \
             (docs/sim.md#finalizers)."
        }
        (Oracle::NoLeak, _) if outside => {
            "the id of what was created outside is lost. Choose the id before the call and store it, \
             or use an idempotency key (docs/sim.md#external-systems)."
        }
        (Oracle::Converges | Oracle::Truthful, fault) if fault.crashes() => {
            "a later step depends on a flag that an earlier step sets. Derive every step from the \
             state of the cluster instead (docs/sim.md#crashes)."
        }
        (Oracle::Converges, Fault::Conflict | Fault::Error | Fault::Busy | Fault::Reset) => {
            "an error is taken for success. Return it, so that the reconcile is retried \
             (docs/sim.md#errors)."
        }
        (Oracle::NoWrongDelete, _) => {
            "the decision to delete is made on an old view. Delete with the uid that was read, and \
             check the owner's uid (docs/sim.md#stale-views)."
        }
        (Oracle::OneOwner, Fault::Interrupt) => {
            "an update writes the whole object as it was read. Send its resourceVersion, or apply \
             only your own fields (docs/sim.md#field-ownership)."
        }
        (Oracle::OneOwner, Fault::Pause) => {
            "something writes without the lease. Use the client of the manager in every task \
             (docs/sim.md#leases)."
        }
        (Oracle::NoPanic, _) => "something is taken for granted that is not there yet.",
        (Oracle::Truthful, _) => {
            "a status is computed from counts of an earlier generation. Compare the child's \
             observedGeneration with its generation (docs/sim.md#stale-views)."
        }
        (_, _) if held => {
            "a decision is made on an old view of the cluster (docs/sim.md#stale-views)."
        }
        _ => return without_fault(oracle),
    })
}

fn without_fault(oracle: Oracle) -> Option<&'static str> {
    Some(match oracle {
        Oracle::Quiet => {
            "each reconcile writes something new, such as the time. Write only what changed \
             (docs/sim.md#quiet)."
        }
        Oracle::OneOwner => {
            "the operator sets a field that somebody else manages. Leave the field out of what is \
             applied (docs/sim.md#field-ownership)."
        }
        Oracle::SameFromZero | Oracle::Rollback => {
            "the result depends on the way to it: a change is not noticed, or what was removed is \
             not removed from the children (docs/sim.md#same-from-nothing)."
        }
        Oracle::Truthful => {
            "a status is computed from counts of an earlier generation. Compare the child's \
             observedGeneration with its generation (docs/sim.md#stale-views)."
        }
        _ => return None,
    })
}
