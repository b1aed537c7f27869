//! Lists and maps: of an object's data, or made by an expression.

use std::sync::Arc;

use windlass_text::work;

use super::buckets::{Buckets, hash, hash_keys};
use super::{Fault, Key, List, Map, Res, Text, Val};
use crate::decl::{DYN, Decl, ListKind, RAW, Shape};
use crate::meter;

// === impl List ===

impl<'a> List<'a> {
    /// Returns how many items there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(items, _) => items.len(),
            Self::Owned(items) => items.len(),
        }
    }

    /// Returns the item at an index.
    pub fn get(&self, index: usize) -> Option<Res<'a>> {
        match self {
            Self::Json(items, decl) => {
                Some(Val::of_json(items.get(index)?, decl.item().unwrap_or(&DYN)))
            }
            Self::Owned(items) => items.get(index).cloned().map(Ok),
        }
    }

    /// Returns all items.
    pub fn items(&self) -> Result<Vec<Val<'a>>, Fault> {
        meter::make_list(self.len())?;
        match self {
            Self::Json(items, decl) => {
                let item = decl.item().unwrap_or(&DYN);
                items.iter().map(|value| Val::of_json(value, item)).collect()
            }
            Self::Owned(items) => Ok(items.to_vec()),
        }
    }

    fn kind(&self) -> Option<&'a ListKind> {
        match self {
            Self::Json(_, decl) => match &decl.shape {
                Shape::List(_, kind) => Some(kind),
                _ => None,
            },
            Self::Owned(_) => None,
        }
    }

    /// Returns `true` if a value is in the list.
    pub fn contains(&self, value: &Val<'a>) -> bool {
        (0..self.len()).take_while(|_| !work::is_over()).any(|index| self.is_at(index, value))
    }

    fn is_at(&self, index: usize, value: &Val<'a>) -> bool {
        self.good(index).is_some_and(|item| item.equals(value))
    }

    fn good(&self, index: usize) -> Option<Val<'a>> {
        self.get(index).and_then(Result::ok)
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        let mut all = (0..self.len()).take_while(|_| !work::is_over());
        match self.kind() {
            Some(ListKind::Set) => {
                let mine = self.buckets(hash);
                all.all(|index| {
                    let Some(item) = other.good(index) else { return false };
                    mine.candidates(hash(&item)).any(|at| self.is_at(at, &item))
                })
            }
            Some(ListKind::Map(keys)) => {
                let mine = self.buckets(|item| hash_keys(keys, item));
                all.all(|index| {
                    let Some(item) = other.good(index) else { return false };
                    let mut found = mine.candidates(hash_keys(keys, &item));
                    let same = |at: &usize| {
                        self.good(*at).is_some_and(|mine| same_keys(keys, &mine, &item))
                    };
                    found.find(same).is_some_and(|at| self.is_at(at, &item))
                })
            }
            _ => all.all(|index| match (self.good(index), other.good(index)) {
                (Some(a), Some(b)) => a.equals(&b),
                _ => false,
            }),
        }
    }

    fn buckets(&self, hash: impl Fn(&Val<'a>) -> Option<u64>) -> Buckets {
        let mut buckets = Buckets::default();
        for index in 0..self.len() {
            buckets.push(self.good(index).and_then(|item| hash(&item)));
        }
        buckets
    }

    /// Returns both lists together: sets and maps merge, others join.
    pub fn add(&self, other: &Self) -> Result<Self, Fault> {
        let mut items = self.items()?;
        let more = other.items()?;
        match self.kind() {
            Some(ListKind::Set) => {
                let mut known = self.buckets(hash);
                for value in more {
                    let own = hash(&value);
                    if !known.candidates(own).any(|at| items[at].equals(&value)) {
                        known.push(own);
                        items.push(value);
                    }
                }
            }
            Some(ListKind::Map(keys)) => {
                let mut known = self.buckets(|item| hash_keys(keys, item));
                for value in more {
                    let own = hash_keys(keys, &value);
                    let found =
                        known.candidates(own).find(|at| same_keys(keys, &items[*at], &value));
                    match found {
                        Some(at) => items[at] = value,
                        None => {
                            known.push(own);
                            items.push(value);
                        }
                    }
                }
            }
            _ => items.extend(more),
        }
        Ok(Self::Owned(Arc::new(items)))
    }
}

fn same_keys<'a>(keys: &[String], left: &Val<'a>, right: &Val<'a>) -> bool {
    let (Val::Map(left), Val::Map(right)) = (left, right) else { return false };
    keys.iter().all(|key| match (left.raw(key), right.raw(key)) {
        (Some(Ok(a)), Some(Ok(b))) => a.equals(&b),
        (None, None) => true,
        _ => false,
    })
}

// === impl Map ===

impl<'a> Map<'a> {
    /// Returns how many entries there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(map, _) => map.len(),
            Self::Owned(entries) => entries.len(),
        }
    }

    /// Returns the value of a key, or of a field by the name expressions use.
    pub fn get(&self, key: &Val<'a>) -> Option<Res<'a>> {
        if let Val::Str(name) = key {
            work::scanned(name.len());
        }
        match (self, key) {
            (Self::Json(map, Decl { shape: Shape::Object(object), .. }), Val::Str(name)) => {
                let field = object.fields.get(&**name)?;
                let value = map.get(&field.key)?;
                // A field that is null counts as absent.
                (!value.is_null()).then(|| Val::of_json(value, self.declared(&field.key)))
            }
            (Self::Json(..), Val::Str(name)) => self.raw(name),
            (Self::Json(..), _) => None,
            (Self::Owned(entries), _) => {
                entries.get(&key.key()?).map(|(_, value)| Ok(value.clone()))
            }
        }
    }

    /// Returns the value of a key as JSON has it.
    pub fn raw(&self, name: &str) -> Option<Res<'a>> {
        match self {
            Self::Json(map, _) => {
                let value = map.get(name)?;
                Some(Val::of_json(value, self.declared(name)))
            }
            Self::Owned(entries) => {
                entries.get(&Key::Str(name.to_owned())).map(|(_, value)| Ok(value.clone()))
            }
        }
    }

    fn declared(&self, key: &str) -> &'a Decl {
        match self {
            Self::Json(_, decl) => match &decl.shape {
                Shape::Map(value) => value,
                Shape::Object(object) => object.by_key.get(key).map_or(&RAW, |decl| &**decl),
                _ => &DYN,
            },
            Self::Owned(_) => &DYN,
        }
    }

    /// Returns all keys, in order.
    pub fn keys(&self) -> Vec<Val<'a>> {
        meter::made_list(self.len());
        match self {
            Self::Json(map, _) => {
                map.keys().map(|key| Val::Str(Text::Borrowed(key.as_str()))).collect()
            }
            Self::Owned(entries) => entries.values().map(|(key, _)| key.clone()).collect(),
        }
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match (self, other) {
            (Self::Json(map, _), Self::Json(..)) => {
                map.keys().all(|key| match (self.raw(key), other.raw(key)) {
                    (Some(Ok(a)), Some(Ok(b))) => !work::is_over() && a.equals(&b),
                    _ => false,
                })
            }
            _ => self.keys().iter().all(|key| match (self.get(key), other.get(key)) {
                (Some(Ok(a)), Some(Ok(b))) => !work::is_over() && a.equals(&b),
                _ => false,
            }),
        }
    }
}
