//! Functions on lists and sets.

use std::cmp::Ordering;

use super::super::meter;
use super::super::types::Type;
use super::super::value::{List, Res, Val, fault};
use super::{items, no_overload, operators};

/// How many items a list may have that `lists.range` makes.
const RANGE_MAX: i64 = 1_000_000;

/// Calls a function of this library.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match (name, args) {
        ("isSorted", [Val::List(list)]) => {
            let items = items(list)?;
            let sorted =
                items.windows(2).all(|pair| pair[0].compare(&pair[1]) != Some(Ordering::Greater));
            Ok(Val::Bool(sorted))
        }
        ("sum", [Val::List(list)]) => sum(&items(list)?),
        ("max", [Val::List(list)]) => extreme(name, items(list)?, Ordering::Less),
        ("min", [Val::List(list)]) => extreme(name, items(list)?, Ordering::Greater),
        ("slice", [Val::List(list), Val::Int(start), Val::Int(end)]) => slice(list, *start, *end),
        ("flatten", [Val::List(list)]) => flatten(list, 1),
        ("flatten", [Val::List(_), Val::Int(depth)]) if *depth < 0 => {
            fault("level must be non-negative")
        }
        ("flatten", [Val::List(list), Val::Int(depth)]) => flatten(list, *depth),
        ("lists.range", [Val::Int(end)]) if *end > RANGE_MAX => {
            fault(format!("list of {end} elements exceeds the limit of {RANGE_MAX}"))
        }
        ("lists.range", [Val::Int(end)]) => {
            meter::make_list(usize::try_from(*end).unwrap_or_default())?;
            Ok(Val::list((0..*end).map(Val::Int).collect()))
        }
        ("reverse", [Val::List(list)]) => {
            let mut items = items(list)?;
            items.reverse();
            Ok(Val::list(items))
        }
        ("distinct", [Val::List(list)]) => {
            let mut unique: Vec<Val<'a>> = Vec::new();
            for item in items(list)? {
                if !unique.iter().any(|seen| seen.equals(&item)) {
                    unique.push(item);
                }
            }
            Ok(Val::list(unique))
        }
        ("sort", [Val::List(list)]) => {
            let keys = items(list)?;
            sort(keys.clone(), &keys)
        }
        ("@sortByAssociatedKeys", [Val::List(list), Val::List(keys)]) => {
            sort(items(list)?, &items(keys)?)
        }
        ("sets.contains", [Val::List(a), Val::List(b)]) => Ok(Val::Bool(includes(a, b)?)),
        ("sets.equivalent", [Val::List(a), Val::List(b)]) => {
            Ok(Val::Bool(includes(a, b)? && includes(b, a)?))
        }
        ("sets.intersects", [Val::List(a), Val::List(b)]) => {
            Ok(Val::Bool(items(a)?.iter().any(|item| b.contains(item))))
        }
        _ => no_overload(name, args),
    }
}

fn includes<'a>(list: &List<'a>, part: &List<'a>) -> Result<bool, super::super::value::Fault> {
    Ok(items(part)?.iter().all(|item| list.contains(item)))
}

fn sum<'a>(items: &[Val<'a>]) -> Res<'a> {
    let mut total = match items.first() {
        Some(Val::Uint(_)) => Val::Uint(0),
        Some(Val::Double(_)) => Val::Double(0.0),
        Some(Val::Span(_)) => Val::Span(0),
        _ => Val::Int(0),
    };
    for item in items {
        total = operators::arithmetic("_+_", &[total, item.clone()])?;
    }
    Ok(total)
}

fn extreme<'a>(name: &str, items: Vec<Val<'a>>, replace: Ordering) -> Res<'a> {
    let mut best: Option<Val<'a>> = None;
    for item in items {
        best = match best {
            Some(best) if best.compare(&item) != Some(replace) => Some(best),
            _ => Some(item),
        };
    }
    best.map_or_else(|| fault(format!("{name} called on empty list")), Ok)
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64) -> Res<'a> {
    let size = list.len();
    if start < 0 || end < 0 {
        return fault(format!("cannot slice({start}, {end}), negative indexes not supported"));
    }
    if start > end {
        return fault(format!(
            "cannot slice({start}, {end}), start index must be less than or equal to end index"
        ));
    }
    let (from, to) = (start.unsigned_abs() as usize, end.unsigned_abs() as usize);
    if size < to {
        return fault(format!("cannot slice({start}, {end}), list is length {size}"));
    }
    let part: Result<Vec<_>, _> = (from..to).filter_map(|index| list.get(index)).collect();
    Ok(Val::list(part?))
}

fn flatten<'a>(list: &List<'a>, depth: i64) -> Res<'a> {
    let mut out = Vec::new();
    // Work from the end of a stack, so deep data cannot exhaust the real one.
    let mut stack: Vec<(Val<'a>, i64)> =
        items(list)?.into_iter().rev().map(|item| (item, depth)).collect();
    while let Some((item, depth)) = stack.pop() {
        match item {
            Val::List(inner) if depth > 0 => {
                stack.extend(items(&inner)?.into_iter().rev().map(|item| (item, depth - 1)));
            }
            other => {
                meter::make_list(1)?;
                out.push(other);
            }
        }
    }
    Ok(Val::list(out))
}

fn sort<'a>(list: Vec<Val<'a>>, keys: &[Val<'a>]) -> Res<'a> {
    if list.len() != keys.len() {
        return fault(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys \
             list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        ));
    }
    let Some(first) = keys.first() else { return Ok(Val::list(list)) };
    if first.compare(first).is_none() && !matches!(first, Val::Double(_)) {
        return fault("list elements must be comparable");
    }
    let ty: Type = first.ty();
    if keys.len() > 1 && keys.iter().any(|key| !key.ty().same(&ty)) {
        return fault("list elements must have the same type");
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| keys[*a].compare(&keys[*b]).unwrap_or(Ordering::Equal));
    Ok(Val::list(order.into_iter().map(|index| list[index].clone()).collect()))
}

/// Returns the first or last index of an item, or -1.
pub fn index_of<'a>(list: &List<'a>, item: &Val<'a>, last: bool) -> Res<'a> {
    let is = |index: &usize| {
        list.get(*index).and_then(Result::ok).is_some_and(|found| found.equals(item))
    };
    let range = 0..list.len();
    let found = if last { range.rev().find(is) } else { range.into_iter().find(is) };
    Ok(Val::Int(found.map_or(-1, |index| index as i64)))
}
