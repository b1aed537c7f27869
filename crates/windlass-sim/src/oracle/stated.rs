//! What the author stated: the scenario itself, `always`, `eventually`, `truth`.

use super::{Check, Oracle, Verdict};
use crate::sim::AssertKind;
use crate::trace::What;

pub(super) fn completes(check: &Check<'_>, verdict: &mut Verdict) {
    verdict.looked(Oracle::Completes, 1);
    let Some(error) = &check.run.error else { return };
    let step = check.run.trace.iter().rev().find_map(|record| match &record.what {
        What::Step(step) => Some(step.as_str()),
        _ => None,
    });
    let step = step.map(|step| format!(" at `{step}`")).unwrap_or_default();
    verdict.add(Oracle::Completes, format!("the scenario fails{step}: {error}"), Vec::new());
}

pub(super) fn check(check: &Check<'_>, verdict: &mut Verdict) {
    for asserted in &check.run.asserts {
        let oracle = match asserted.kind {
            AssertKind::Always => Oracle::Always,
            AssertKind::Eventually => Oracle::Eventually,
            AssertKind::Truth => Oracle::Truthful,
            AssertKind::Sometimes => continue,
        };
        verdict.looked(oracle, asserted.looked as usize);
        if let Some(revision) = asserted.broken {
            let at = match asserted.kind {
                AssertKind::Always => format!(" at r{revision}"),
                _ => " at the end".to_owned(),
            };
            verdict.add(oracle, format!("\"{}\" does not hold{at}", asserted.name), Vec::new());
        }
    }
}
