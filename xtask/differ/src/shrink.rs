//! Fewer steps and fewer changes that still show a difference.

use crate::sequence::Sequence;

/// Returns all sequences that are one piece smaller, the smallest first.
///
/// `last` is the step whose answers differ; it stays, and what follows it goes.
pub fn smaller(sequence: &Sequence, last: usize) -> Vec<Sequence> {
    let mut found = Vec::new();
    let mut short = sequence.clone();
    short.steps.truncate(last + 1);
    if short.steps.len() < sequence.steps.len() {
        found.push(short.clone());
    }
    for index in 0..last {
        let mut fewer = short.clone();
        fewer.steps.remove(index);
        found.push(fewer);
    }
    for (index, step) in short.steps.iter().enumerate() {
        for edit in 0..step.edit.len() {
            if step.edit.len() > 1 {
                let mut fewer = short.clone();
                fewer.steps[index].edit.remove(edit);
                found.push(fewer);
            }
        }
        if let Some((path, query)) = step.request.split_once('?')
            && !query.contains("fieldManager")
        {
            let mut fewer = short.clone();
            fewer.steps[index].request = path.to_owned();
            found.push(fewer);
        }
    }
    found
}
