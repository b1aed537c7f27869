//! Operators.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::meter;
use super::super::value::{Fault, Key, List, Map, Res, Val, fault};
use super::show;

const NONE: &str = "no such overload";

/// Evaluates `==` and `!=`.
pub fn equality<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    let [left, right] = args else { return fault(NONE) };
    Ok(Val::Bool(left.equals(right) == (name == "_==_")))
}

/// Evaluates `<` and its kin.
pub fn comparison<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    let [left, right] = args else { return fault(NONE) };
    let Some(order) = left.compare(right) else {
        let nan = |value: &Val<'_>| matches!(value, Val::Double(number) if number.is_nan());
        let numeric =
            |value: &Val<'_>| matches!(value, Val::Int(_) | Val::Uint(_) | Val::Double(_));
        return match left {
            _ if numeric(left) && numeric(right) && (nan(left) || nan(right)) => {
                fault("NaN values cannot be ordered")
            }
            left if comparable(left) => fault(NONE),
            _ => fault(format!("no such overload: {name}")),
        };
    };
    Ok(Val::Bool(match name {
        "_<_" => order.is_lt(),
        "_<=_" => order.is_le(),
        "_>_" => order.is_gt(),
        _ => order.is_ge(),
    }))
}

fn comparable(value: &Val<'_>) -> bool {
    matches!(
        value,
        Val::Bool(_)
            | Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::Str(_)
            | Val::Bytes(_)
            | Val::Time(_)
            | Val::Span(_)
    )
}

/// Evaluates `+`, `-`, `*`, `/` and `%`.
pub fn arithmetic<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(name, *a, *b),
        [Val::Uint(a), Val::Uint(b)] => uint(name, *a, *b),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(match name {
            "_+_" => a + b,
            "_-_" => a - b,
            "_*_" => a * b,
            "_/_" => a / b,
            _ => return fault(format!("no such overload: {name}")),
        })),
        [a, b] if name == "_+_" => add(a, b),
        [Val::Time(a), Val::Time(b)] if name == "_-_" => Ok(Val::Span(a.since(*b)?)),
        [Val::Time(a), Val::Span(b)] if name == "_-_" => Ok(Val::Time(a.minus(*b)?)),
        [Val::Span(a), Val::Span(b)] if name == "_-_" => {
            a.checked_sub(*b).map(Val::Span).map_or_else(|| fault("duration overflow"), Ok)
        }
        [Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Time(_) | Val::Span(_), _] => {
            fault(NONE)
        }
        _ => fault(format!("no such overload: {name}")),
    }
}

fn add<'a>(left: &Val<'a>, right: &Val<'a>) -> Res<'a> {
    match (left, right) {
        (Val::Str(a), Val::Str(b)) => {
            meter::make_text(a.len() + b.len())?;
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Ok(Val::text(text))
        }
        (Val::Bytes(a), Val::Bytes(b)) => {
            meter::make_text(a.len() + b.len())?;
            meter::made_text(a.len() + b.len());
            let bytes: Vec<u8> = a.iter().chain(b.iter()).copied().collect();
            Ok(Val::Bytes(bytes.into()))
        }
        (Val::List(a), Val::List(b)) => a.add(b).map(Val::List),
        (Val::Time(time), Val::Span(span)) | (Val::Span(span), Val::Time(time)) => {
            Ok(Val::Time(time.plus(*span)?))
        }
        (Val::Span(a), Val::Span(b)) => {
            a.checked_add(*b).map(Val::Span).map_or_else(|| fault("duration overflow"), Ok)
        }
        (
            Val::Str(_)
            | Val::Bytes(_)
            | Val::List(_)
            | Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::Time(_)
            | Val::Span(_),
            _,
        ) => fault(NONE),
        _ => fault("no such overload: _+_"),
    }
}

fn int<'a>(name: &str, a: i64, b: i64) -> Res<'a> {
    let result = match name {
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" if b == 0 => return fault("division by zero"),
        "_/_" => a.checked_div(b),
        _ if b == 0 => return fault("modulus by zero"),
        _ => a.checked_rem(b),
    };
    result.map(Val::Int).map_or_else(|| fault("integer overflow"), Ok)
}

