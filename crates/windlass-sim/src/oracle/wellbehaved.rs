//! `NoPanic`, `NoTerminal`, `NoStuckFinalizer`, `Rbac`: what a well-behaved operator never does.

use super::{Check, Oracle, Verdict};
use crate::trace::What;

pub(super) fn check(check: &Check<'_>, verdict: &mut Verdict) {
    failures(check, verdict);
    finalizers(check, verdict);
    rights(check, verdict);
}

fn failures(check: &Check<'_>, verdict: &mut Verdict) {
    let mut reconciles = 0;
    let (mut panic, mut terminal) = (None, None);
    for record in &check.run.trace {
        match &record.what {
            What::Reconciled { number, key, error, terminal: last } => {
                reconciles += 1;
                let Some(error) = error else { continue };
                let line = || format!("reconcile {number} of {key}: {error}");
                if error.contains("panic: ") && error.contains("[recovered]") {
                    panic.get_or_insert_with(line);
                } else if *last {
                    terminal.get_or_insert_with(line);
                }
            }
            What::Ended(why) if why.contains("panic") => {
                panic.get_or_insert_with(|| why.clone());
            }
            _ => {}
        }
    }
    verdict.looked(Oracle::NoPanic, reconciles);
    verdict.looked(Oracle::NoTerminal, reconciles);
    if let Some(line) = panic {
        verdict.add(Oracle::NoPanic, "the operator panics", vec![line]);
    }
    if let Some(line) = terminal.filter(|_| !check.run.terminal_expected) {
        verdict.add(Oracle::NoTerminal, "a reconcile fails and is not retried", vec![line]);
    }
}

fn finalizers(check: &Check<'_>, verdict: &mut Verdict) {
    verdict.looked(Oracle::NoStuckFinalizer, check.run.end.objects.len());
    for (key, object) in &check.run.end.objects {
        let meta = &object["metadata"];
        let Some(finalizers) = meta["finalizers"].as_array().filter(|list| !list.is_empty()) else {
            continue;
        };
        if !meta["deletionTimestamp"].is_null() {
            let names: Vec<_> = finalizers.iter().filter_map(|name| name.as_str()).collect();
            let text = format!("{key} was deleted and waits for {} at the end", names.join(", "));
            verdict.add(Oracle::NoStuckFinalizer, text, Vec::new());
        }
    }
}

fn rights(check: &Check<'_>, verdict: &mut Verdict) {
    if check.run.role.is_none() {
        return;
    }
    let mut looked = 0;
    for record in check.run.trace.iter().filter(|record| record.life > 0) {
        let What::Request { site, answer: Some(answer), .. } = &record.what else { continue };
        looked += 1;
        if answer.status == 403 {
            let text = format!("the role does not allow `{}`", site.words());
            verdict.add(Oracle::Rbac, text, Vec::new());
            break;
        }
    }
    verdict.looked(Oracle::Rbac, looked);
}
