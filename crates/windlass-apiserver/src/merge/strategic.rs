//! Strategic merge patch: lists merge by key, and directives in the patch say how.
//!
//! The strategy and the merge key of a field come from its [`Field`](crate::shape::Field); only
//! built-in kinds have them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::go;
use super::json::{json_type, rejected};
use crate::shape::{Field, ShapeKind, ShapeRef};
use crate::status::{Result, Status};
use crate::work;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

const BAD_PRIMITIVE_LIST: &str = "invalid patch format of primitive list";
const BAD_RETAIN_KEYS: &str = "invalid patch format of retainKeys";
const BAD_SET_ORDER: &str = "invalid patch format of setElementOrder list";

/// The most list items that may be merged and sorted.
const WORK_MAX: u64 = 2_000_000;

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object of a built-in kind.
pub fn strategic_patch(document: Value, patch: Value, shape: &ShapeRef) -> Result<Value> {
    let patch = match patch {
        Value::Null => return Ok(document),
        Value::Object(patch) => patch,
        other => {
            let what = json_type(&other);
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    let Value::Object(document) = document else {
        return Err(Status::bad_request("invalid JSON document"));
    };
    work::limited(WORK_MAX, || merge_map(document, patch, Some(shape)).map(Value::Object))
}

/// Checks that the patch does not take too much work: items of the patch with one merge key are
/// merged one after the other, and each may have lists to be merged into.
fn check_work() -> Result<()> {
    match work::is_over() {
        true => Err(Status::too_large(format!(
            "Request entity too large: the patch merges more than {WORK_MAX} list items: give each \
             merge key of a list only once"
        ))),
        false => Ok(()),
    }
}

/// What the shape says of one field.
struct Meta<'a> {
    shape: Option<&'a ShapeRef>,
    strategy: &'a str,
    key: &'a str,
}

fn merge_map(mut live: Object, mut patch: Object, shape: Option<&ShapeRef>) -> Result<Object> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(bad_directive(directive, &patch)),
        };
    }
    retain_keys(&mut live, &mut patch)?;
    set_orders(&mut live, &mut patch, shape)?;
    for (key, value) in patch {
        let deletes = key.starts_with(DELETE_FROM_LIST);
        let key = if deletes { after_slash(&key, BAD_PRIMITIVE_LIST)?.to_owned() } else { key };
        if value.is_null() {
            live.remove(&key);
            continue;
        }
        match (live.remove(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let meta = meta(shape, &key)?;
                let merged = match meta.strategy {
                    "replace" => new,
                    _ => merge_map(old, new, meta.shape)?,
                };
                live.insert(key, Value::Object(merged));
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let meta = meta(shape, &key)?;
                let merged = merge_list_by_strategy(old, new, &meta, deletes)?;
                live.insert(key, Value::Array(merged));
            }
            (old, _) if deletes => {
                if let Some(old) = old {
                    live.insert(key, old);
                }
            }
            (_, mut value) => {
                discard_nulls(&mut value);
                if without_directives(&mut value) {
                    live.insert(key, value);
                }
            }
        }
    }
    Ok(live)
}

/// `$retainKeys`: drops what the list does not name; the patch may set only what it names.
fn retain_keys(live: &mut Object, patch: &mut Object) -> Result<()> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(Status::bad_request(BAD_RETAIN_KEYS)) };
    let names: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let named = |key: &str| names.contains(key);
    let strays = patch.iter().any(|(key, value)| {
        let directive = key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
        !value.is_null() && !directive && !named(key)
    });
    if strays {
        return Err(Status::bad_request(BAD_RETAIN_KEYS));
    }
    live.retain(|key, _| named(key));
    Ok(())
}

/// `$setElementOrder/x`: merges the list and puts it in the order given.
fn set_orders(live: &mut Object, patch: &mut Object, shape: Option<&ShapeRef>) -> Result<()> {
    let directives: Vec<String> =
        patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(not_a_list(&other.unwrap_or_default())),
        };
        let key = after_slash(&directive, BAD_SET_ORDER)?;
        let old = list_at(live, key)?;
        let new = list_at(patch, key)?;
        let meta = meta(shape, key)?;
        check_order(new.as_deref().unwrap_or_default(), &order, meta.key)?;
        let (server_order, kind_of) = (old.clone().unwrap_or_default(), new.clone());
        let merged = match (old, new) {
            (Some(old), None) => old,
            (None, Some(new)) => {
                let mut new = Value::Array(new);
                without_directives(&mut new);
                match new {
                    Value::Array(items) => items,
                    _ => Vec::new(),
                }
            }
            (Some(old), Some(new)) => merge_list_by_strategy(old, new, &meta, false)?,
            (None, None) => continue,
        };
        let maps = element_kind(&[&server_order, kind_of.as_deref().unwrap_or_default()])?;
        let (patched, kept) = partition(merged, &order, meta.key)?;
        let list = interleave(patched, kept, &order, &server_order, meta.key, maps)?;
        live.insert(key.to_owned(), Value::Array(list));
        patch.remove(key);
    }
    Ok(())
}

