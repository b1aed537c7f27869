//! The difference of two texts, as refusals of an update show it.

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// A unified diff without file names; empty for equal texts.
///
/// Meant for specs of at most some hundred lines: it compares every line with every other.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    if old.len().saturating_mul(new.len()) > 4_000_000 {
        return String::new();
    }
    let steps = steps(&old, &new);
    let changes: Vec<usize> =
        steps.iter().enumerate().filter(|(_, s)| s.0 != ' ').map(|(at, _)| at).collect();
    let mut out = String::new();
    let mut at = 0;
    while at < changes.len() {
        let mut last = at;
        while last + 1 < changes.len() && changes[last + 1] - changes[last] <= 2 * CONTEXT + 1 {
            last += 1;
        }
        let start = changes[at].saturating_sub(CONTEXT);
        let end = (changes[last] + CONTEXT + 1).min(steps.len());
        hunk(&mut out, &steps, start, end);
        at = last + 1;
    }
    out
}

fn hunk(out: &mut String, steps: &[(char, &str)], start: usize, end: usize) {
    let count = |range: &[(char, &str)], not: char| range.iter().filter(|s| s.0 != not).count();
    let (old_from, new_from) = (count(&steps[..start], '+'), count(&steps[..start], '-'));
    let (old_lines, new_lines) = (count(&steps[start..end], '+'), count(&steps[start..end], '-'));
    let range = |from: usize, lines: usize| match lines {
        0 => format!("{from},0"),
        1 => (from + 1).to_string(),
        _ => format!("{},{lines}", from + 1),
    };
    out.push_str(&format!(
        "@@ -{} +{} @@\n",
        range(old_from, old_lines),
        range(new_from, new_lines)
    ));
    for (sign, line) in &steps[start..end] {
        out.push(*sign);
        out.push_str(line);
        out.push('\n');
    }
}

/// The way from one text to the other by the longest common subsequence.
fn steps<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let width = new.len() + 1;
    let mut common = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut out = Vec::with_capacity(old.len() + new.len());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            out.push((' ', old[i]));
            i += 1;
            j += 1;
        } else if j == new.len()
            || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            out.push(('-', old[i]));
            i += 1;
        } else {
            out.push(('+', new[j]));
            j += 1;
        }
    }
    out
}
