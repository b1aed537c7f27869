//! Two values walked side by side through their shape: what differs, what they merge to, and a
//! value without some of its fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::{PathElement, PathSet};
use super::typed::{Atom, any, field_shape, item_element, same};
use crate::shape::{List, Object, ShapeRef};
use crate::work;

/// What differs between two objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Paths only the old object has.
    pub removed: PathSet,
    /// Paths both have with other values.
    pub modified: PathSet,
    /// Paths only the new object has.
    pub added: PathSet,
    /// Set if a list that changed has an item without an identity: nobody can own parts of such an
    /// object.
    pub unowned: bool,
}

// === impl Comparison ===

impl Comparison {
    /// Returns `true` if nothing differs.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Leaves out the given paths and everything below them.
    #[must_use]
    pub fn without(mut self, paths: &PathSet) -> Self {
        for set in [&mut self.removed, &mut self.modified, &mut self.added] {
            set.subtract_all(paths);
        }
        self
    }
}

/// Compares two objects.
pub fn compare(old: &Value, new: &Value, shape: &ShapeRef) -> Comparison {
    let mut walker = Comparer { path: Vec::with_capacity(16), out: Comparison::default() };
    walker.place(Some(old), Some(new), shape);
    walker.out
}

/// A step that is only copied when a difference is found.
#[derive(Clone)]
enum Step<'a> {
    Field(&'a str),
    Item(PathElement),
}

struct Comparer<'a> {
    path: Vec<Step<'a>>,
    out: Comparison,
}

impl<'a> Comparer<'a> {
    fn place(&mut self, old: Option<&'a Value>, new: Option<&'a Value>, shape: &ShapeRef) {
        work::spent(1);
        let (before, after) = (Atom::of(shape, old), Atom::of(shape, new));
        let leaf = match (old, new) {
            (Some(_), None) => self.handle(before, old, new),
            (Some(_), Some(_)) if !before.same_kind(&after) => {
                self.handle(before, old, new);
                self.handle(after, old, new)
            }
            _ => self.handle(after, old, new),
        };
        if !leaf {
            self.one_sided(old, new);
        }
    }

    /// Walks one atom; true if it was compared as a whole.
    fn handle(&mut self, atom: Atom<'_>, old: Option<&'a Value>, new: Option<&'a Value>) -> bool {
        match atom {
            Atom::Scalar(_) => self.leaf(old, new),
            Atom::Map(object) => {
                let (old_map, new_map) = (map_of(old), map_of(new));
                let empty = old_map.is_none_or(Map::is_empty) && new_map.is_none_or(Map::is_empty);
                if atom.is_atomic() || empty {
                    return self.leaf(old, new);
                }
                self.maps(old_map, new_map, object);
                false
            }
            Atom::List(list) => {
                let (old_list, new_list) = (list_of(old), list_of(new));
                let empty = old_list.is_empty() && new_list.is_empty();
                match list {
                    Some(list) if !atom.is_atomic() && !empty => {
                        self.lists(old_list, new_list, list);
                        false
                    }
                    _ => self.leaf(old, new),
                }
            }
        }
    }

    fn maps(
        &mut self,
        old: Option<&'a Map<String, Value>>,
        new: Option<&'a Map<String, Value>>,
        object: Option<&Object>,
    ) {
        // In the order of keys, which is the one of sets of paths: each path is appended at the
        // end.
        let mut old = old.into_iter().flatten().peekable();
        let mut new = new.into_iter().flatten().peekable();
        loop {
            let key = match (old.peek(), new.peek()) {
                (Some((before, _)), Some((after, _))) => *before.min(after),
                (Some((key, _)), None) | (None, Some((key, _))) => *key,
                (None, None) => return,
            };
            let before = old.next_if(|(other, _)| *other == key).map(|(_, value)| value);
            let after = new.next_if(|(other, _)| *other == key).map(|(_, value)| value);
            self.path.push(Step::Field(key));
            self.place(before, after, field_shape(object, key).unwrap_or(any()));
            self.path.pop();
        }
    }

    fn lists(&mut self, old: &'a [Value], new: &'a [Value], list: &List) {
        // Most writes leave most lists alone; equal lists need no keys.
        if old.len() == new.len() && old.iter().zip(new).all(|(a, b)| same(a, b)) {
            return;
        }
        let mut items: BTreeMap<PathElement, (Vec<&'a Value>, Vec<&'a Value>)> = BTreeMap::new();
        for item in old {
            match item_element(list, item) {
                Ok(element) => items.entry(element).or_default().0.push(item),
                Err(_) => self.out.unowned = true,
            }
        }
        for item in new {
            match item_element(list, item) {
                Ok(element) => items.entry(element).or_default().1.push(item),
                Err(_) => self.out.unowned = true,
            }
        }
        for (element, (old, new)) in items {
            self.path.push(Step::Item(element));
            match (old.as_slice(), new.as_slice()) {
                (old @ ([] | [_]), new @ ([] | [_])) => {
                    self.place(old.first().copied(), new.first().copied(), &list.item);
                }
                ([_, _, ..], [_, _, ..]) => {
                    let equal =
                        old.len() == new.len() && old.iter().zip(&new).all(|(a, b)| same(a, b));
                    if !equal {
                        self.out.modified.insert(steps(&self.path));
                    }
                }
                ([_, _, ..], new) => {
                    if let Some(one) = new.first() {
                        self.place(None, Some(one), &list.item);
                    }
                    self.out.removed.insert(steps(&self.path));
                }
                (old, _) => {
                    if let Some(one) = old.first() {
                        self.place(Some(one), None, &list.item);
                    }
                    self.out.added.insert(steps(&self.path));
                }
            }
            self.path.pop();
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (Some(old), Some(new)) => {
                if !same(old, new) {
                    self.out.modified.insert(steps(&self.path));
                }
            }
            _ => self.one_sided(old, new),
        }
        true
    }