fn merge_list_by_strategy(
    live: Vec<Value>,
    patch: Vec<Value>,
    meta: &Meta<'_>,
    deletes: bool,
) -> Result<Vec<Value>> {
    if meta.strategy != "merge" && !deletes {
        return Ok(patch);
    }
    if live.is_empty() && patch.is_empty() {
        return Ok(live);
    }
    let maps = element_kind(&[&live, &patch])?;
    if !maps {
        if deletes {
            let gone: HashSet<&Value> = patch.iter().collect();
            return Ok(live.into_iter().filter(|item| !gone.contains(item)).collect());
        }
        let mut known: HashSet<&Value> = HashSet::with_capacity(live.len() + patch.len());
        let items = live.iter().chain(&patch).filter(|item| known.insert(item));
        let merged: Vec<Value> = items.cloned().collect();
        let (patched, kept) = partition(merged, &patch, "")?;
        return interleave(patched, kept, &patch, &live, "", false);
    }
    if meta.key.is_empty() {
        let name = meta.shape.map_or("", |s| s.get().go_type.as_str());
        return Err(Status::untyped(format!("cannot merge lists without merge key for {name}")));
    }
    let (live, patch) = special_items(live, patch, meta.key)?;
    let item = meta.shape;
    let merged = merge_items(live.clone(), &patch, meta.key, item)?;
    let (patched, kept) = partition(merged, &patch, meta.key)?;
    interleave(patched, kept, &patch, &live, meta.key, true)
}

/// Carries out the items of a list that are directives: deletions and `$patch: replace`.
fn special_items(
    mut live: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    let mut deleted: HashSet<Value> = HashSet::new();
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let key = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                deleted.insert(key.clone());
            }
            Some("replace") => replace = true,
            Some("merge") => {
                let why = "merging lists cannot yet be specified in the patch";
                return Err(Status::untyped(why));
            }
            _ => return Err(bad_directive(directive, item.as_object().unwrap_or(&Map::new()))),
        }
    }
    live.retain(|old| old.get(key).is_none_or(|key| !deleted.contains(key)));
    Ok(if replace { (plain, Vec::new()) } else { (live, plain) })
}

fn merge_items(
    mut live: Vec<Value>,
    patch: &[Value],
    key: &str,
    shape: Option<&ShapeRef>,
) -> Result<Vec<Value>> {
    let mut places: HashMap<Value, usize> = HashMap::with_capacity(live.len());
    for (at, old) in live.iter().enumerate() {
        if let Some(own) = old.get(key) {
            places.entry(own.clone()).or_insert(at);
        }
    }
    for item in patch {
        work::spent(1);
        check_work()?;
        let own = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
        match (places.get(own).copied(), item) {
            (Some(at), Value::Object(new)) => {
                let old = match live[at].take() {
                    Value::Object(old) => old,
                    _ => Object::new(),
                };
                live[at] = Value::Object(merge_map(old, new.clone(), shape)?);
            }
            _ => {
                places.insert(own.clone(), live.len());
                live.push(item.clone());
            }
        }
    }
    Ok(live)
}

/// Splits a merged list into the items the other list names and the rest.
fn partition(merged: Vec<Value>, by: &[Value], key: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let (mut named, mut rest) = (Vec::new(), Vec::new());
    let places = Places::of(by, key);
    for item in merged {
        if !key.is_empty() && item.get(key).is_none() {
            return Err(no_merge_key(&item, key));
        }
        match places.get(&item) {
            Some(_) => named.push(item),
            None => rest.push(item),
        }
    }
    Ok((named, rest))
}

/// Puts items only the server has among those of the patch, guided by the order of the server.
fn interleave(
    mut patched: Vec<Value>,
    mut kept: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: &str,
    maps: bool,
) -> Result<Vec<Value>> {
    let key = if maps { key } else { "" };
    if let Some(stray) =
        patch_order.iter().chain(server_order).find(|i| maps && i.get(key).is_none())
    {
        return Err(no_merge_key(stray, key));
    }
    let (patch_places, server_places) =
        (Places::of(patch_order, key), Places::of(server_order, key));
    patched.sort_by_cached_key(|item| patch_places.get(item));
    kept.sort_by_cached_key(|item| server_places.get(item));
    let mut all = Vec::with_capacity(patched.len() + kept.len());
    let (mut kept, mut patched) = (kept.into_iter().peekable(), patched.into_iter().peekable());
    while let (Some(left), Some(right)) = (kept.peek(), patched.peek()) {
        let left_at = server_places.get(left);
        let right_at = server_places.get(right);
        let left_first = matches!((left_at, right_at), (Some(l), Some(r)) if l < r);
        all.extend(if left_first { kept.next() } else { patched.next() });
    }
    all.extend(kept);
    all.extend(patched);
    Ok(all)
}

