//! Optional values.

use super::super::value::{Res, Val, fault};
use super::{items, no_overload};

/// Calls a function of this library.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match (name, args) {
        ("optional.none", []) => Ok(Val::Opt(None)),
        ("optional.of", [value]) => Ok(Val::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(if is_zero(value) { Val::Opt(None) } else { Val::some(value.clone()) })
        }
        ("value", [Val::Opt(Some(value))]) => Ok((**value).clone()),
        ("value", [Val::Opt(None)]) => fault("optional.none() dereference"),
        ("hasValue", [Val::Opt(value)]) => Ok(Val::Bool(value.is_some())),
        ("first", [Val::List(list)]) => {
            list.get(0).map_or(Ok(Val::Opt(None)), |v| v.map(Val::some))
        }
        ("last", [Val::List(list)]) => {
            let last = list.len().checked_sub(1).and_then(|index| list.get(index));
            last.map_or(Ok(Val::Opt(None)), |value| value.map(Val::some))
        }
        ("optional.unwrap" | "unwrapOpt", [Val::List(list)]) => {
            let mut out = Vec::new();
            for item in items(list)? {
                match item {
                    Val::Opt(Some(value)) => out.push((*value).clone()),
                    Val::Opt(None) => {}
                    other => {
                        return fault(format!("value {} is not optional", super::show(&other)));
                    }
                }
            }
            Ok(Val::list(out))
        }
        ("or", [Val::Opt(Some(_)), _]) => Ok(args[0].clone()),
        ("or", [Val::Opt(None), other]) => Ok(other.clone()),
        ("orValue", [Val::Opt(Some(value)), _]) => Ok((**value).clone()),
        ("orValue", [Val::Opt(None), other]) => Ok(other.clone()),
        _ => no_overload(name, args),
    }
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null => true,
        Val::Bool(value) => !value,
        Val::Int(number) => *number == 0,
        Val::Uint(number) => *number == 0,
        Val::Double(number) => *number == 0.0,
        Val::Span(span) => *span == 0,
        Val::Str(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_) => value.size() == 0,
        Val::Opt(value) => value.as_ref().is_none_or(|value| is_zero(value)),
        _ => false,
    }
}
