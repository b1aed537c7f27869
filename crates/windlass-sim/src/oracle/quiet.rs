//! `Quiet`: at rest the operator writes nothing, also after a restart.

use super::{Check, Oracle, Verdict};
use crate::kernel::Write;
use crate::trace::What;
use crate::world::Change;

/// The most writes that are shown.
const SHOWN: usize = 5;

pub(super) fn check(check: &Check<'_>, verdict: &mut Verdict) {
    let run = check.run;
    verdict.looked(Oracle::Quiet, 1);
    if let Some(why) = &run.restless {
        let text = format!("the cluster does not come to rest: {why}");
        verdict.add(Oracle::Quiet, text, Vec::new());
        return;
    }
    let restless = run.trace.iter().find_map(|record| match &record.what {
        What::Restless(why) => Some(why),
        _ => None,
    });
    if let Some(why) = restless.filter(|_| check.is_reference) {
        verdict.add(Oracle::Quiet, format!("the cluster does not come to rest: {why}"), Vec::new());
        return;
    }
    let late: Vec<(&Change, &Write)> = run
        .by_operator()
        .filter(|(change, write)| {
            write.at > run.phases.rest && !run.expected.contains(&change.key.resource)
        })
        .collect();
    if late.is_empty() {
        return;
    }
    let restarted = run.phases.restarted;
    let after_restart = |write: &Write| restarted.is_some_and(|at| write.at >= at);
    let text = match late.iter().all(|(_, write)| after_restart(write)) {
        true => "the operator writes after a restart although nothing has changed",
        false => "the operator writes although nothing has changed",
    };
    let lines = late.iter().take(SHOWN).map(|(change, write)| {
        let before = change.before.as_deref().cloned().unwrap_or_default();
        let after = change.after.as_deref().cloned().unwrap_or_default();
        let fields: Vec<_> = crate::diff::differences(&plain(before), &plain(after))
            .into_iter()
            .map(|difference| difference.path)
            .take(4)
            .collect();
        format!("{:.3} s  {}  {}", write.at.as_secs_f64(), write.site.words(), fields.join(", "))
    });
    verdict.add(Oracle::Quiet, text, lines.collect());
}

/// The object without what every write changes.
fn plain(mut object: serde_json::Value) -> serde_json::Value {
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("resourceVersion");
        meta.remove("managedFields");
    }
    object
}