/// Where each item of a list first appears: by its merge key, or by its value without one.
struct Places<'a> {
    first: HashMap<&'a Value, usize>,
    key: &'a str,
}

impl<'a> Places<'a> {
    fn of(list: &'a [Value], key: &'a str) -> Self {
        let mut first = HashMap::with_capacity(list.len());
        for (at, item) in list.iter().enumerate() {
            if let Some(own) = identity(item, key) {
                first.entry(own).or_insert(at);
            }
        }
        Self { first, key }
    }

    fn get(&self, item: &Value) -> Option<usize> {
        work::spent(1);
        self.first.get(identity(item, self.key)?).copied()
    }
}

fn identity<'v>(item: &'v Value, key: &str) -> Option<&'v Value> {
    if key.is_empty() { Some(item) } else { item.get(key) }
}

/// The items of the patch have to come in the order that `$setElementOrder` gives.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<()> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = order.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if !key.is_empty() && item.get(key).is_none() {
            return Err(no_merge_key(item, key));
        }
        let same = |other: &Value| match key {
            "" => other == item,
            key => other.get(key) == item.get(key),
        };
        if !wanted.any(same) {
            let (patch, order) = (Value::Array(patch.to_vec()), Value::Array(order.to_vec()));
            return Err(Status::untyped(format!(
                "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                go::plain(&patch),
                go::plain(&order)
            )));
        }
    }
    Ok(())
}

/// Whether the items are maps; they all have to be of one kind.
fn element_kind(lists: &[&[Value]]) -> Result<bool> {
    let mut items = lists.iter().copied().flatten();
    let Some(first) = items.next() else {
        return Err(Status::untyped("no elements in any of the given slices"));
    };
    if first.is_array() {
        return Err(rejected());
    }
    if items.any(|item| go::type_name(item) != go::type_name(first)) {
        let lists: Vec<String> =
            lists.iter().map(|list| go::plain(&Value::Array(list.to_vec()))).collect();
        let lists = lists.join(" ");
        return Err(Status::untyped(format!("list element types are not identical: [{lists}]")));
    }
    Ok(first.is_object())
}

/// Strategy, merge key and inner shape of a field; an item's shape for lists.
fn meta<'a>(shape: Option<&'a ShapeRef>, key: &str) -> Result<Meta<'a>> {
    let none = Meta { shape: None, strategy: "", key: "" };
    let Some(shape) = shape else { return Ok(none) };
    let ShapeKind::Object(object) = shape.kind() else { return Ok(none) };
    let Some(field) = object.fields.get(key) else {
        if object.rest.is_none() && !object.preserve_unknown {
            let name = &shape.get().go_type;
            return Err(Status::untyped(format!(
                "unable to find api field in struct {name} for the json field \"{key}\""
            )));
        }
        return Ok(Meta { shape: object.rest.as_ref(), ..none });
    };
    let inner = match field.shape.kind() {
        ShapeKind::List(list) => &list.item,
        _ => &field.shape,
    };
    let key = field.patch_merge_key.as_deref().unwrap_or_default();
    Ok(Meta { shape: Some(inner), strategy: strategy(field), key })
}

/// The strategy beside `retainKeys`.
fn strategy(field: &Field) -> &str {
    field.patch_strategy.iter().find(|s| *s != "retainKeys").map_or("", String::as_str)
}

fn list_at(map: &Object, key: &str) -> Result<Option<Vec<Value>>> {
    match map.get(key) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(not_a_list(other)),
    }
}

/// Removes nulls from maps, at every depth.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes maps that carry a directive; false if the value itself is one.
fn without_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(map) => {
            if map.contains_key(DIRECTIVE) {
                return false;
            }
            map.retain(|_, value| without_directives(value));
        }
        Value::Array(items) => items.retain_mut(without_directives),
        _ => {}
    }
    true
}

fn after_slash<'a>(key: &'a str, otherwise: &'static str) -> Result<&'a str> {
    match key.split_once('/') {
        Some((DELETE_FROM_LIST | SET_ORDER, key)) => Ok(key),
        _ => Err(Status::bad_request(otherwise)),
    }
}

fn no_merge_key(item: &Value, key: &str) -> Status {
    let item = go::plain(item);
    Status::untyped(format!("map: {item} does not contain declared merge key: {key}"))
}

fn not_a_list(value: &Value) -> Status {
    let got = go::type_name(value);
    Status::untyped(format!("expected a []interface {{}}, but received a {got}"))
}

fn bad_directive(directive: &Value, map: &Object) -> Status {
    let (directive, map) = (go::plain(directive), go::plain(&Value::Object(map.clone())));
    Status::untyped(format!("unknown patch type: {directive} in map: {map}"))
}