fn uint<'a>(name: &str, a: u64, b: u64) -> Res<'a> {
    let result = match name {
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" if b == 0 => return fault("division by zero"),
        "_/_" => a.checked_div(b),
        _ if b == 0 => return fault("modulus by zero"),
        _ => a.checked_rem(b),
    };
    result.map(Val::Uint).map_or_else(|| fault("unsigned integer overflow"), Ok)
}

/// Evaluates `-` and `!` before a value.
pub fn negation<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match (name, args) {
        ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
        ("-_", [Val::Int(number)]) => {
            number.checked_neg().map(Val::Int).map_or_else(|| fault("integer overflow"), Ok)
        }
        ("-_", [Val::Double(number)]) => Ok(Val::Double(-number)),
        ("-_", [Val::Span(span)]) => {
            span.checked_neg().map(Val::Span).map_or_else(|| fault("duration overflow"), Ok)
        }
        ("!_", _) | (_, [Val::Bool(_)]) => fault(NONE),
        _ => fault(format!("no such overload: {name}")),
    }
}

/// Evaluates `in`.
pub fn membership<'a>(_: &str, args: &[Val<'a>]) -> Res<'a> {
    match args {
        [value, Val::List(list)] => Ok(Val::Bool(list.contains(value))),
        [key, Val::Map(map)] => Ok(Val::Bool(map.get(key).is_some())),
        _ => fault(NONE),
    }
}

/// Evaluates `size`.
pub fn size<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match args {
        [value @ (Val::Str(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_))] => {
            Ok(Val::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
        }
        _ => fault(format!("no such overload: {name}")),
    }
}

/// Adds entries to the map that a loop builds.
pub fn map_insert<'a>(_: &str, args: &[Val<'a>]) -> Res<'a> {
    match args {
        [first, rest @ ..] => insert(first.clone(), rest),
        [] => fault(NONE),
    }
}

/// Returns a map with a key and value, or with the entries of another map, added.
pub fn insert<'a>(map: Val<'a>, what: &[Val<'a>]) -> Res<'a> {
    let Val::Map(map) = map else { return fault(NONE) };
    let mut entries = match map {
        Map::Owned(entries) => entries,
        Map::Json(..) => {
            let mut entries = BTreeMap::new();
            for key in map.keys() {
                if let (Some(found), Some(value)) = (key.key(), map.get(&key)) {
                    entries.insert(found, (key, value?));
                }
            }
            Arc::new(entries)
        }
    };
    if Arc::strong_count(&entries) > 1 {
        meter::make_list(entries.len())?;
    }
    let all = Arc::make_mut(&mut entries);
    match what {
        [key, value] => put(all, key.clone(), value.clone())?,
        [Val::Map(more)] => {
            for key in more.keys() {
                if let Some(value) = more.get(&key) {
                    put(all, key, value?)?;
                }
            }
        }
        _ => return fault(NONE),
    }
    Ok(Val::Map(Map::Owned(entries)))
}

fn put<'a>(
    all: &mut BTreeMap<Key, (Val<'a>, Val<'a>)>,
    key: Val<'a>,
    value: Val<'a>,
) -> Result<(), Fault> {
    let Some(found) = key.key() else {
        return fault(format!("unsupported key type: {}", key.type_name()));
    };
    if all.contains_key(&found) {
        return fault(format!("insert failed: key {} already exists", show(&key)));
    }
    meter::make_list(1)?;
    all.insert(found, (key, value));
    Ok(())
}

/// Returns a list with an item added, without a copy if nobody else holds the list.
pub fn add_in_place<'a>(list: Val<'a>, item: Val<'a>) -> Res<'a> {
    match list {
        Val::List(List::Owned(mut items)) => {
            if Arc::strong_count(&items) > 1 {
                meter::make_list(items.len())?;
            }
            meter::made_list(1);
            Arc::make_mut(&mut items).push(item);
            Ok(Val::List(List::Owned(items)))
        }
        other => add(&other, &Val::list(vec![item])),
    }
}
