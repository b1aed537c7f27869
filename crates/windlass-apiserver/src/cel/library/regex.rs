//! Regular expressions.

use regex::Regex;

use super::super::value::{Res, Val, fault};
use super::no_overload;
use crate::custom::pattern;

/// Calls a function of this library with a pattern that is read now.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    let [Val::Str(_), Val::Str(source), ..] = args else {
        return match (name, args) {
            ("matches", [Val::Str(_), _]) => fault("no such overload"),
            ("matches", _) => fault("no such overload: matches"),
            _ => no_overload(name, args),
        };
    };
    match pattern::compile(source) {
        Ok(regex) => apply(name, &regex, args),
        Err(error) if name == "matches" => fault(error),
        Err(error) => fault(format!("Illegal regex: {error}")),
    }
}

/// Calls a function of this library with a pattern that was read before.
pub fn apply<'a>(name: &str, regex: &Regex, args: &[Val<'a>]) -> Res<'a> {
    match (name, args) {
        ("matches", [Val::Str(text), _]) => Ok(Val::Bool(regex.is_match(text))),
        ("find", [Val::Str(text), _]) => {
            Ok(Val::text(regex.find(text).map_or("", |found| found.as_str())))
        }
        ("findAll", [Val::Str(text), _]) => Ok(all(regex, text, -1)),
        ("findAll", [Val::Str(text), _, Val::Int(count)]) => Ok(all(regex, text, *count)),
        ("matches", _) => fault("no such overload"),
        _ => no_overload(name, args),
    }
}

fn all<'a>(regex: &Regex, text: &str, count: i64) -> Val<'a> {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    Val::texts(regex.find_iter(text).take(limit).map(|found| found.as_str().to_owned()))
}