    fn one_sided(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.out.added.insert(steps(&self.path)),
            (_, None) => self.out.removed.insert(steps(&self.path)),
            _ => {}
        }
    }
}

fn steps(path: &[Step<'_>]) -> Vec<PathElement> {
    path.iter()
        .map(|step| match step {
            Step::Field(name) => PathElement::Field((*name).to_owned()),
            Step::Item(element) => element.clone(),
        })
        .collect()
}

fn map_of(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Merges an applied object into the live one: the applied values win, the order of lists is that
/// of the applied one with the rest in between.
pub(super) fn merge(old: &Value, new: &Value, shape: &ShapeRef) -> Value {
    merge_place(Some(old), Some(new), shape).unwrap_or(Value::Object(Map::new()))
}

fn merge_place(old: Option<&Value>, new: Option<&Value>, shape: &ShapeRef) -> Option<Value> {
    work::spent(1);
    let Some(new) = new else { return old.cloned() };
    let atom = Atom::of(shape, Some(new));
    match atom {
        Atom::Map(object) if !atom.is_atomic() => {
            let (old_map, new_map) = (map_of(old), new.as_object());
            if old_map.is_none_or(Map::is_empty) && new_map.is_none_or(Map::is_empty) {
                return Some(new.clone());
            }
            let mut out = old_map.cloned().unwrap_or_default();
            for (key, value) in new_map.into_iter().flatten() {
                let shape = field_shape(object, key).unwrap_or(any());
                let merged = merge_place(old_map.and_then(|old| old.get(key)), Some(value), shape);
                match merged {
                    Some(merged) => out.insert(key.clone(), merged),
                    None => out.remove(key),
                };
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        Atom::List(Some(list)) if !atom.is_atomic() => {
            let (old, items) = (list_of(old), list_of(Some(new)));
            if old.is_empty() && items.is_empty() {
                return Some(new.clone());
            }
            let merged = merge_lists(old, items, list);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
        _ => Some(new.clone()),
    }
}

fn merge_lists(old: &[Value], new: &[Value], list: &List) -> Vec<Value> {
    let keyed = |items: &[Value]| -> Vec<(PathElement, usize)> {
        let element = |(i, item)| item_element(list, item).ok().map(|e| (e, i));
        items.iter().enumerate().filter_map(element).collect()
    };
    let (left, right) = (keyed(old), keyed(new));
    let mut in_left: BTreeMap<&PathElement, Option<usize>> = BTreeMap::new();
    for (element, at) in &left {
        // A duplicate has no value of its own to merge with.
        in_left.entry(element).and_modify(|at| *at = None).or_insert(Some(*at));
    }
    let in_right: BTreeMap<&PathElement, usize> = right.iter().map(|(e, at)| (e, *at)).collect();
    let mut shared = right.iter().map(|(e, _)| e).filter(|e| in_left.contains_key(e));
    let mut next = shared.next();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let item = |element: &PathElement| {
        let old = in_left.get(element).map(|at| at.map_or(&Value::Null, |at| &old[at]));
        merge_place(old, in_right.get(element).map(|at| &new[*at]), &list.item)
    };
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some((a, _)), Some((b, _))) = (left.get(l), right.get(r)) {
            if a == b {
                done.insert(a);
                out.extend(item(a));
                (l, r) = (l + 1, r + 1);
                next = shared.next();
                continue;
            }
            if in_right.contains_key(a) && next.is_some_and(|next| next != a) {
                l += 1;
                continue;
            }
        }
        if let Some((a, at)) = left.get(l) {
            if !in_right.contains_key(a) {
                out.push(old[*at].clone());
                l += 1;
                continue;
            } else if done.contains(a) {
                l += 1;
            }
        }
        if let Some((b, _)) = right.get(r) {
            done.insert(b);
            out.extend(item(b));
            r += 1;
            if next == Some(b) {
                next = shared.next();
            }
        }
    }
    out
}

/// Returns a value without the fields of a set.
pub fn remove_items(value: &Value, gone: &PathSet, shape: &ShapeRef) -> Value {
    let atom = Atom::of(shape, Some(value));
    match (atom, value) {
        (Atom::Scalar(_), _) => value.clone(),
        (Atom::Map(object), Value::Object(map)) if !atom.is_atomic() => {
            let mut out = Map::new();
            for (key, value) in map {
                let element = PathElement::Field(key.clone());
                if gone.has(&element) {
                    continue;
                }
                let kept = match gone.below(&element) {
                    Some(gone) => {
                        remove_items(value, gone, field_shape(object, key).unwrap_or(any()))
                    }
                    None => value.clone(),
                };
                out.insert(key.clone(), kept);
            }
            if out.is_empty() { Value::Null } else { Value::Object(out) }
        }
        (Atom::List(Some(list)), Value::Array(items)) if !atom.is_atomic() => {
            let mut out = Vec::with_capacity(items.len());
            for item in items {
                let element = item_element(list, item).ok();
                if element.as_ref().is_some_and(|e| gone.has(e)) {
                    continue;
                }
                out.push(match element.and_then(|e| gone.below(&e)) {
                    Some(gone) => remove_items(item, gone, &list.item),
                    None => item.clone(),
                });
            }
            if out.is_empty() { Value::Null } else { Value::Array(out) }
        }
        _ => Value::Null,
    }
}
