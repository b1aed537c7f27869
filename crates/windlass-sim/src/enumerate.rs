//! The plans of a scenario, enumerated from its reference run.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::plan::{Fault, Plan};
use crate::sim::{Outcome, kind_of};
use crate::site::Site;
use crate::trace::{Record, What};

mod values;

/// The most other values of fields that are tried.
const TRANSITIONS_MAX: usize = 60;
/// The most faults of a random plan.
const FAULTS_MAX: usize = 3;
/// Two faults are near each other if so many requests are between them at most.
const NEAR: usize = 4;

/// All plans with a single fault, the most promising ones first.
pub(crate) fn singles(reference: &Outcome, stale_lists: bool) -> Vec<Plan> {
    let mut by_yield: BTreeMap<u32, Vec<Plan>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut add = |rank: u32, fault: Fault, site: &Site| {
        if seen.insert((fault, site.clone())) {
            by_yield.entry(rank).or_default().push(Plan::single(fault, site.clone()));
        }
    };
    let replicated = reference.replicas > 1;
    let all: Vec<&Record> = sites(reference).collect();
    for (place, record) in all.iter().enumerate() {
        let Some(site) = record.site() else { continue };
        match &record.what {
            What::Request { .. } => request(site, replicated, stale_lists, &mut add),
            What::External { .. } => external(site, replicated, &mut add),
            What::Webhook { .. } => webhook(site, &mut add),
            What::Event { .. } if matters(&all[place + 1..], site) => event(site, &mut add),
            _ => {}
        }
    }
    for site in interrupts(reference) {
        add(2, Fault::Interrupt, site);
    }
    for site in transitions(reference) {
        add(8, Fault::Transition, &site);
    }
    by_yield.into_values().flatten().collect()
}

/// Pairs of faults that are near each other, crashes and lost responses first.
pub(crate) fn pairs(reference: &Outcome) -> Vec<Plan> {
    let promising = |site: &Site| -> Vec<Fault> {
        match site.verb.as_str() {
            "external" => vec![Fault::CrashAfter, Fault::Lost, Fault::Error],
            "event" => vec![Fault::HoldLong],
            _ if site.writes() => vec![Fault::CrashAfter, Fault::Lost, Fault::Error],
            _ => Vec::new(),
        }
    };
    let sites: Vec<&Site> = sites(reference).filter_map(Record::site).collect();
    let mut plans = Vec::new();
    for distance in 1..=NEAR {
        for (first, second) in sites.iter().zip(sites.iter().skip(distance)) {
            for fault in promising(first) {
                for other in promising(second) {
                    let faults = vec![(fault, (*first).clone()), (other, (*second).clone())];
                    plans.push(Plan { faults, ..Plan::default() });
                }
            }
        }
    }
    plans
}

/// The `number`-th random plan: other latencies, and two or three of the single faults together.
///
/// Equal arguments give an equal plan.
pub(crate) fn random(singles: &[Plan], number: u64) -> Plan {
    let mut random = StdRng::seed_from_u64(number);
    let mut plan = Plan { seed: number, ..Plan::default() };
    let count = random.random_range(0..=FAULTS_MAX).min(singles.len());
    for _ in 0..count {
        let single = &singles[random.random_range(0..singles.len())];
        let new = |fault: &&(Fault, Site)| plan.faults.iter().all(|(_, site)| *site != fault.1);
        let faults: Vec<_> = single.faults.iter().filter(new).cloned().collect();
        plan.faults.extend(faults);
    }
    plan
}

/// The sites of the operator until the rest at the end, in order.
fn sites(reference: &Outcome) -> impl Iterator<Item = &Record> {
    let healed = reference.phases.healed;
    reference.trace.iter().filter(move |record| {
        let background = record.site().is_none_or(Site::is_background);
        record.actor != "user" && record.at < healed && !background
    })
}

