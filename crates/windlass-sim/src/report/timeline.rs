//! The timeline of a run: what leads to a failure, without what does not.

use crate::sim::Outcome;
use crate::trace::{Record, What};

/// The most lines of a timeline.
const LINES_MAX: usize = 40;

/// The lines of a timeline.
pub(super) fn of(outcome: &Outcome) -> Vec<String> {
    let end = outcome.phases.rest;
    let records = outcome.trace.iter().filter(|record| record.at <= end);
    let lines: Vec<String> = records.filter_map(|record| line(outcome, record)).collect();
    if lines.len() <= LINES_MAX {
        return lines;
    }
    // The beginning, what surrounds the first fault, and the end.
    let fault = lines.iter().position(|line| line.contains('⚡')).unwrap_or(lines.len() / 2);
    let keep = |place: usize| {
        let near = place + 10 >= fault && place <= fault + 14;
        place < 5 || near || place + 8 >= lines.len()
    };
    let mut shown: Vec<String> = Vec::new();
    let mut left_out = 0;
    for (place, line) in lines.iter().enumerate() {
        if keep(place) {
            if left_out > 0 {
                shown.push(format!("             … {left_out} lines"));
                left_out = 0;
            }
            shown.push(line.clone());
        } else {
            left_out += 1;
        }
    }
    shown
}

fn line(outcome: &Outcome, record: &Record) -> Option<String> {
    let fault = |site: &crate::Site| {
        let hit = outcome.faults.iter().find(|(_, at, fired)| at == site && *fired);
        hit.map(|(fault, ..)| format!("   ⚡ {}", fault.name())).unwrap_or_default()
    };
    let mut text = record.to_string();
    match &record.what {
        What::Request { site, .. } => {
            let failed =
                matches!(&record.what, What::Request { answer: Some(a), .. } if a.status >= 400);
            let hit = fault(site);
            let shown = record.actor != "user" && (site.writes() || failed) && site.verb != "watch";
            if site.is_background() || (!shown && hit.is_empty()) {
                return None;
            }
            text.push_str(&hit);
        }
        What::Event { site, .. } => {
            let hit = fault(site);
            if hit.is_empty() {
                return None;
            }
            text.push_str(&hit);
        }
        What::External { site, .. } => text.push_str(&fault(site)),
        What::Reconcile { number, causes, .. } => {
            if !matters(outcome, *number) {
                return None;
            }
            if !causes.is_empty() {
                text.push_str(&format!("   because: {}", crate::diff::shorten(causes)));
            }
        }
        What::Reconciled { error: None, .. } => return None,
        What::Fault(_, site) if site.verb != "event" => return None,
        _ => {}
    }
    Some(text.trim_end().to_owned())
}

/// A reconcile matters if it writes, calls something outside, or fails.
fn matters(outcome: &Outcome, reconcile: u32) -> bool {
    outcome.trace.iter().any(|record| match &record.what {
        What::Request { site, reconcile: Some(number), .. } => {
            *number == reconcile && site.writes() && !site.is_background()
        }
        What::Reconciled { number, error: Some(_), .. } => *number == reconcile,
        _ => false,
    })
}
