//! Regular expressions.

use regex::Regex;
use windlass_text::{pattern, work};

use super::super::meter;
use super::super::value::{Fault, Res, Val, fault};
use super::no_overload;

/// The sizes of programs, in bytes, that are tried one after the other for a pattern that comes
/// with the data, and what each try costs: about the time it takes, where a unit is 100 ns.
const TRIES: [(usize, u64); 4] =
    [(4 << 10, 128), (16 << 10, 512), (64 << 10, 4_096), (256 << 10, 16_384)];

/// How many bytes a pattern is compared with in one step.
const SEARCHED_PER_STEP: usize = 16;

/// Compiles the pattern of a call whose pattern comes with the data, and returns what that costs;
/// `None` if the arguments are not those of this library.
///
/// The real server charges such a pattern by its length alone. Here a short pattern with a large
/// program costs what compiling it takes, and programs over 256 KiB are refused.
pub fn compile(name: &str, args: &[Val<'_>]) -> Option<(Result<Regex, Fault>, u64)> {
    let [Val::Str(_), Val::Str(source), ..] = args else { return None };
    if !matches!(name, "matches" | "find" | "findAll") {
        return None;
    }
    let failed = |error: String| match name {
        "matches" => fault(error),
        _ => fault(format!("Illegal regex: {error}")),
    };
    let mut cost = 0;
    for (size, units) in TRIES {
        cost += units;
        match pattern::compile_within(source, size) {
            Ok(Some(regex)) => return Some((Ok(regex), cost)),
            Ok(None) => {}
            Err(error) => return Some((failed(error), cost)),
        }
    }
    Some((failed(pattern::too_large(source)), cost))
}

/// Returns the error of a call with arguments that are not those of this library.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match (name, args) {
        ("matches", [Val::Str(_), _]) => fault("no such overload"),
        ("matches", _) => fault("no such overload: matches"),
        _ => no_overload(name, args),
    }
}

/// Calls a function of this library with a pattern that was read before.
pub fn apply<'a>(name: &str, regex: &Regex, args: &[Val<'a>]) -> Res<'a> {
    match (name, args) {
        ("matches", [Val::Str(text), _]) => Ok(Val::Bool(regex.is_match(text))),
        ("find", [Val::Str(text), _]) => {
            Ok(Val::text(regex.find(text).map_or("", |found| found.as_str())))
        }
        ("findAll", [Val::Str(text), _]) => all(regex, text, -1),
        ("findAll", [Val::Str(text), _, Val::Int(count)]) => all(regex, text, *count),
        ("matches", _) => fault("no such overload"),
        _ => no_overload(name, args),
    }
}

/// All matches. Each search may look at all of the rest of the text.
fn all<'a>(regex: &Regex, text: &str, count: i64) -> Res<'a> {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let mut out = Vec::new();
    let mut found = regex.find_iter(text);
    let mut at = 0;
    while out.len() < limit {
        work::spent(text.len().saturating_sub(at) / SEARCHED_PER_STEP);
        meter::make_list(1)?;
        let Some(next) = found.next() else { break };
        at = next.end();
        out.push(Val::text(next.as_str()));
    }
    Ok(Val::list(out))
}