fn request(
    site: &Site,
    replicated: bool,
    stale_lists: bool,
    add: &mut impl FnMut(u32, Fault, &Site),
) {
    if site.writes() {
        add(0, Fault::Lost, site);
        add(0, Fault::CrashAfter, site);
        add(1, Fault::CrashBefore, site);
        let by_name = !site.object.ends_with('-') && site.verb == "create";
        if matches!(site.verb.as_str(), "update" | "patch") || by_name {
            add(1, Fault::Conflict, site);
        }
        add(5, Fault::Late, site);
        if replicated {
            add(3, Fault::Pause, site);
        }
        if stale_lists {
            add(3, Fault::StaleRestart, site);
        }
    } else if site.verb != "watch" {
        add(4, Fault::CrashBefore, site);
        add(6, Fault::Lost, site);
    }
    add(1, Fault::Error, site);
    add(4, Fault::Reset, site);
    add(5, Fault::Busy, site);
    if site.occurrence == 1 {
        add(6, Fault::Throttle, site);
    }
    if site.verb != "watch" {
        add(6, Fault::Slow, site);
    }
}

fn external(site: &Site, replicated: bool, add: &mut impl FnMut(u32, Fault, &Site)) {
    add(0, Fault::Lost, site);
    add(1, Fault::Error, site);
    if !replicated {
        add(0, Fault::CrashAfter, site);
        add(1, Fault::CrashBefore, site);
    }
}

fn webhook(site: &Site, add: &mut impl FnMut(u32, Fault, &Site)) {
    add(1, Fault::Refuse, site);
    add(3, Fault::Hang, site);
    add(4, Fault::Error, site);
    add(6, Fault::StaleCertificate, site);
}

fn event(site: &Site, add: &mut impl FnMut(u32, Fault, &Site)) {
    add(2, Fault::HoldOnce, site);
    add(2, Fault::HoldLong, site);
    add(3, Fault::HoldUntilHealed, site);
    add(7, Fault::Drop, site);
    if site.subresource == "DELETED" || site.occurrence == 1 {
        add(3, Fault::Expire, site);
    }
}

/// An event matters if an object comes or goes, or if the operator does something before the next
/// event of that kind: otherwise a fault at the next event shows the same.
fn matters(after: &[&Record], event: &Site) -> bool {
    if event.subresource != "MODIFIED" {
        return true;
    }
    for record in after {
        match &record.what {
            What::Request { site, .. } if site.writes() => return true,
            What::External { .. } => return true,
            What::Event { site, .. } if site.resource == event.resource => return false,
            _ => {}
        }
    }
    false
}

/// The requests after which the user's next step can happen: those before a step.
fn interrupts(reference: &Outcome) -> Vec<&Site> {
    let is_step = |record: &Record| matches!(record.what, What::Step(_));
    let Some(last) = reference.trace.iter().rposition(is_step) else { return Vec::new() };
    let first = reference.trace.iter().position(is_step).unwrap_or(last);
    let before = reference.trace[first..last].iter().filter(|record| record.actor != "user");
    let requests = before.filter_map(|record| match &record.what {
        What::Request { site, .. } if site.verb != "watch" && !site.is_background() => Some(site),
        What::External { site, .. } => Some(site),
        _ => None,
    });
    requests.collect()
}

/// Fields of the specs of custom resources that exist at the end, with other values that their
/// schemas allow.
fn transitions(reference: &Outcome) -> Vec<Site> {
    let mut sites = Vec::new();
    for definition in &reference.definitions {
        let Some(kind) = kind_of(definition) else { continue };
        let resource = crate::site::resource(kind.group(), kind.plural());
        let versions = definition["spec"]["versions"].as_array();
        let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
        let Some(version) = stored else { continue };
        let schema = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        for (key, object) in &reference.end.objects {
            let going = !object["metadata"]["deletionTimestamp"].is_null();
            if key.resource != resource || going {
                continue;
            }
            for (field, value) in values::of(schema, &object["spec"]) {
                sites.push(Site {
                    replica: "user".into(),
                    verb: "set".into(),
                    resource: resource.clone(),
                    subresource: format!("{field}={value}"),
                    object: crate::site::object(&key.namespace, &key.name),
                    occurrence: 1,
                });
            }
        }
    }
    // The text of a plan is split at these.
    sites.retain(|site| !site.subresource.contains(|c: char| c.is_whitespace() || c == ';'));
    sites.truncate(TRANSITIONS_MAX);
    sites
}
